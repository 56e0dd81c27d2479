// Two lists of nodes to jump to: where the runs differ, in the order of execution, and where numbers overflow.

import { html } from "msprobe/html.js";
import { errorText } from "msprobe/tree.js";
import { SIGNS, VERDICTS } from "msprobe/verdicts.js";

const MOST = 500; // more are in the tree, where lines out of sight cost nothing

export function Differences({ store }) {
  const { model } = store.state;
  if (!model.compared) return html`<p class="note">This graph shows one run; give two to msprobe graph_visualize to compare.</p>`;
  if (!model.divergent.length) return html`<p class="note">No node differs in this step and rank.</p>`;
  return html`<${Nodes} store=${store} nodes=${model.divergent} what="differences, earliest first"
    sign=${(node) => html`<span class=${`sign ${VERDICTS[model.verdict[node]]}`}>${SIGNS[model.verdict[node]]}</span>`}
    cells=${(node) => [errorText(store.state, node), model.reason(node)]} heads=${["error", "reason"]} />`;
}

export function Overflows({ store }) {
  const { model } = store.state;
  if (!store.overview.overflow) {
    return html`<p class="note" id="no-overflow">Overflow was not looked for; make the graph with msprobe graph_visualize -oc.</p>`;
  }
  const nodes = model.overflowing();
  if (!nodes.length) return html`<p class="note">No inf or nan appears in this step and rank.</p>`;
  return html`<${Nodes} store=${store} nodes=${nodes} what="nodes with inf, nan or a jump in size, worst first"
    sign=${(node) => html`<span class=${`badge ${model.overflow(node)}`}>${model.overflow(node)}</span>`}
    cells=${() => []} heads=${[]} />`;
}

function Nodes({ store, nodes, what, sign, cells, heads }) {
  const { model, selected } = store.state;
  return html`<div class="sheet"><p class="dim">${nodes.length} ${what}${nodes.length > MOST ? `; the first ${MOST}` : ""}</p>
    <table class="nodes"><thead><tr><th></th><th>node</th>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead>
    <tbody>${nodes.slice(0, MOST).map((node) => html`<tr class=${node === selected ? "selected" : ""}
      data-name=${model.name(node)} onClick=${() => store.select(node)}>
      <td>${sign(node)}</td><td class="name"><div class="clip" title=${model.name(node)}>${model.name(node)}</div></td>
      ${cells(node).map((cell) => html`<td><div class="clip" title=${cell}>${cell}</div></td>`)}</tr>`)}</tbody></table></div>`;
}
