/** Words for numbers, ages, quantities and names, as the page writes them. */

/** `41s`, `14m`, `3h 12m`, `2d 4h`: as the messages of the server have it. */
export function age(elapsed) {
  const s = Math.max(0, Math.floor(elapsed));
  if (s < 100) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m}m`;
  const hours = Math.floor(m / 60);
  if (hours < 24) return m % 60 ? `${hours}h ${m % 60}m` : `${hours}h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days}d ${hours % 24}h` : `${days}d`;
}

const SUFFIX = {
  "": 1, n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A Kubernetes quantity as a number, null when it is none. For display only. */
export function quantity(text) {
  const parts = /^([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(String(text ?? ""));
  return parts ? Number(parts[1]) * SUFFIX[parts[2] ?? ""] : null;
}

/** A number with thousands separators, at most `digits` decimals and a real minus sign. */
export function number(value, digits = 0) {
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: digits }).replace("-", "−");
}

/** `248`, `1.5`, or the raw text when it is no quantity. */
export function cores(text, digits) {
  const value = quantity(text);
  return value === null ? String(text) : number(value, digits ?? (Math.abs(value) < 10 ? 1 : 0));
}

/** `880 GiB`, or the raw text when it is no quantity. */
export function bytes(text) {
  const value = quantity(text);
  if (value === null) return String(text);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  for (let left = Math.abs(value); left >= 1024 && power < 5 && !(power === 3 && left < 10240); left /= 1024) power += 1;
  const shown = value / 1024 ** power;
  return `${number(shown, Math.abs(shown) < 10 ? 1 : 0)} ${units[power]}`;
}

/** The value of a property as people write it: memory in GiB, CPU in cores, the rest as reported. */
export function propertyValue(name, value) {
  if (/memory$/.test(name) && quantity(value) > 1024 ** 2) return bytes(value);
  return /cpu$/.test(name) ? cores(value) : value;
}

/** `1 cluster`, `2 clusters`. */
export function count(amount, noun) {
  return `${number(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}

/** `1 matches`, `2 match`. */
export function matches(amount) {
  return `${number(amount)} ${amount === 1 ? "matches" : "match"}`;
}

/** The last part of a prefixed name: `kubernetes-fleet.io/node-count` is shown as `node-count`. */
export function shortName(name) {
  return String(name).slice(String(name).lastIndexOf("/") + 1);
}

/** `key=value` with the prefix of the key left out. */
export function label(key, value) {
  return value === "" || value === undefined ? shortName(key) : `${shortName(key)}=${value}`;
}

/** A taint as kubectl writes it. */
export function taint({ key, value, effect }) {
  return `${label(key, value)}:${effect}`;
}

const collator = new Intl.Collator("en", { numeric: true });

/** The order of names: `region-2` before `region-10`. */
export function byName(a, b) {
  return collator.compare(a, b) || (a < b ? -1 : Number(a > b));
}

/** Count items by a key, in the order of `order`, then by name: `[["eligible", 10], …]`. */
export function tally(items, keyOf, order = []) {
  const counts = new Map();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  const place = (key) => (order.includes(key) ? order.indexOf(key) : order.length);
  return [...counts].sort(([a], [b]) => place(a) - place(b) || byName(a, b));
}
