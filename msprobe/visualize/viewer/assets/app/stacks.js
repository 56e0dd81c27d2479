// Where a node was called: the frames with their source lines, those of the framework folded away.

import { html } from "msprobe/html.js";
import { useState } from "preact/hooks";

const FRAME = /^\s*File (.+?), line (\d+), in (.+?),\s*(?:\\?\n|$)\s*([\s\S]*)$/;
const FOREIGN = /(site-packages|dist-packages|lib\/python[\d.]+)\//;

export function frames(stack) {
  return stack.map((text) => {
    const found = FRAME.exec(String(text));
    if (!found) return { text: String(text), own: true };
    const [, file, line, scope, code] = found;
    return { file: file.replace(/^"|"$/g, ""), line, scope, code: code.trim(), own: !FOREIGN.test(file) };
  });
}

export function Stacks({ data }) {
  const [everything, setEverything] = useState(false);
  const found = ["target", "golden"].filter((side) => data[side]).map((side) => [side, frames(data[side].stack)]);
  if (!found.some(([, list]) => list.length)) return html`<p class="note">No call stack was recorded for this node.</p>`;
  const hidden = found.some(([, list]) => list.some((frame) => !frame.own));
  return html`${hidden && html`<label class="switch"><input id="all-frames" type="checkbox" checked=${everything}
      onChange=${(event) => setEverything(event.target.checked)} /> frames of libraries too</label>`}
    <div class="sides">${found.map(([side, list]) => html`<div><h3>${side}</h3><ol class="stack">
      ${list.filter((frame) => everything || frame.own).map((frame) => html`<li class=${frame.own ? "mine" : "foreign"}>
        ${frame.text ?? html`<span class="where">${frame.file}:${frame.line}</span> <span class="dim">in ${frame.scope}</span>
        <code>${frame.code}</code>`}</li>`)}</ol></div>`)}</div>`;
}
