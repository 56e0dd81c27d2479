// The data of nodes, asked for when it is first shown and kept for as long as the graph is.

import { useEffect, useState } from "preact/hooks";

const kept = new WeakMap(); // graph -> question -> answer

function remembered(graph, question, ask) {
  if (!kept.has(graph)) kept.set(graph, new Map());
  const answers = kept.get(graph);
  if (!answers.has(question)) {
    const answer = ask();
    answer.catch(() => answers.delete(question));
    answers.set(question, answer);
  }
  return answers.get(question);
}

// {target, golden}: the data of both partners, null where there is none.
export async function pairData(store, node) {
  const { model, graph } = store.state;
  const ask = (side, index) => (index < 0 ? null : remembered(graph, `${side} ${index}`, () =>
    store.source.node(store.at, side, { index, name: graph[side].names[index] })));
  const [target, golden] = await Promise.all([
    ask("target", node < model.targets ? node : -1), ask("golden", model.goldenOf(node)),
  ]);
  return { target, golden };
}

// The data of all nodes directly below one, in stored order: a map from their index.
export async function childData(store, side, index) {
  const { graph } = store.state;
  const { names, parents } = graph[side];
  const below = parents.flatMap((above, child) => (above === index ? [{ index: child, name: names[child] }] : []));
  const found = await remembered(graph, `below ${side} ${index}`, () =>
    store.source.children(store.at, side, { index, name: names[index] }, below));
  return new Map(below.map((child, place) => [child.index, found[place]]));
}

// [value, error] of a promise that depends on `keys`; the value of other keys is never shown.
export function useAnswer(ask, keys) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    let wanted = true;
    setAnswer({});
    Promise.resolve().then(ask).then(
      (value) => wanted && setAnswer({ value }),
      (error) => wanted && setAnswer({ error: error.message }),
    );
    return () => { wanted = false; };
  }, keys);
  return [answer.value, answer.error];
}
