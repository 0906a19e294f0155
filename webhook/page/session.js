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
