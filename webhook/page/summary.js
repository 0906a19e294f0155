/** The cards at the top: sums over what the API says, nothing else. */

import { href } from "./address.js";
import { h, isNews, patchList } from "./dom.js";
import { count, number, tally } from "./format.js";
import { currentRun } from "./runs.js";
import { CLUSTER_STATES, PLACEMENT_STATES, ROLLOUT_STATES } from "./states.js";

/** `1 not joined`, on one line. */
const counted = ([state, n]) => `${number(n)} ${state}`.replaceAll(" ", "\u00a0");

const listed = (pairs) => pairs.map(counted).join(" · ");

/** The same as links to those that are in that state. */
const linked = (pairs, view, states) => pairs.map((pair) => [counted(pair), states.includes(pair[0]) ? href(view, "", { state: pair[0] }) : ""]);

/** The runs that go on only when somebody acts, and what the first of them asks for. */
function asking(runs) {
  const found = (runs ?? []).filter((run) => run.waits.some((wait) => wait.command));
  if (!found.length) return null;
  const first = found.find((run) => run.waits[0].kind === "Approval") ?? found[0];
  const words = first.waits[0].kind === "Approval" ? `approval: ${first.name}, stage ${first.waits[0].stage}` : `${first.name} is ${first.state}`;
  const links = [[words, href("runs", first.ref)], ...(found.length > 1 ? [[counted(["more", found.length - 1]), href("runs")]] : [])];
  return { name: "Waiting for you", value: found.length, words: links.map(([text]) => text).join(" · "), links };
}

function cards(clusters, placements, runs, more) {
  const out = [];
  if (clusters) {
    const states = tally(clusters, (cluster) => cluster.state, CLUSTER_STATES);
    out.push({ name: "Member clusters", value: clusters.length, words: listed(states) || "none has joined yet", links: linked(states, "fleet", CLUSTER_STATES) });
  }
  if (placements) {
    const isMet = (p) => p.satisfied && p.state !== "empty";
    const unmet = tally(placements.filter((p) => !isMet(p)), (p) => (p.state !== "available" ? p.state : p.judgedAgain ? "being reevaluated" : "short"), PLACEMENT_STATES);
    const satisfied = placements.filter(isMet).length;
    const pairs = [["satisfied", satisfied], ...unmet];
    const waiting = placements.filter((p) => p.removalPendingSince).length;
    const words = [...linked(pairs, "placement", placements.map((p) => p.state)), ...(waiting ? [[counted(["removal pending", waiting]), href("placement", "", { q: "removal pending" })]] : [])];
    out.push({ name: "Placements", value: placements.length, words: placements.length ? words.map(([text]) => text).join(" · ") : "none yet", links: placements.length ? words : [] });

    const staged = (runs ?? []).filter((run) => run.placement && run.startedAt !== null && run.endedAt === null);
    const rolling = placements.filter((p) => p.state === "rolling out" || p.state === "stalled" || currentRun(p, staged));
    const byLimits = rolling.filter((p) => !currentRun(p, staged)).flatMap((p) => p.clusters).filter((c) => c.state !== "removing" && c.state !== "removal pending");
    const sum = (key) => staged.reduce((total, run) => total + run[key], 0);
    const updated = byLimits.filter((c) => c.state === "available").length + sum("updated");
    const upgrading = (clusters ?? []).filter((cluster) => cluster.upkeep?.upgrade?.state === "Running").length;
    const underWay = [rolling.length ? `${number(updated)} of ${count(byLimits.length + sum("clusters"), "binding")} updated` : "", upgrading ? `${count(upgrading, "cluster")} being upgraded` : ""];
    out.push({ name: "Rolling out", value: rolling.length, words: underWay.filter(Boolean).join(" · ") || "nothing in progress" });

    const bindings = placements.flatMap((p) => p.clusters);
    const states = tally(bindings, (c) => c.state, ROLLOUT_STATES);
    out.push(asking(runs) ?? { name: "Bindings", value: bindings.length, words: listed(states) || "no cluster picked yet" });
  }
  if (more) out.push(more);
  return out;
}

/** The words of a card; each that has somewhere to lead to, as a link. */
function inWords({ words, links }) {
  if (!links?.length) return words;
  return links.flatMap(([text, to], index) => [index ? " · " : "", to ? h("a", { href: to }, text) : text]);
}

/**
 * Show the cards for the clusters, placements and runs read so far (null = not read yet), and one more when there is one.
 *
 * Where a run waits for somebody, that takes the place of the bindings.
 */
export function showSummary(box, clusters, placements, runs, more = null) {
  patchList(
    box,
    cards(clusters, placements, runs, more),
    (card) => card.name,
    () => h("div", { class: "card" }),
    (element, card) => {
      if (!isNews(element, card)) return;
      element.replaceChildren(
        h("h2", { class: "card-name" }, card.name),
        h("p", { class: "card-value" }, number(card.value)),
        h("p", { class: "card-words", title: card.words }, inWords(card)),
      );
    },
  );
}
