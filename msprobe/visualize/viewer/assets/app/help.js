// The keys, from the table that the keyboard itself uses.

import { html } from "msprobe/html.js";
import { KEYS } from "msprobe/keyboard.js";
import { SIGNS, VERDICTS, WORDS } from "msprobe/verdicts.js";

export const Help = ({ store }) => html`
  <div class="help" role="dialog" aria-label="Help" onClick=${() => store.set({ help: false })}>
    <div class="sheet">
      <h2>Keys</h2>
      <table>${KEYS.map(([key, words]) => html`<tr><td><kbd>${key}</kbd></td><td>${words}</td></tr>`)}</table>
      <h2>Signs</h2>
      <table>${VERDICTS.map((name, code) => html`
        <tr><td><span class=${`sign ${name}`}>${SIGNS[code]}</span></td><td>${WORDS[code]}</td></tr>`)}</table>
      <p class="note">A small sign beside a folded node counts what is inside. An edge of the graph is a
      value: solid where its memory was recorded, dashed where statistics agree; a faint dotted line only follows the
      order of execution.</p>
    </div>
  </div>`;
