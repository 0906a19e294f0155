/**
 * The address: which view is shown, of what, and how it is searched, filtered, sorted and grouped.
 *
 * `#fleet?q=eu&state=silent&sort=-nodes&group=env`, `#placement/crp/payments`, `#cluster/bravelion`, `#runs/csur/web-3`.
 * Everything that a reader has chosen is in it: reload, links, back and forward lead to the same sight.
 */

export const VIEWS = ["fleet", "placement", "cluster", "runs", "budgets", "log", "reference"];

const PLACEMENT = /^(crp\/[^/]+|rp\/[^/]+\/[^/]+)$/;
const RUN = /^((csur|cuprun)\/[^/]+|sur\/[^/]+\/[^/]+)$/;
const PATHS = { placement: PLACEMENT, runs: RUN, cluster: /^[^/]+$/, reference: /^[^/]+$/ };

const handlers = [];

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
  if (!VIEWS.includes(view) || (view === "cluster" && !path)) return { view: "fleet", path: "", query };
  return { view, path: PATHS[view]?.test(path) ? path : "", query };
}

/** The link to a view. */
export function href(view, path = "", parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `#${view}${path ? `/${path}` : ""}${query ? `?${query}` : ""}`;
}

/** The link to something else in the same view, seen in the same way. */
export function beside(view, path) {
  const here = address();
  return href(view, path, here.view === view ? Object.fromEntries(here.query) : {});
}

/** Change parameters of the view that is shown; `""` takes one away. Back leads to the view before, not through each change. */
export function change(parameters) {
  const { view, path, query } = address();
  history.replaceState(history.state, "", href(view, path, { ...Object.fromEntries(query), ...parameters }));
  for (const handler of handlers) handler();
}

/** Call `handler` whenever the address has changed. */
export function onAddress(handler) {
  handlers.push(handler);
  addEventListener("hashchange", handler);
}
