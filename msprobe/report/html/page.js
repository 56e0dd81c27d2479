"use strict";
(() => {
  const ROW = 24, MOST_PIXELS = 15e6, CHUNK_PAUSE = 120;
  const ARRAYS = {uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array};
  const FIRST = ["Result", "NPU Name", "Deviation", "Err_message"];
  const WIDTHS = {"#": 70, "Result": 80, "NPU Name": 330, "Bench Name": 330, "Err_message": 420, "NPU_Stack_Info": 260, "Bench_Stack_Info": 260, "Data_name": 260};
  const pairs = JSON.parse(document.getElementById("meta").textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  // ---------------------------------------------------------------- data

  async function unpacked(order) {
    const source = $("table-" + order);
    const packed = await fetch("data:application/octet-stream;base64," + source.textContent.trim());
    const buffer = await new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
    const size = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    const base = Math.ceil((4 + size) / 8) * 8;
    const columns = head.columns.map((column) => ({
      words: [], kind: "number", ...column,
      values: new ARRAYS[column.type](buffer, base + column.at, head.rows),
      codes: column.codes_type ? new ARRAYS[column.codes_type](buffer, base + column.codes_at, head.rows) : null,
    }));
    const messages = columns.find((one) => one.title === "Err_message");
    messages.words = messages.words.map((word) => JSON.parse(word).join("; "));
    const number = {title: "#", kind: "number", words: [], codes: null, values: Float64Array.from({length: head.rows}, (_, i) => i + 1)};
    const place = (column) => (FIRST.includes(column.title) ? FIRST.indexOf(column.title) : FIRST.length);
    return {rows: head.rows, columns: [number, ...columns.sort((a, b) => place(a) - place(b))]};
  }

  /** A documented title as it is shown: by side, and not by the device that the side once ran on. */
  function label(title) {
    const [, side, rest] = /^(NPU|Bench)[ _](.+)$/i.exec(title) || [];
    if (!side) return title;
    const what = rest === "Stack_Info" ? "stack" : rest === "MD5" ? rest : rest.toLowerCase();
    return `${side === "NPU" ? "target" : "golden"} ${what}`;
  }

  const isText = (column) => column.kind === "text";
  function shown(column, row) {
    if (isText(column)) return column.words[column.values[row]];
    const code = column.codes ? column.codes[row] : 0;
    if (code) return column.words[code - 1];
    const value = column.values[row];
    const text = column.values instanceof Float32Array ? String(Number(value.toPrecision(7))) : String(value);
    return column.percent ? text + "%" : text;
  }
  const column = (title) => data.columns.find((one) => one.title === title);

  // ---------------------------------------------------------------- order and filters

  let data = null, order = new Uint32Array(0), sorted = {title: "#", down: false}, chosen = -1;

  /** For every word of a text column, its place in the alphabet. */
  function ranks(words) {
    const collator = new Intl.Collator("en", {numeric: true});
    const places = new Uint32Array(words.length);
    words.map((_, i) => i).sort((a, b) => collator.compare(words[a], words[b])).forEach((word, place) => { places[word] = place; });
    return places;
  }

  function keys(one) {
    const result = new Float64Array(data.rows);
    const places = isText(one) ? (one.ranks ||= ranks(one.words)) : null;
    for (let row = 0; row < data.rows; row++) {
      result[row] = places ? places[one.values[row]] : one.codes && one.codes[row] ? NaN : one.values[row];
    }
    return result;
  }

  /** Which rows contain the text: each distinct word is looked at once. */
  function hits(text) {
    const found = new Uint8Array(data.rows);
    for (const one of data.columns.filter(isText)) {
      const words = Uint8Array.from(one.words, (word) => (word.toLowerCase().includes(text) ? 1 : 0));
      if (words.includes(1)) for (let row = 0; row < data.rows; row++) found[row] |= words[one.values[row]];
    }
    return found;
  }

  function arrange() {
    const began = performance.now();
    const text = $("search").value.trim().toLowerCase();
    const found = text ? hits(text) : null;
    const verdict = column("Result");
    const wanted = Uint8Array.from(verdict.words, (word) => ($("filters").elements[word]?.checked === false ? 0 : 1));
    const rows = [];
    for (let row = 0; row < data.rows; row++) if (wanted[verdict.values[row]] && (!found || found[row])) rows.push(row);
    order = Uint32Array.from(rows);
    if (sorted.title !== "#" || sorted.down) {
      const key = keys(column(sorted.title)), sign = sorted.down ? -1 : 1;
      order.sort((a, b) => {
        const x = key[a], y = key[b];
        if (x !== x || y !== y) return (x !== x) - (y !== y) || a - b; // cells without a number come last
        return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
    }
    $("found").textContent = `${order.length.toLocaleString("en")} of ${data.rows.toLocaleString("en")} rows`;
    $("found").dataset.milliseconds = String(Math.round(performance.now() - began));
    $("found").dataset.number = String(Number($("found").dataset.number || 0) + 1);
    for (const button of $("head").children) {
      button.setAttribute("aria-sort", button.dataset.title === sorted.title ? (sorted.down ? "descending" : "ascending") : "none");
    }
    $("space").style.height = Math.min(order.length * ROW, MOST_PIXELS) + "px";
    $("table").scrollTop = 0;
    paint();
  }

  // ---------------------------------------------------------------- the table: only the rows in sight exist

  const fit = () => Math.ceil(($("table").clientHeight - $("head").offsetHeight) / ROW);
  const steps = () => Math.max(1, order.length - fit());
  const reach = () => Math.max(1, $("space").offsetHeight + $("head").offsetHeight - $("table").clientHeight);
  const scaled = () => order.length * ROW > MOST_PIXELS;
  const top = () => (scaled() ? Math.round(($("table").scrollTop / reach()) * steps()) : Math.floor($("table").scrollTop / ROW));

  function paint() {
    const first = Math.min(top(), Math.max(0, order.length - 1)), rows = $("rows"), count = Math.min(fit() + 2, order.length - first);
    while (rows.children.length < count) rows.append(make("div", undefined, "row"));
    while (rows.children.length > count) rows.lastChild.remove();
    const verdict = column("Result");
    for (let i = 0; i < count; i++) fill(rows.children[i], order[first + i], verdict);
    rows.style.transform = `translateY(${scaled() ? $("table").scrollTop : first * ROW}px)`;
    $("table").setAttribute("aria-rowcount", String(order.length));
  }

  function fill(element, row, verdict) {
    element.className = `row ${verdict.words[verdict.values[row]]}${row === chosen ? " chosen" : ""}`;
    element.setAttribute("role", "row");
    element.dataset.row = String(row);
    while (element.children.length < data.columns.length) element.append(make("span"));
    data.columns.forEach((one, i) => {
      const cell = element.children[i], text = shown(one, row);
      if (cell.textContent !== text) cell.textContent = text;
      cell.style.width = width(one) + "px";
      cell.classList.toggle("number", !isText(one));
    });
  }

  /** The row that shows the first divergence of a pair, or the first row of its call; -1 where it has none. */
  function culprit({target, golden, slot}) {
    const names = column(target === null ? "Bench Name" : "NPU Name"), entry = target ?? golden;
    const rank = names.words.map((word) => (word === `${entry}.${slot}` ? 2 : word.startsWith(`${entry}.`) ? 1 : 0));
    const rows = Array.from(names.values, (word) => rank[word]);
    return rows.includes(2) ? rows.indexOf(2) : rows.indexOf(1);
  }

  let here = null;
  const wrong = () => (here?.culprit ? culprit(here.culprit) : -1);

  const width = (one) => WIDTHS[one.title] || 120;

  function heads() {
    $("head").replaceChildren(...data.columns.map((one) => {
      const button = make("button", label(one.title));
      button.type = "button";
      button.dataset.title = one.title;
      button.style.width = width(one) + "px";
      button.setAttribute("role", "columnheader");
      return button;
    }));
  }

  function go(row) {
    let place = order.indexOf(row);
    if (place < 0) { // filtered out: show everything again
      $("search").value = "";
      for (const box of $("filters").querySelectorAll("input[type=checkbox]")) box.checked = true;
      arrange();
      place = order.indexOf(row);
    }
    const from = Math.max(0, place - 3);
    $("table").scrollTop = scaled() ? (from / steps()) * reach() : from * ROW;
    select(row);
  }

  function select(row) {
    chosen = row;
    const list = $("details").querySelector("dl");
    list.replaceChildren(...data.columns.flatMap((one) => {
      const value = make("dd");
      value.append(make("code", shown(one, row)));
      return [make("dt", label(one.title)), value];
    }));
    $("details").hidden = false;
    paint();
  }

  // ---------------------------------------------------------------- the chart

  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(["error", "warning", "dot", "line", "soft"].map((name) => [name, style.getPropertyValue("--" + name)]));
  };
  const scale = {low: -8, high: 0, width: 1, height: 200};

  /** The error of every row: in multiples of its tolerance, as the viewer of graphs draws it, or relative without one. */
  function errors() {
    const times = column("Times tolerance"), found = times || column("Deviation");
    const values = Float64Array.from(found.values, (value, row) => (found.codes && found.codes[row] ? NaN : value));
    return {values, title: times ? "error / tolerance" : "relative difference", floor: times ? -3 : -8};
  }

  function chart() {
    const canvas = $("chart"), ratio = window.devicePixelRatio || 1, colour = colours();
    scale.width = canvas.clientWidth;
    canvas.width = scale.width * ratio;
    canvas.height = scale.height * ratio;
    const pen = canvas.getContext("2d"), {values, title, floor} = errors(), verdict = column("Result");
    pen.scale(ratio, ratio);
    let low = Infinity, high = -Infinity;
    for (const value of values) if (value > 0 && value < Infinity) { low = Math.min(low, value); high = Math.max(high, value); }
    scale.low = low < Infinity ? Math.max(floor, Math.floor(Math.log10(low))) : floor;
    scale.high = high > -Infinity ? Math.max(scale.low + 1, Math.ceil(Math.log10(high))) : 0;
    pen.font = "11px system-ui, sans-serif";
    const every = Math.ceil((scale.high - scale.low) / 6);
    for (let power = scale.low; power <= scale.high; power += every) {
      const y = at(10 ** power);
      pen.fillStyle = colour.line; pen.fillRect(40, y, scale.width - 40, 1);
      pen.fillStyle = colour.soft; pen.fillText("1e" + power, 4, y + 4);
    }
    pen.fillStyle = colour.soft; pen.fillText(title, 46, 14);
    const chosen = wrong();
    if (chosen >= 0) { pen.fillStyle = colour.error; pen.fillRect(across(chosen), 0, 1, scale.height - 16); }
    const paints = {pass: colour.dot, warning: colour.warning, error: colour.error};
    for (const level of ["pass", "warning", "error"]) {
      pen.fillStyle = paints[level];
      const word = verdict.words.indexOf(level), size = {pass: 2, warning: 3, error: 6}[level];
      for (let row = 0; row < data.rows; row++) {
        if (verdict.values[row] !== word) continue;
        const value = values[row], y = level !== "pass" && !(value > 0) ? 6 : at(value); // a difference without a number
        pen.fillRect(across(row), y - size / 2, size, size);
      }
    }
    $("under-chart").textContent = `${title} of every value, in the order of execution; the line marks the first divergence; click to see the row.`;
  }

  const across = (row) => 42 + (row / Math.max(1, data.rows - 1)) * (scale.width - 48);
  function at(value) {
    if (!(value > 0)) return scale.height - 8;
    const share = (Math.log10(Math.min(value, 10 ** scale.high)) - scale.low) / (scale.high - scale.low);
    return scale.height - 16 - Math.max(0, share) * (scale.height - 32);
  }

  /** The row whose point is nearest to a place in the chart. */
  function nearest(x, y) {
    const {values} = errors(), verdict = column("Result");
    const middle = ((x - 42) / (scale.width - 48)) * (data.rows - 1), span = Math.max(2, (6 / scale.width) * data.rows);
    let best = Math.min(data.rows - 1, Math.max(0, Math.round(middle))), distance = Infinity;
    for (let row = Math.max(0, Math.ceil(middle - span)); row <= Math.min(data.rows - 1, middle + span); row++) {
      const height = verdict.words[verdict.values[row]] !== "pass" && !(values[row] > 0) ? 6 : at(values[row]);
      const far = (across(row) - x) ** 2 + (height - y) ** 2;
      if (far < distance) { distance = far; best = row; }
    }
    return best;
  }

  // ---------------------------------------------------------------- events

  let timer = 0, frame = 0;
  $("table").addEventListener("scroll", () => { frame ||= requestAnimationFrame(() => { frame = 0; paint(); }); });
  $("search").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(arrange, CHUNK_PAUSE); });
  $("filters").addEventListener("change", arrange);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("head").addEventListener("click", (event) => {
    const title = event.target.closest("button")?.dataset.title;
    if (!title) return;
    const numeric = title !== "#" && !isText(column(title));
    sorted = sorted.title === title ? {title, down: !sorted.down} : {title, down: numeric}; // largest numbers first
    arrange();
  });
  $("rows").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) select(Number(row.dataset.row));
  });
  $("close").addEventListener("click", () => { $("details").hidden = true; chosen = -1; paint(); });
  $("chart").addEventListener("click", (event) => go(nearest(event.offsetX, event.offsetY)));
  $("chart").addEventListener("mousemove", (event) => {
    const row = nearest(event.offsetX, event.offsetY), times = column("Times tolerance");
    const error = times ? `${shown(times, row)} times its tolerance` : shown(column("Deviation"), row);
    $("under-chart").textContent = `${shown(column("NPU Name"), row)}: ${error} (${shown(column("Result"), row)})`;
  });
  window.addEventListener("resize", () => { if (data) { chart(); paint(); } });
  const choose = (event) => {
    const row = event.target.closest("tr[data-pair]");
    if (row && (event.type === "click" || event.key === "Enter")) open(Number(row.dataset.pair));
  };
  $("pairs")?.addEventListener("click", choose);
  $("pairs")?.addEventListener("keydown", choose);
  for (const box of document.querySelectorAll(".all-frames")) {
    box.addEventListener("change", () => box.closest("details").classList.toggle("everything", box.checked));
  }

  async function open(order) {
    const pair = pairs.find((one) => one.order === order), state = $("state");
    for (const row of document.querySelectorAll("tr[data-pair]")) row.classList.toggle("chosen", Number(row.dataset.pair) === order);
    $("shown-pair").textContent = pairs.length > 1 ? `of ${pair.place}` : "";
    $("explorer").hidden = true;
    state.hidden = false;
    if (!pair.embedded) {
      state.textContent = pair.results.length ? `This table is not part of the report; it is in ${pair.results.join(", ")}.` : pair.first || "There is no table.";
      return;
    }
    state.textContent = "Loading";
    try {
      data = await unpacked(order);
    } catch (error) {
      state.textContent = `The table cannot be shown: ${error}. A browser of 2023 or later is needed.`;
      return;
    }
    state.hidden = true;
    $("explorer").hidden = false;
    $("details").hidden = true;
    chosen = -1;
    sorted = {title: "#", down: false};
    here = pair;
    heads();
    chart();
    arrange();
    if (wrong() >= 0) go(wrong());
    document.body.dataset.ready = String(order);
  }

  const first = pairs.find((one) => one.embedded && one.verdict === "diverged") || pairs.find((one) => one.embedded);
  if (first) open(first.order);
})();
