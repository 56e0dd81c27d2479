// Search in call stacks: a word that begins with @ is looked for in the frames of a node's own code.

import { frames } from "msprobe/stacks.js";

export const MARK = "@";
export const searchesStacks = (filter) => filter.query.split(/\s+/).some((word) => word.length > 1 && word.startsWith(MARK));

// Each stack once as text; stacks of both sides by node.
export class StackTexts {
  constructor({ texts, target, golden }) {
    this.texts = texts.map(text);
    this.places = { target, golden };
  }
  // A test for the nodes of a model.
  having(word, model) {
    const found = this.texts.map((one) => one.includes(word));
    const has = (side, index) => index >= 0 && found[this.places[side][index]] === true;
    return (node) => has("target", node < model.targets ? node : -1) || has("golden", model.goldenOf(node));
  }
}

// Without frames of libraries, which nearly every node has; all of them where there are no others.
function text(stack) {
  const all = frames(Array.isArray(stack) ? stack : [stack]);
  const own = all.filter((frame) => frame.own);
  return (own.length ? own : all).map((frame) => frame.text
    ?? `${frame.file}:${frame.line} ${frame.scope} ${frame.code}`).join("\n").toLowerCase();
}
