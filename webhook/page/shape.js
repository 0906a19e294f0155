/**
 * A JSON Schema as people read it: one line per member, what is inside on demand.
 *
 * Schemas may refer to each other in circles, so what is inside is built when it is opened, and not before.
 */

import { h } from "./dom.js";
import { prose } from "./prose.js";

const REFERENCE = "#/components/schemas/";

/** Follow references: the schema and the name it has. */
export function resolve(schema, document) {
  let name = "";
  let found = schema;
  while (found.$ref) {
    name = found.$ref.slice(REFERENCE.length);
    found = document.components.schemas[name];
  }
  return { name, schema: found };
}

/**
 * The members of a schema, or what it is when it has none.
 *
 * In a request, required members are marked. In a response, optional ones are.
 */
export function shape(schema, document, isQuestion) {
  const { schema: whole } = resolve(schema, document);
  const parts = [];
  if (whole.description) parts.push(h("p", {}, ...prose(whole.description)));
  if (whole.properties) {
    const required = new Set(whole.required ?? []);
    for (const [name, member] of Object.entries(whole.properties)) parts.push(line(name, member, mark(required.has(name), isQuestion), document, isQuestion));
  } else {
    parts.push(h("p", {}, kind(whole, document)), inside(whole, document, isQuestion));
  }
  return h("div", { class: "shape" }, ...parts);
}

function mark(required, isQuestion) {
  if (isQuestion) return required ? h("span", { class: "member-need" }, "required") : null;
  return required ? null : h("span", { class: "member-maybe" }, "sometimes");
}

function line(name, member, marked, document, isQuestion) {
  const words = member.description ?? "";
  const limits = bounds(resolve(member, document).schema);
  return h("div", { class: "member" },
    h("div", { class: "member-head" },
      h("span", { class: "member-name" }, name),
      h("span", { class: "member-type" }, kind(member, document)),
      marked),
    words || limits.length ? h("p", { class: "member-words" }, ...prose([words, ...limits].filter(Boolean).join(" "))) : null,
    inside(member, document, isQuestion));
}

/** What a value is, in a word or two. */
function kind(schema, document) {
  const { name, schema: whole } = resolve(schema, document);
  if (whole.const !== undefined) return JSON.stringify(whole.const);
  if (whole.enum) return whole.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = whole.anyOf ?? whole.oneOf;
  if (choices) return choices.map((choice) => kind(choice, document)).join(" | ");
  if (whole.contentMediaType) return `text, ${whole.contentMediaType}`;
  if (whole.type === "array") return `list of ${whole.items ? kind(whole.items, document) : "anything"}`;
  if (whole.properties || name) return name || "object";
  if (whole.type === "object") {
    const value = whole.additionalProperties;
    return value && typeof value === "object" ? `map to ${kind(value, document)}` : "object";
  }
  if (Array.isArray(whole.type)) return whole.type.join(" | ");
  return [whole.type ?? "anything", whole.format].filter(Boolean).join(", ");
}

const LIMITS = [
  ["minimum", "at least"], ["maximum", "at most"], ["minLength", "characters: at least"], ["maxLength", "characters: at most"],
  ["minItems", "items: at least"], ["maxItems", "items: at most"],
];

function bounds(schema) {
  const found = LIMITS.filter(([key]) => schema[key] !== undefined).map(([key, words]) => `${words} ${schema[key]}`);
  if (schema.default !== undefined) found.unshift(`default \`${JSON.stringify(schema.default)}\``);
  if (schema.pattern) found.push(`pattern \`${schema.pattern}\``);
  return found.length ? [`(${found.join("; ")})`] : [];
}

/** The objects a value consists of, each behind a line that opens it. */
function inside(schema, document, isQuestion) {
  const found = objects(schema, document);
  if (!found.length) return null;
  return h("div", {}, ...found.map(({ name, schema: whole }) => unfolding("inside", name || "members", () => shape(whole, document, isQuestion))));
}

function objects(schema, document) {
  const { name, schema: whole } = resolve(schema, document);
  if (whole.properties) return [{ name, schema: whole }];
  const choices = whole.anyOf ?? whole.oneOf;
  if (choices) return choices.flatMap((choice) => objects(choice, document));
  if (whole.contentSchema) return objects(whole.contentSchema, document);
  if (whole.type === "array" && whole.items) return objects(whole.items, document);
  if (typeof whole.additionalProperties === "object") return objects(whole.additionalProperties, document);
  return [];
}

/** A disclosure whose content is made when it is opened for the first time. */
export function unfolding(style, title, make) {
  const details = h("details", { class: style }, h("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(make());
  });
  return details;
}
