/**
 * The timeline of the fleet: decisions, rollouts, actions of users, refusals and warnings, the latest first and by day.
 *
 * The server filters and pages, so that a link with a filter shows the same entries however old they are. Labels are not in
 * the history: those of placements and clusters that still exist filter what has been read.
 */

import { address, change, href } from "./address.js";
import { ask } from "./api.js";
import { serverNow, ticking } from "./clock.js";
import { h, isNews, patchList, pill, say } from "./dom.js";
import { number } from "./format.js";
import { pillOf, refer } from "./reference.js";
import { grouped, labelPairs, labelTest } from "./selection.js";
import { Toolbar } from "./toolbar.js";
import { DAY, clock, dayOf, local, localTimes, moment } from "./zone.js";

const PAGE = 200; // entries per request
const MOST = 2000; // entries that are kept in the page
const API = "/v1/history";

/** What may be chosen as `type`: the types of the API in lower case, and `admission` for two of them. */
const TYPES = [
  ["decision", "decisions"], ["rollout", "rollouts and runs"], ["action", "actions of users"], ["admission", "refusals and warnings"],
  ["refusal", "refusals"], ["warning", "warnings"], ["gate", "denied disruptions"], ["event", "other Events"],
];
const TYPES_OF = { admission: ["refusal", "warning"] };

/** Parameters of the address, and what they are called in the API. */
const PARAMETERS = { q: "q", ns: "namespace", by: "by", kind: "kind", reason: "reason", name: "name", id: "id" };

const RUNS = { ClusterStagedUpdateRun: "csur", StagedUpdateRun: "sur", ClusterUpgradeRun: "cuprun" };
const PLACEMENTS = { ClusterResourcePlacement: "crp", ResourcePlacement: "rp" };

/** Pill and tone per type. */
const KINDS = { Decision: ["decision", "good"], Rollout: ["rollout", "busy"], Refusal: ["refused", "bad"], Warning: ["warned", "warn"], Gate: ["denied", "warn"], Event: ["event", "calm"] };

const VERDICTS = new Set(["refused", "warned"]); // they have a paragraph in the reference

/** The same for actions, per reason. */
const ACTIONS = {
  PlacementCreated: ["created", "calm"], PlacementChanged: ["changed", "calm"], PlacementDeleted: ["deleted", "warn"],
  ContentAbandoned: ["abandoned", "warn"], RemovalConfirmed: ["confirmed", "warn"], ConfirmationChanged: ["confirmation", "warn"],
  RunCreated: ["created", "calm"], RunStarted: ["started", "busy"], RunStopped: ["stopped", "warn"], RunResumed: ["resumed", "busy"],
  RunUndone: ["undone", "warn"], RunPartsSkipped: ["skipped", "warn"], RunDeleted: ["deleted", "warn"],
  ApprovalGiven: ["approved", "good"], ApprovalRejected: ["rejected", "bad"],
  MemberCreated: ["created", "calm"], MemberCordoned: ["cordoned", "warn"], MemberUncordoned: ["uncordoned", "good"], MemberDeleted: ["deleted", "warn"],
};

/** Reasons of the steps between the start and the end of a rollout, or of a join: shown on demand. */
const STEPS = new Set([
  "PlacementScheduled", "PlacementOverriddenSucceeded", "PlacementWorkSynchronized", "PlacementApplied", "PlacementAvailable",
  "InternalMemberClusterCreated", "InternalMemberClusterSpecUpdated", "NamespaceCreated", "RoleCreated", "RoleBindingCreated", "MemberClusterReadyToJoin",
]);

const SHORT = /\bfound ([\d,]+) of (?!\1 )[\d,]+ clusters?\b/; // in a decision that picked fewer clusters than requested

/** The tone of a rollout or of an Event, from its reason. */
function toneOf(reason, usual) {
  if (/(Succeeded|Successfully|Completed|Available|Cleared)$/.test(reason)) return "good";
  if (/Failed|Stalled|Stuck|Not|Invalid|Refused|TooLarge/.test(reason)) return "bad";
  return /Waiting|Pending|Stopp|Needed|Changed|Removed|Warn|Kept|Left|Remain|Bypassed|Silent|Blocked/.test(reason) ? "warn" : usual;
}

/** What a message says beyond the pill and the reason beside it. */
function beyond(text, word, reason) {
  if (text === word || text === reason) return "";
  return reason && text.endsWith(`: ${reason}`) ? text.slice(0, -reason.length - 2) : text;
}

/** The ref of a placement or a run, as the API names it: `crp/web`, `sur/shop/web-3`; `""` for other objects. */
function refOf({ kind, namespace, name }) {
  const prefix = RUNS[kind] ?? PLACEMENTS[kind];
  return prefix && name ? [prefix, namespace, name].filter(Boolean).join("/") : "";
}

/** Where the page shows an object; `""`: nowhere. */
function linkOf(object) {
  if (object.kind in PLACEMENTS) return href("placement", refOf(object));
  if (object.kind in RUNS) return href("runs", refOf(object));
  if (object.kind === "MemberCluster") return href("cluster", object.name);
  return object.kind === "NodePool" ? href("budgets", "", { q: object.name }) : "";
}

/** An entry of `GET /v1/history`, in the words of this view. */
function read(entry) {
  const { id, time, lastTime, type, object, reason, message, by = "", count: times = 1 } = entry;
  const isVerdict = type === "Refusal" || type === "Warning";
  const [, operation = "", text = message] = (isVerdict && /^([a-z]+): (.*)$/s.exec(message)) || [];
  const [word, tone] = ACTIONS[reason] && type === "Action" ? ACTIONS[reason] : KINDS[type] ?? [type.toLowerCase(), "calm"];
  const all = reason.split(/,\s*/);
  const shown = isVerdict || type === "Action" || type === "Decision" ? "" : reason;
  const rules = isVerdict ? all.filter((one) => /^[A-Z]+-[0-9]+$/.test(one)) : [];
  return {
    id, at: Date.parse(lastTime ?? time), type, object, user: by, operation, text: beyond(text, word, reason), rules, reasons: all, times, reason: shown,
    word: type === "Rollout" && object.kind in RUNS ? "run" : word, tone: type === "Rollout" || type === "Event" ? toneOf(reason, tone) : type === "Decision" && SHORT.test(message) ? "warn" : tone,
    name: object.namespace ? `${object.namespace}/${object.name}` : object.name, isStep: STEPS.has(reason),
  };
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

function content(one) {
  const link = linkOf(one.object);
  const name = one.name || "(generated name)";
  const isByUser = one.user || ["Action", "Refusal", "Warning"].includes(one.type);
  const about = [[one.operation, one.object.kind].filter(Boolean).join(" "), isByUser ? ` by ${one.user || "an unknown user"}` : "", one.reason ? ` · ${one.reason}` : "", one.times > 1 ? `, ${number(one.times)} times` : ""];
  return [
    h("span", { class: "log-head" },
      VERDICTS.has(one.word) ? pillOf(one.word) : pill(one.word, one.tone), " ", link ? h("a", { href: link }, h("b", {}, name)) : h("b", {}, name), " ",
      h("span", { class: "detail" }, about.join("")), " ",
      h("span", { class: "log-when" },
        h("a", { href: href("timeline", "", { id: one.id }), title: `Link to this entry, ${moment(one.at)}` }, h("time", { datetime: new Date(one.at).toISOString() }, clock(one.at))),
        ...(serverNow() - one.at < DAY ? [" · ", ticking(one.at, "", " ago")] : []))),
    one.text ? messages(one.text) : null,
    one.rules.length ? h("p", { class: "detail" }, `by ${one.rules.length === 1 ? "rule" : "rules"} `, one.rules.flatMap((rule, index) => [index ? ", " : "", refer(rule)])) : null,
  ].filter(Boolean);
}

const dayKey = ({ at }) => `${dayOf(at)} ${local(at).year}`;

/** The panel. `hub()` returns what else the page has read: `{ placements, runs, clusters }`. */
export class HistoryView {
  constructor({ body, sub, json, hub }) {
    Object.assign(this, { body, sub, json, hub, from: null, isDenied: false });
    this.entries = new Map(); // id → entry
    this.seen = { ns: new Set(), by: new Set(), kind: new Set(), reason: new Set() }; // whatever the filter: to be chosen
    this.toolbar = new Toolbar("Timeline", [
      { key: "q", kind: "search", title: "Search the timeline", any: "name, user, rule, message" },
      { key: "type", kind: "select", title: "Entries", any: "all" },
      { key: "ns", kind: "select", title: "Namespace", any: "any" },
      { key: "label", kind: "pairs", title: "Label", any: "team=web" },
      { key: "by", kind: "select", title: "User", any: "any" },
      { key: "kind", kind: "select", title: "Kind", any: "any" },
      { key: "reason", kind: "select", title: "Rule or reason", any: "any" },
    ]);
    this.toolbar.offer("type", TYPES);
    this.only = h("p", { class: "callout", hidden: true });
    this.steps = h("p", { class: "quiet", hidden: true });
    this.days = h("div", { class: "days" });
    this.note = h("p", { class: "quiet", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.older() }, "Show older entries");
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.scope = h("p", { class: "quiet log-scope" }, "Entries about kinds that you may not list are not shown. Actions are recorded when admission accepts them. Refusals by the schema or CEL rules of a CustomResourceDefinition are not listed: the API server refuses those writes before it calls harbormaster.");
  }

  /** What to ask the server for: the first page of what the address filters. */
  path() {
    const { query } = address();
    const asked = new URLSearchParams({ limit: PAGE });
    const type = query.get("type") ?? "";
    for (const one of TYPES_OF[type] ?? (type ? [type] : [])) asked.append("type", one);
    for (const [own, theirs] of Object.entries(PARAMETERS)) if (query.get(own)) asked.set(theirs, query.get(own));
    return `${API}?${asked}`;
  }

  /** Read the latest entries; returns what that cost. */
  async read() {
    const path = this.path();
    const { document, bytes } = await ask(path);
    if (path === this.path()) this.take(path, document);
    return bytes;
  }

  /** Take a first page. Pages that were read before remain, unless there is a gap or they have another filter. */
  take(path, document) {
    const joins = path === this.from && (!document.more || document.items.some(({ id }) => this.entries.has(id)));
    if (!joins) {
      this.entries = new Map();
      Object.assign(this, { token: document.continue, hasOlder: document.more });
    }
    Object.assign(this, { from: path, isKept: document.kept, isDenied: false });
    this.add(document.items);
  }

  add(items) {
    for (const item of items) {
      const one = read(item);
      this.entries.set(one.id, one);
      if (one.object.namespace) this.seen.ns.add(one.object.namespace);
      if (one.user) this.seen.by.add(one.user);
      this.seen.kind.add(one.object.kind);
      for (const reason of one.reasons) this.seen.reason.add(reason);
    }
    this.render();
  }

  /** Read the page behind the oldest entry. */
  async older() {
    const { from, token } = this;
    this.more.disabled = true;
    try {
      const { document } = await ask(`${from}&continue=${encodeURIComponent(token)}`);
      if (from !== this.from || token !== this.token) return;
      Object.assign(this, { token: document.continue, hasOlder: document.more });
      this.problem.hidden = true;
      this.add(document.items);
    } catch (error) {
      this.problem.hidden = false;
      say(this.problem, `Older entries cannot be read: ${error.message}`);
    } finally {
      this.more.disabled = false;
    }
  }

  /** The viewer may not read the history. */
  deny(message) {
    this.isDenied = true;
    this.from = null;
    say(this.sub, "");
    if (isNews(this.body, message)) this.body.replaceChildren(h("p", { class: "callout warn" }, `You may not read the history: ${message}`));
  }

  /** The labels of the object of an entry, or of the placement of a run; none if it does not exist now. */
  labelsOf({ object }) {
    const { placements, runs, clusters } = this.hub();
    if (object.kind === "MemberCluster") return clusters?.find(({ name }) => name === object.name)?.labels;
    const ref = refOf(object);
    const placement = object.kind in RUNS ? runs?.find((run) => run.ref === ref)?.placement : ref;
    return placement && placements?.find((one) => one.ref === placement)?.labels;
  }

  offer() {
    const { placements, clusters } = this.hub();
    for (const [key, values] of Object.entries(this.seen)) this.toolbar.offer(key, [...values].sort().map((value) => [value, value]));
    this.toolbar.offer("label", labelPairs([...(placements ?? []), ...(clusters ?? [])]).map((pair) => [pair, pair]));
  }

  render() {
    this.json.href = this.path();
    if (this.from === null || this.isDenied) return;
    if (isNews(this.body, "list")) this.body.replaceChildren(this.toolbar.element, this.only, this.steps, this.days, this.note, this.problem, this.more, this.scope);
    this.offer();
    const { label } = this.toolbar.read();
    this.showOnly();
    const all = [...this.entries.values()].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    const fits = labelTest(label);
    const fitting = label ? all.filter((one) => fits(this.labelsOf(one))) : all;
    const found = this.withoutSteps(fitting);
    const byDay = new Map(grouped(found, dayKey));
    const days = [...new Set(found.map(dayKey))]; // the latest first
    patchList(this.days, days, (day) => day,
      (day) => h("section", { "aria-label": day }, h("h3", { class: "day" }), h("ol", { class: "log" })),
      (section, day) => {
        const items = byDay.get(day);
        const [title, list] = section.children;
        say(title, local(items[0].at).year === local(serverNow()).year ? dayOf(items[0].at) : day);
        patchList(list, items, (one) => one.id, () => h("li"), (element, one) => {
          if (isNews(element, [one.at, one.times])) element.replaceChildren(...content(one));
        });
      });
    this.showEnd(all, found, label);
  }

  /** Leave out steps, unless they are asked for, and offer them. */
  withoutSteps(all) {
    const { query } = address();
    const [isWhole, isAsked] = [query.get("steps") === "all", ["id", "reason"].some((key) => query.get(key))];
    const hidden = all.filter(({ isStep }) => isStep).length;
    this.steps.hidden = isAsked || !hidden;
    if (isNews(this.steps, [isWhole, hidden])) {
      const words = isWhole ? "With all steps of rollouts and joins. " : `Without ${number(hidden)} intermediate ${hidden === 1 ? "step" : "steps"} of rollouts and joins. `;
      this.steps.replaceChildren(words, h("button", { type: "button", class: "plain-button", onclick: () => change({ steps: isWhole ? "" : "all" }) }, isWhole ? "Hide" : "Show"));
    }
    return isWhole || isAsked ? all : all.filter(({ isStep }) => !isStep);
  }

  /** Name the entry or the object that the address is limited to. */
  showOnly() {
    const { query } = address();
    const [id, name] = [query.get("id"), query.get("name")];
    this.only.hidden = !id && !name;
    if (this.only.hidden || !isNews(this.only, [id, name, [...query]])) return;
    const rest = Object.fromEntries([...query].filter(([key]) => !["id", "name"].includes(key) && !(name && ["kind", "ns"].includes(key))));
    const words = id ? "This link leads to a single entry. " : `Only entries about ${[query.get("kind"), query.get("ns") ? `${query.get("ns")}/${name}` : name].filter(Boolean).join(" ")}. `;
    this.only.replaceChildren(words, h("a", { href: href("timeline", "", rest) }, "Show all"));
  }

  showEnd(all, found, label) {
    const isFiltered = this.from !== `${API}?limit=${PAGE}`;
    const mayHaveMore = this.hasOlder && all.length < MOST;
    this.more.hidden = !mayHaveMore;
    const words = found.length ? (this.hasOlder && !mayHaveMore ? `The page shows the latest ${number(MOST)} entries. Narrow the filter to see older ones.` : "")
      : !this.isKept ? "This server keeps no history: HARBORMASTER_HISTORY_DAYS is 0."
        : label && all.length ? `None of the entries that have been read (${number(all.length)}) is about an object with this label.` : isFiltered ? "No entry matches." : "Nothing has happened yet.";
    this.note.hidden = !words;
    say(this.note, words);
    const oldest = all.at(-1);
    say(this.sub, !oldest ? "" : `${found.length === 1 ? "1 entry" : `${number(found.length)} entries`}${this.hasOlder ? `, back to ${moment(oldest.at)}` : ""}`);
  }
}
