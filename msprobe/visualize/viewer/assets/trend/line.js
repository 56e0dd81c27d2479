// The line along one axis through the selected cell, of both runs, with the alerts on it.

import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { html } from "msprobe/html.js";
import { ABSENT, bitsOf } from "msprobe/trend/cells.js";

export function Line({ store }) {
  const { state } = store;
  const box = useRef(null);
  useEffect(() => {
    if (!state.line || !box.current) return undefined;
    const plot = drawn(box.current, store);
    const watch = new ResizeObserver(() => box.current && plot.setSize(sizeOf(box.current)));
    watch.observe(box.current);
    return () => { watch.disconnect(); plot.destroy(); };
  }, [state.line?.key, state.log, document.documentElement.dataset.theme, state.help]);
  const { at } = state;
  const others = ["step", "rank", "layer"].filter((axis) => axis !== store.along);
  return html`<section class="line-part">
    <nav class="tabs" role="tablist">
      ${["step", "rank", "layer"].map((axis) => html`<button role="tab" id=${`along-${axis}`} aria-selected=${store.along === axis}
        onClick=${() => store.change({ along: axis })}>over ${axis}s</button>`)}
      <span class="here" id="here">${state.metric} ${state.statistic}${others.map((axis) => html` · <span class="dim">${axis}</span> ${store.name(axis, at[axis])}`)}</span>
    </nav>
    <div class="chart" id="line" ref=${box} data-points=${state.line?.columns} data-key=${state.line?.key}></div>
  </section>`;
}

const INCREMENTS = Array.from({ length: 8 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
// Of a logarithmic axis over several powers of ten only those have lines.
function powers(_, splits) {
  const isPower = (one) => Math.abs(Math.log10(one) - Math.round(Math.log10(one))) < 1e-9;
  return splits.filter(isPower).length > 1 ? splits.map((one) => (isPower(one) ? one : null)) : splits;
}
const sizeOf = (box) => ({ width: Math.max(box.clientWidth - 8, 100), height: Math.max(box.clientHeight - 34, 80) });

// Rows of numbers that uPlot draws: null where there is none; on a logarithmic axis magnitudes.
function series({ cells, rows, columns }, log) {
  const bits = bitsOf(cells);
  return Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (__, place) => {
    const at = row * columns + place;
    if (bits[at] === ABSENT || !Number.isFinite(cells[at])) return null;
    const value = log ? Math.abs(cells[at]) : cells[at];
    return log && value === 0 ? null : value;
  }));
}

function drawn(box, store) {
  const { state } = store;
  const { line } = state;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rows = series(line, state.log);
  const positions = Array.from({ length: line.columns }, (_, place) => line.begin + place * line.each);
  const byNumber = line.along !== "layer";
  const names = positions.map((place) => store.name(line.along, place));
  const x = byNumber ? names.map(Number) : positions;
  const points = { show: line.columns < 120 };
  const curves = [{ label: state.facts.compared ? "target" : state.statistic, stroke: colour("--accent"), width: 1.6, points },
    ...(rows.length > 1 ? [{ label: "golden", stroke: colour("--warning"), width: 1.6, dash: [6, 4], points }] : [])];
  const alerts = alertsOn(store, line);
  const marked = positions.map((_, index) => (alerts.has(index) ? rows[0][index] : null));
  const here = positions.map((place, index) => (Math.floor((state.at[line.along] - line.begin) / line.each) === index ? rows[0][index] : null));
  const dots = (label, paint, size) => ({ label, stroke: paint, fill: paint, paths: () => null, points: { show: true, size, fill: paint }, value: () => "" });
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const ends = rows.slice(0, 2).flat().filter((one) => one !== null);
  const flat = state.log && ends.length > 0;
  const plot = new uPlot({
    ...sizeOf(box),
    scales: { x: { time: false }, y: { distr: flat ? 3 : 1 } },
    axes: [{ ...axis, size: 34, incrs: INCREMENTS, space: byNumber ? 60 : 130, values: byNumber ? undefined : (_, ticks) => ticks.map((tick) => shortName(store.name("layer", tick))) },
      { ...axis, size: 66, grid: { ...axis.grid, filter: flat ? powers : undefined }, space: 34, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : String(Number(tick.toPrecision(3))))) }],
    series: [{ label: line.along, value: (_, place) => (place === null ? "" : byNumber ? String(place) : store.name("layer", place)) }, ...curves,
      dots("selected", colour("--text"), 11), dots("alert", "#d1242f", 7)],
    cursor: { drag: { x: true, y: false } },
    legend: { live: true },
  }, [x, ...rows.slice(0, curves.length), here, marked], box);
  let pressed = 0;
  plot.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
  plot.over.addEventListener("mouseup", (event) => {
    const { idx } = plot.cursor;
    if (Math.abs(event.clientX - pressed) < 3 && idx !== null && idx !== undefined) store.select({ [line.along]: positions[idx] });
  });
  return plot;
}

const shortName = (name) => (name.length > 16 ? `…${name.slice(-15)}` : name);

// The points of a line that stand for a place with an alert.
function alertsOn({ state }, { along, begin, each }) {
  const others = ["step", "rank", "layer"].filter((axis) => axis !== along);
  const found = new Set();
  for (const [metric, step, rank, layer] of state.facts.alerts) {
    const where = { step, rank, layer };
    if (metric === state.metric && others.every((axis) => where[axis] === state.at[axis])) found.add(Math.floor((where[along] - begin) / each));
  }
  return found;
}
