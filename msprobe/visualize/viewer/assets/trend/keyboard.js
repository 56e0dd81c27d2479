// Every key and what it does; the help lists the same table.

import { switchTheme } from "msprobe/theme.js";
import { AXES } from "msprobe/trend/source.js";

const next = (list, now) => list[(list.indexOf(now) + 1) % list.length];

export const KEYS = [
  ["ArrowRight", "next cell", (store) => store.move(0, 1)],
  ["ArrowLeft", "previous cell", (store) => store.move(0, -1)],
  ["ArrowDown", "next row", (store) => store.move(1, 1)],
  ["ArrowUp", "previous row", (store) => store.move(1, -1)],
  ["+", "enlarge", (store) => store.zoom(0.5, centre(store))],
  ["-", "reduce", (store) => store.zoom(2, centre(store))],
  ["0", "show everything", (store) => { store.whole(); store.refresh(); }],
  ["v", "other axes", (store) => store.change({ layout: next(Object.keys(AXES), store.state.layout), along: "" })],
  ["s", "next statistic", (store) => store.change({ statistic: next(store.metric.statistics, store.state.statistic) })],
  ["m", "next metric", (store) => store.change({ metric: next(store.state.facts.metrics.map((one) => one.name), store.state.metric) })],
  ["d", "target, golden or difference", (store) => store.state.facts.compared && store.change({ side: next(["target", "golden", "difference"], store.state.side) })],
  ["]", "next of the third axis", (store) => third(store, 1)],
  ["[", "previous of the third axis", (store) => third(store, -1)],
  ["n", "next alert", (store) => store.nextAlert(1)],
  ["p", "previous alert", (store) => store.nextAlert(-1)],
  ["g", "where the runs part", (store) => store.state.parting.state === "parted" && store.go(store.state.parting, "difference")],
  ["l", "logarithmic or linear", (store) => store.set({ log: !store.state.log })],
  ["/", "filter layers", () => document.getElementById("search")?.focus()],
  ["t", "dark or light", (store) => { switchTheme(); store.set({}); }],
  ["?", "this help", (store) => store.set({ help: !store.state.help })],
  ["Escape", "close, or clear the filter", (store) => leave(store)],
];
const ACTIONS = new Map(KEYS.map(([key, , action]) => [key, action]));

export function listenToKeys(store) {
  addEventListener("change", (event) => event.target.tagName === "SELECT" && event.target.blur()); // keys are ours again
  addEventListener("keydown", (event) => {
    const typing = event.target.id === "search" || event.target.tagName === "SELECT";
    if (event.ctrlKey || event.metaKey || event.altKey || !store.state.facts) return;
    if (typing && event.key === "Enter") event.target.blur();
    if (typing && event.key !== "Escape") return;
    const action = ACTIONS.get(event.key);
    if (!action) return;
    event.preventDefault();
    action(store);
  });
}

function centre({ state, axes }) {
  const [begin, end] = state.x;
  const share = (state.at[axes[0]] - begin) / Math.max(end - begin, 1);
  return share >= 0 && share <= 1 ? share : 0.5;
}

function third(store, by) {
  const axis = store.axes[2];
  const list = axis === "layer" ? store.shownLayers : Array.from({ length: store.length(axis) }, (_, place) => place);
  const place = Math.min(Math.max(list.indexOf(store.state.at[axis]) + by, 0), list.length - 1);
  return store.select({ [axis]: list[place] ?? 0 });
}

function leave(store) {
  document.activeElement?.blur();
  if (store.state.help) store.set({ help: false });
  else if (store.state.query) store.change({ query: "" });
}
