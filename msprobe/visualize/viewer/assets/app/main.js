// Starts the viewer: opens the data, draws the page, listens to the keyboard.

import { render } from "preact";
import { html } from "msprobe/html.js";
import { openSource } from "msprobe/source.js";
import { Store } from "msprobe/store.js";
import { Page } from "msprobe/page.js";
import { listenToKeys } from "msprobe/keyboard.js";
import { applyTheme } from "msprobe/theme.js";

applyTheme();
const store = new Store(openSource());
const root = document.getElementById("app");
root.replaceChildren();
let opened = false;
store.listen(() => {
  render(html`<${Page} store=${store} />`, root);
  if (opened || !store.state.model) return;
  opened = true;
  requestAnimationFrame(() => performance.mark("msprobe-opened")); // measured by benchmarks/view.py
});
listenToKeys(store);
store.set({});
store.begin();
window.msprobeView = store; // for people with a console open
