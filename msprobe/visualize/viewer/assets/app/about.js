// What is known about a node besides its numbers: place, links between ranks, merged values, how it was judged.

import { html } from "msprobe/html.js";
import { rounded } from "msprobe/numbers.js";
import { WORDS } from "msprobe/verdicts.js";

// Which version wrote the database, and when; "" for a database of another tool.
export const madeBy = (meta) => (meta.version
  ? `by msprobe ${meta.version}${meta.made ? ` on ${String(meta.made).slice(0, 19).replace("T", " at ")}` : ""}` : "");

const KINDS = { 0: "module", 1: "API", 8: "collection of APIs", 9: "collection of APIs" };

export function About({ store, data }) {
  const { model, selected } = store.state;
  const { meta, task } = store.overview;
  const data1 = data.target ?? data.golden;
  const counts = Object.entries(model.counts).map(([kind, list]) => `${list[selected]} ${kind}`).join(", ");
  const rows = [
    ["target", model.targetName(selected) || "missing"],
    ["golden", model.compared ? model.goldenName(selected) || "missing" : null],
    ["kind", KINDS[model.kind(selected)] ?? "node"],
    ["own verdict", model.compared ? WORDS[model.verdict[selected]] : null],
    ["with what is inside", model.compared ? `${WORDS[model.worst[selected]]} (${counts})` : null],
    ["error", model.error(selected) === null ? null : `${rounded(model.error(selected))} times its tolerance`],
    ["reason", model.reason(selected) || null],
    ["overflow", model.overflow(selected)],
    ["place in the execution", rounded(Math.round(model.time[selected] * 1000) / 1000)],
    ["task", task || null],
    ["policy", meta.policy ?? null],
    ["made", madeBy(meta) || null],
    ["tensor folder", data1?.folder],
    ["merged from ranks", data1?.merged?.length ? [].concat(data1.merged).join("; ") : null],
  ];
  return html`<table class="about"><tbody>
    ${rows.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`
      <tr><th>${name}</th><td>${String(value)}</td></tr>`)}
    ${links(data1).map(([rank, node, how]) => html`<tr><th>${how} rank ${rank}</th><td>
      <button class="link" onClick=${() => follow(store, rank, node)}>${node}</button></td></tr>`)}
  </tbody></table>`;
}

// {"communications_type", "nodes_info": {rank: [state, node]}}, or a list of those
function links(data) {
  return [data?.links ?? []].flat().flatMap((link) => Object.entries(link?.nodes_info ?? {}).map(([rank, info]) =>
    [rank, [info].flat().at(-1), String(link.communications_type ?? "with").replaceAll("_", " ")]));
}

async function follow(store, rank, name) {
  await store.show(store.state.db, store.state.step, Number(rank), { node: String(name) });
}
