// Starts the page of trends: opens the data, draws, listens to the keyboard, follows a running training.

import { render } from "preact";
import { html } from "msprobe/html.js";
import { applyTheme } from "msprobe/theme.js";
import { openSource } from "msprobe/trend/source.js";
import { Store } from "msprobe/trend/store.js";
import { Page } from "msprobe/trend/page.js";
import { listenToKeys } from "msprobe/trend/keyboard.js";

applyTheme();
const store = new Store(openSource());
const root = document.getElementById("app");
root.replaceChildren();
store.listen(() => render(html`<${Page} store=${store} />`, root));
listenToKeys(store);
store.set({});
store.begin();
window.msprobeTrend = store; // for people with a console open, and for benchmarks/trend.py
