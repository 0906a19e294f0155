/** The only place that talks to the server: JSON in, JSON out, and the stream of changes. */

import { readClock } from "./clock.js";

/** An answer that is not a 2xx, or no answer at all. */
export class ApiError extends Error {}

/** Ask for a document. Returns it parsed and as the text that came, so that it can be shown as it is. */
export async function ask(path, { body, signal } = {}) {
  const options = { headers: { Accept: "application/json" }, cache: "no-store", credentials: "same-origin", signal };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server cannot be reached");
  }
  readClock(response.headers.get("Date"));
  const text = await response.text();
  if (!response.ok) throw new ApiError(problem(response, text));
  try {
    return { document: JSON.parse(text), text };
  } catch {
    throw new ApiError("the answer is not JSON");
  }
}

function problem(response, text) {
  const status = `${response.status} ${response.statusText}`.trim();
  try {
    const { detail, title, instance } = JSON.parse(text);
    const words = detail || title;
    return `${status}${words ? `: ${words}` : ""}${instance ? ` (${instance})` : ""}`;
  } catch {
    return status;
  }
}

/** Where the API keeps a placement: `crp/payments` → `/v1/placements/crp/payments`. */
export function placementPath(ref) {
  return `/v1/placements/${ref.split("/").map(encodeURIComponent).join("/")}`;
}

/**
 * Run `task` when asked, one at a time, and never more often than the server can bear.
 *
 * Requests made while it runs are merged into one more run. The pause after a run grows with its duration,
 * and after a failure it doubles up to half a minute. `.now()` forgets the pause.
 */
export function paced(task) {
  let running = false;
  let wanted = false;
  let hurried = false;
  let timer = null;
  let failures = 0;
  let notBefore = 0;
  async function run() {
    timer = null;
    running = true;
    wanted = hurried = false;
    const began = performance.now();
    let pause;
    try {
      await task();
      failures = 0;
      pause = Math.min(5000, Math.max(200, 3 * (performance.now() - began)));
    } catch (error) {
      if (error.name !== "AbortError") failures += 1;
      pause = error.name === "AbortError" ? 0 : Math.min(30000, 500 * 2 ** failures);
      wanted = true;
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
    hurried = running;
    notBefore = 0;
    clearTimeout(timer);
    timer = null;
    again();
  };
  return again;
}

/**
 * Follow `/v1/events`; calls `onChange(data)` per change and `onState(state, retryAt)` when the connection does.
 *
 * The browser's own retry gives up on an HTTP error and does not back off, so a broken stream is closed and
 * opened anew: after 1 s, 2 s, 4 s … 30 s, each with some jitter; at once when the machine comes back online.
 */
export function follow(onChange, onState) {
  let source = null;
  let failures = 0;
  let timer = null;
  function open() {
    clearTimeout(timer);
    source?.close();
    source = new EventSource("/v1/events");
    source.addEventListener("open", () => {
      failures = 0;
      onState("live", 0);
    });
    source.addEventListener("change", (event) => {
      let data;
      try {
        data = JSON.parse(event.data);
      } catch {
        return; // a later change brings the same news
      }
      onChange(data);
    });
    source.addEventListener("error", () => {
      source.close();
      const wait = Math.min(30000, 1000 * 2 ** failures) * (0.8 + 0.4 * Math.random());
      failures = Math.min(failures + 1, 5);
      onState("disconnected", Date.now() + wait);
      timer = setTimeout(open, wait);
    });
  }
  addEventListener("online", open);
  open();
}
