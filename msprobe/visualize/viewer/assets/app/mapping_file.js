// Pairs chosen by hand as a layer-mapping file: what graph_visualize and compare read with -lm.
//
// Sections are classes of the target (TopLayer for the root), lines are paths below them: target path to golden path.

import { isModule, parsed } from "msprobe/names.js";

export function mappingFile(model) {
  const sections = new Map();
  const left = [];
  for (const node of [...model.pairs.byHand].sort((one, other) => model.time[one] - model.time[other])) {
    const line = mappingLine(model, node);
    if (!line) left.push(`${model.targetName(node)} -> ${model.goldenName(node)}`);
    else if (line.from !== line.to) {
      if (!sections.has(line.section)) sections.set(line.section, new Map());
      sections.get(line.section).set(line.from, line.to);
    }
  }
  const text = ["# Layer mapping made by hand in msprobe view; use: msprobe graph_visualize ... -lm THIS_FILE"];
  for (const [section, lines] of sections) {
    text.push(`${quoted(section)}:`);
    for (const [from, to] of lines) text.push(`  ${quoted(from)}: ${quoted(to)}`);
  }
  if (!sections.size) text.push("{}");
  for (const pair of left) text.push(`# no layer mapping says this: ${quoted(pair)}`);
  return `${text.join("\n")}\n`;
}

// The nearest target module above that contains the node, with its partner, gives the section.
function mappingLine(model, node) {
  const [target, golden] = [parsed(model.targetName(node)), parsed(model.goldenName(node))];
  if (isModule(model.targetName(node)) !== isModule(model.goldenName(node)) || !golden.path.length) return null;
  for (const above of model.ancestors(node).reverse()) {
    const partner = model.goldenName(above);
    if (!isModule(model.targetName(above)) || !isModule(partner)) continue;
    const [outer, other] = [parsed(model.targetName(above)), parsed(partner)];
    const from = below(target, outer, model.targetName(node));
    const to = below(golden, other, model.goldenName(node));
    if (from && to && outer.type) return { section: outer.type, from, to };
  }
  return { section: "TopLayer", from: target.path.join("."), to: golden.path.join(".") };
}

// Operations have no path of their own: they stand below whatever calls them.
function below(part, outer, name) {
  if (!isModule(name)) return part.path.join(".");
  const inside = outer.path.every((step, place) => step === part.path[place]);
  return inside && part.path.length > outer.path.length ? part.path.slice(outer.path.length).join(".") : "";
}

const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (letter) =>
  `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
