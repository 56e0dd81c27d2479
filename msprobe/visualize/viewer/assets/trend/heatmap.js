// The heat map on a canvas: cells, names, the marks of alerts and of the parting, what is under the pointer.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "msprobe/html.js";
import { rounded } from "msprobe/numbers.js";
import { ABSENT, bitsOf, kind } from "msprobe/trend/cells.js";
import { INFINITE, NAN, paletteOf, scaleOf } from "msprobe/trend/colours.js";

const LEFT = 250, RIGHT = 78, TOP = 8, BOTTOM = 34;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function HeatMap({ store }) {
  const { state } = store;
  const canvas = useRef(null), box = useRef(null);
  const [pointer, setPointer] = useState(null);
  const [drag, setDrag] = useState(null);
  const view = { store, pointer, drag };

  useEffect(() => {
    const fit = () => {
      const size = [box.current.clientWidth - LEFT - RIGHT, box.current.clientHeight - TOP - BOTTOM].map((one) => Math.max(60, one));
      if (size.some((one, place) => one !== store.state.size[place])) {
        store.state.size = size;
        if (store.state.picture) store.refresh();
      }
    };
    const watch = new ResizeObserver(fit);
    watch.observe(box.current);
    fit();
    return () => watch.disconnect();
  }, []);
  useEffect(() => { if (state.picture && canvas.current) draw(canvas.current, view); });

  const place = (event) => {
    const area = canvas.current.getBoundingClientRect();
    return [event.clientX - area.left - LEFT, event.clientY - area.top - TOP];
  };
  const found = pointer && !drag ? cellAt(store, pointer) : null;
  return html`<div class="heat" id="heat" ref=${box} data-key=${state.picture?.key} data-rows=${state.picture?.rows} data-columns=${state.picture?.columns}>
    <canvas ref=${canvas} id="map" tabindex="0" role="img" aria-label="heat map"
      onMouseMove=${(event) => { setPointer(place(event)); if (drag) setDrag({ ...drag, to: place(event) }); }}
      onMouseLeave=${() => { setPointer(null); setDrag(null); }}
      onMouseDown=${(event) => setDrag({ from: place(event), to: place(event) })}
      onMouseUp=${() => { const ended = drag; setDrag(null); if (ended) release(store, ended); }}
      onDblClick=${() => { store.whole(); store.refresh(); }}
      onWheel=${(event) => { event.preventDefault(); wheel(store, event, place(event)); }}></canvas>
    ${found && html`<${Tip} store=${store} found=${found} />`}
    ${!state.picture?.cells.length && state.picture && html`<p class="note empty">No layer fits “${state.query}”.</p>`}
  </div>`;
}

function Tip({ store, found }) {
  const { state } = store;
  const side = found.left > state.size[0] * 0.6 ? { right: `${state.size[0] - found.left + RIGHT + 14}px` } : { left: `${found.left + LEFT + 14}px` };
  const below = found.top > state.size[1] * 0.6 ? { bottom: `${state.size[1] - found.top + BOTTOM + 10}px` } : { top: `${found.top + TOP + 14}px` };
  return html`<div class="tip" id="tip" style=${{ ...side, ...below }}>
    <strong>${found.value}</strong>${found.group && html` <span class="dim">${found.group}</span>`}
    ${["layer", "step", "rank"].map((axis) => html`<div><span class="dim">${axis}</span> ${found.names[axis]}</div>`)}
    ${found.alerts.map((one) => html`<div class="alert">▲ ${one[5]}</div>`)}</div>`;
}

// Where a position of x and y lies in the picture, in pixels from its corner; a cell is `wide` by `high`.
function geometry({ state }) {
  const { picture, size } = state;
  const [x, y] = [picture.x, picture.y];
  const count = [Math.max(x[1] - x[0], 1), Math.max(Math.min(y[1], picture.total[1]) - y[0], 1)];
  const unit = [size[0] / count[0], size[1] / count[1]];
  return { unit, left: (place) => (place - x[0]) * unit[0], top: (place) => (place - y[0]) * unit[1] };
}

function positions(store, [left, top]) {
  const { picture, size } = store.state;
  if (!picture || left < 0 || top < 0 || left >= size[0] || top >= size[1]) return null;
  const { unit } = geometry(store);
  return [picture.x[0] + Math.floor(left / unit[0]), picture.y[0] + Math.floor(top / unit[1])];
}

function cellAt(store, at) {
  const found = positions(store, at);
  if (!found) return null;
  const { state } = store;
  const { picture } = state;
  const [column, row] = found.map((place, axis) => Math.floor((place - [picture.x, picture.y][axis][0]) / picture.each[axis]));
  const value = picture.cells[row * picture.columns + column];
  if (value === undefined || column >= picture.columns) return null;
  const where = { ...state.at };
  store.axes.slice(0, 2).forEach((axis, place) => { where[axis] = axis === "layer" ? picture.layers[found[place] - picture.y[0]] : found[place]; });
  const many = picture.each.some((one) => one > 1);
  const names = Object.fromEntries(["layer", "step", "rank"].map((axis) => [axis, store.name(axis, where[axis])]));
  const shown = kind(value, bitsOf(picture.cells)[row * picture.columns + column]) || rounded(value);
  return { left: at[0], top: at[1], where, names,
    value: state.side === "difference" && Number.isFinite(value) ? `${shown} × the tolerance` : shown,
    group: many ? `the extreme of ${picture.each[0]} × ${picture.each[1]}` : "",
    alerts: state.facts.alerts.filter(([metric, step, rank, layer]) => metric === state.metric && Math.abs(step - where.step) < picture.each[0] && rank === where.rank && layer === where.layer) };
}

function release(store, { from, to }) {
  const [one, other] = [positions(store, from), positions(store, to.map((place, axis) => Math.min(Math.max(place, 0), store.state.size[axis] - 1)))];
  if (Math.abs(from[0] - to[0]) < 5 && Math.abs(from[1] - to[1]) < 5) {
    const found = cellAt(store, from);
    if (found) store.select(found.where);
  } else if (one && other) {
    const range = (axis) => [Math.min(one[axis], other[axis]), Math.max(one[axis], other[axis]) + 1];
    store.change({ x: range(0), y: range(1) });
  }
}

function wheel(store, event, [left]) {
  store.zoom(event.deltaY < 0 ? 0.7 : 1.43, Math.min(Math.max(left / store.state.size[0], 0), 1));
}

function draw(canvas, { store, drag }) {
  const { state } = store;
  const { picture, size } = state;
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [size[0] + LEFT + RIGHT, size[1] + TOP + BOTTOM];
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  const { scale, pixels } = painted(picture, state.log);
  pen.fillStyle = colour("--none-ground");
  pen.fillRect(LEFT, TOP, ...size);
  if (picture.cells.length) {
    pen.imageSmoothingEnabled = false;
    const { unit } = geometry(store);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, ...size);
    pen.clip();
    pen.drawImage(pixels, LEFT, TOP, picture.columns * picture.each[0] * unit[0], picture.rows * picture.each[1] * unit[1]);
    marks(pen, store);
    pen.restore();
  }
  names(pen, store);
  legend(pen, scale, size, picture.side === "difference");
  if (drag && Math.hypot(drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]) > 5) {
    pen.strokeStyle = colour("--accent");
    pen.strokeRect(LEFT + drag.from[0], TOP + drag.from[1], drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]);
  }
}

// The colours of a picture are computed once, not with every move of the pointer.
function painted(picture, log) {
  if (picture.painted?.log !== log) {
    const scale = scaleOf(picture.cells, log, picture.side === "difference");
    picture.painted = { log, scale, pixels: picture.cells.length ? image(picture, scale) : null };
  }
  return picture.painted;
}

function image({ cells, rows, columns }, scale) {
  const canvas = new OffscreenCanvas(columns, rows);
  const pen = canvas.getContext("2d");
  const picture = pen.createImageData(columns, rows);
  const packed = ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red;
  const pixels = new Uint32Array(picture.data.buffer), bits = bitsOf(cells);
  const palette = paletteOf(scale).map(packed), odd = packed(NAN), endless = packed(INFINITE);
  for (let place = 0; place < cells.length; place++) {
    const value = cells[place];
    if (bits[place] === ABSENT) continue;
    if (Number.isNaN(value)) pixels[place] = odd;
    else if (!Number.isFinite(value)) pixels[place] = endless;
    else pixels[place] = palette[Math.min(Math.max(Math.round(scale.share(value) * 255), 0), 255)];
  }
  pen.putImageData(picture, 0, 0);
  return canvas;
}

// Pixels of a place; null where it is not in the picture.
function spot(store, where) {
  const { unit, left, top } = geometry(store);
  const [x, y, third] = store.axes;
  if (where[third] !== store.state.at[third]) return null;
  const row = y === "layer" ? store.state.picture.layers.indexOf(where.layer) + store.state.picture.y[0] : where[y];
  if (y === "layer" && row < store.state.picture.y[0]) return null;
  return [LEFT + left(where[x]) + unit[0] / 2, TOP + top(row) + unit[1] / 2, unit];
}

function marks(pen, store) {
  const { facts, metric, at, parting } = store.state;
  pen.lineWidth = 1.5;
  for (const [name, step, rank, layer] of facts.alerts) {
    if (name !== metric) continue;
    const found = spot(store, { step, rank, layer });
    if (found) triangle(pen, found[0], found[1]);
  }
  const here = spot(store, at);
  if (here) {
    const [wide, high] = here[2].map((one) => Math.max(one, 7));
    pen.strokeStyle = colour("--ground");
    pen.lineWidth = 4;
    pen.strokeRect(here[0] - wide / 2, here[1] - high / 2, wide, high);
    pen.strokeStyle = colour("--text");
    pen.lineWidth = 2;
    pen.strokeRect(here[0] - wide / 2, here[1] - high / 2, wide, high);
  }
  const parted = parting.state === "parted" && parting.metric === metric ? spot(store, parting) : null;
  if (parted) {
    for (const [width, paint] of [[5, "#fff"], [2.5, "#d1242f"]]) {
      pen.lineWidth = width;
      pen.strokeStyle = paint;
      pen.beginPath();
      pen.arc(parted[0], parted[1], 9, 0, 7);
      pen.stroke();
    }
  }
}

function triangle(pen, x, y) {
  pen.beginPath();
  pen.moveTo(x, y - 6);
  pen.lineTo(x + 6, y + 5);
  pen.lineTo(x - 6, y + 5);
  pen.closePath();
  pen.fillStyle = "#fff";
  pen.strokeStyle = "#b3261e";
  pen.fill();
  pen.stroke();
}

function names(pen, store) {
  const { picture, size } = store.state;
  const { unit, left, top } = geometry(store);
  pen.fillStyle = colour("--text");
  pen.font = "12px system-ui, 'Noto Sans', sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const [x, y] = store.axes;
  const last = Math.min(picture.y[1], picture.total[1]);
  const every = Math.max(1, Math.ceil(15 / unit[1]));
  for (let row = picture.y[0]; row < last; row += every) {
    const name = y === "layer" ? store.name(y, picture.layers[row - picture.y[0]]) : `${y} ${store.name(y, row)}`;
    pen.fillText(shortened(pen, name, LEFT - 16), LEFT - 8, TOP + top(row) + Math.min(unit[1], 15 * Math.max(1, unit[1] / 15)) / 2);
  }
  pen.textAlign = "center";
  const count = picture.x[1] - picture.x[0];
  const step = niceStep(count / Math.max(1, size[0] / 90));
  for (let place = Math.ceil(picture.x[0] / step) * step; place < picture.x[1]; place += step) {
    const middle = LEFT + left(place) + unit[0] / 2;
    pen.fillRect(middle, TOP + size[1], 1, 4);
    pen.fillText(store.name(x, place), middle, TOP + size[1] + 13);
  }
  pen.fillStyle = colour("--dim");
  pen.fillText(x, LEFT + size[0] / 2, TOP + size[1] + 27);
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? power * 10);
}

function shortened(pen, text, most) {
  if (pen.measureText(text).width <= most) return text;
  let shown = text;
  while (shown.length > 4 && pen.measureText(`…${shown}`).width > most) shown = shown.slice(Math.ceil(shown.length / 24) || 1);
  return `…${shown}`;
}

function legend(pen, scale, size, difference) {
  const x = LEFT + size[0] + 12, high = Math.max(size[1] - 46, 40);
  paletteOf(scale, Math.ceil(high)).forEach((one, place) => {
    pen.fillStyle = `rgb(${one})`;
    pen.fillRect(x, TOP + high - place, 10, 1.5);
  });
  pen.fillStyle = colour("--text");
  pen.textAlign = "left";
  const spots = difference ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  for (const share of spots) {
    const words = difference ? { 0: "≤ 0.001", 0.5: "1 tol.", 1: "≥ 1000" }[share] : short(scale.back(share));
    pen.fillText(words, x + 14, TOP + Math.min(Math.max(high - share * high, 6), high - 4));
  }
  [["NaN", NAN], ["∞", INFINITE]].forEach(([word, paint], row) => {
    pen.fillStyle = `rgb(${paint})`;
    pen.fillRect(x, TOP + high + 14 + row * 17, 10, 10);
    pen.fillStyle = colour("--text");
    pen.fillText(word, x + 14, TOP + high + 19 + row * 17);
  });
}

const short = (value) => (value !== 0 && (Math.abs(value) >= 1e4 || Math.abs(value) < 1e-2) ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(3))));
