// Entry names taken apart: Module.layers.0.fc1.Linear.forward.0 and Functional.linear.0.forward.

const CONTAINERS = new Set(["Module", "Cell"]);
const DIRECTIONS = new Set(["forward", "backward", "parameters_grad"]);

// {prefix, path, type, direction, call}: path is that of the module, or the operation of an API.
export function parsed(name) {
  const parts = name.split(".");
  const call = /^\d+$/.test(parts.at(-1)) ? parts.at(-1) : "";
  if (CONTAINERS.has(parts[0])) {
    const body = call ? parts.slice(1, -1) : parts.slice(1);
    const direction = DIRECTIONS.has(body.at(-1)) ? body.pop() : "";
    const type = direction && body.length > 1 ? body.pop() : "";
    return { prefix: parts[0], path: body, type, direction, call };
  }
  const body = parts.slice(1);
  const direction = DIRECTIONS.has(body.at(-1)) ? body.pop() : "";
  const number = /^\d+$/.test(body.at(-1) ?? "") ? body.pop() : "";
  if (!direction || !body.length) return { prefix: "", path: [name], type: "", direction: "", call: "" };
  return { prefix: parts[0], path: body, type: "", direction, call: number };
}

// What of a name is new below its parent: "fc1" below layers.0, the whole path where the parent is no prefix of it.
export function shortened(name, parentName) {
  const own = parsed(name);
  const above = parentName ? parsed(parentName) : null;
  let path = own.path;
  if (above && CONTAINERS.has(own.prefix) && CONTAINERS.has(above.prefix)) {
    const inside = above.path.every((part, place) => part === own.path[place]);
    if (inside && own.path.length > above.path.length) path = own.path.slice(above.path.length);
  }
  return { text: path.join("."), type: own.type || own.prefix, direction: own.direction, call: own.call };
}

// Equal for entries that mean the same place in two containers, whatever these are called.
export function place(name, parentName) {
  const part = shortened(name, parentName);
  return [part.text, part.direction, part.call].join(" ");
}

export const isModule = (name) => CONTAINERS.has(name.split(".", 1)[0]);
