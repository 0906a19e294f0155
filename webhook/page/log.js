/** The admission log: what was refused or warned about lately, who asked, and by which rule. */

import { address } from "./address.js";
import { ticking } from "./clock.js";
import { h, isNews, patchList, pill, say } from "./dom.js";
import { count, number, tally } from "./format.js";
import { refer } from "./reference.js";
import { hasAll, sorted, terms } from "./selection.js";
import { Toolbar, counted } from "./toolbar.js";
import { localTimes, moment } from "./zone.js";

const FIRST = 50;

const VERDICTS = { Refusal: "refused", Warning: "warned" };

/** What an entry of `GET /v1/history` says, in the words of this view. */
function read(entry) {
  const { time, lastTime, type, object, reason, message, by = "", count: times = 1 } = entry;
  const [, operation = "", text = message] = /^([a-z]+): (.*)$/s.exec(message) ?? [];
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  const rules = reason.split(/,\s*/).filter((one) => /^[A-Z]+-[0-9]+$/.test(one));
  return { at: Date.parse(lastTime ?? time), verdict: VERDICTS[type] ?? type, kind: object.kind, name, user: by, operation, text, rules, times, key: JSON.stringify([time, type, object, reason, message, by]) };
}

const CAUSES = "Required value|Invalid value|Unsupported value|Duplicate value|Forbidden|Too long|Too many|Not found";
const FIELD = String.raw`[\w.$/-]+(?:\[[^\]]*\][\w.$/-]*)*`;
const NEXT = new RegExp(`, (?=${FIELD}: (?:${CAUSES})\\b|and [0-9]+ more$)`, "g");

/** The mistakes in a refusal, and the words before them, as an API server lists them: `… is invalid: [a: …, b: …]`. */
export function mistakesIn(text) {
  const [, head, list] = /^(.*? is invalid: )(.*)$/s.exec(text) ?? [];
  if (list === undefined) return { head: "", mistakes: [text] };
  const bare = list.startsWith("[") ? list.slice(1).replace(/\]$/, "") : list; // a long list is cut, and has no end
  return { head, mistakes: bare.split(NEXT) };
}

/** The messages of an entry, a line for each mistake. */
function messages(text) {
  const { head, mistakes } = mistakesIn(localTimes(text));
  if (mistakes.length < 2) return h("p", { class: "log-messages" }, head, mistakes[0]);
  return h("div", { class: "log-messages" }, head, h("ul", { class: "mistakes" }, mistakes.map((one) => h("li", {}, one))));
}

const words = (one) => [one.user, one.kind, one.name, one.operation, one.verdict, ...one.rules, one.text].join(" ").toLowerCase();

function content(one) {
  return [
    h("span", { class: "log-head" },
      pill(one.verdict, one.verdict === "refused" ? "bad" : "warn"), " ",
      h("b", {}, one.name || "(generated name)"), " ",
      h("span", { class: "detail" }, `${one.operation} ${one.kind} by ${one.user || "an unknown user"}${one.times > 1 ? `, ${number(one.times)} times` : ""}`), " ",
      h("span", { class: "log-when" }, h("time", { datetime: new Date(one.at).toISOString() }, moment(one.at)), " · ", ticking(one.at, "", " ago"))),
    messages(one.text),
    one.rules.length ? h("p", { class: "detail" }, `by ${one.rules.length === 1 ? "rule" : "rules"} `, one.rules.flatMap((rule, index) => [index ? ", " : "", refer(rule)])) : null,
  ].filter(Boolean);
}

/** The panel. */
export class LogView {
  constructor({ body, sub }) {
    Object.assign(this, { body, sub, items: null, shown: FIRST });
    this.toolbar = new Toolbar("Admission log", [
      { key: "q", kind: "search", title: "Search the log", any: "name, user, rule, message" },
      { key: "state", kind: "select", title: "Verdict", any: "any" },
      { key: "kind", kind: "select", title: "Kind", any: "any" },
      { key: "rule", kind: "select", title: "Rule", any: "any" },
      { key: "sort", kind: "select", title: "Order", any: "latest first" },
    ]);
    this.toolbar.offer("sort", [["at", "earliest first"], ["user", "user"], ["object", "object"]]);
    this.list = h("ol", { class: "log" });
    this.note = h("p", { class: "quiet", hidden: true }, "No entry matches.");
    this.scope = h("p", { class: "quiet" }, "Refusals by the schema or CEL rules of a CustomResourceDefinition are not listed: the API server refuses those writes before it calls harbormaster.");
    this.more = h("button", { type: "button", class: "more", onclick: () => { this.shown += FIRST; this.render(); } });
  }

  /** Show the answer of `GET /v1/history` with refusals and warnings, the latest first. */
  show(document) {
    this.document = document;
    this.items = document?.items.map(read) ?? null;
    this.render();
  }

  /** The viewer may not read the history. */
  deny(message) {
    this.items = null;
    say(this.sub, "");
    if (isNews(this.body, message)) this.body.replaceChildren(h("p", { class: "callout warn" }, `You may not read the history: ${message}`));
  }

  render() {
    const { items, body, sub } = this;
    if (!items) return;
    if (!items.length) {
      say(sub, "");
      if (isNews(body, "empty")) body.replaceChildren(h("p", { class: "quiet" }, this.document.kept ? "No recent refusals or warnings of admission." : "This server keeps no history: HARBORMASTER_HISTORY_DAYS is 0."), this.scope);
      return;
    }
    if (isNews(body, "list")) body.replaceChildren(this.toolbar.element, this.list, this.note, this.more, this.scope);
    this.toolbar.offer("state", counted(tally(items, (one) => one.verdict, ["refused", "warned"])));
    this.toolbar.offer("kind", counted(tally(items, (one) => one.kind)));
    this.toolbar.offer("rule", counted(tally(items.flatMap((one) => one.rules), (rule) => rule)));
    const { q, state, kind, rule, sort } = this.toolbar.read();
    const wanted = terms(q);
    const found = sorted(items.filter((one) => (!state || one.verdict === state) && (!kind || one.kind === kind) && (!rule || one.rules.includes(rule)) && hasAll(words(one), wanted)), sort, {
      at: (one) => one.at, user: (one) => one.user, object: (one) => `${one.kind} ${one.name}`,
    });
    patchList(this.list, found.slice(0, this.shown), (one) => one.key, () => h("li"), (element, one) => {
      if (isNews(element, [one.at, one.times])) element.replaceChildren(...content(one));
    });
    this.note.hidden = found.length > 0;
    this.more.hidden = found.length <= this.shown;
    say(this.more, `Show ${number(Math.min(FIRST, found.length - this.shown))} more of ${number(found.length)}`);
    const matching = address().query.size && found.length < items.length ? `; ${number(found.length)} match` : "";
    say(sub, `the last ${count(items.length, "answer")} other than plain approvals${matching}`);
  }
}
