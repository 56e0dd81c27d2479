// What is compared, the switches for step and rank, and the counts of the whole graph, which filter when clicked.

import { html } from "msprobe/html.js";
import { ERROR, SIGNS, UNMATCHED, VERDICTS, WARNING, WORDS } from "msprobe/verdicts.js";
import { exportMapping } from "msprobe/keyboard.js";
import { madeBy } from "msprobe/about.js";
import { switchTheme } from "msprobe/theme.js";

export function Header({ store }) {
  const { state } = store;
  const overview = store.overview;
  const { meta } = overview;
  return html`<header>
    <strong class="brand" id="made" title=${madeBy(meta)}>msprobe</strong>
    ${state.databases.length > 1
      ? html`<select id="database" aria-label="database" value=${state.db}
          onChange=${(event) => store.show(Number(event.target.value))}>
          ${state.databases.map((one, place) => html`<option value=${place}>${one.name}</option>`)}</select>`
      : html`<span class="file">${overview.name}</span>`}
    <${Switch} name="step" values=${overview.steps} value=${state.step}
      change=${(step) => store.show(state.db, step, state.rank)} />
    <${Switch} name="rank" values=${overview.ranks} value=${state.rank}
      change=${(rank) => store.show(state.db, state.step, rank)} />
    ${meta.target && html`<span class="runs" title=${`${meta.target}\n${meta.golden ?? ""}`}>${meta.target}
      ${meta.golden && html` <span class="dim">against</span> ${meta.golden}`}</span>`}
    <span class="gap"></span>
    ${state.message && html`<span class="message" role="status">${state.message}</span>`}
    ${state.model?.compared && html`<${Counts} store=${store} />`}
    ${store.matching.edits.length > 0 && html`
      <button id="undo" onClick=${() => store.undo()}>Undo match</button>
      <button id="export" onClick=${() => exportMapping(store)}>Export mapping</button>`}
    <button id="theme" aria-label="dark or light" title="dark or light (t)"
      onClick=${() => { switchTheme(); store.set({}); }}>◐</button>
    <button id="help" aria-label="help" title="keys and signs (?)" onClick=${() => store.set({ help: true })}>?</button>
  </header>`;
}

function Switch({ name, values, value, change }) {
  if (values.length < 2) return html`<span class="dim">${name} ${value}</span>`;
  return html`<label>${name} <select id=${name} value=${value} onChange=${(event) => change(Number(event.target.value))}>
    ${values.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
}

function Counts({ store }) {
  const { model, filter } = store.state;
  const chosen = filter.verdicts;
  const toggle = (code) => {
    const next = new Set(chosen);
    next[next.has(code) ? "delete" : "add"](code);
    store.narrow({ verdicts: next, onlyDifferences: false });
  };
  const order = [ERROR, WARNING, UNMATCHED, 1, 0, 5, 6].filter((code) => model.totals[code]);
  return html`<span class="counts" role="group" aria-label="filter by verdict">${order.map((code) => html`
    <button class=${`chip ${VERDICTS[code]}`} id=${`verdict-${VERDICTS[code]}`} aria-pressed=${chosen.has(code)}
      title=${`show only: ${WORDS[code]}`} onClick=${() => toggle(code)}>
      <span class=${`sign ${VERDICTS[code]}`}>${SIGNS[code]}</span> ${model.totals[code]} ${WORDS[code]}</button>`)}</span>`;
}
