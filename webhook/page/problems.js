/** What the page cannot read: a banner for each reason, and one for all missing rights together. */

import { h, isNews, patchList, say } from "./dom.js";

const LISTS = ["/v1/clusters", "/v1/placements", "/v1/runs", "/v1/budgets"]; // what every view is made of
export const EVENTS = "/v1/events";
const REFUSAL = /^(.+) may not (\w+ \S+)$/; // the server's words: `"ann" may not get /v1/clusters`
const GUIDE = "https://harbormaster.dev/docs/asking-from-elsewhere.html#who-may-ask";

const isDenied = (error) => error?.status === 403;

/** Group errors for one banner each: missing rights, and failures with equal words, which differ in the ID of the request. */
function grouped(found) {
  const groups = new Map();
  for (const [path, error] of found) {
    const match = isDenied(error) && REFUSAL.exec(error.detail ?? "");
    const key = match ? "rights" : `${error.status} ${error.detail || error.message}`;
    const group = groups.get(key) ?? { key, paths: [], rights: new Set(), error, user: match ? match[1] : "" };
    group.paths.push(path);
    if (match) group.rights.add(match[2]);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Why something cannot be read, and what happens next. `earlier`: the paths that have been read before. */
function inWords({ paths, error }, earlier) {
  const words = `${[...paths].sort().join(", ")} cannot be read: ${error.message}`;
  if (isDenied(error)) return words;
  return `${words}.${paths.some((path) => earlier.has(path)) ? " The data shown may be out of date." : ""} Retrying…`;
}

function missingRights(user, rights, isLockedOut) {
  return [
    h("p", {}, h("b", {}, `${user} may not read ${isLockedOut ? "this fleet" : "everything on this page"} (403).`),
      rights.length > 1 ? " Missing rights: " : " Missing right: ", rights.flatMap((right, index) => [index ? ", " : "", h("code", {}, right)]), "."),
    h("p", {}, "Ask an administrator of the hub to bind a ClusterRole with these rights to your user or group, such as ", h("code", {}, "placement-reader"),
      " of ", h("a", { href: GUIDE }, "Access to /v1"), ". The page then continues by itself."),
  ];
}

/** The banners at the top of every view. */
export class Problems {
  constructor(box) {
    this.box = box;
    this.found = new Map(); // path → the error of the last reading
    this.earlier = new Set(); // paths that have been read
  }

  /** Record why the last reading of a path failed; null: it did not. */
  record(path, error) {
    if (error) this.found.set(path, error);
    else {
      this.earlier.add(path);
      if (!this.found.delete(path)) return;
    }
    this.render();
  }

  has(path) {
    return this.found.has(path);
  }

  /** Whether the viewer may not read a path. */
  isDenied(path) {
    return isDenied(this.found.get(path));
  }

  /** Whether the viewer may read none of the lists. */
  get isLockedOut() {
    return LISTS.every((path) => this.isDenied(path));
  }

  /** Whether the viewer may not follow the changes of the hub. */
  get isWithoutEvents() {
    return this.isDenied(EVENTS);
  }

  render() {
    patchList(this.box, grouped(this.found), (group) => group.key, () => h("div", { class: "problem", role: "alert" }), (element, group) => {
      if (group.key !== "rights") {
        say(element, inWords(group, this.earlier));
        return;
      }
      const facts = [group.user, [...group.rights].sort(), this.isLockedOut];
      if (isNews(element, facts)) element.replaceChildren(...missingRights(...facts));
    });
  }
}
