/**
 * Why a decision was made, in a line.
 *
 * The API names every cluster with everything that is new about it. Here clusters with the same news share a sentence:
 * `new policy snapshot shop-0; bravelion, calmheron and 4 more joined the fleet`. What has another form stays as it is.
 */

import { number } from "./format.js";

const MEMBERS = /^since the last run these members changed: (.+?)( and ([0-9]+) more)?$/;
const LISTED = /([^\s,()]+) \(([^()]*)\)/g;
const INVOLVED = /^(\S+) changed \(([^()]*)\)$/;
const FIRST_POLICY = /^policy snapshot (\S+)$/;
const NAMED = 2;

/** What happened to a cluster, from what changed about it. */
function happened(aspects) {
  const found = aspects.split(", ");
  if (found.includes("gone")) return "left the fleet";
  if (found.includes("new")) return "joined the fleet";
  return `changed (${aspects})`;
}

/** `bravelion, calmheron and 4 more`. */
function some(names) {
  const rest = names.length - NAMED;
  return rest > 1 ? `${names.slice(0, NAMED).join(", ")} and ${number(rest)} more` : names.join(names.length === 2 ? " and " : ", ");
}

/** The message of a trigger, shortened. */
export function because(message) {
  const notes = [];
  const news = new Map();
  const add = (name, aspects) => news.set(happened(aspects), [...(news.get(happened(aspects)) ?? []), name]);
  let unnamed = 0;
  for (const part of message.split("; ")) {
    const members = MEMBERS.exec(part);
    const involved = INVOLVED.exec(part);
    if (members) {
      for (const [, name, aspects] of members[1].matchAll(LISTED)) add(name, aspects);
      unnamed += Number(members[3] ?? 0);
    } else if (involved) add(involved[1], involved[2]);
    else notes.push(part.replace(FIRST_POLICY, "new policy snapshot $1"));
  }
  const told = [...news].map(([what, names]) => `${some(names)} ${what}`);
  if (unnamed) told.push(`${number(unnamed)} more changed`);
  return [...notes, ...told].join("; ");
}
