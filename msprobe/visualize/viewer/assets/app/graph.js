// The inside of one module as a graph, target and golden side by side; what is chosen on one side is on the other.

import { Graph as Layout, layout } from "dagre";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { html } from "msprobe/html.js";
import { childData, useAnswer } from "msprobe/data.js";
import { flow } from "msprobe/flow.js";
import { differs, SIGNS, VERDICTS } from "msprobe/verdicts.js";

const MOST = 120; // boxes; of larger modules those around the selected node are drawn
const [WIDTH, HEIGHT] = [190, 40];
const LINKS = { recorded: "the same memory, recorded", inferred: "equal statistics", order: "runs after it" };
const SMALLEST = 0.7; // what is wider than its side shrinks to it as far as its text can be read, then scrolls

export function Graph({ store }) {
  const { model, focus, graph } = store.state;
  const golden = model.goldenOf(focus);
  const target = focus < model.targets ? focus : -1;
  const [data, error] = useAnswer(async () => ({
    target: target < 0 ? null : await childData(store, "target", target),
    golden: golden < 0 ? null : await childData(store, "golden", golden),
  }), [graph, focus, golden]);
  const chain = [...model.ancestors(focus), focus];
  return html`<div class="graph">
    <nav class="path" aria-label="path">${chain.map((node) => html`
      <button class="link" onClick=${() => { store.set({ focus: node }); store.select(node); }}>
        ${model.label(node).text || model.name(node)}</button>`)}</nav>
    <div class="sides">
      ${!data && !error && html`<p class="note">Loading…</p>`}
      ${(data || error) && target >= 0 && html`<${Side} store=${store} side="target" data=${data?.target} />`}
      ${(data || error) && golden >= 0 && html`<${Side} store=${store} side="golden" data=${data?.golden} />`}
    </div></div>`;
}

function Side({ store, side, data }) {
  const { model, focus, selected } = store.state;
  const indexOf = (node) => (side === "target" ? (node < model.targets ? node : -1) : model.goldenOf(node));
  const all = (model.children[focus] ?? []).filter((node) => indexOf(node) >= 0);
  const from = all.length > MOST ? Math.min(Math.max(0, all.indexOf(selected) - MOST / 2), all.length - MOST) : 0;
  const nodes = useMemo(() => all.slice(from, from + MOST), [model, focus, from]);
  const drawn = useMemo(() => arranged(nodes.map((node) => data?.get(indexOf(node)))), [nodes, data]);
  const box = useRef(null);
  useEffect(() => {
    const place = nodes.indexOf(selected);
    if (place < 0 || !box.current) return;
    const { x, y } = drawn.boxes[place];
    const { clientWidth, clientHeight } = box.current;
    const scale = box.current.firstElementChild.getBoundingClientRect().width / drawn.width;
    box.current.scrollTo(x * scale - clientWidth / 2, y * scale - clientHeight / 2);
  }, [selected, drawn]);
  return html`<div class="side"><h3>${model.compared ? side : "run"}${nodes.length < all.length ? ` · ${nodes.length} of ${all.length}` : ""}</h3>
    <div class="canvas" ref=${box}>${nodes.length ? html`
      <svg viewBox=${`0 0 ${drawn.width} ${drawn.height}`} style=${{ width: `clamp(${SMALLEST * drawn.width}px, 100%, ${drawn.width}px)` }} role="img" aria-label=${`graph of the ${side} side`}>
        <defs><marker id=${`head-${side}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
          orient="auto"><path d="M0 0 8 4 0 8z" class="head" /></marker></defs>
        ${drawn.lines.map(({ path, link, names }) => html`<path class=${`edge ${link}`} d=${path}
          marker-end=${link === "order" ? null : `url(#head-${side})`}><title>${LINKS[link]}${names.map((name) => `\n${name}`)}</title></path>`)}
        ${nodes.map((node, place) => html`<${Box} store=${store} side=${side} node=${node} at=${drawn.boxes[place]} />`)}
      </svg>` : html`<p class="note">Nothing is inside.</p>`}</div></div>`;
}

function Box({ store, side, node, at }) {
  const { model, selected } = store.state;
  const label = side === "target" ? model.label(node) : model.goldenLabel(node);
  const verdict = model.compared ? model.worst[node] : 5;
  const { error, warning, unmatched } = model.counts;
  const inside = error[node] + warning[node] + unmatched[node] - (differs(model.verdict[node]) ? 1 : 0);
  const level = model.overflow(node);
  return html`<g class=${`box ${VERDICTS[verdict]} ${model.verdict[node] === verdict ? "itself" : ""} ${
      node === selected ? "selected" : ""}`} data-name=${model.name(node)} transform=${`translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`}
      onClick=${() => store.select(node)} onDblClick=${() => store.enter(node)}>
    <title>${side === "target" ? model.targetName(node) : model.goldenName(node)}</title>
    <rect width=${WIDTH} height=${HEIGHT} rx=${model.children[node] ? 9 : 2} />
    <text x="10" y="17">${cut(label.text, 22)}</text>
    <text x="10" y="32" class="small">${cut(label.type, 18)}${label.direction === "backward" ? " ◂" : ""}${level ? ` · ${level}` : ""}</text>
    ${model.compared && html`<text x=${WIDTH - 10} y="17" text-anchor="end" class="mark">${SIGNS[verdict]}</text>`}
    ${model.children[node] && inside > 0 && html`<text x=${WIDTH - 10} y="32" text-anchor="end" class="small">${inside} differ</text>`}
  </g>`;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most / 2 - 1)}…${text.slice(-most / 2)}` : text);

function arranged(data) {
  const graph = new Layout();
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 22, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  data.forEach((_, place) => graph.setNode(String(place), { width: WIDTH, height: HEIGHT }));
  const edges = flow(data);
  for (const { from, to } of edges) graph.setEdge(String(from), String(to));
  layout(graph);
  const lines = edges.map(({ from, to, link, names }) => {
    const { points } = graph.edge(String(from), String(to));
    return { link, names, path: points.map(({ x, y }, place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") };
  });
  const { width, height } = graph.graph();
  return { lines, width: width || 1, height: height || 1, boxes: data.map((_, place) => graph.node(String(place))) };
}
