// The seven verdicts, in the order in which the database counts them, and which of them weighs more in a folded node.

export const VERDICTS = ["same", "pass", "warning", "error", "unmatched", "not_compared", "no_data"];
export const [SAME, PASS, WARNING, ERROR, UNMATCHED, NOT_COMPARED, NO_DATA] = VERDICTS.keys();
export const WORDS = ["same", "pass", "warning", "error", "unmatched", "not compared", "no data"];
export const SIGNS = ["=", "✓", "!", "✕", "?", "·", "∅"]; // colour is never the only sign

// Heavier wins when a node is folded. What was not looked at weighs more than a pass: it is none.
const WEIGHTS = [1, 2, 5, 6, 4, 3, 0];

export const heavier = (one, other) => (WEIGHTS[one] >= WEIGHTS[other] ? one : other);
export const differs = (verdict) => verdict === ERROR || verdict === WARNING || verdict === UNMATCHED;
export const OVERFLOWS = ["critical", "high", "medium"];
