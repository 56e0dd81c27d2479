// The tree of both sides, one line per pair. Only the lines in sight exist, so that 50 000 of them scroll like 50.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "msprobe/html.js";
import { LEVELS } from "msprobe/filter.js";
import { rounded } from "msprobe/numbers.js";
import { SIGNS, VERDICTS, WORDS } from "msprobe/verdicts.js";

const LINE = 24; // pixels; the style sheet says the same
const SPARE = 8;

export function Tree({ store }) {
  const { state } = store;
  const shown = store.shown;
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  useEffect(() => {
    const watch = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 800));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (state.reveal === undefined) return;
    const place = shown.lines.indexOf(state.reveal);
    state.reveal = undefined;
    if (place < 0 || !box.current) return;
    const [from, until] = [box.current.scrollTop, box.current.scrollTop + box.current.clientHeight];
    if (place * LINE < from || (place + 1) * LINE > until) {
      box.current.scrollTop = place * LINE - box.current.clientHeight / 3;
    }
  });
  const first = Math.max(0, Math.floor(top / LINE) - SPARE);
  const last = Math.min(shown.lines.length, Math.ceil((top + height) / LINE) + SPARE);
  return html`<section class="tree">
    <${Conditions} store=${store} shown=${shown} />
    <div class="columns"><span>${state.model.compared ? "target" : "node"}</span>
      ${state.model.compared && html`<button title="sort by error (e)" id="sort" aria-pressed=${state.sort === "error"}
        onClick=${() => store.set({ sort: state.sort === "error" ? "tree" : "error", reveal: state.selected })}>
        error ${state.sort === "error" ? "▼" : ""}</button><span>golden</span>`}</div>
    <div class="lines" ref=${box} role="tree" tabindex="0" onScroll=${(event) => setTop(event.target.scrollTop)}>
      <div class="tall" style=${{ height: `${shown.lines.length * LINE}px` }}>
        ${shown.lines.slice(first, last).map((node, place) => html`
          <${Line} key=${node} store=${store} node=${node} top=${(first + place) * LINE} />`)}
      </div>
    </div>
  </section>`;
}

function Conditions({ store, shown }) {
  const { filter, facts } = store.state;
  const dtypes = [...new Set(facts?.dtypes.flat() ?? [])].sort();
  return html`<div class="conditions">
    <input id="search" type="search" placeholder="search names, @stacks (/)" aria-label="search" value=${filter.query}
      onInput=${(event) => store.narrow({ query: event.target.value })} />
    <select id="level" aria-label="level" value=${filter.level}
      onChange=${(event) => store.narrow({ level: event.target.value })}>
      ${Object.entries(LEVELS).map(([key, words]) => html`<option value=${key}>${words}</option>`)}</select>
    <select id="dtype" aria-label="dtype" value=${filter.dtype} disabled=${!dtypes.length}
      onChange=${(event) => store.narrow({ dtype: event.target.value })}>
      <option value="">all dtypes</option>
      ${dtypes.map((dtype) => html`<option value=${dtype}>${dtype}</option>`)}</select>
    ${store.state.model.compared && html`<label><input id="differences-only" type="checkbox"
      checked=${filter.onlyDifferences}
      onChange=${(event) => store.narrow({ onlyDifferences: event.target.checked })} /> only differences</label>`}
    <span class="dim" id="found">${shown.mask ? `${shown.mask.found} of ${store.state.model.size}` : `${store.state.model.size} nodes`}</span>
  </div>`;
}

function Line({ store, node, top }) {
  const { model, selected, expanded, sort, filter } = store.state;
  const inside = sort === "tree" ? model.children[node] : null;
  const open = expanded.has(node) || Boolean(filter.query || filter.verdicts.size || filter.dtype || filter.level !== "all");
  const own = VERDICTS[model.verdict[node]];
  const level = sort === "tree" ? model.depth[node] : 0;
  const golden = model.goldenLabel(node);
  return html`<div role="treeitem" class=${`line ${node === selected ? "selected" : ""}`} data-name=${model.name(node)}
      aria-selected=${node === selected} aria-level=${level + 1} aria-expanded=${inside ? open : undefined}
      style=${{ transform: `translateY(${top}px)` }} onClick=${() => store.select(node)}
      onDblClick=${() => (inside ? store.toggle(node) : store.enter(node))}>
    <span class="own" style=${{ paddingLeft: `${Math.min(level, 24) * 12}px` }}>
      <button class="twist" tabindex="-1" aria-label=${open ? "fold" : "unfold"} disabled=${!inside}
        onClick=${(event) => { event.stopPropagation(); store.toggle(node); }}>${inside ? (open ? "▾" : "▸") : ""}</button>
      ${model.compared && html`<span class=${`sign ${own}`} title=${WORDS[model.verdict[node]]}>${SIGNS[model.verdict[node]]}</span>`}
      ${model.targetName(node) ? html`<${Label} label=${model.label(node)} full=${model.targetName(node)} />`
        : html`<span class="dim">missing</span>`}
      ${inside && html`<${Inside} model=${model} node=${node} />`}
      ${model.overflow(node) && html`<span class=${`badge ${model.overflow(node)}`} title="overflow">${model.overflow(node)}</span>`}
    </span>
    <span class="number">${errorText(store.state, node)}</span>
    ${model.compared && html`<span class="golden">${golden === null ? html`<span class="dim">–</span>`
      : html`<${Label} label=${golden} full=${model.goldenName(node)} />`}
      ${model.byHand(node) && html`<span class="badge byhand">by hand</span>`}</span>`}
  </div>`;
}

export const errorText = ({ model, facts }, node) => {
  const error = model.measured(node, facts);
  if (error === null) return "";
  return error === 0 ? "0" : model.hasErrors ? `${rounded(error)} ×` : `${rounded(error * 100)} %`;
};

export const Label = ({ label, full }) => html`<span class="label" title=${full}>${label.text}
  <span class="dim"> ${label.type}${label.direction === "backward" ? " ◂" : ""}${label.direction === "parameters_grad" ? " gradients" : ""}${
    Number(label.call) > 0 ? ` #${label.call}` : ""}</span></span>`;

function Inside({ model, node }) {
  const own = model.verdict[node];
  const kinds = [["error", 3], ["warning", 2], ["unmatched", 4]];
  return kinds.map(([kind, code]) => {
    const count = model.counts[kind][node] - (own === code ? 1 : 0);
    return count > 0 && html`<span class=${`badge ${kind}`} title=${`${kind} inside`}>${count}</span>`;
  });
}
