/**
 * The address: which view is shown, of what, and how it is searched, filtered, sorted and grouped.
 *
 * `#fleet?q=eu&state=silent&sort=-nodes&group=env`, `#placement/crp/payments`, `#cluster/bravelion`, `#runs/csur/web-3`.
 * Everything that a reader has chosen is in it: reload, links, back and forward lead to the same sight.
 */

export const VIEWS = ["fleet", "placement", "cluster", "runs", "budgets", "timeline", "reference"];

const PLACEMENT = /^(crp\/[^/]+|rp\/[^/]+\/[^/]+)$/;
const RUN = /^((csur|cuprun)\/[^/]+|sur\/[^/]+\/[^/]+)$/;
const PATHS = { placement: PLACEMENT, runs: RUN, cluster: /^[^/]+$/, reference: /^[^/]+$/ };

/** What if, and what is unfolded: about this placement or cluster, and not about the next one. */
const OF_SUBJECT = ["n", "lost", "tolerate", "on", "section", "clusters", "objects"];
const KIND_OF = { crp: "ClusterResourcePlacement", rp: "ResourcePlacement", csur: "ClusterStagedUpdateRun", sur: "StagedUpdateRun", cuprun: "ClusterUpgradeRun" };

const handlers = [];

/** The parameters of an address of earlier releases, which had `#log` with refusals and warnings alone. */
function ofLog(query) {
  const { q = "", state = "", kind = "", rule = "" } = Object.fromEntries(query);
  const type = { refused: "refusal", warned: "warning" }[state] ?? "admission";
  return new URLSearchParams(Object.entries({ q, type, kind, reason: rule }).filter(([, value]) => value));
}

/** The view, what it is of (`""`: nothing in particular), and its parameters; what cannot be read is the fleet. */
export function address() {
  const [left, right = ""] = location.hash.slice(1).split(/\?(.*)/s);
  let text = "";
  try {
    text = decodeURIComponent(left);
  } catch {
    // the fleet then
  }
  const query = new URLSearchParams(right);
  if (PLACEMENT.test(text)) return { view: "placement", path: text, query }; // `#crp/payments`: as earlier releases had it
  if (RUN.test(text)) return { view: "runs", path: text, query };
  const [, view, path] = /^([^/]*)\/?(.*)$/s.exec(text);
  if (view === "log") return { view: "timeline", path: "", query: ofLog(query) };
  if (!VIEWS.includes(view) || (view === "cluster" && !path)) return { view: "fleet", path: "", query };
  return { view, path: PATHS[view]?.test(path) ? path : "", query };
}

/** The link to a view. */
export function href(view, path = "", parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `#${view}${path ? `/${path}` : ""}${query ? `?${query}` : ""}`;
}

/** The link to something else in the same view, seen in the same way, or to the same with other `parameters`. */
export function beside(view, path, parameters = {}) {
  const here = address();
  const kept = here.view === view ? Object.fromEntries([...here.query].filter(([key]) => !OF_SUBJECT.includes(key))) : {};
  return href(view, path, { ...kept, ...parameters });
}

/** The link to the timeline of a placement or a run: `crp/web`, `sur/shop/web-3`. */
export function timelineOf(ref) {
  const [prefix, ...parts] = ref.split("/");
  return href("timeline", "", { kind: KIND_OF[prefix], ns: parts.length > 1 ? parts[0] : "", name: parts.at(-1) });
}

/**
 * Change parameters of the view that is shown; `""` takes one away. Back leads to the view before, not through each change.
 * `path` names what the view has chosen by itself.
 */
export function change(parameters, path = address().path) {
  const { view, query } = address();
  history.replaceState(history.state, "", href(view, path, { ...Object.fromEntries(query), ...parameters }));
  for (const handler of handlers) handler();
}

/** Call `handler` whenever the address has changed; without an event if the page itself has changed it. */
export function onAddress(handler) {
  handlers.push(handler);
  addEventListener("hashchange", handler);
}

/** Write the address of a view that has another name since. */
export function renew() {
  const { view, path, query } = address();
  if (/^#log(\?|$)/.test(location.hash)) history.replaceState(history.state, "", href(view, path, Object.fromEntries(query)));
}
