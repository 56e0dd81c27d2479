// Where a node was called: the frames with their source lines, those of the framework folded away.

import { html } from "msprobe/html.js";
import { useState } from "preact/hooks";

const FRAME = /^\s*File (.+?), line (\d+), in (.+?),\s*(?:\\?\n|$)\s*([\s\S]*)$/;
// The same expressions as in compare/records/source_lines.py, which chooses the source line of every report.
const FRAMEWORK = /^<|(?:site|dist)-packages\/(?:torch|torch_npu|mindspore|msadapter|mindtorch)\/|\/torch\/(?:nn|optim|autograd|utils|distributed)\/|\/torch\/_|\/lib\/python\d[\d.]*\/(?!(?:site|dist)-packages\/)/;
const LIBRARY = /(?:site|dist)-packages\/|\/lib\/python\d/;
const PASSES_ON = "super().__call__(";

// Frames of a stack, innermost first. `own`: code of the user, or the line that made the call.
export function frames(stack) {
  const found = stack.map(frame);
  const source = found.find((one) => !one.framework && !(one.code?.includes(PASSES_ON) && one.scope === "__call__"));
  if (source) source.own = true;
  return found;
}

function frame(text) {
  const found = FRAME.exec(String(text));
  if (!found) return { text: String(text), own: true, framework: false };
  const [, path, line, scope, code] = found;
  const file = path.replace(/^"|"$/g, "");
  const framework = FRAMEWORK.test(file);
  return { file, line, scope, code: code.trim(), own: !framework && !LIBRARY.test(file), framework };
}

// The frames that are not folded away; all of them where no frame is of the user.
function shown(list) {
  const own = list.filter((frame) => frame.own);
  return own.length ? own : list;
}

export function Stacks({ data }) {
  const [everything, setEverything] = useState(false);
  const found = ["target", "golden"].filter((side) => data[side]).map((side) => [side, frames(data[side].stack)]);
  if (!found.some(([, list]) => list.length)) return html`<p class="note">No call stack was recorded for this node.</p>`;
  const hidden = found.some(([, list]) => shown(list).length < list.length);
  return html`${hidden && html`<label class="switch"><input id="all-frames" type="checkbox" checked=${everything}
      onChange=${(event) => setEverything(event.target.checked)} /> frames of libraries too</label>`}
    <div class="sides">${found.map(([side, list]) => html`<div><h3>${side}</h3><ol class="stack">
      ${(everything ? list : shown(list)).map((frame) => html`<li class=${frame.own ? "mine" : "foreign"}>
        ${frame.text ?? html`<span class="where">${frame.file}:${frame.line}</span> <span class="dim">in ${frame.scope}</span>
        <code>${frame.code}</code>`}</li>`)}</ol></div>`)}</div>`;
}
