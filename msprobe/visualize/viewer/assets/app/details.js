// Everything about the selected pair: parameters of both sides, where it was called, what is known about it.

import { html } from "msprobe/html.js";
import { pairData, useAnswer } from "msprobe/data.js";
import { Parameters } from "msprobe/parameters.js";
import { Stacks } from "msprobe/stacks.js";
import { About } from "msprobe/about.js";
import { Match } from "msprobe/match.js";
import { SIGNS, VERDICTS, WORDS } from "msprobe/verdicts.js";

const TABS = { parameters: ["Parameters", Parameters], stack: ["Stack", Stacks], about: ["About", About],
  match: ["Match by hand", Match] };

export function Details({ store }) {
  const { state } = store;
  const { model, selected, graph } = state;
  const [data, error] = useAnswer(() => pairData(store, selected), [graph, selected, model.goldenOf(selected)]);
  const Tab = (TABS[state.tab] ?? TABS.parameters)[1];
  const verdict = model.verdict[selected];
  const first = model.divergence(store.overview.meta.first_divergence, state, selected);
  const tabs = Object.entries(TABS).filter(([name]) => name !== "match" || model.compared);
  return html`<section class="details">
    <div class="title">
      ${model.compared && html`<span class=${`sign ${VERDICTS[verdict]}`}>${SIGNS[verdict]}</span>`}
      <span id="selected-name">${model.name(selected)}</span>
      ${model.goldenName(selected) && model.targetName(selected) && model.goldenName(selected) !== model.targetName(selected)
        && html`<span class="dim">paired with ${model.goldenName(selected)}</span>`}
      ${first?.ranks?.length > 0 && html`<span class="message" id="blame">ranks to blame: ${first.ranks.join(", ")}
        <span class="dim"> (${first.blame})</span></span>`}
      ${first?.source && html`<code class="dim" id="culprit-line">${first.source}</code>`}
      ${first?.script && html`<span class="dim">run this call alone: <code id="script">${first.script}</code></span>`}
      <span class="reason" id="reason">${model.compared ? model.reason(selected) || WORDS[verdict] : ""}</span>
    </div>
    <nav class="tabs" role="tablist">${tabs.map(([name, [title]]) => html`
      <button role="tab" id=${`tab-${name}`} aria-selected=${state.tab === name}
        onClick=${() => store.set({ tab: name })}>${title}</button>`)}</nav>
    <div class="sheet">
      ${error && html`<p class="failure">Cannot show this node: ${error}</p>`}
      ${data && html`<${Tab} store=${store} data=${data} />`}
    </div>
  </section>`;
}
