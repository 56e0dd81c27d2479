// The page: header, tree on the left, picture and data of the selected node on the right.

import { html } from "msprobe/html.js";
import { Header } from "msprobe/header.js";
import { LeftOut } from "msprobe/left_out.js";
import { Tree } from "msprobe/tree.js";
import { Graph } from "msprobe/graph.js";
import { Chart } from "msprobe/chart.js";
import { Differences, Overflows } from "msprobe/node_lists.js";
import { Grid } from "msprobe/grid.js";
import { Details } from "msprobe/details.js";
import { Help } from "msprobe/help.js";

const VIEWS = { graph: ["Graph", Graph], differences: ["Differences", Differences], chart: ["Error over depth", Chart],
  overflow: ["Overflow", Overflows], grid: ["Steps and ranks", Grid] };
const OF_ONE_RUN = new Set(["graph", "overflow"]);

export function Page({ store }) {
  const { state } = store;
  if (!state.model) {
    return html`<main class="empty">${state.databases.length > 0 && html`<${Header} store=${store} />`}
      <p class=${state.error ? "failure" : "note"} role="status">${state.error || "Loading…"}</p></main>`;
  }
  const View = (VIEWS[state.view] ?? VIEWS.graph)[1];
  return html`<div class="page">
    <${Header} store=${store} />
    <${LeftOut} store=${store} />
    <${Tree} store=${store} />
    <section class="picture">
      <nav class="tabs" role="tablist">${Object.entries(VIEWS).filter(([name]) => state.model.compared || OF_ONE_RUN.has(name)).map(([name, [title]]) => html`
        <button role="tab" id=${`view-${name}`} aria-selected=${state.view === name}
          onClick=${() => store.set({ view: name })}>${title}</button>`)}
      </nav>
      <${View} store=${store} />
    </section>
    <${Details} store=${store} />
    ${state.help && html`<${Help} store=${store} />`}
  </div>`;
}
