/**
 * What if: a request to `/v1/plan`, and the response as clusters before and after. Nothing is written.
 *
 * The plan is made by the engine that decides, for the hub as it is now. The question is in the address, so that a link asks
 * it again.
 */

import { ask } from "./api.js";
import { address, change, href } from "./address.js";
import { serverNow } from "./clock.js";
import { h, whileGrowing } from "./dom.js";
import { count, number } from "./format.js";
import { localTimes, moment } from "./zone.js";

const NAMED = 12;
const MOST_PLACEMENTS = 50;
const MOST_LINES = 8;

const some = (names) => (names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${number(names.length - NAMED)} more` : names.join(", "));

function moves(placement) {
  const { gained, lost } = placement.moves;
  return [
    lost.length ? h("span", { class: "moves lost" }, h("span", { class: "unseen" }, "loses "), h("span", { "aria-hidden": true }, "− "), some(lost)) : null,
    gained.length ? h("span", { class: "moves gained" }, h("span", { class: "unseen" }, "gains "), h("span", { "aria-hidden": true }, "+ "), some(gained)) : null,
  ].filter(Boolean);
}

/** Before and after of one placement, in numbers. */
function numbers({ before, picked, wanted }) {
  const [had, has] = [before.length, picked.length];
  return `${number(had)} → ${number(has)}${wanted === null ? "" : ` of ${number(wanted)}`}`;
}

const refOf = ({ name, namespace }) => (namespace ? `rp/${namespace}/${name}` : `crp/${name}`);

const fullName = ({ name, namespace }) => (namespace ? `${namespace}/${name}` : name);

const REMOVALS = {
  Pending: "kept until the removal is confirmed", Confirmed: "removed, as confirmed", Warned: "removed without a confirmation",
  Removed: "removed", Orphaned: "kept, as the namespace is deleted",
};

const withDigest = (words, digest) => (digest ? `${words} (digest ${digest})` : words);

/** What the numbers of a placement lack: evictions, content that leaves or remains, waits and failures. */
function rolloutLines({ evictions = [], removals = [], contentRemovals = [], waits = [], failures = [], blocked, steps = [] }) {
  return [
    ...evictions.filter((one) => !one.executed).map((one) => ["why", `not evicted from ${one.cluster}: ${localTimes(one.message)}`]),
    ...removals.map((one) => ["detail", withDigest(`${one.cluster} keeps its content: ${localTimes(one.message)}`, one.digest)]),
    ...contentRemovals.map((one) => [one.verdict === "Pending" ? "detail" : "why", withDigest(`${REMOVALS[one.verdict] ?? one.verdict}: ${one.effect}`, one.verdict === "Pending" ? one.digest : "")]),
    ...waits.map((one) => ["detail", `${one.cluster} waits: ${localTimes(one.message)}`]),
    ...(failures.length ? [["why", `fails on ${some(failures.map((one) => one.cluster))}: ${localTimes(failures[0].message)}`]] : []),
    ...(blocked ? [["detail", `the rollout is blocked: ${localTimes(blocked.message)}`]] : steps.length ? [["detail", `in ${count(steps.length, "step")}`]] : []),
  ];
}

/** The first lines of a list, and how many more there are. */
function cut(items, make, most = MOST_LINES) {
  const rest = items.length - most;
  return [...items.slice(0, most).map(make), ...(rest > 0 ? [h("span", { class: "quiet" }, `and ${number(rest)} more`)] : [])];
}

function row(placement) {
  return h("li", {},
    h("span", { class: "whatif-head" }, h("a", { href: href("placement", refOf(placement)) }, refOf(placement)), " ", h("span", { class: "num" }, numbers(placement))),
    moves(placement),
    placement.satisfied ? null : h("span", { class: "why" }, localTimes(placement.message)),
    cut(rolloutLines(placement.rollout ?? {}), ([tone, words]) => h("span", { class: tone }, words)));
}

const PHASES = { New: "would start", UnderWay: "continues", Pending: "waits", Refused: "cannot start", Aborted: "would end", Over: "is over" };

/** A staged update run or an upgrade run: what it does next, and what it then waits for. */
function runRow(run, ref, waits, end) {
  return h("li", {},
    h("span", { class: "whatif-head" }, h("a", { href: href("runs", ref) }, fullName(run)), " ", h("span", { class: "detail" }, [PHASES[run.phase] ?? run.phase, run.kubernetesVersion].filter(Boolean).join(" · "))),
    run.finding ? h("span", { class: "why" }, localTimes(run.finding.message)) : null,
    run.next.length ? h("span", {}, `next: ${some(run.next)}`) : null,
    cut(waits, (words) => h("span", { class: "detail" }, words)),
    end ? h("span", { class: "detail" }, `expected to finish ${moment(Date.parse(end))}`) : null,
    cut(run.assumptions, (words) => h("span", { class: "detail" }, words)));
}

function stagedRow(run) {
  const approvals = run.stages.flatMap((stage) => stage.tasks.filter((task) => task.type === "Approval" && !task.done).map((task) => `approval ${task.place.toLowerCase()} stage ${stage.name}: ${task.request}`));
  return runRow(run, run.namespace ? `sur/${run.namespace}/${run.name}` : `csur/${run.name}`, approvals, run.earliestFinish);
}

const MOVED = { Upgrade: "is upgraded", Skip: "is skipped", Blocked: "can never start", Fail: "fails", NotReached: "is not reached" };

function upgradeRow(run) {
  const members = (run.plan?.members ?? []).filter((one) => one.action !== "Upgrade").map((one) => `${one.name} ${MOVED[one.action] ?? one.action}${one.reason ? `: ${one.reason}` : ""}`);
  return runRow(run, `cuprun/${run.name}`, members, run.plan?.eta);
}

/** What the plan does not cover, and what it assumes. */
function limits(document) {
  const { notJudged = [], hidden = [], unread = [], assumed = [] } = document;
  const missing = [
    ...notJudged.map((one) => `not judged: ${one.kind} (${number(one.count)})`),
    ...hidden.map((one) => `left out, as you may not list its kind or its snapshots: ${one.kind} ${fullName(one)}`),
    ...(unread.length ? [`not read, as these kinds cannot be listed: ${unread.join(", ")}`] : []),
  ];
  return [
    document.complete === false ? h("div", { class: "callout warn", role: "note" }, h("p", {}, "This plan is incomplete."), cut(missing, (words) => h("p", {}, words))) : null,
    assumed.length ? h("p", { class: "detail" }, `Assumed to be rolled out, as the hub has no resource snapshots of them: ${some(assumed.map(refOf))}`) : null,
  ].filter(Boolean);
}

/** When the plan was made, and that the address repeats the question. */
function planned() {
  return h("p", { class: "detail" }, `Planned ${moment(serverNow())}. Open this address again to recompute the plan.`);
}

/** A titled list of the rows of a plan; without rows, nothing. */
function part(title, items, make) {
  if (!items.length) return [];
  return [
    title ? h("h4", {}, title) : null,
    h("ul", { class: "whatif-rows" }, items.slice(0, MOST_PLACEMENTS).map(make)),
    items.length > MOST_PLACEMENTS ? h("p", { class: "quiet" }, `and ${number(items.length - MOST_PLACEMENTS)} more`) : null,
  ].filter(Boolean);
}

/** The answer: the verdict of admission, everything that would change, and what the plan does not cover. */
function answer(document) {
  const refused = (document.admission ?? []).filter((one) => one.allowed === false);
  if (refused.length) return [h("p", { class: "callout bad" }, `Admission would refuse it: ${refused.flatMap((one) => (one.errors ?? []).map((error) => `${error.field}: ${error.message}`)).join("; ") || "no reason given"}`)];
  const changed = document.placements.filter((one) => one.changed || one.moves.gained.length || one.moves.lost.length || one.rollout?.contentRemovals?.length);
  const [runs, upgrades] = [document.runs ?? [], document.upgrades ?? []].map((all) => all.filter((one) => one.changed));
  const outcomes = document.outcomes ?? [];
  const short = changed.filter((one) => !one.satisfied);
  const moved = changed.reduce((sum, one) => sum + one.moves.lost.length, 0);
  const words = [
    changed.length ? `${count(changed.length, "placement")} would change, ${count(moved, "binding")} would be removed${short.length ? `, ${count(short.length, "placement")} would have too few clusters` : ""}` : "",
    runs.length ? `${count(runs.length, "update run")} would change` : "",
    upgrades.length ? `${count(upgrades.length, "upgrade run")} would change` : "",
  ].filter(Boolean).join("; ");
  return [
    h("p", { class: `callout ${short.length ? "warn" : ""}` }, words ? `${words}.` : document.complete === false ? "No changes found." : "Nothing would change."),
    ...limits(document),
    ...part("", [...changed].sort((a, b) => a.satisfied - b.satisfied), row),
    ...part("Update runs", runs, stagedRow),
    ...part("Upgrade runs", upgrades, upgradeRow),
    ...part("Outcomes", outcomes, (one) => h("li", {}, h("span", {}, `${one.kind} ${fullName(one)}: ${localTimes(one.message)}`))),
  ];
}

/**
 * A request with its controls; `question()` returns the body of `/v1/plan`, or a promise of it. `path()` returns the path of
 * the address for the subject, `read()` the parameters for what the controls say, and `take(parameters)` sets the controls.
 */
export class WhatIf {
  constructor({ name, controls, question, path, read, take, label = "Show the plan" }) {
    Object.assign(this, { question, path, read, take });
    this.asked = 0;
    this.followed = ""; // the parameters that were asked last
    this.button = h("button", { type: "submit", class: "act" }, label);
    this.result = h("div", { class: "whatif-result", "aria-live": "polite" });
    this.form = h("form", { class: "whatif-form", "aria-label": name, onsubmit: (event) => { event.preventDefault(); this.submit(); } }, controls, this.button);
    this.element = h("div", { class: "whatif" }, this.form, this.result);
  }

  /** Forget the last answer. */
  reset() {
    this.asked += 1;
    this.followed = "";
    this.result.replaceChildren();
  }

  /** Ask what the controls say, write it into the address, and bring the answer into view. */
  async submit() {
    const parameters = this.read();
    this.followed = JSON.stringify(parameters);
    change(parameters, this.path());
    await this.ask();
    this.result.scrollIntoView({ block: "nearest" });
  }

  /** Ask what the address says, once. */
  async follow() {
    const { path, query } = address();
    if (path !== this.path()) return;
    const parameters = Object.fromEntries(Object.keys(this.read()).map((key) => [key, query.get(key) ?? ""]));
    const text = JSON.stringify(parameters);
    if (text === this.followed || !Object.values(parameters).some(Boolean)) return;
    this.followed = text;
    this.take(parameters);
    await this.ask();
    // Once now, and again if what is above it is loaded later.
    whileGrowing(this.element.closest(".panel"), () => { this.element.scrollIntoView({ block: "nearest" }); });
  }

  async ask() {
    const turn = this.asked += 1;
    this.button.disabled = true;
    this.result.replaceChildren(h("p", { class: "quiet" }, "Planning…"));
    try {
      const { document } = await ask("/v1/plan", { body: await this.question() });
      if (turn === this.asked) this.result.replaceChildren(...answer(document), planned());
    } catch (error) {
      if (turn === this.asked) this.result.replaceChildren(h("p", { class: "problem" }, `No plan: ${error.message}`));
    } finally {
      this.button.disabled = false;
    }
  }
}
