// Text as it is, with the characters written out that cannot be seen or that turn what stands around them: controls, marks of
// direction, blanks without width.

const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b\u2028-\u202e\u2060-\u206f\ufeff]/;
const EACH = new RegExp(HIDDEN, "g");

export const visible = (text) => (HIDDEN.test(text)
  ? text.replace(EACH, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`) : text);
