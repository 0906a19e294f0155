/** The controls above a list: what is searched, filtered, sorted and grouped. What they say is in the address, and only there. */

import { address, change } from "./address.js";
import { h, isNews } from "./dom.js";

/** One row of controls; `controls` are `{ key, kind: "search" | "select" | "pairs", title, any }`, `key` the parameter. */
export class Toolbar {
  constructor(name, controls) {
    this.fields = new Map();
    this.element = h("form", { class: "toolbar", role: "search", "aria-label": name, onsubmit: (event) => event.preventDefault() });
    for (const control of controls) this.add(name, control);
    this.clear = h("button", { type: "button", class: "plain-button", hidden: true, onclick: () => change(Object.fromEntries([...this.fields.keys()].map((key) => [key, ""]))) }, "clear");
    this.element.append(this.clear);
  }

  add(name, { key, kind, title, any, narrowOnly }) {
    let field;
    if (kind === "select") {
      field = h("select", { onchange: () => change({ [key]: field.value }) });
      field.append(h("option", { value: "" }, any));
    } else {
      field = h("input", { type: kind === "search" ? "search" : "text", autocomplete: "off", spellcheck: "false", placeholder: any, oninput: () => change({ [key]: field.value }) });
      if (kind === "pairs") {
        const id = `${name}-${key}`.toLowerCase().replace(/\W+/g, "-");
        field.setAttribute("list", id);
        this.element.append(h("datalist", { id }));
      }
    }
    field.setAttribute("aria-label", title);
    field.classList.add("control", `control-${kind}`);
    this.fields.set(key, field);
    this.element.append(kind !== "search" ? h("label", { class: narrowOnly ? "control-label narrow-only" : "control-label" }, h("span", { "aria-hidden": true }, title), field) : field);
  }

  /** What may be chosen: `[[value, text], …]`, and for a select what no choice means. */
  offer(key, options, any = "") {
    const field = this.fields.get(key);
    const place = field.list ?? field;
    if (!isNews(place, [options, any])) return;
    const made = options.map(([value, text]) => h("option", { value }, text));
    if (field.list) place.replaceChildren(...made);
    else place.replaceChildren(any ? h("option", { value: "" }, any) : place.firstElementChild, ...made);
  }

  /** Show what the address says, and return it by key. */
  read() {
    const { query } = address();
    const values = {};
    for (const [key, field] of this.fields) {
      const value = values[key] = query.get(key) ?? "";
      if (field.localName === "select" && value && ![...field.options].some((one) => one.value === value)) field.append(h("option", { value }, value));
      if (field.value !== value) field.value = value;
    }
    this.clear.hidden = !Object.values(values).some(Boolean);
    return values;
  }
}

/** `[["silent", "silent (3)"], …]` from a tally. */
export const counted = (tallied) => tallied.map(([value, number]) => [value, `${value} (${number})`]);
