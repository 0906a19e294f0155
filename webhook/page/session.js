/** The token a viewer has signed in with. It lives as long as the tab does and is sent to this server only. */

const KEY = "harbormaster.token";
let inMemory = ""; // used if the browser has no session storage

/** The token, `""` before the viewer has signed in. */
export function token() {
  try {
    return sessionStorage.getItem(KEY) ?? inMemory;
  } catch {
    return inMemory;
  }
}

/** Keep a token for the requests to come; `""` forgets it. */
export function keepToken(text) {
  inMemory = text;
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // kept in memory then
  }
}

/** The pasted token without what is often copied along; `null` when the text cannot be one. */
export function readToken(text) {
  const found = text.trim().replace(/^(authorization:\s*)?bearer\s+/i, "");
  return /^[\x21-\x7e]{1,7000}$/.test(found) ? found : null;
}

/**
 * Keep the token that the address has brought, and take it out of the address: `harbormaster dashboard` sends its owner
 * here with one. Another server gets no token this way, because a link could bring that of someone else.
 */
function adopt() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found || location.protocol !== "http:" || location.hostname !== "127.0.0.1") return;
  keepToken(found[1]);
  history.replaceState(history.state, "", location.pathname);
}

adopt();
