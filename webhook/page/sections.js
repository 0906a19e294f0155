/** The details of a placement that the address unfolds: `?section=release`, `?section=objects&on=bravelion`. */

import { address, change } from "./address.js";
import { whileGrowing } from "./dom.js";

/** Keeps disclosures and the address together. */
export class Sections {
  /** `parts`: the disclosures by the word in the address; `inner(name)`: that of a cluster, within `objects`. */
  constructor(parts, inner) {
    Object.assign(this, { parts, inner, followed: "", due: null });
    for (const [section, details] of Object.entries(parts)) this.note(details, { section, on: "" });
  }

  /** Write into the address what a reader unfolds. The toggle event also comes when the page does it. */
  note(details, parameters) {
    details.firstElementChild.addEventListener("click", () => {
      const { query } = address();
      const isNamed = Object.entries(parameters).every(([key, value]) => (query.get(key) ?? "") === value);
      const target = details.open ? (isNamed ? { section: parameters.on ? parameters.section : "", on: "" } : {}) : parameters;
      this.followed = this.named({ ...Object.fromEntries(query), ...target });
      if (Object.keys(target).length) change(target);
    });
  }

  named({ section = "", on = "" }) {
    return `${this.ref}?${section}&${section === "objects" ? on : ""}`;
  }

  /** Unfold what the address names, once. */
  follow(ref) {
    this.ref = ref;
    const values = Object.fromEntries(address().query);
    const named = this.named(values);
    if (this.followed === named) return;
    this.followed = named;
    let details = this.parts[values.section];
    if (!details) return;
    details.open = true;
    const inner = values.section === "objects" && values.on ? this.inner(values.on) : null;
    if (inner) (details = inner).open = true;
    this.due = details;
  }

  /** Bring what has been unfolded into view, once there is something to see, and again once its content is there. */
  arrive() {
    const { due } = this;
    if (!due) return;
    this.due = null;
    const { height } = due.getBoundingClientRect();
    due.scrollIntoView({ block: "start" });
    whileGrowing(due, () => {
      if (due.getBoundingClientRect().height === height) return false;
      due.scrollIntoView({ block: "start" });
      return true;
    });
  }
}
