// The page: what is shown in the header, where two runs part, the heat map, the line below it, alerts at the side.

import { html } from "msprobe/html.js";
import { rounded } from "msprobe/numbers.js";
import { switchTheme } from "msprobe/theme.js";
import { HeatMap } from "msprobe/trend/heatmap.js";
import { KEYS } from "msprobe/trend/keyboard.js";
import { Line } from "msprobe/trend/line.js";

const LAYOUTS = { "step-layer": "steps × layers", "step-rank": "steps × ranks", "rank-layer": "ranks × layers" };

export function Page({ store }) {
  const { state } = store;
  if (!state.facts) return html`<main class="empty"><p class=${state.error ? "failure" : "note"} role="status">${state.error || "Loading…"}</p></main>`;
  return html`<div class="trend-page">
    <${Header} store=${store} />
    <${Parting} store=${store} />
    <${Controls} store=${store} />
    <main class=${state.facts.alerts.length ? "with-alerts" : ""}><${HeatMap} store=${store} /><${Alerts} store=${store} /></main>
    <${Line} store=${store} />
    ${state.help && html`<${Help} store=${store} />`}
  </div>`;
}

function Header({ store }) {
  const { state } = store;
  const { facts } = state;
  const choice = (name, values, value, change, words = {}) => html`<span class="choice" role="group" aria-label=${name}>${values.map((one) => html`
    <button id=${`${name}-${one}`} aria-pressed=${one === value} onClick=${() => change(one)}>${words[one] ?? one}</button>`)}</span>`;
  return html`<header>
    <strong class="brand">msprobe</strong>
    <span class="runs" title=${facts.files.join("\n")}>${facts.files[0]}${facts.compared && html` <span class="dim">against</span> ${facts.files[1]}`}</span>
    <select id="metric" aria-label="metric" title="metric (m)" value=${state.metric} onChange=${(event) => store.change({ metric: event.target.value })}>
      ${facts.metrics.map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select>
    <select id="statistic" aria-label="statistic" title="statistic (s)" value=${state.statistic} onChange=${(event) => store.change({ statistic: event.target.value })}>
      ${store.metric.statistics.map((one) => html`<option value=${one}>${one}</option>`)}</select>
    ${choice("layout", Object.keys(LAYOUTS), state.layout, (layout) => store.change({ layout, along: "" }), LAYOUTS)}
    ${facts.compared && choice("side", ["target", "golden", "difference"], state.side, (side) => store.change({ side }))}
    <span class="gap"></span>
    ${state.message && html`<span class="message" role="status">${state.message}</span>`}
    <label title="logarithmic scale (l)"><input type="checkbox" id="log" checked=${state.log} onChange=${(event) => store.set({ log: event.target.checked })} /> log</label>
    ${store.source.live && html`<span class=${`live ${state.live ? "on" : ""}`} id="live" title="the page follows the files">● ${facts.steps.length} steps</span>`}
    <button id="theme" aria-label="dark or light" title="dark or light (t)" onClick=${() => { switchTheme(); store.set({}); }}>◐</button>
    <button id="help" aria-label="help" title="keys (?)" onClick=${() => store.set({ help: true })}>?</button>
  </header>`;
}

function Parting({ store }) {
  const { parting } = store.state;
  if (parting.state === "alone") return null;
  const alone = parting.alone ? ` ${parting.alone} values are in one run only and were not compared.` : "";
  const words = {
    searching: "Looking for the place where the runs part…",
    same: `The runs agree within rounding in all ${parting.compared} values that both have.${alone}`,
    nothing: `The runs have no values in common: nothing was compared.${alone}`,
  }[parting.state];
  if (words) return html`<p class=${`parting ${parting.state}`} id="parting" role="status">${words}</p>`;
  const name = (axis) => store.state.facts[`${axis}s`][parting[axis]];
  const layer = store.state.facts.metrics.find((one) => one.name === parting.metric)?.layers[parting.layer];
  const value = (one) => (typeof one === "number" ? rounded(one) : one);
  return html`<p class="parting parted" id="parting" role="status">
    <button id="go-parting" onClick=${() => store.go(parting, "difference")}>→ The runs first part at step ${name("step")}, rank ${name("rank")}</button>
    <strong> ${parting.metric} ${layer}</strong>: ${parting.statistic} ${value(parting.target)} against ${value(parting.golden)}
    ${typeof parting.times === "number" ? ` (${rounded(parting.times)} × the tolerance)` : " (not finite on one side only)"}<span class="dim">${alone}</span></p>`;
}

function Controls({ store }) {
  const { state } = store;
  const third = store.axes[2];
  const list = third === "layer" ? store.shownLayers : null;
  const last = Math.max(store.length(third) - 1, 0);
  const now = list ? Math.max(0, list.indexOf(state.at.layer)) : state.at[third];
  const pick = (place) => store.select({ [third]: list ? list[place] ?? 0 : place });
  const zoomed = state.x[1] - state.x[0] < store.length(store.axes[0]) || state.y[1] - state.y[0] < store.length(store.axes[1]);
  return html`<div class="controls">
    <input type="search" id="search" placeholder="filter layers (/)" value=${state.query} onInput=${(event) => store.change({ query: event.target.value })} />
    <span class="dim" id="found">${store.shownLayers.length} of ${store.metric.layers.length} layers</span>
    <label class="third">${third} <input type="range" id="third" min="0" max=${last} value=${now} disabled=${last === 0} onInput=${(event) => pick(Number(event.target.value))} />
      <output id="third-name">${store.name(third, state.at[third])}</output></label>
    ${zoomed && html`<button id="whole" onClick=${() => { store.whole(); store.refresh(); }}>show everything (0)</button>`}
    ${state.facts.each > 1 && html`<span class="dim" id="grouped">${state.facts.each} steps are one in this page; msprobe view DATABASE shows each</span>`}
  </div>`;
}

function Alerts({ store }) {
  const { alerts, steps, ranks, metrics } = store.state.facts;
  if (!alerts.length) return null;
  const name = (metric, layer) => metrics.find((one) => one.name === metric)?.layers[layer];
  return html`<aside class="alerts"><h3>${alerts.length} alerts</h3><ol>${alerts.slice(0, 500).map(([metric, step, rank, layer, statistic, reason], place) => html`
    <li><button class="link" id=${`alert-${place}`} title=${reason} onClick=${() => store.go({ metric, statistic, step, rank, layer })}>
      ▲ step ${steps[step]}, rank ${ranks[rank]}<br /><span>${metric} ${name(metric, layer)} ${statistic}</span></button></li>`)}</ol></aside>`;
}

const Help = ({ store }) => html`<div class="help" role="dialog" aria-label="Help" onClick=${() => store.set({ help: false })}><div class="sheet">
  <h2>Keys</h2><table>${KEYS.map(([key, words]) => html`<tr><td><kbd>${key}</kbd></td><td>${words}</td></tr>`)}</table>
  <h2>Mouse</h2><p>Click a cell to draw the lines through it, drag to enlarge, turn the wheel to zoom steps, double-click for everything.</p>
  <p class="note">Where cells are smaller than a pixel, the value with the largest magnitude is shown, NaN and infinity before all others.
    Triangles are alerts of the monitor; the red ring is where two runs part. Differences are in units of the tolerance of float32: up to 1 is rounding.</p>
  </div></div>`;
