/** The only place that talks to the server: JSON in, JSON out, and the stream of changes. */

import { readClock } from "./clock.js";
import { token } from "./session.js";

/** An answer that is not a 2xx, or no answer at all: then `status` is 0. */
export class ApiError extends Error {
  constructor(message, status = 0, detail = "") {
    super(message);
    this.status = status;
    this.detail = detail; // the server's sentence alone
  }
}

/** The server needs credentials. `token` is what was sent, `audience` is the audience that a token needs. */
export class SignInError extends ApiError {
  constructor(message, sent, audience) {
    super(message, 401);
    this.token = sent;
    this.audience = audience;
  }
}

/** Send a request as the viewer who has signed in. Returns the response when it is a 2xx or a 304. */
async function send(path, { headers, ...options }) {
  const sent = token();
  const credentials = sent ? { Authorization: `Bearer ${sent}` } : {};
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers, ...credentials }, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server is unreachable");
  }
  readClock(response.headers.get("Date"));
  if (response.ok || response.status === 304) return response;
  const text = await response.text();
  const { message, detail } = problem(response, text);
  throw response.status === 401 ? new SignInError(message, sent, audience(text)) : new ApiError(message, response.status, detail);
}

const known = new Map(); // path → what was answered last, with its entity tag
const MOST_KNOWN = 50;

/**
 * Ask for a document. Returns it parsed, as the text that came, so that it can be shown as it is, and what it cost: the
 * bytes on the wire. What has not changed is not sent again.
 */
export async function ask(path, { body, signal } = {}) {
  const before = body === undefined ? known.get(path) : undefined;
  const options = { headers: { Accept: "application/json", ...(before ? { "If-None-Match": before.tag } : {}) }, signal };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await send(path, options);
  if (response.status === 304) return { ...before, bytes: 0 };
  const text = await response.text();
  const answer = { document: parsed(text), text, bytes: Number(response.headers.get("Content-Length")) || text.length, tag: response.headers.get("ETag") };
  if (body === undefined && answer.tag) keep(path, answer);
  return answer;
}

/** Ask for a text of another type than JSON. */
export async function askText(path, type) {
  return (await send(path, { headers: { Accept: type } })).text();
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError("the answer is not JSON");
  }
}

function keep(path, answer) {
  known.delete(path); // so that the paths are in the order of their last use
  known.set(path, answer);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
}

const PAGE = 500;

/** Ask for a whole list, page by page. */
export async function askAll(path) {
  const items = [];
  let bytes = 0;
  let token = "";
  do {
    const answer = await ask(`${path}?limit=${PAGE}${token ? `&continue=${token}` : ""}`);
    items.push(...answer.document.items);
    bytes += answer.bytes;
    token = answer.document.continue;
  } while (token);
  return { items, bytes };
}

function problem(response, text) {
  const status = `${response.status} ${response.statusText}`.trim();
  try {
    const { detail, title, instance } = JSON.parse(text);
    const words = detail || title;
    return { message: `${status}${words ? `: ${words}` : ""}${instance ? ` (${instance})` : ""}`, detail };
  } catch {
    return { message: status };
  }
}

function audience(text) {
  try {
    return String(JSON.parse(text).audience ?? "");
  } catch {
    return "";
  }
}

/** Where the API keeps a placement: `crp/payments` → `/v1/placements/crp/payments`. */
export function placementPath(ref) {
  return `/v1/placements/${ref.split("/").map(encodeURIComponent).join("/")}`;
}

const BYTES_PER_MS = 2.5; // what one kind of reading may cost in the long run: 150 kB a minute
const ALLOWANCE = 60000; // bytes that it may cost before it has to wait: small fleets never have to
const LONGEST_PAUSE = 60000; // ms

/**
 * Run `task` when asked, one run at a time, and not more often than the server can take.
 *
 * Requests made while it runs are merged into one more run: what the run has read may already be out of date. The pause
 * after a run grows with its duration and, once the allowance is used up, with the bytes that `task` returns; after a
 * failure it doubles up to half a minute. `.now()` skips the pause. After a refusal for lack of credentials, it does not
 * run again until the viewer has signed in.
 */
export function paced(task) {
  let running = false;
  let wanted = false;
  let hurried = false;
  let timer = null;
  let failures = 0;
  let notBefore = 0;
  let allowance = ALLOWANCE;
  let paidAt = performance.now();
  async function run() {
    timer = null;
    running = true;
    wanted = hurried = false;
    const began = performance.now();
    let pause;
    try {
      const bytes = (await task()) ?? 0;
      failures = 0;
      const now = performance.now();
      allowance = Math.min(ALLOWANCE, allowance + (now - paidAt) * BYTES_PER_MS) - bytes;
      paidAt = now;
      pause = Math.max(200, Math.min(5000, 3 * (now - began)), Math.min(LONGEST_PAUSE, -allowance / BYTES_PER_MS));
    } catch (error) {
      if (error.name !== "AbortError") failures += 1;
      pause = error.name === "AbortError" ? 0 : Math.min(30000, 500 * 2 ** failures);
      wanted = !(error instanceof SignInError);
    }
    running = false;
    notBefore = performance.now() + (hurried ? 0 : pause);
    if (wanted) again();
  }
  function again() {
    wanted = true;
    if (running || timer !== null) return;
    timer = setTimeout(run, Math.max(0, notBefore - performance.now()));
  }
  again.now = () => {
    hurried = running; // the end of the present run would set the pause again
    notBefore = 0;
    clearTimeout(timer);
    timer = null;
    again();
  };
  return again;
}

const LONG_ENOUGH = 60000; // ms; a stream that lasted longer is taken to have been ended on purpose

/** Yield the data of every `change` event of a stream of server-sent events. */
async function* changes(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      if (!lines.includes("event: change")) continue;
      const text = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      try {
        yield JSON.parse(text);
      } catch {
        // ignored: the next event makes the page read the same again
      }
    }
  }
}

/**
 * Follow `/v1/events`; calls `onChange(data)` per change and `onState(state, retryAt, error)` when the connection does.
 *
 * Read with `fetch`, because the browser's own EventSource cannot send a token. A broken stream is opened again after 1 s,
 * 2 s, 4 s … 30 s, each with some jitter; at once when the machine is online again, when the returned function is called,
 * and when the server has ended an old stream, which it does to check the viewer's rights again.
 */
export function follow(onChange, onState) {
  let current = null;
  let failures = 0;
  let timer = null;
  async function open() {
    clearTimeout(timer);
    current?.abort();
    const mine = current = new AbortController();
    let began = Infinity;
    let refusal;
    try {
      const response = await send("/v1/events", { headers: { Accept: "text/event-stream" }, signal: mine.signal });
      began = performance.now();
      failures = 0;
      onState("live", 0);
      for await (const data of changes(response.body)) if (current === mine) onChange(data);
    } catch (error) {
      if (current !== mine) return;
      if (error instanceof SignInError) {
        onState("signed-out", 0, error);
        return;
      }
      refusal = error;
    }
    if (current !== mine) return;
    if (performance.now() - began > LONG_ENOUGH) {
      open();
      return;
    }
    const wait = Math.min(30000, 1000 * 2 ** failures) * (0.8 + 0.4 * Math.random());
    failures = Math.min(failures + 1, 5);
    onState("disconnected", Date.now() + wait, refusal);
    timer = setTimeout(open, wait);
  }
  addEventListener("online", open);
  open();
  return open;
}
