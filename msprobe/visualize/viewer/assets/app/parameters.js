// The table of inputs, parameters and outputs: target above golden, what was judged first.

import { html } from "msprobe/html.js";
import { asNumber, readable, rounded } from "msprobe/numbers.js";
import { slots } from "msprobe/slots.js";

const FIRST = ["dtype", "shape", "Max", "Min", "Mean", "Norm", "md5"];
const JUDGED = ["Result", "Err_message"];
const HIDDEN = new Set(["type", "data_name", "requires_grad", "Requires_grad Consistent", ...JUDGED]);
const NUMBERS = ["Max", "Min", "Mean", "Norm"];

export function Parameters({ store, data }) {
  const { model, selected } = store.state;
  const found = slots(data, { target: model.targetName(selected), golden: model.goldenName(selected) });
  if (!found.length) return html`<p class="note">No data was recorded for this node; look at the nodes inside it.</p>`;
  const keys = new Set(found.flatMap(({ target, golden }) => [...Object.keys(target ?? {}), ...Object.keys(golden ?? {})]));
  const columns = [...FIRST.filter((key) => keys.has(key)), ...[...keys].filter((key) => !FIRST.includes(key) && !HIDDEN.has(key))];
  const judged = keys.has("Result");
  return html`<table class="parameters">
    <thead><tr><th>slot</th>${model.compared && html`<th>side</th>`}${judged && html`<th>result</th>`}
      ${columns.map((key) => html`<th>${key}</th>`)}</tr></thead>
    <tbody>${found.map((one) => html`<${Slot} one=${one} columns=${columns} judged=${judged}
      compared=${model.compared} byHand=${model.byHand(selected)} />`)}</tbody></table>`;
}

function Slot({ one, columns, judged, compared, byHand }) {
  const { slot, target, golden } = one;
  const sides = [["target", target], ["golden", golden]].filter(([, values]) => values);
  const lines = sides.length + (byHand && target && golden ? 1 : 0);
  return html`${sides.map(([side, values], place) => html`<tr class=${place ? "" : "first"}>
      ${place === 0 && html`<th rowspan=${lines} scope="rowgroup" title=${slot}>${slot}</th>`}
      ${compared && html`<td class="dim">${sides.length < 2 ? `only in ${side}` : side}</td>`}
      ${judged && html`<${Result} values=${values} />`}
      ${columns.map((key) => html`<${Cell} text=${values[key]} other=${side === "golden" ? target?.[key] : golden?.[key]}
        key=${key} />`)}</tr>`)}
    ${lines > sides.length && html`<tr class="difference"><td class="dim">difference</td>${judged && html`<td></td>`}
      ${columns.map((key) => html`<td>${difference(key, target, golden)}</td>`)}</tr>`}`;
}

function Result({ values }) {
  const result = values.Result ?? "";
  const why = messages(values.Err_message);
  return html`<td class=${`result ${result}`}>${result} <span class="why" title=${why}>${why}</span></td>`;
}

// Stored as a JSON list in a text; each message repeats the result it belongs to.
function messages(text) {
  try {
    return [].concat(JSON.parse(text || "[]")).map((one) => String(one).replace(/^(error|warning|pass): */i, "")).join(" ");
  } catch {
    return text;
  }
}

function Cell({ text, other }) {
  const unlike = text !== undefined && other !== undefined && text !== other;
  return html`<td class=${unlike ? "unlike" : ""} title=${text ?? ""}>${text === undefined ? "" : readable(text)}</td>`;
}

// Shown for pairs made by hand, which no engine has judged.
function difference(key, target, golden) {
  if (!NUMBERS.includes(key)) return target[key] === golden[key] ? "" : "differs";
  const [one, other] = [asNumber(target[key]), asNumber(golden[key])];
  if (one === null || other === null) return "–";
  const relative = other === 0 ? "" : ` (${rounded((100 * (one - other)) / Math.abs(other))} %)`;
  return rounded(one - other) + relative;
}
