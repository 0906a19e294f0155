/**
 * The way to a provider and back: which one there is, what the page showed before, and what became of the sign-in.
 *
 * The server sends every viewer back to `/`, and says what became of it by one word. What the page showed is in its own
 * session storage, and only as a fragment: nothing outside can make it lead elsewhere.
 */

const KEY = "harbormaster.shown";
const TROUBLE = {
  denied: "The provider did not sign you in: you or the provider denied the request.",
  stale: "This sign-in was not started in this browser, timed out, or was replaced by a newer one. Sign in again.",
  code: "The provider rejected the authorization code: it was already used, or has expired. Sign in again.",
  unreachable: "The provider cannot be reached from this server. Try again later.",
  provider: "The provider's response does not match the configuration of this server. See the server log for details.",
  clock: "The clocks of the provider and of this server differ too much. An administrator must correct one of them.",
  token: "The provider's token could not be verified. See the server log for details.",
  claims: "The provider's token does not identify you by the claims that this server is configured for. See the server log for details.",
  email: "The provider has not verified your email address.",
  groups: "You are in more groups than fit into a session. Configure the provider to send only the groups needed here.",
  busy: "Too many users are signing in at the same time. Try again in a moment.",
  settings: "This server cannot read a file that it needs to sign you in. See the server log for details.",
};
const MORE = "You are not signed in.";

/** What the page calls the provider that viewers may sign in with; `""`: there is none. */
export const provider = document.querySelector('meta[name="sign-in"]')?.content ?? "";

/** Leave for the provider. */
export function leave() {
  try {
    sessionStorage.setItem(KEY, location.hash);
  } catch {
    // the fleet is shown afterward
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
