// Pairing by hand: choose a partner among the nodes without one, the most alike first; part a pair; undo.

import { useState } from "preact/hooks";
import { html } from "msprobe/html.js";
import { candidates } from "msprobe/matching.js";

export function Match({ store }) {
  const { model, selected } = store.state;
  const [inside, setInside] = useState(true);
  const target = selected < model.targets;
  if (target && model.goldenOf(selected) >= 0) {
    return html`<p>Paired with <b>${model.goldenName(selected)}</b>${model.byHand(selected) ? ", by hand" : ""}.</p>
      <button id="unmatch" onClick=${() => store.unmatch(selected)}>Part the two</button>`;
  }
  const found = candidates(model, selected);
  if (!found.length) return html`<p class="note">The other run has no node left without a partner.</p>`;
  const choose = (other) => {
    const [one, two] = target ? [selected, model.goldenOf(other)] : [other, model.goldenOf(selected)];
    store.match(one, two, inside);
  };
  return html`<p>This node is only in the ${target ? "target" : "golden"} run. Its partner is
      <label class="switch"><input id="with-children" type="checkbox" checked=${inside}
        onChange=${(event) => setInside(event.target.checked)} /> and pair what is inside by place</label></p>
    <ul class="candidates">${found.map((other) => html`<li><button class="link candidate" data-name=${model.name(other)}
      onClick=${() => choose(other)}>${model.name(other)}</button></li>`)}</ul>
    <p class="note">A pair made by hand is not judged here. Export the mapping and give it to msprobe graph_visualize
      with -lm: every verdict is then made anew.</p>`;
}
