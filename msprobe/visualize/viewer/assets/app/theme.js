// Dark or light: as the system says, until the reader chooses.

const KEY = "msprobe-theme";

export function applyTheme(choice = stored()) {
  document.documentElement.dataset.theme = choice || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // not kept, but applied
  }
  applyTheme(next);
}

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
