// Every key and what it does; the help lists the same table.

import { mappingFile, save } from "msprobe/mapping_file.js";
import { switchTheme } from "msprobe/theme.js";

export const KEYS = [
  ["n", "next difference", (store) => store.divergence(1)],
  ["p", "previous difference", (store) => store.divergence(-1)],
  ["ArrowDown", "next line", (store) => move(store, 1)],
  ["ArrowUp", "previous line", (store) => move(store, -1)],
  ["ArrowRight", "unfold, or go inside", (store) => unfold(store)],
  ["ArrowLeft", "fold, or go outside", (store) => fold(store)],
  ["Enter", "open in the graph", (store) => store.enter(store.state.selected)],
  ["/", "search names; @word searches stacks", () => document.getElementById("search")?.focus()],
  ["d", "only differences, or everything",
    (store) => store.narrow({ onlyDifferences: !store.state.filter.onlyDifferences })],
  ["e", "sort by error, or as a tree", (store) => store.set({ sort: store.state.sort === "error" ? "tree" : "error" })],
  ["g", "graph", (store) => store.set({ view: "graph" })],
  ["c", "error over depth", (store) => store.set({ view: "chart" })],
  ["l", "list of differences", (store) => store.set({ view: "differences" })],
  ["o", "overflow", (store) => store.set({ view: "overflow" })],
  ["s", "steps and ranks", (store) => store.set({ view: "grid" })],
  ["m", "match by hand", (store) => startPicking(store)],
  ["u", "undo the last match", (store) => store.undo()],
  ["x", "export the mapping file", (store) => exportMapping(store)],
  ["t", "dark or light", (store) => { switchTheme(); store.set({}); }],
  ["?", "this help", (store) => store.set({ help: !store.state.help })],
  ["Escape", "close, or clear the search", (store) => leave(store)],
];
const ACTIONS = new Map(KEYS.map(([key, , action]) => [key, action]));

export function listenToKeys(store) {
  addEventListener("change", (event) => event.target.tagName === "SELECT" && event.target.blur()); // keys are ours again
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || !store.state.model) return;
    if (typing && event.key !== "Escape" && !(event.key === "Enter" && event.target.id === "search")) return;
    if (typing && event.key === "Enter") {
      event.target.blur();
      selectFirst(store);
      return;
    }
    const action = ACTIONS.get(event.key);
    if (!action || (event.target.tagName === "BUTTON" && event.key === "Enter")) return;
    event.preventDefault();
    store.state.message = "";
    action(store);
  });
}

function selectFirst(store) {
  const { lines, mask } = store.shown;
  const first = lines.find((node) => !mask || mask.fits[node]);
  if (first !== undefined) store.select(first);
}

function move(store, step) {
  const { lines } = store.shown;
  const next = lines.indexOf(store.state.selected) + step;
  if (lines[next] !== undefined) store.select(lines[next]);
}

function unfold(store) {
  const { model, selected, expanded } = store.state;
  if (!model.children[selected]) return;
  if (!expanded.has(selected)) store.toggle(selected, true);
  else move(store, 1);
}

function fold(store) {
  const { model, selected, expanded } = store.state;
  if (model.children[selected] && expanded.has(selected)) store.toggle(selected, false);
  else if (model.parent[selected] >= 0) store.select(model.parent[selected]);
}

export function startPicking(store) {
  const { model, selected } = store.state;
  if (selected < 0 || !model.compared) return;
  const matched = selected < model.targets && model.goldenOf(selected) >= 0;
  store.set(matched ? { message: "this node has a partner; part the two first" } : { picking: selected, tab: "match" });
}

export function exportMapping(store) {
  const { model } = store.state;
  if (!model.pairs.byHand.size) store.set({ message: "nothing was matched by hand yet" });
  else save(`layer_mapping_step${store.state.step}_rank${store.state.rank}.yaml`, mappingFile(model));
}

function leave(store) {
  document.activeElement?.blur();
  if (store.state.help) store.set({ help: false });
  else if (store.state.picking !== null) store.set({ picking: null });
  else store.narrow({ query: "" });
}
