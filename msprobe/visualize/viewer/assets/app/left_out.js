// What the comparison of this step and rank left out, in its own sentences: no colour of the picture tells it.

import { html } from "msprobe/html.js";

export function LeftOut({ store }) {
  const { step, rank } = store.state;
  const lines = leftOut(store.overview.meta, step, rank);
  return lines.length > 0 && html`<ul id="left-out" class="left-out" role="note">${lines.map((line) => html`<li>${line}</li>`)}</ul>`;
}

function leftOut(meta, step, rank) {
  const summaries = Array.isArray(meta.summary) ? meta.summary : [];
  const own = summaries.find((one) => one?.step === step && one?.rank === rank);
  return Array.isArray(own?.incomplete) ? own.incomplete : [];
}
