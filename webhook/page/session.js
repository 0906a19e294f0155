/** The token a viewer has signed in with. It lives as long as the tab does and is sent to this server only. */

const KEY = "harbormaster.token";
let inMemory = ""; // where the browser keeps nothing for pages

/** The token, `""` when nobody has signed in. */
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

/** What somebody pasted as a token, without what often comes along; `null` when it cannot be one. */
export function readToken(text) {
  const found = text.trim().replace(/^(authorization:\s*)?bearer\s+/i, "");
  return /^[\x21-\x7e]{1,7000}$/.test(found) ? found : null;
}
