/** What is to be read again: items by their names, or all of a list. */

const MOST_NAMED = 200; // as many as may be asked for by name

/** Collects names until somebody takes them. */
export class Wanted {
  constructor() {
    this.everything = true;
    this.names = new Set();
  }

  /** All of the list. */
  all() {
    this.everything = true;
  }

  /** Some names more; null: all. */
  add(names) {
    if (names === null) this.all();
    else for (const name of names) this.names.add(name);
  }

  /** The names, or null for all; nothing is wanted any more. */
  take() {
    const names = this.everything || this.names.size > MOST_NAMED ? null : [...this.names];
    this.everything = false;
    this.names = new Set();
    return names;
  }
}

/** A list, sorted by its keys, in which the items of these names are replaced by what was read: those that were not are gone. */
export function merged(before, names, items, keyOf) {
  const touched = new Set(names);
  const found = [...before.filter((item) => !touched.has(keyOf(item))), ...items];
  return found.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}
