/** The little Markdown that descriptions have: paragraphs, and literals in backticks. */

import { h } from "./dom.js";

/** Text with its literals as code: a list of what `h` takes. */
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part)).filter((part) => part !== "");
}

/** Paragraphs of text. */
export function paragraphs(text) {
  return text.split(/\n\s*\n/).map((part) => h("p", {}, ...prose(part)));
}
