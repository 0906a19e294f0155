/** The page: reads the API, follows its events, and shows the view that the address names. */

import { address, beside, change as changeAddress, onAddress, renew } from "./address.js";
import { ApiError, SignInError, ask, askAll, follow, paced, placementPath } from "./api.js";
import { BudgetsView, budgetsCard } from "./budgets.js";
import { retime, serverNow, ticking } from "./clock.js";
import { ClusterView } from "./cluster.js";
import { h, isNews, say } from "./dom.js";
import { FleetView, regionKey } from "./fleet.js";
import { HistoryView } from "./history.js";
import { MapView } from "./map.js";
import { PlacementView } from "./placement.js";
import { PlacementsView } from "./placements.js";
import { EVENTS, Problems } from "./problems.js";
import { ReferenceView } from "./reference.js";
import { RunView, RunsView, mostUrgent, runPath } from "./runs.js";
import { labelKeys } from "./selection.js";
import { SearchView } from "./search.js";
import { isOpenToMachine } from "./server.js";
import { token } from "./session.js";
import { SignIn } from "./sign_in.js";
import { showSummary } from "./summary.js";
import { Wanted, merged } from "./wanted.js";
import { ZONE } from "./zone.js";

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
  isOutside: false, // the filter leaves the selected placement out
  selectedRun: "", // the ref of a run in the same way
  connection: { state: "connecting", retryAt: 0 },
  revision: null,
  changedAt: null, // when the hub was last seen to change, in ms of its clock
  missed: false, // changes came while the page was hidden
  hurry: null, // aborts the reading of a placement that is no longer selected
  historyAt: 0, // when the history of the cluster was read last
};

const problems = new Problems(by("problems"));
const wanted = { clusters: new Wanted(), placements: new Wanted() };

const signIn = new SignIn(() => {
  reopen();
  for (const again of [askClusters, askPlacements, askDetail, askBudgets, askRuns, askCluster, askHistory]) again.now();
});
const fleet = new FleetView({ body: by("fleet-body"), sub: by("fleet-sub"), firstRows: () => (narrow.matches ? 6 : 25) });
const map = new MapView({ body: by("map-body"), sub: by("map-sub") });
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
const cluster = new ClusterView({ title: by("cluster-title"), sub: by("cluster-sub"), json: by("cluster-json"), body: by("cluster-body") });
const past = new HistoryView({ body: by("history-body"), sub: by("history-sub"), json: by("history-json"), hub: () => state });
const reference = new ReferenceView({ body: by("reference-body"), sub: by("reference-sub") });

const search = new SearchView({
  dialog: by("search"), shortcuts: by("shortcuts"), isReady: () => !signIn.open,
  read: () => ({ ...state, reference: reference.items }),
  prepare: () => reference.load().then(() => search.render(), () => {}), // without the terms, everything else is found
});
by("search-button").addEventListener("click", () => search.open());
by("shortcuts-button").addEventListener("click", () => search.showShortcuts());

const isShown = (view) => address().view === view;
const pathOf = (view) => (isShown(view) ? address().path : "");

function listed(ref) {
  return state.placements?.find((placement) => placement.ref === ref);
}

/**
 * The placement in the address; else that of the run there; else, of those that match the filter, the one shown, the first
 * that needs attention, or the first.
 */
function choose() {
  const wish = pathOf("placement") || listedRun(pathOf("runs"))?.placement;
  if (wish) return wish;
  const items = isShown("placement") ? placements.matching(state.placements ?? []) : state.placements ?? [];
  if (items.some((p) => p.ref === state.selected)) return state.selected;
  return (items.find((p) => p.why) ?? items[0])?.ref ?? "";
}

function listedRun(ref) {
  return state.runs?.find((one) => one.ref === ref);
}

/** The run in the address; else, of those that match the filter, the one shown or the most urgent. */
function chooseRun() {
  const wish = pathOf("runs");
  if (wish) return wish;
  const items = isShown("runs") ? runs.matching(state.runs ?? []) : state.runs ?? [];
  return items.some((one) => one.ref === state.selectedRun) ? state.selectedRun : mostUrgent(items)?.ref ?? "";
}

const outside = (name) => `${name} does not match the filter.`;

function renderRuns() {
  if (!state.runs) return;
  const isEmpty = !state.runs.length && !pathOf("runs");
  by("run").hidden = isEmpty;
  runs.show(state.runs, state.selectedRun);
  if (isEmpty) return;
  const known = listedRun(state.selectedRun);
  if (!state.selectedRun) run.showNothing("Nothing matches the filter.");
  else if (!known) run.showNothing(`Run ${state.selectedRun} does not exist or was deleted.`);
  else if (!runs.matching([known]).length) run.showNothing(outside(`Run ${known.name}`));
  else run.show(state.run?.ref === known.ref ? { ...state.run, ...known } : known, state.runs);
  if (known) openAt(by("run"));
}

function renderCluster() {
  const name = pathOf("cluster");
  const known = state.clusters?.find((one) => one.name === name);
  if (known && state.cluster?.name === name) cluster.show(state.cluster);
  else if (state.clusters && !known) cluster.showNothing(`Member cluster ${name} does not exist or was deleted.`);
  else cluster.showNothing(["/v1/clusters", CLUSTER].some((path) => problems.isDenied(path)) ? NO_RIGHT : "Loading the cluster…");
}

function renderFleet() {
  const clusters = state.clusters;
  if (!clusters) return;
  fleet.show(clusters);
  const keys = labelKeys(clusters);
  by("map").hidden = !keys.length;
  if (!keys.length) return;
  const key = address().query.get("map") || regionKey(clusters);
  const choice = by("map-key");
  if (isNews(choice, [keys, key])) choice.replaceChildren(...(keys.some(([one]) => one === key) ? keys : [[key, 0], ...keys]).map(([one, values]) => h("option", { value: one }, `${one} (${values})`)));
  choice.value = key;
  map.show(clusters, key);
}

const PATIENCE = 10000; // ms after the page was opened; then what is there is shown
setTimeout(() => isShown("fleet") && render(), PATIENCE + 50);

function renderSummary() {
  const all = ["clusters", "placements", "runs", "budgets"].every((part) => state[part] || problems.has(`/v1/${part}`));
  if (!all && performance.now() < PATIENCE) return; // cards that come one by one would push each other and the fleet around
  document.querySelector("[data-view=fleet]").classList.remove("opening");
  showSummary(by("summary"), state.clusters, state.placements, state.runs, budgetsCard(state.budgets, budgets.calendars));
}

function renderPlacements() {
  placements.show(state.placements, state.selected, state.runs);
  if (!state.placements) return;
  by("placement-panel").hidden = false;
  const placement = listed(state.selected);
  const isOutside = placement !== undefined && !placements.matching([placement]).length;
  if (state.isOutside && !isOutside) askDetail.now();
  state.isOutside = isOutside;
  if (isOutside) detail.showNothing(outside(`Placement ${placement.name}`));
  else if (placement) detail.show(placement, state.runs);
  else detail.showNothing(state.selected ? `Placement ${state.selected} does not exist or was deleted.` : state.placements.length ? "Nothing matches the filter." : "Nothing to explain yet.");
  if (placement) openAt(by("placement-panel"));
}

const RENDER = {
  fleet: () => { renderSummary(); renderFleet(); },
  placement: renderPlacements,
  cluster: renderCluster,
  runs: renderRuns,
  budgets: () => budgets.render(),
  timeline: () => past.render(),
  reference: () => reference.render(),
};
const TITLES = { fleet: "Fleet", placement: "Placements", cluster: "Cluster", runs: "Update runs", budgets: "Disruption budgets", timeline: "Timeline", reference: "Reference" };

/** Show the view of the address, and nothing else. */
function render() {
  const { view, path } = address();
  for (const section of document.querySelectorAll("main > [data-view]")) section.hidden = section.dataset.view !== view;
  for (const link of document.querySelectorAll("nav [data-views]")) {
    if (link.dataset.views.split(" ").includes(view)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  say(by("view-title"), TITLES[view]);
  const subject = path.slice(path.lastIndexOf("/") + 1);
  document.title = [subject || TITLES[view], "harbormaster"].join(" · ");
  RENDER[view]();
}

/** Record why a part of the API cannot be read; null: it can. */
function problem(path, error) {
  problems.record(path, error);
  showConnection();
}

async function reading(path, task) {
  try {
    const cost = await task();
    problem(path, null);
    return cost;
  } catch (error) {
    if (error instanceof SignInError) stranger(error);
    else if (error instanceof ApiError) problem(path, error);
    if (error.status === 403) deny(path);
    throw error;
  }
}

const CLUSTER = "/v1/clusters/{name}";
const NO_RIGHT = "You have no right to list these objects.";

/** Replace "Loading…" in the place of what the viewer may not read. */
function deny(path) {
  for (const waiting of document.querySelectorAll(`[data-waits-for="${path}"]`)) {
    say(waiting, NO_RIGHT);
    waiting.classList.add("nothing");
  }
  if (isShown("cluster")) renderCluster();
  renderSummary();
}

/**
 * Show the sign-in form, unless the viewer has meanwhile signed in with another token: the refusal of a request that was
 * sent with the old one must not sign the viewer out again.
 */
function stranger(error) {
  if (error.token === token()) signIn.show(error);
}

/** Read a list: all of it, or the items that have changed. Returns it, and what that cost. */
async function readList(path, by_, keyOf, before, wish) {
  const names = wish.take();
  try {
    if (!before || names === null) {
      const { items, bytes } = await askAll(path);
      return { items, bytes };
    }
    if (!names.length) return { items: before, bytes: 0 };
    const query = new URLSearchParams(names.map((name) => [by_, name]));
    const { document, bytes } = await ask(`${path}?${query}`);
    return { items: merged(before, names, document.items, keyOf), bytes };
  } catch (error) {
    wish.all();
    throw error;
  }
}

const askClusters = paced(() => reading("/v1/clusters", async () => {
  const { items, bytes } = await readList("/v1/clusters", "name", (one) => one.name, state.clusters, wanted.clusters);
  const wasListed = state.clusters?.some((one) => one.name === pathOf("cluster"));
  state.clusters = items;
  if (!wasListed) askCluster.now();
  render();
  return bytes;
}));

const HISTORY_AGE = 60000; // ms

const askCluster = paced(() => reading(CLUSTER, async () => {
  const name = pathOf("cluster");
  if (!state.clusters?.some((one) => one.name === name)) return 0; // it is asked for once it is listed
  let cost = 0;
  try {
    const { document, bytes } = await ask(`/v1/clusters/${encodeURIComponent(name)}`);
    cost += bytes;
    if (cluster.history?.cluster !== name || performance.now() - state.historyAt > HISTORY_AGE) {
      state.historyAt = performance.now();
      cost += await cluster.read(name);
    }
    state.cluster = document;
  } catch (error) {
    if (error.status !== 404) throw error;
    state.cluster = null;
  }
  if (isShown("cluster")) renderCluster();
  return cost;
}));

const askPlacements = paced(() => reading("/v1/placements", async () => {
  const { items, bytes } = await readList("/v1/placements", "ref", (one) => one.ref, state.placements, wanted.placements);
  announce(state.placements, items);
  const known = listed(state.selected);
  state.placements = items;
  if (!known && listed(state.selected)) askDetail.now(); // it could not be asked for before it was listed
  select(choose());
  render();
  return bytes;
}));

/** Budgets change with the clock and with nodes, for which there are no events: so the page polls them. */
const askBudgets = paced(() => reading("/v1/budgets", async () => {
  const { document: overview, bytes } = await ask("/v1/budgets");
  state.budgets = overview;
  budgets.show(overview);
  askCalendars();
  render();
  return bytes;
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
  const { document, bytes } = await ask("/v1/runs");
  announceRuns(state.runs, document.items);
  state.runs = document.items;
  selectRun();
  select(choose());
  render();
  if (listedRun(state.selectedRun)) askRun();
  return bytes;
}));

const askRun = paced(() => reading("/v1/runs/{ref}", async () => {
  const ref = state.selectedRun;
  if (!isShown("runs") || !listedRun(ref)) return 0;
  let cost = 0;
  try {
    const { document, bytes } = await ask(runPath(ref));
    cost = bytes;
    if (state.selectedRun === ref) state.run = document;
  } catch (error) {
    if (error.status !== 404) throw error;
    askRuns(); // it has gone since the list was read
  }
  if (isShown("runs")) renderRuns();
  return cost;
}));

const HISTORY = "/v1/history";

const askHistory = paced(async () => {
  if (!isShown("timeline")) return 0;
  try {
    return await reading(HISTORY, () => past.read());
  } catch (error) {
    if (error.status === 403) {
      problem(HISTORY, null); // said in place of the list
      past.deny(error.message);
    }
    throw error;
  }
});

const askReference = paced(async () => {
  if (isShown("reference")) await reading("/ui/reference.json", () => reference.read());
  return 0;
});

/** Choose the run to show, and read it if it is another than before. */
function selectRun() {
  const ref = chooseRun();
  if (ref === state.selectedRun) return;
  state.selectedRun = ref;
  if (listedRun(ref)) askRun.now();
}

const NOW_MOVES = 5000; // ms
const LOOK_AGAIN = 30000; // ms; for what changes with the clock or without an event
const LOOK_AT_ALL = 60000; // ms; a member that falls silent makes no event

setInterval(() => {
  if (document.hidden) return;
  for (const view of [run.timeline, detail.timeline]) view.advance();
  askHistory();
}, NOW_MOVES);

setInterval(() => {
  if (!document.hidden && state.budgets) askBudgets();
}, LOOK_AGAIN);

setInterval(() => {
  if (document.hidden) return;
  wanted.clusters.all();
  askClusters();
}, LOOK_AT_ALL);

const askDetail = paced(async () => {
  const placement = listed(state.selected);
  if (!placement || !isShown("placement") || state.isOutside) return 0;
  const { ref, kind, namespace, name } = placement;
  state.hurry = new AbortController();
  const { signal } = state.hurry;
  const question = { placement: { ref: namespace ? { kind, namespace, name } : { kind, name } } };
  const [whole, explanation] = await Promise.allSettled([ask(placementPath(ref), { signal }), ask("/v1/explain", { body: question, signal })]);
  if (state.selected !== ref) return 0;
  if (whole.status === "fulfilled" && listed(ref)) detail.show({ ...listed(ref), ...whole.value.document }, state.runs);
  if (explanation.status === "fulfilled") detail.explain(explanation.value.document, explanation.value.text);
  else detail.cannotExplain(explanation.reason.message);
  for (const outcome of [whole, explanation]) {
    if (outcome.status !== "rejected") continue;
    if (outcome.reason instanceof SignInError) stranger(outcome.reason);
    throw outcome.reason;
  }
  return whole.value.bytes + explanation.value.bytes;
});

function select(ref) {
  if (ref === state.selected) return;
  state.selected = ref;
  state.hurry?.abort();
  askDetail.now();
}

let shown = address();

/** What the address has come to name is read and shown; what it named before may wait. */
onAddress((event) => {
  renew();
  const { view, path, query } = address();
  const before = shown;
  shown = { view, path, query };
  if (before.path && !path) state[view === "runs" ? "selectedRun" : "selected"] = ""; // back to where none was chosen
  select(choose());
  selectRun();
  if (view === "cluster" && (before.view !== view || before.path !== path)) askCluster.now();
  if (view !== before.view) {
    if (view === "placement") askDetail.now();
    if (view === "runs") askRun.now();
    if (view !== "timeline") problem(HISTORY, null);
    if (view === "reference") askReference.now();
  }
  if (view === "timeline") {
    if (view !== before.view) askHistory.now();
    else askHistory();
  }
  if (view === "budgets") askCalendars();
  render();
  if (view !== before.view || (view === "cluster" && path !== before.path)) arrive(view);
  else if (event && path && path !== before.path && view !== "reference") bring(by(view === "runs" ? "run" : "placement-panel"));
});

/** A reader who comes to a view by a link begins at its top; one who goes back, where they were. */
function arrive(view) {
  scrollTo(0, history.state?.top ?? 0);
  if (history.state?.top === undefined) by(`${HEADINGS[view]}-title`).focus({ preventScroll: true });
}

const HEADINGS = { placement: "placements", fleet: "fleet", cluster: "cluster", runs: "runs", budgets: "budgets", timeline: "history", reference: "reference" };

addEventListener("scrollend", () => history.replaceState({ ...history.state, top: scrollY }, ""));

let isOpening = true;

/** Bring the subject of the link that has opened the page into view: on a narrow screen, its list comes first. */
function openAt(panel) {
  if (isOpening && address().path && history.state?.top === undefined) bring(panel, "auto");
  isOpening = false;
}

function bring(panel, behavior = still.matches ? "auto" : "smooth") {
  const { top } = panel.getBoundingClientRect();
  if (top > innerHeight * 0.7 || top < 0) panel.scrollIntoView({ behavior, block: "start" });
}

by("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names views, and no places in them
  by("main").focus();
});

by("map-key").addEventListener("change", (event) => changeAddress({ map: event.target.value }));

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

/** The state of the connection, or what the viewer has no right to: "live" would promise changes that never come. */
function connectionName() {
  const name = state.connection.state;
  if (name === "signed-out") return name;
  if (problems.isLockedOut) return "no-access";
  return problems.isWithoutEvents ? "no-events" : name;
}

function showConnection() {
  const { retryAt } = state.connection;
  const name = connectionName();
  by("live").dataset.state = name;
  const isDated = name === "live" && state.changedAt !== null;
  if (isDated) retime(changed, state.changedAt);
  const soon = retryAt > Date.now() ? ` in ${Math.ceil((retryAt - Date.now()) / 1000)}s` : "";
  const words = { connecting: "connecting", live: "live", "signed-out": "not signed in", "no-access": "no access", "no-events": "no live updates", disconnected: `disconnected, retrying${soon}` }[name];
  if (isNews(by("live-text"), [words, isDated])) by("live-text").replaceChildren(words, ...(isDated ? [" · ", changed] : []));
}

setInterval(() => state.connection.state === "disconnected" && showConnection(), 1000);

by("open-to-all").hidden = !isOpenToMachine;
say(by("zone"), `Times are in ${ZONE}.`);

const reopen = follow(
  (change) => {
    note(change.revision);
    if (document.hidden) {
      state.missed = true;
      return;
    }
    const touched = change.placements ?? [];
    if (change.clusters) {
      wanted.clusters.add(change.clusterNames ?? null);
      askClusters();
      if (!change.clusterNames || change.clusterNames.includes(pathOf("cluster"))) askCluster();
    }
    if (touched.length) {
      wanted.placements.add(touched);
      askPlacements();
    }
    if (change.runs) askRuns();
    if (change.clusters || touched.includes(state.selected)) askDetail();
    if (touched.includes(state.selected)) detail.refresh();
  },
  (name, retryAt, error) => {
    if (error instanceof SignInError) stranger(error);
    problems.record(EVENTS, error?.status === 403 ? error : null);
    if (name === "live") {
      for (const one of Object.values(wanted)) one.all(); // what has been missed meanwhile is not known
      signIn.greet(); // another tab may have signed in somebody else
    }
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
  for (const one of Object.values(wanted)) one.all();
  for (const again of [askClusters, askPlacements, askDetail, askRuns, askCluster]) again();
});

narrow.addEventListener("change", () => {
  render();
  detail.explanation.render();
  for (const view of [run.timeline, detail.timeline]) view.render();
  askCalendars();
});

if (!location.hash) history.replaceState(history.state, "", beside("fleet", ""));
renew();
render();
for (const again of [askClusters, askPlacements, askBudgets, askRuns, askCluster, askHistory, askReference]) again();
