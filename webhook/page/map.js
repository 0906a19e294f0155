/**
 * The fleet by any label, as small multiples: one cell per value, in it one square per cluster, coloured by its state.
 *
 * No geography: regions of one provider have no place on the map of another, and a label can be anything.
 */

import { address, href } from "./address.js";
import { h, isNews, patchList } from "./dom.js";
import { count, number, quantity, tally } from "./format.js";
import { grouped } from "./selection.js";
import { CLUSTER_STATES, tone } from "./states.js";

const MOST_SQUARES = 240; // in one cell; above that a strip shows the shares
const MOST_CELLS = 60;

/** Free and whole cores of clusters that report them. */
export function coresOf(clusters) {
  let free = 0;
  let whole = 0;
  for (const { cpu } of clusters) {
    if (!cpu) continue;
    free += quantity(cpu.available) ?? 0;
    whole += quantity(cpu.allocatable) ?? 0;
  }
  return { free, whole };
}

function squares(clusters, states) {
  const box = h("span", { class: clusters.length > 60 ? "squares small" : "squares", "aria-hidden": true });
  for (const [state, amount] of states) {
    for (let one = 0; one < amount; one += 1) box.append(h("i", { class: `fill ${tone(state)}` }));
  }
  return box;
}

function strip(states) {
  const box = h("span", { class: "strip", "aria-hidden": true });
  for (const [state, amount] of states) {
    const piece = h("i", { class: `fill ${tone(state)}` });
    piece.style.flexGrow = amount;
    box.append(piece);
  }
  return box;
}

function content(value, clusters) {
  const states = tally(clusters, (cluster) => cluster.state, CLUSTER_STATES);
  const { free, whole } = coresOf(clusters);
  const amiss = states.filter(([state]) => state !== "eligible");
  return [
    h("span", { class: "cell-head" }, h("b", {}, value || "without"), h("span", { class: "num" }, number(clusters.length))),
    clusters.length > MOST_SQUARES ? strip(states) : squares(clusters, states),
    h("span", { class: "detail" }, [amiss.length ? amiss.map(([state, n]) => `${number(n)} ${state}`).join(" · ") : "all eligible",
      whole ? `${number((100 * free) / whole)}% of ${number(whole)} cores free` : ""].filter(Boolean).join(" · ")),
  ];
}

/** The map panel. */
export class MapView {
  constructor({ body, sub, choice }) {
    Object.assign(this, { body, sub, choice });
    this.list = h("ul", { class: "cells" });
    this.rest = h("p", { class: "quiet", hidden: true });
    this.legend = h("ul", { class: "map-legend", "aria-label": "Colors of the squares" });
    body.replaceChildren(this.list, this.rest, this.legend);
  }

  /** Show clusters by the label `key`; each cell leads to the table of its clusters. */
  show(clusters, key) {
    const groups = grouped(clusters, (cluster) => cluster.labels?.[key]);
    const { query } = address();
    patchList(this.list, groups.slice(0, MOST_CELLS), ([value]) => `=${value}`, () => h("li", {}, h("a", { class: "cell" })), (element, [value, members]) => {
      const cell = element.firstElementChild;
      const wish = value ? `${key}=${value}` : `!${key}`;
      cell.setAttribute("href", href("fleet", "", { ...Object.fromEntries(query), label: query.get("label") === wish ? "" : wish }));
      if (query.get("label") === wish) cell.setAttribute("aria-current", "true");
      else cell.removeAttribute("aria-current");
      if (isNews(cell, members.map((one) => [one.state, one.cpu]))) cell.replaceChildren(...content(value, members));
    });
    const states = tally(clusters, (cluster) => cluster.state, CLUSTER_STATES).map(([state]) => state);
    patchList(this.legend, states, (state) => state, (state) => h("li", {}, h("i", { class: `swatch fill ${tone(state)}`, "aria-hidden": true }), h("span", {}, state)), () => {});
    this.rest.hidden = groups.length <= MOST_CELLS;
    if (isNews(this.rest, groups.length)) this.rest.textContent = `and ${count(groups.length - MOST_CELLS, "more value")} of ${key}`;
  }
}
