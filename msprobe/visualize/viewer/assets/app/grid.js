// All steps and ranks at a glance: the worst verdict of each, and how many nodes have it; click to go there.

import { html } from "msprobe/html.js";
import { useAnswer } from "msprobe/data.js";
import { heavier, SIGNS, VERDICTS, WORDS } from "msprobe/verdicts.js";

export function Grid({ store }) {
  const { db, step, rank } = store.state;
  const { steps, ranks, kind } = store.overview;
  const [cells, error] = useAnswer(() => store.source.grid(db), [db]);
  if (kind !== "compare") return html`<p class="note">This graph shows one run; there is nothing to compare.</p>`;
  if (!cells) return html`<p class=${error ? "failure" : "note"}>${error ?? "Loading…"}</p>`;
  const found = new Map(cells.map((one) => [`${one.step} ${one.rank}`, one.counts]));
  return html`<div class="sheet"><table class="grid"><thead><tr><th></th>
      ${steps.map((one) => html`<th>step ${one}</th>`)}</tr></thead>
    <tbody>${ranks.map((row) => html`<tr><th>rank ${row}</th>${steps.map((column) => html`
      <td><${Cell} counts=${found.get(`${column} ${row}`)} here=${column === step && row === rank}
        go=${() => store.show(db, column, row)} name=${`cell-${column}-${row}`} /></td>`)}</tr>`)}</tbody></table></div>`;
}

function Cell({ counts, here, go, name }) {
  if (!counts) return html`<span class="dim">–</span>`;
  const worst = counts.reduce((most, count, code) => (count ? heavier(most, code) : most), VERDICTS.length - 1);
  const words = counts.flatMap((count, code) => (count ? [`${count} ${WORDS[code]}`] : [])).join(", ");
  return html`<button id=${name} class=${`chip ${VERDICTS[worst]}`} aria-pressed=${here} title=${words} onClick=${go}>
    <span class=${`sign ${VERDICTS[worst]}`}>${SIGNS[worst]}</span> ${counts[worst]}</button>`;
}
