// The one way to make elements. Values become text nodes and properties, never markup.

import { h } from "preact";
import htm from "htm";
import { visible } from "msprobe/visible.js";

const shown = (child) => (typeof child === "string" ? visible(child) : Array.isArray(child) ? child.map(shown) : child);

export const html = htm.bind((type, properties, ...children) => h(type, properties, ...children.map(shown)));
