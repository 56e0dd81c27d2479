// Where the data comes from: the local server, or the compressed parts of the page itself. Both answer the same way.

const PART = 200; // nodes in a part of the page; the writer cuts them so

const token = new URLSearchParams(location.search).get("token") ?? ""; // of the server; an offline page has none

class Served {
  async #ask(question, values = {}) {
    const answer = await fetch(`api/${question}?${new URLSearchParams({ ...values, token })}`);
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error ?? `the server answered ${answer.status}`);
    return content;
  }
  index() { return this.#ask("index"); }
  grid(db) { return this.#ask("grid", { db }); }
  graph(at) { return this.#ask("graph", at); }
  facts(at) { return this.#ask("facts", at); }
  stacks(at) { return this.#ask("stacks", at); }
  node(at, side, node) { return this.#ask("node", { ...at, side, name: node.name }); }
  async children(at, side, node, children) {
    const found = await this.#ask("children", { ...at, side, name: node.name });
    return found.slice(0, children.length);
  }
}

class Inside {
  #parts = new Map();
  #part(name) {
    if (!this.#parts.has(name)) this.#parts.set(name, unpacked(name));
    return this.#parts.get(name);
  }
  index() { return this.#part("index"); }
  grid(db) { return this.#part(`grid-${db}`); }
  graph(at) { return this.#part(`graph-${at.db}-${at.step}-${at.rank}`); }
  facts(at) { return this.#part(`facts-${at.db}-${at.step}-${at.rank}`); }
  stacks(at) { return this.#part(`stacks-${at.db}-${at.step}-${at.rank}`); }
  async node(at, side, { index }) {
    const part = await this.#part(`nodes-${at.db}-${at.step}-${at.rank}-${side}-${Math.floor(index / PART)}`);
    return part[index % PART];
  }
  children(at, side, node, children) { return Promise.all(children.map((child) => this.node(at, side, child))); }
}

async function unpacked(name) {
  const element = document.getElementById(name);
  if (!element) throw new Error(`the page has no part ${name}; it may have been cut off when it was copied`);
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

export const openSource = () => (document.getElementById("index") ? new Inside() : new Served());
