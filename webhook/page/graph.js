/**
 * What belongs to what, and what is unhealthy: a placement, its clusters by state, and the objects on one of them.
 *
 * Nested lists that the style sheet lays out in columns. The objects are read for one cluster at a time.
 */

import { address, change, href } from "./address.js";
import { ApiError, SignInError, ask, paced, placementPath } from "./api.js";
import { h, isNews, patchList, say } from "./dom.js";
import { count, number } from "./format.js";
import { Edges } from "./graph_edges.js";
import { choices, chosen, clusterGroups, objectGroups, objectKey, stateOf } from "./graph_groups.js";
import { pillOf, refer } from "./reference.js";
import { call } from "./server.js";
import { tone } from "./states.js";
import { localTimes } from "./zone.js";

const MOST_PATHS = 3;
const MOST_SELECTED = 12; // objects of a placement that is on no cluster
const READING = "Reading the objects…";
const QUIET = new Set(["available", "applied", "same"]);

/** Let a link lead to an address. */
function aim(link, target) {
  if (link.getAttribute("href") !== target) link.setAttribute("href", target);
}

/** Show a line of words, in full when it is pointed at, or nothing. */
function tell(element, words) {
  element.hidden = !words;
  if (!isNews(element, words)) return;
  element.textContent = words;
  element.title = words;
}

/** The graph of the selected placement. */
export class GraphView {
  constructor() {
    Object.assign(this, { placement: null, clusters: [], ref: "", on: "", tree: null, note: "", limits: new Map() });
    this.heads = h("div", { class: "graph-heads", "aria-hidden": true }, h("span", {}, "Placement"), h("span"), h("span"));
    this.node = h("div", { class: "node of-placement" });
    this.clusterList = h("ul", { class: "graph-clusters" });
    this.objectList = h("ul", { class: "graph-objects" });
    this.own = h("ul", { class: "graph-objects", "aria-label": "Selected objects", hidden: true });
    this.root = h("ul", { class: "graph-root" }, h("li", {}, this.node, this.clusterList, this.own));
    this.board = h("div", { class: "graph-board" }, this.root);
    this.element = h("section", { class: "graph", "aria-label": "Graph" }, this.heads, this.board);
    this.edges = new Edges(this.board, this.objectList, () => this.pairs());
    this.read = paced(() => this.readTree());
    this.isOpen = false;
  }

  /** Show a placement with its clusters, if the graph is what the address names. */
  show(placement, clusters, isOpen) {
    if (this.ref !== placement.ref) Object.assign(this, { ref: placement.ref, placement: null, on: "", tree: null, note: "", limits: new Map() });
    this.placement = { ...this.placement, ...placement }; // the list has less of it
    this.clusters = clusters;
    this.isOpen = isOpen;
    if (!isOpen) return;
    const { on } = this;
    this.on = this.selected();
    if (on !== this.on || (!this.tree && !this.note)) {
      this.tree = null;
      this.note = this.on ? READING : "No cluster is picked.";
      if (this.on) this.read.now();
    }
    this.render();
  }

  /** Something about the placement has changed: what has not is answered without its content. */
  refresh() {
    if (this.isOpen && this.on) this.read();
  }

  /** The cluster whose objects are shown: that in the address, else the one shown, else the first of the worst state. */
  selected() {
    const has = (name) => this.clusters.some((one) => one.cluster === name);
    const wish = address().query.get("on") ?? "";
    if (has(wish)) return wish;
    if (has(this.on)) return this.on;
    return this.groups()[0]?.items[0].cluster ?? "";
  }

  groups(selected = "") {
    return clusterGroups(this.clusters, { choice: choices(address().query.get("clusters")), limits: this.limitsOf("clusters"), selected });
  }

  limitsOf(column) {
    if (!this.limits.has(column)) this.limits.set(column, new Map());
    return this.limits.get(column);
  }

  async readTree() {
    const { ref, on } = this;
    if (!this.isOpen || !on) return 0;
    let bytes = 0;
    let [tree, note] = [null, ""];
    try {
      const answer = await ask(`${placementPath(ref)}/tree/${encodeURIComponent(on)}`);
      ({ document: tree, bytes } = answer);
    } catch (error) {
      if (!(error instanceof ApiError) || error instanceof SignInError) throw error;
      note = error.message;
      if (this.ref === ref && this.on === on && !this.tree) this.keep(null, note);
      if (error.status === 0 || error.status >= 500) throw error; // asked again; what was shown stays
      return 0;
    }
    if (this.ref === ref && this.on === on) this.keep(tree, note);
    return bytes;
  }

  keep(tree, note) {
    Object.assign(this, { tree, note });
    if (this.isOpen) this.render();
  }

  /** Objects of the selected cluster as they were read. */
  objects() {
    const works = (this.tree?.clusters ?? []).flatMap((one) => one.works);
    return works.flatMap((work) => work.objects.map((object) => ({ ...object, work: work.name })));
  }

  /** Why there are no objects to show. */
  emptyWords() {
    if (!this.tree) return this.note;
    if (!this.tree.objectsKnown) return `This server may not read Works. ${call(`tree ${this.ref} --all`)} shows the objects.`;
    return this.tree.clusters.some((one) => one.works.length) ? "The agent has not reported any objects yet." : "Not placed there yet.";
  }

  link(parameters) {
    return href("placement", this.ref, { ...Object.fromEntries(address().query), ...parameters });
  }

  render() {
    const groups = this.groups(this.on);
    const objects = this.objects();
    this.showPlacement();
    this.clusterList.setAttribute("aria-label", "Clusters by state");
    patchList(this.clusterList, groups, (one) => one.state, () => makeGroup(), (element, group) => this.showGroup(element, group, {
      column: "clusters", noun: "cluster", key: (one) => one.cluster, update: (item, one, common) => this.showCluster(item, one, common),
    }));
    this.placeObjects();
    const isEmpty = !objects.length;
    const entries = isEmpty ? [{ state: "", words: this.emptyWords() }] : objectGroups(objects, { choice: choices(address().query.get("objects")), limits: this.limitsOf("objects") });
    patchList(this.objectList, entries, (one) => one.state, (one) => (one.state ? makeGroup() : h("li", {}, h("p", { class: "node quiet" }))), (element, group) => {
      if (!group.state) say(element.firstElementChild, group.words);
      else this.showGroup(element, group, { column: "objects", noun: "object", key: (one) => `${one.work}/${objectKey(one)}`, update: (item, one) => this.showObject(item, one) });
    });
    const [, second, third] = this.heads.children;
    say(second, count(this.clusters.length, "cluster"));
    say(third, this.on ? `${isEmpty ? "Objects" : count(objects.length, "object")} on ${this.on}` : "Objects");
    this.edges.draw();
  }

  showPlacement() {
    const { placement } = this;
    const { name, namespace, state, resourceIndex, overrides } = placement;
    this.node.className = `node of-placement ${tone(state)}`;
    const facts = [this.ref, state, resourceIndex, overrides, String(address().query)];
    if (!isNews(this.node, facts)) return;
    const words = [resourceIndex ? `snapshot ${resourceIndex}` : "", overrides ? count(overrides, "override") : ""].filter(Boolean).join(" · ");
    this.node.replaceChildren(
      h("a", { class: "node-name", href: this.link({ tab: "", on: "", clusters: "", objects: "" }) }, namespace ? `${namespace}/${name}` : name),
      pillOf(state),
      ...(words ? [h("span", { class: "detail" }, words)] : []),
      h("a", { class: "node-more", href: this.link({ tab: "", section: "yaml" }) }, "YAML"),
      h("a", { class: "node-more", href: this.link({ tab: "", section: "release" }) }, "next release"));
  }

  /** A group: its head with the count and the state, its members, and a button for the rest. */
  showGroup(element, group, { column, noun, key, update }) {
    const { state, items, shown, isOpen, hidden, next } = group;
    const [head, list] = element.children;
    const [toggle, slot, why] = head.children;
    const common = items.length > 1 && items.every((one) => one.detail === items[0].detail) ? items[0].detail : "";
    head.className = `node of-group ${tone(state)}`;
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.onclick = () => {
      this.limitsOf(column).delete(state);
      change({ [column]: chosen(address().query.get(column), state, !isOpen) });
    };
    say(toggle, count(items.length, noun));
    if (isNews(slot, state)) slot.replaceChildren(pillOf(state));
    why.hidden = !common;
    say(why, localTimes(common ?? ""));
    list.setAttribute("aria-label", `${count(items.length, noun)}, ${state}`);
    const entries = isOpen && hidden ? [...shown, null] : shown;
    list.hidden = !entries.length;
    patchList(list, entries, (one) => (one ? key(one) : ""), (one) => (one ? h("li", {}, h("div")) : h("li", {}, h("button", { type: "button", class: "node more" }))), (item, one) => {
      if (one) {
        update(item, one, common);
        return;
      }
      item.firstElementChild.onclick = () => { this.limitsOf(column).set(state, next); this.render(); };
      say(item.firstElementChild, `${number(hidden)} more`);
    });
  }

  showCluster(item, { cluster, state, detail, serves }, common) {
    const [node] = item.children;
    node.className = `node of-cluster ${tone(state)}`;
    const words = [common || state === "available" ? "" : localTimes(detail ?? ""), serves === "old" ? "serves the old release" : ""].filter(Boolean).join(" · ");
    if (isNews(node, [cluster])) {
      node.replaceChildren(h("a", { class: "node-name", title: `Objects on ${cluster}` }, cluster),
        h("a", { class: "node-more", href: href("cluster", cluster) }, "details", h("span", { class: "unseen" }, ` of ${cluster}`)), h("span", { class: "detail" }));
    }
    const [link, , told] = node.children;
    aim(link, this.link({ on: cluster }));
    if (cluster === this.on) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    tell(told, words);
  }

  showObject(item, object) {
    const [node] = item.children;
    const state = stateOf(object);
    node.className = `node of-object ${tone(state)}`;
    const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
    if (isNews(node, [object.kind, name])) {
      node.replaceChildren(h("a", { class: "node-name" }, h("span", { class: "kind" }, `${object.kind} `), name), h("span", { class: "detail" }), h("span", { class: "detail" }));
    }
    const [link, told, why] = node.children;
    aim(link, this.link({ tab: "", section: "objects", on: this.on }));
    const paths = [...object.drifts ?? [], ...object.diffs ?? []].map((one) => one.path ?? one);
    const rest = paths.length - MOST_PATHS;
    const fields = paths.slice(0, MOST_PATHS).join(", ") + (rest > 0 ? ` and ${number(rest)} more` : "");
    tell(told, [QUIET.has(state) ? "" : localTimes(object.message ?? ""), fields].filter(Boolean).join(" · "));
    const reason = QUIET.has(state) ? "" : object.reason ?? "";
    why.hidden = !reason;
    if (isNews(why, reason)) why.replaceChildren(...(reason ? [refer(reason)] : []));
  }

  /** The list of objects belongs to the item of the selected cluster. */
  placeObjects() {
    const item = [...this.clusterList.querySelectorAll("li")].find((one) => one.dataset.key === this.on && one.firstElementChild.matches(".of-cluster"));
    this.objectList.setAttribute("aria-label", `Objects on ${this.on}`);
    if (!item) this.objectList.remove();
    else if (this.objectList.parentElement !== item) item.append(this.objectList);
    this.showSelected(!item);
  }

  /** Without a cluster: the objects that the placement selects. */
  showSelected(isShown) {
    this.own.hidden = !isShown;
    if (!isShown) return;
    const resources = this.placement.selectedResources ?? [];
    if (!isNews(this.own, resources)) return;
    this.own.replaceChildren(...resources.slice(0, MOST_SELECTED).map(({ kind, namespace, name }) => h("li", {}, h("div", { class: "node of-object" }, h("span", { class: "kind" }, `${kind} `), namespace ? `${namespace}/${name ?? ""}` : name ?? ""))),
      ...(resources.length > MOST_SELECTED ? [h("li", {}, h("p", { class: "node quiet" }, `and ${number(resources.length - MOST_SELECTED)} more`))] : []));
  }

  /** What the lines connect: the placement with its groups, heads with members, the selected cluster with its objects. */
  pairs() {
    const pairs = [];
    const below = (list, from) => {
      for (const { firstElementChild: head } of list.children) {
        if (!head?.matches(".of-group")) continue;
        pairs.push([from, head, toneOf(head)]);
        const members = [...head.nextElementSibling.children].filter((one) => one.firstElementChild.matches(".of-cluster, .of-object"));
        for (const { firstElementChild: node } of members) pairs.push([head, node, toneOf(node)]);
      }
    };
    below(this.clusterList, this.node);
    const cluster = this.objectList.parentElement?.firstElementChild;
    if (cluster) below(this.objectList, cluster);
    return pairs;
  }
}

const TONES = ["good", "busy", "warn", "bad", "calm"];
const toneOf = (node) => TONES.find((one) => node.classList.contains(one)) ?? "calm";

function makeGroup() {
  const head = h("div", { class: "node of-group" }, h("button", { type: "button", class: "group-toggle" }), h("span", { class: "slot" }), h("span", { class: "detail", hidden: true }));
  return h("li", {}, head, h("ul", { class: "graph-members" }));
}
