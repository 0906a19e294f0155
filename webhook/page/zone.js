/** Instants in the reader's time zone. Everything is reckoned in milliseconds of UTC; a zone is for showing it only. */

import { serverNow } from "./clock.js";

const FIELDS = { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

/** The zone of this browser, such as `Europe/Paris`. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

const format = new Intl.DateTimeFormat("en-GB", { ...FIELDS, timeZone: ZONE });
const named = new Intl.DateTimeFormat("en-GB", { timeZone: ZONE, timeZoneName: "short" });

export const MINUTE = 60000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** What clock and calendar of the reader show at an instant. */
export function local(instant) {
  const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, value]));
  return { ...parts, hour: Number(parts.hour) % 24, minute: Number(parts.minute) };
}

/** The latest full hour of the reader's clock. */
export function fullHour(instant) {
  const minute = Math.floor(instant / MINUTE) * MINUTE;
  return minute - local(minute).minute * MINUTE;
}

/** `9:00`; where the clock shows the same time twice, with the name of the zone's time: `2:30 CEST`. */
export function clock(instant) {
  const { hour, minute } = local(instant);
  const text = `${hour}:${String(minute).padStart(2, "0")}`;
  const twice = [instant - HOUR, instant + HOUR].some((other) => {
    const there = local(other);
    return there.hour === hour && there.minute === minute;
  });
  if (!twice) return text;
  const name = named.formatToParts(instant).find(({ type }) => type === "timeZoneName");
  return name ? `${text} ${name.value}` : text;
}

/** `Mon 23 Nov`. */
export function dayOf(instant) {
  const { weekday, day, month } = local(instant);
  return `${weekday} ${day} ${month}`;
}

/** `Mon 23 Nov 9:00`; far from now, with the year: `Tue 1 Jan 2199 9:00`. */
export function moment(instant) {
  const isFar = Math.abs(instant - serverNow()) > 300 * DAY;
  return `${dayOf(instant)}${isFar ? ` ${local(instant).year}` : ""} ${clock(instant)}`;
}

/** A text of the API with its instants as the reader's clock shows them. Impossible times, which a refusal may quote, remain as they are. */
export function localTimes(text) {
  return text.replace(/\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z/g, withYear)
    .replace(/\b([A-Z][a-z]{2}) (\d\d [A-Z][a-z]{2}) (\d\d:\d\d) UTC\b/g, withoutYear);
}

/** `2026-12-05T21:00:00Z` in the reader's zone. */
function withYear(found, seconds) {
  const instant = Date.parse(found);
  return new Date(instant).toJSON()?.startsWith(seconds) ? moment(instant) : found; // `Date` takes 30 February for 2 March
}

/** `Sat 05 Dec 21:00 UTC` in the reader's zone; the day of the week gives the year. */
function withoutYear(found, weekday, date, time) {
  const now = new Date(serverNow()).getUTCFullYear();
  const instant = [now, now + 1, now - 1].map((year) => Date.parse(`${date} ${year} ${time} UTC`)).find((one) => new Date(one).toUTCString().startsWith(`${weekday}, ${date} `));
  return instant === undefined ? found : moment(instant);
}

/** Every full hour of the reader's clock in `[start, end)`, with what the clock shows: days of 23 or 25 hours as they are. */
export function hours(start, end) {
  const found = [];
  for (let instant = start; instant < end; instant += HOUR) found.push({ instant, ...local(instant) });
  return found;
}
