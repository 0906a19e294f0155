/**
 * The way to a provider and back: which one there is, what the page showed before, and what became of the sign-in.
 *
 * The server sends every viewer back to `/`, and says what became of it by one word. What the page showed is in its own
 * session storage, and only as a fragment: nothing outside can make it lead elsewhere.
 */

const KEY = "harbormaster.shown";
const TROUBLE = {
  denied: "The provider did not sign you in: it, or you there, said no.",
  stale: "This sign-in was not begun in this browser, took too long, or another one was begun meanwhile. Sign in again.",
  code: "The provider does not accept what it gave your browser: that had been used already, or was too old. Sign in again.",
  unreachable: "The provider cannot be reached from this server. Try again later.",
  provider: "The provider did not answer as this server is set up to understand. The log of the server says more.",
  clock: "The provider's clock and this server's differ too much. Somebody has to set one of them right.",
  token: "What the provider says about you cannot be trusted. The log of the server says more.",
  claims: "The provider does not say who you are in a way that this server is set up to understand. The log of the server says more.",
  email: "The provider has not verified your e-mail address.",
  groups: "You are in more groups than fit into a session. The provider can be set up to tell only those that matter here.",
  busy: "Too many people sign in at once. Try again in a moment.",
  settings: "This server cannot read a file that it needs to sign you in. The log of the server says more.",
};
const MORE = "You are not signed in.";

/** What the page calls the provider that viewers may sign in with; `""`: there is none. */
export const provider = document.querySelector('meta[name="sign-in"]')?.content ?? "";

/** Leave for the provider. */
export function leave() {
  try {
    sessionStorage.setItem(KEY, location.hash);
  } catch {
    // the fleet is shown afterwards then
  }
  location.assign("/sign-in");
}

/** Show what was shown before, after a way to the provider. Returns what has gone wrong there, in words; `""`: nothing. */
function comeBack() {
  const said = new URLSearchParams(location.search).get("sign-in");
  if (said === null) return "";
  let shown = "";
  try {
    shown = sessionStorage.getItem(KEY) ?? "";
    sessionStorage.removeItem(KEY);
  } catch {
    // as above
  }
  history.replaceState(null, "", `/${shown.startsWith("#") ? shown : ""}`);
  return said === "done" ? "" : (Object.hasOwn(TROUBLE, said) ? TROUBLE[said] : MORE);
}

/** What has gone wrong on the way to the provider and back. */
export const trouble = comeBack();
