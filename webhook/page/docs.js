/** The page that shows the description of the API; it reads nothing but `/v1/openapi.json`. */

import { h, say } from "./dom.js";
import { paragraphs, prose } from "./prose.js";
import { resolve, shape } from "./shape.js";

const by = (id) => document.getElementById(id);
const METHODS = ["get", "post", "put", "delete"];

/** Operations with their paths, in the order of the description, by tag. */
function chaptersOf(description) {
  const chapters = new Map(description.tags.map((tag) => [tag.name, { ...tag, operations: [] }]));
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const method of METHODS) {
      if (methods[method]) chapters.get(methods[method].tags[0]).operations.push({ ...methods[method], method, path });
    }
  }
  return [...chapters.values()].filter((chapter) => chapter.operations.length);
}

function render(description) {
  const chapters = chaptersOf(description);
  by("contents").replaceChildren(...chapters.flatMap(contents));
  by("contents").hidden = false;
  by("chapters").replaceChildren(
    about(description, chapters),
    credentials(description),
    ...chapters.map((chapter, index) => panel(chapter, description, index)),
  );
  follow();
}

function contents(chapter) {
  const items = chapter.operations.map(({ operationId, ...operation }) => h("li", {},
    h("a", { href: `#${operationId}`, onclick: () => unfold(operationId) }, verb(operation), h("span", {}, operation.summary))));
  return [h("h2", {}, chapter.name), h("ul", {}, ...items)];
}

function verb(operation) {
  return h("span", { class: `verb ${operation.method}` }, operation.method.toUpperCase());
}

function head(title, sub, ...rest) {
  return h("header", { class: "panel-head" }, h("h2", {}, title), sub ? h("p", { class: "sub" }, ...prose(sub)) : null, ...rest);
}

function about(description, chapters) {
  const count = chapters.reduce((sum, chapter) => sum + chapter.operations.length, 0);
  return h("section", { class: "panel" },
    head("API", `OpenAPI ${description.openapi} · ${count} operations`, h("a", { class: "json", href: "/v1/openapi.json" }, "show as JSON")),
    h("div", { class: "prose" }, ...paragraphs(description.info.description)));
}

const SCHEMES = { bearer: "Bearer token", clientCertificate: "Client certificate" };

function credentials(description) {
  const ways = Object.entries(description.components.securitySchemes)
    .map(([name, scheme]) => h("div", {}, h("h3", {}, SCHEMES[name] ?? name), h("div", { class: "prose" }, ...paragraphs(scheme.description))));
  const isPlain = location.protocol !== "https:"; // where credentials are not sent, and where the other port is not known
  return h("section", { class: "panel", id: "credentials" },
    head("Authentication"),
    h("div", { class: "prose" }, h("p", {}, "Send one of these with every request. The commands on this page use the variables set here. ",
      h("code", {}, "harbormaster up"), " prints the address and the data folder, which holds ", h("code", {}, "ca.crt"), " and ", h("code", {}, "token"), "."),
      isPlain ? h("p", {}, "This page was loaded over plain HTTP, which accepts no credentials. Fill in the https address, "
        + "which is printed at start; it is also the ", h("code", {}, "server"), " in ", h("code", {}, "kubeconfig"), " of the data folder.") : null),
    h("div", { class: "ways" }, ...ways),
    code(`export SERVER=${isPlain ? "https://HOST:PORT  # the https address printed at start" : location.origin}\nexport CA=ca.crt\nexport TOKEN="$(cat token)"`, { copies: true, name: "the variables" }));
}

function panel(chapter, description, index) {
  const operations = chapter.operations.map((operation) => h("li", {}, card(operation, description)));
  return h("section", { class: "panel" },
    head(chapter.name, chapter.description),
    h("ul", { class: "operations", id: index === 0 ? "operations" : null }, ...operations));
}

function card(operation, description) {
  const summary = h("summary", {}, verb(operation), h("span", { class: "path" }, operation.path), h("span", { class: "words" }, operation.summary));
  const details = h("details", { class: "operation", id: operation.operationId }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(body(operation, description));
  });
  return details;
}

function body(operation, description) {
  const request = operation.requestBody?.content["application/json"];
  return h("div", { class: "operation-body" },
    h("div", { class: "prose" }, ...paragraphs(operation.description), operation.security?.length === 0 ? h("p", {}, "No credentials are needed.") : null),
    h("div", {}, h("h3", {}, "Command"), code(curl(operation, request?.example), { copies: true, name: `command for ${operation.operationId}` })),
    parameters(operation, description),
    request ? beside("Request body", request.schema, null, description, true) : null,
    good(operation, description),
    bad(operation, description));
}

function parameters(operation, description) {
  const found = (operation.parameters ?? []).map((parameter) => (parameter.$ref ? description.components.parameters[parameter.$ref.split("/").pop()] : parameter));
  if (!found.length) return null;
  const lines = found.map((parameter) => h("div", { class: "member" },
    h("div", { class: "member-head" },
      h("span", { class: "member-name" }, parameter.name),
      h("span", { class: "member-type" }, `${parameter.schema.type}, ${parameter.in === "path" ? "in the path" : "header"}`),
      parameter.required ? h("span", { class: "member-need" }, "required") : null),
    h("p", { class: "member-words" }, ...prose(parameter.description))));
  return h("div", {}, h("h3", {}, "Path and headers"), h("div", { class: "shape" }, ...lines));
}

/** A shape, and beside it an example when there is one. */
function beside(title, schema, example, description, isQuestion = false) {
  const { name } = resolve(schema, description);
  return h("div", {},
    h("h3", {}, title, name ? h("span", { class: "sub" }, name) : null),
    h("div", { class: "beside" }, shape(schema, description, isQuestion), example ? code(example, { name: `example: ${title.toLowerCase()}` }) : null));
}

/** The status of a good answer: the first there is, 304 and errors come after it. */
function usual(operation) {
  return Object.keys(operation.responses).sort()[0];
}

function good(operation, description) {
  const response = operation.responses[usual(operation)];
  if (!response.content) return h("div", {}, h("h3", {}, "Response"), h("p", {}, `${usual(operation)}: ${response.description}`));
  const [type, media] = Object.entries(response.content)[0];
  const example = media.example === undefined ? null : typeof media.example === "string" ? media.example : JSON.stringify(media.example, null, 2);
  const title = type === "application/json" ? "Response" : `Response, ${type}`;
  return beside(title, media.schema, example, description);
}

/** All other responses: a line each, the example of a problem on demand. */
function bad(operation, description) {
  const rows = Object.entries(operation.responses).filter(([status]) => status !== usual(operation)).map(([status, response]) => {
    const found = response.$ref ? description.components.responses[response.$ref.split("/").pop()] : response;
    const words = [h("span", { class: `status ${status < "400" ? "fine" : "wrong"}` }, status), h("span", { class: "answer-words" }, ...prose(found.description))];
    const examples = Object.values(found.content?.["application/problem+json"]?.examples ?? {});
    const headers = Object.keys(found.headers ?? {});
    if (!examples.length) return h("li", {}, h("p", { class: "answer-plain" }, ...words));
    const details = h("details", { class: "answer" }, h("summary", {}, ...words));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      details.append(h("div", { class: "answer-body" },
        h("p", { class: "heads" }, `With the headers ${headers.join(", ")}.`),
        ...examples.map((example) => code(JSON.stringify(example.value, null, 2), { name: `a response with status ${status}` }))));
    });
    return h("li", {}, details);
  });
  return h("div", {}, h("h3", {}, "Other responses", h("span", { class: "sub" }, "application/problem+json")), h("ul", { class: "answers" }, ...rows));
}

/** A command for a shell; the reader replaces the parts of the path in braces. */
function curl(operation, example) {
  const isStream = "text/event-stream" in (operation.responses[usual(operation)].content ?? {}); // -N: shown as it comes
  const parts = [`curl ${isStream ? "-N " : ""}--cacert "$CA"`];
  if (operation.security?.length !== 0) parts.push("-H \"Authorization: Bearer $TOKEN\"");
  if (["put", "delete"].includes(operation.method)) parts.push(`-X ${operation.method.toUpperCase()}`);
  if (example !== undefined) parts.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(example, null, 2).replaceAll("'", "'\\''")}'`);
  parts.push(`"$SERVER${operation.path}"`);
  return parts.join(" \\\n  ");
}

/** Text as it is; a box that scrolls can be reached with the keyboard. */
function code(text, { copies = false, name }) {
  const pre = h("pre", { tabindex: "0", role: "group", "aria-label": name }, text);
  if (!copies) return h("div", { class: "code" }, pre);
  const button = h("button", { class: "copy", type: "button", "aria-label": `Copy ${name}`, onclick: () => copy(pre, button) }, "copy");
  return h("div", { class: "code wraps" }, pre, button);
}

async function copy(pre, button) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    say(button, "copied");
    say(by("news"), "copied");
  } catch { // not allowed here: mark it, so that the reader's own keys can copy it
    getSelection().selectAllChildren(pre);
    say(button, "marked");
    say(by("news"), "selected: copy it with the keyboard");
  }
  setTimeout(() => say(button, "copy"), 2000);
}

function unfold(id) {
  const named = by(id);
  if (!named?.matches("details")) return null;
  named.open = true;
  return named;
}

/** Open the operation that the address names, and bring it into view once it has its full height. */
function follow() {
  const wasOpen = by(location.hash.slice(1))?.open;
  const named = unfold(location.hash.slice(1));
  if (named === null) return;
  named.querySelector("summary").focus({ preventScroll: true });
  const show = () => named.scrollIntoView({ block: "start" });
  if (wasOpen) show();
  else named.addEventListener("toggle", show, { once: true });
}

addEventListener("hashchange", follow);

async function read() {
  try {
    const response = await fetch("/v1/openapi.json");
    return response.ok ? { description: await response.json() } : { trouble: `${response.status} ${response.statusText}` };
  } catch (error) {
    return { trouble: error instanceof SyntaxError ? "it is not JSON" : "the server is unreachable" };
  }
}

const { description, trouble } = await read();
if (description) render(description);
else by("chapters").replaceChildren(h("p", { class: "problem", role: "alert" }, `/v1/openapi.json cannot be read: ${trouble}.`));
