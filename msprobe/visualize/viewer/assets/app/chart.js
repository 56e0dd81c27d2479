// The error of every node over its place in the execution: where it is born, and how it grows.

import uPlot from "uplot";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { html } from "msprobe/html.js";
import { ERROR, WARNING } from "msprobe/verdicts.js";

// Errors of nothing stand on the lower edge of a logarithmic axis, endless ones ten times above the largest other.
const FLOORS = { tolerance: 1e-3, relative: 1e-8 };

const ENDLESS = 1e300;

// {nodes, time, series: [other, warning, error, selected]}, ascending in time
export function points({ model, facts, selected }) {
  const own = model.hasErrors;
  const value = (node) => model.measured(node, facts);
  const nodes = [];
  for (let node = 0; node < model.targets; node++) if (value(node) !== null) nodes.push(node);
  nodes.sort((one, other) => model.time[one] - model.time[other]);
  const floor = own ? FLOORS.tolerance : FLOORS.relative;
  const largest = nodes.reduce((most, node) => (value(node) < ENDLESS ? Math.max(most, value(node)) : most), floor);
  const heights = nodes.map((node) => Math.min(Math.max(value(node), floor), largest * 10));
  const only = (wanted) => heights.map((height, place) => (wanted(nodes[place]) ? height : null));
  const verdict = (node) => model.verdict[node];
  const time = nodes.map((node) => model.time[node]);
  const series = [
    only((node) => verdict(node) !== WARNING && verdict(node) !== ERROR), only((node) => verdict(node) === WARNING),
    only((node) => verdict(node) === ERROR), only((node) => node === selected),
  ];
  return { own, nodes, time, series };
}

export function Chart({ store }) {
  const { model, facts, selected } = store.state;
  const box = useRef(null);
  const found = useMemo(() => points(store.state), [model, facts, selected]);
  useEffect(() => {
    if (!found.nodes.length || !box.current) return undefined;
    const plot = drawn(box.current, found, store);
    const watch = new ResizeObserver(() => box.current && plot.setSize(sizeOf(box.current)));
    watch.observe(box.current);
    return () => { watch.disconnect(); plot.destroy(); };
  }, [model, facts, selected, document.documentElement.dataset.theme]);
  if (!found.nodes.length) {
    const waiting = !facts && model.compared;
    return html`<p class="note">${waiting ? "Loading…" : "No differences were measured in this step and rank."}</p>`;
  }
  return html`<div class="chart" id="chart" ref=${box} data-points=${found.nodes.length}></div>`;
}

const sizeOf = (box) => ({ width: Math.max(box.clientWidth, 100), height: Math.max(box.clientHeight - 40, 100) });

function drawn(box, { own, nodes, time, series }, store) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dots = (label, name, size = 5) => ({
    label, stroke: colour(name), fill: colour(name), paths: () => null, points: { show: true, size, fill: colour(name) }, value: () => "",
  });
  const axis = { stroke: colour("--text"), grid: { show: false }, ticks: { stroke: colour("--line"), width: 1 } };
  const powers = (_, values) => values.map((value) => (Number.isInteger(Math.log10(value)) ? value.toExponential(0).replace("e+", "e") : ""));
  const plot = new uPlot({
    ...sizeOf(box),
    scales: { x: { time: false }, y: { distr: 3 } },
    axes: [{ ...axis, label: "place in the execution" },
      { ...axis, label: own ? "error / tolerance" : "worst relative difference", size: 56, values: powers }],
    series: [{ label: "place", value: (_, place) => (place === null ? "" : String(place)) }, dots("agrees", "--pass", 4),
      dots("warning", "--warning", 6), dots("error", "--error", 6), dots("selected", "--accent", 11)],
    cursor: { drag: { x: true, y: false } },
  }, [time, ...series], box);
  let pressed = 0;
  plot.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
  plot.over.addEventListener("mouseup", (event) => {
    const place = plot.cursor.idx;
    if (Math.abs(event.clientX - pressed) < 3 && place !== null && place !== undefined) store.select(nodes[place]);
  });
  return plot;
}
