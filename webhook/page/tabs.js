/** The ways to look at one thing, each with an address of its own: `?tab=graph`. */

import { address, href } from "./address.js";
import { h } from "./dom.js";

const FIRST = ""; // the tab of an address without the parameter

/** Links to the tabs of a view. */
export class Tabs {
  /** `entries`: `[["", "Overview"], ["graph", "Graph"]]`. */
  constructor(name, entries) {
    this.links = new Map(entries.map(([key, title]) => [key, h("a", {}, title)]));
    this.element = h("nav", { class: "tabs", "aria-label": name }, [...this.links.values()]);
  }

  /** The tab that the address names. */
  get current() {
    const tab = address().query.get("tab") ?? FIRST;
    return this.links.has(tab) ? tab : FIRST;
  }

  /** Link to the tabs of what is shown. The rest of the address stays. */
  show(view, path) {
    const { current } = this;
    const query = Object.fromEntries(address().query);
    for (const [tab, link] of this.links) {
      const target = href(view, path, { ...query, tab });
      if (link.getAttribute("href") !== target) link.setAttribute("href", target);
      if (tab === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}
