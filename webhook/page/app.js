/** The page: reads the API, follows its events, keeps the selected placement in the address. */

import { ApiError, SignInError, ask, follow, paced, placementPath } from "./api.js";
import { BudgetsView, budgetsCard } from "./budgets.js";
import { retime, serverNow, ticking } from "./clock.js";
import { ClusterView } from "./cluster.js";
import { h, isNews, patchList, say } from "./dom.js";
import { FleetView } from "./fleet.js";
import { PlacementView } from "./placement.js";
import { PlacementsView } from "./placements.js";
import { RunView, RunsView, mostUrgent, runPath } from "./runs.js";
import { token } from "./session.js";
import { SignIn } from "./sign_in.js";
import { showSummary } from "./summary.js";

const by = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 700px)");
const still = matchMedia("(prefers-reduced-motion: reduce)");

const state = {
  clusters: null,
  placements: null,
  budgets: null,
  runs: null,
  run: null, // the selected run in full
  cluster: null, // the cluster in the address in full
  selected: "", // the ref of the placement in the address, or the chosen default
  selectedRun: "", // the ref of a run in the same way
  problems: new Map(), // path → message
  connection: { state: "connecting", retryAt: 0 },
  revision: null,
  changedAt: null, // when the hub was last seen to change, in ms of its clock
  missed: false, // changes came while the page was hidden
  hurry: null, // aborts the reading of a placement that is no longer selected
};

const signIn = new SignIn(() => {
  reopen();
  for (const again of [askClusters, askPlacements, askDetail, askBudgets, askRuns]) again.now();
});
const fleet = new FleetView({ body: by("fleet-body"), sub: by("fleet-sub"), filter: by("fleet-filter"), firstRows: () => (narrow.matches ? 6 : 25) });
const placements = new PlacementsView({ body: by("placements-body"), sub: by("placements-sub"), firstRows: () => (narrow.matches ? 8 : 50) });
const budgets = new BudgetsView({
  body: by("budgets-body"), sub: by("budgets-sub"), filter: by("budgets-filter"), span: by("budgets-span"),
  firstRows: () => (narrow.matches ? 3 : 6), onWish: (typing) => (typing ? askCalendars() : askCalendars.now()),
});
const detail = new PlacementView({
  title: by("placement-title"), sub: by("placement-sub"), json: by("placement-json"), body: by("placement-body"),
  firstRows: () => (narrow.matches ? 12 : 15),
});
const runs = new RunsView({ body: by("runs-body"), sub: by("runs-sub"), firstRows: () => (narrow.matches ? 4 : 12) });
const run = new RunView({
  title: by("run-title"), sub: by("run-sub"), json: by("run-json"), body: by("run-body"), firstRows: () => (narrow.matches ? 6 : 10),
});

const cluster = new ClusterView({
  panel: by("cluster"), title: by("cluster-title"), sub: by("cluster-sub"), json: by("cluster-json"), body: by("cluster-body"),
});

const CLUSTER = /^cluster\/[^/]+$/;
const PLACEMENT = /^(crp\/[^/]+|rp\/[^/]+\/[^/]+)$/;
const RUN = /^((csur|cuprun)\/[^/]+|sur\/[^/]+\/[^/]+)$/;

/** The ref in the address if it has the form of `pattern`, else `""`. */
function addressed(pattern) {
  let text;
  try {
    text = decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
  return pattern.test(text) ? text : "";
}

function listed(ref) {
  return state.placements?.find((placement) => placement.ref === ref);
}

/** The placement in the address; else that of the run there; else the one shown; else the first that needs a look; else the first. */
function choose() {
  const wish = addressed(PLACEMENT) || listedRun(addressed(RUN))?.placement;
  if (wish) return wish;
  if (listed(state.selected)) return state.selected;
  const items = state.placements ?? [];
  return (items.find((p) => p.why) ?? items[0])?.ref ?? "";
}

function listedRun(ref) {
  return state.runs?.find((one) => one.ref === ref);
}

/** The run in the address; else the latest of the placement there; else the one shown; else the most urgent. */
function chooseRun() {
  const wish = addressed(RUN);
  if (wish) return wish;
  const placement = addressed(PLACEMENT);
  const own = placement && (listedRun(state.selectedRun)?.placement === placement ? listedRun(state.selectedRun) : state.runs?.find((one) => one.placement === placement));
  if (own) return own.ref;
  return listedRun(state.selectedRun) ? state.selectedRun : mostUrgent(state.runs ?? [])?.ref ?? "";
}

/** Show the runs; where there are none, and none is asked for, nothing of them is to be seen. */
function renderRuns() {
  if (!state.runs) return;
  const isEmpty = !state.runs.length && !addressed(RUN);
  by("runs").hidden = by("runs-link").hidden = isEmpty;
  if (isEmpty) return;
  runs.show(state.runs, state.selectedRun);
  const known = listedRun(state.selectedRun);
  if (known) run.show(state.run?.ref === known.ref ? { ...state.run, ...known } : known);
  else run.showNothing(`There is no update run ${state.selectedRun} (any more).`);
}

/** The name of the cluster in the address, or `""`. */
const addressedCluster = () => addressed(CLUSTER).slice("cluster/".length);

function renderCluster() {
  const name = addressedCluster();
  if (!name) return cluster.hide();
  const known = state.clusters?.items.find((one) => one.name === name);
  if (known) cluster.show(state.cluster?.name === name ? state.cluster : known);
  else cluster.showNothing(state.clusters ? `There is no member cluster ${name} (any more).` : "Reading the cluster…");
}

function render() {
  renderRuns();
  renderCluster();
  showSummary(by("summary"), state.clusters?.items ?? null, state.placements, state.runs, budgetsCard(state.budgets, budgets.calendars));
  fleet.show(state.clusters);
  placements.show(state.placements, state.selected, state.runs);
  if (state.placements) {
    const placement = listed(state.selected);
    if (placement) detail.show(placement, state.runs);
    else detail.showNothing(state.selected ? `There is no placement ${state.selected} (any more).` : "Nothing to explain yet.");
  }
  if (wished && state.clusters && state.placements && (wished !== "budgets" || state.budgets) && (wished !== "runs" || state.runs)) {
    goTo(wished);
    wished = null;
  }
  document.title = listed(state.selected) ? `${listed(state.selected).name} · harbormaster` : "harbormaster";
}

/** The view that a link of another page leads to: `/#placements-title`; it is gone to once there is something to see. */
let wished = ["fleet", "placements", "runs", "budgets"].find((view) => location.hash === `#${view}-title`) ?? null;

function goTo(view) {
  by(view).scrollIntoView({ behavior: still.matches ? "auto" : "smooth", block: "start" });
  by(`${view}-title`).focus({ preventScroll: true });
}

/** Note, or take back, what is wrong with a part of the API. */
function problem(path, message) {
  if (message) state.problems.set(path, message);
  else state.problems.delete(path);
  patchList(by("problems"), [...state.problems], ([key]) => key,
    () => h("p", { class: "problem", role: "alert" }),
    (element, [key, words]) => say(element, `${key} cannot be read: ${words}`));
}

async function reading(path, task) {
  try {
    await task();
    problem(path, "");
  } catch (error) {
    if (error instanceof SignInError) stranger(error);
    else if (error instanceof ApiError) problem(path, inWords(error));
    throw error;
  }
}

/** Why something cannot be read, and what happens next. */
function inWords(error) {
  if (error.status === 403) return error.message;
  return `${error.message}. What is shown may be out of date; trying again.`;
}

/**
 * Show the sign-in form, unless the viewer has meanwhile signed in with another token: the refusal of a request that was
 * sent with the old one must not sign the viewer out again.
 */
function stranger(error) {
  if (error.token === token()) signIn.show(error);
}

const askClusters = paced(() => reading("/v1/clusters", async () => {
  state.clusters = (await ask("/v1/clusters")).document;
  render();
  if (addressedCluster()) askCluster();
}));

const askCluster = paced(() => reading("/v1/clusters", async () => {
  const name = addressedCluster();
  if (!name) return;
  try {
    state.cluster = (await ask(`/v1/clusters/${encodeURIComponent(name)}`)).document;
  } catch (error) {
    if (error.status !== 404) throw error;
    state.cluster = null;
  }
  renderCluster();
}));

const askPlacements = paced(() => reading("/v1/placements", async () => {
  const items = (await ask("/v1/placements")).document.items;
  announce(state.placements, items);
  const known = listed(state.selected);
  state.placements = items;
  if (!known && listed(state.selected)) askDetail.now(); // it could not be asked for before it was listed
  select(choose());
  render();
}));

/** Budgets change with the clock and with nodes, for which there are no events: so the page polls them. */
const askBudgets = paced(() => reading("/v1/budgets", async () => {
  const { document: overview } = await ask("/v1/budgets");
  state.budgets = overview;
  budgets.show(overview);
  render();
  askCalendars();
}));

const askCalendars = paced(() => reading("/v1/budgets/calendar", async () => {
  try {
    for (const path of budgets.paths()) budgets.add((await ask(path)).document);
  } catch (error) {
    if (error.status !== 404) throw error;
    askBudgets(); // a pool has gone since the list was read
  }
  render();
}));

const askRuns = paced(() => reading("/v1/runs", async () => {
  const { items } = (await ask("/v1/runs")).document;
  announceRuns(state.runs, items);
  state.runs = items;
  selectRun();
  select(choose());
  render();
  if (listedRun(state.selectedRun)) askRun();
}));

const askRun = paced(() => reading("/v1/runs", async () => {
  const ref = state.selectedRun;
  if (!listedRun(ref)) return;
  try {
    const { document } = await ask(runPath(ref));
    if (state.selectedRun === ref) state.run = document;
  } catch (error) {
    if (error.status !== 404) throw error;
    askRuns(); // it has gone since the list was read
  }
  renderRuns();
}));

/** Choose the run to show, and read it if it is another than before. */
function selectRun() {
  const ref = chooseRun();
  if (ref === state.selectedRun) return;
  state.selectedRun = ref;
  if (listedRun(ref)) askRun.now();
}

const LOOK_AGAIN = 30000; // ms
const NOW_MOVES = 5000; // ms

setInterval(() => {
  if (!document.hidden) for (const view of [run.timeline, detail.timeline]) view.advance();
}, NOW_MOVES);

setInterval(() => {
  if (!document.hidden && state.budgets) askBudgets();
}, LOOK_AGAIN);

const askDetail = paced(async () => {
  const placement = listed(state.selected);
  if (!placement) return;
  const { ref, kind, namespace, name } = placement;
  state.hurry = new AbortController();
  const { signal } = state.hurry;
  const question = { placement: { ref: namespace ? { kind, namespace, name } : { kind, name } } };
  const [whole, explanation] = await Promise.allSettled([ask(placementPath(ref), { signal }), ask("/v1/explain", { body: question, signal })]);
  if (state.selected !== ref) return;
  if (whole.status === "fulfilled" && listed(ref)) detail.show({ ...listed(ref), ...whole.value.document }, state.runs);
  if (explanation.status === "fulfilled") detail.explain(explanation.value.document, explanation.value.text);
  else detail.cannotExplain(explanation.reason.message);
  for (const outcome of [whole, explanation]) {
    if (outcome.status !== "rejected") continue;
    if (outcome.reason instanceof SignInError) stranger(outcome.reason);
    throw outcome.reason;
  }
});

function select(ref) {
  if (ref === state.selected) return;
  state.selected = ref;
  state.hurry?.abort();
  askDetail.now();
}

addEventListener("hashchange", () => {
  select(choose());
  selectRun();
  if (addressedCluster()) askCluster.now();
  render();
  const panel = by(addressedCluster() ? "cluster" : addressed(RUN) ? "run" : "placement");
  const { top } = panel.getBoundingClientRect();
  if (top > innerHeight * 0.7 || top < 0) panel.scrollIntoView({ behavior: still.matches ? "auto" : "smooth", block: "start" });
});

/** Announce what has changed about the placements since the last reading, for screen readers. */
function announce(before, after) {
  if (!before) return;
  const known = new Map(before.map((p) => [p.ref, p]));
  const news = after.filter((p) => {
    const was = known.get(p.ref);
    return !was || was.state !== p.state || was.picked !== p.picked;
  });
  const gone = before.filter((p) => !after.some((q) => q.ref === p.ref));
  const words = [...news.map((p) => `${p.name}: ${p.state}, picked ${p.picked}`), ...gone.map((p) => `${p.name}: deleted`)];
  if (words.length) say(by("news"), words.slice(0, 3).join("; ") + (words.length > 3 ? ` and ${words.length - 3} more` : ""));
}

/** Announce what runs wait for, and how they ended, for screen readers. */
function announceRuns(before, after) {
  if (!before) return;
  const known = new Map(before.map((one) => [one.ref, one.state]));
  const news = after.filter((one) => known.get(one.ref) !== one.state).map((one) => `run ${one.name}: ${one.state}${one.waits.length ? `, ${one.waits[0].message}` : ""}`);
  if (news.length) say(by("news"), news.slice(0, 3).join("; "));
}

/** Note the hub's revision. A stream begins with the present one; that event alone is no change. */
function note(revision) {
  if (state.revision !== null && revision !== state.revision) state.changedAt = serverNow();
  state.revision = revision;
  by("live").dataset.revision = revision;
  showConnection();
}

const changed = ticking(serverNow(), "last change ", " ago");

function showConnection() {
  const { state: name, retryAt } = state.connection;
  by("live").dataset.state = name;
  const isDated = name === "live" && state.changedAt !== null;
  if (isDated) retime(changed, state.changedAt);
  const soon = retryAt > Date.now() ? ` in ${Math.ceil((retryAt - Date.now()) / 1000)} s` : "";
  const words = { connecting: "connecting", live: "live", "signed-out": "not signed in", disconnected: `disconnected, retrying${soon}` }[name];
  if (isNews(by("live-text"), [words, isDated])) by("live-text").replaceChildren(words, ...(isDated ? [" · ", changed] : []));
}

setInterval(() => state.connection.state === "disconnected" && showConnection(), 1000);

// Only the plain listener, which is on this machine, needs no credentials.
by("open-to-all").hidden = location.protocol !== "http:";

const reopen = follow(
  (change) => {
    note(change.revision);
    if (document.hidden) {
      state.missed = true;
      return;
    }
    const touched = change.placements ?? [];
    if (change.clusters) {
      askClusters();
      askRuns(); // an upgrade is a run through clusters
    }
    if (touched.length) {
      askPlacements();
      askRuns();
    }
    if (change.clusters || touched.includes(state.selected)) askDetail();
  },
  (name, retryAt, error) => {
    if (error) stranger(error);
    const spoken = { live: "connected", disconnected: "disconnected, retrying" }[name];
    if (spoken && state.connection.state !== name && state.connection.state !== "connecting") say(by("news"), spoken);
    state.connection = { state: name, retryAt };
    showConnection();
  },
);

// A link cannot send a token: for a viewer who has signed in, the page fetches the document and shows it.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.('a[href^="/v1/"]');
  if (!link || !token()) return;
  event.preventDefault();
  const target = event.ctrlKey || event.metaKey || link.target === "_blank" ? "_blank" : "_self";
  const path = link.getAttribute("href");
  try {
    await reading(path, async () => {
      const { text } = await ask(path);
      window.open(URL.createObjectURL(new Blob([text], { type: "application/json" })), target);
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error; // said already
  }
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) askBudgets();
  if (document.hidden || !state.missed) return;
  state.missed = false;
  for (const again of [askClusters, askPlacements, askDetail, askRuns]) again();
});

narrow.addEventListener("change", () => {
  render();
  detail.explanation.render();
  for (const view of [run.timeline, detail.timeline]) view.render();
  askCalendars();
});

// The anchors of the top bar scroll, and leave the address to the selected placement.
for (const link of document.querySelectorAll("[data-goto]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    goTo(link.dataset.goto);
  });
}

// The top bar marks the view that is on the screen.
const views = ["fleet", "placements", "runs", "budgets"];
const inView = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
  const current = views.find((id) => inView.has(id)) ?? "fleet";
  for (const link of document.querySelectorAll("nav [data-goto]")) {
    if (link.dataset.goto === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}, { rootMargin: "-80px 0px -55% 0px" });
for (const id of views) watcher.observe(by(id));

for (const again of [askClusters, askPlacements, askBudgets, askRuns]) again();
