/** Asks the viewer to sign in: with a provider, where the server offers one, or with a token, and says where to get one. */

import { ApiError, SignInError, ask } from "./api.js";
import { leave, provider, trouble } from "./coming_back.js";
import { h, say } from "./dom.js";
import { keepToken, readToken, token } from "./session.js";

const SHOWS_USER = ["who", "signed-in", "sign-out"];
const by = (id) => document.getElementById(id);

/**
 * The form. `onSignedIn()` is called once a token has been accepted.
 */
export class SignIn {
  constructor(onSignedIn) {
    this.onSignedIn = onSignedIn;
    this.audience = null;
    this.user = ""; // who has signed in with the provider
    say(by("sign-in-provider"), `Sign in with ${provider}`);
    by("sign-in-provider").addEventListener("click", leave);
    by("sign-in-offer").hidden = !provider;
    by("sign-in-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    by("sign-out").addEventListener("click", () => this.signOut());
    by("sign-out").hidden = !token();
    this.greet();
  }

  /** Show who has signed in with the provider. */
  async greet() {
    if (!provider || token()) return;
    try {
      this.user = (await ask("/sign-in/session")).document.user ?? "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // what else the page asks says it
    }
    if (!this.user || this.open) return;
    say(by("who"), this.user);
    by("who").title = `Signed in as ${this.user}`;
    say(by("signed-in"), by("who").title);
    for (const id of SHOWS_USER) by(id).hidden = false;
  }

  /** Forget the token, or end the session here and with the provider. */
  async signOut() {
    if (token() || !this.user) {
      keepToken("");
      location.reload();
      return;
    }
    by("sign-out").disabled = true;
    try {
      const way = (await ask("/sign-out", { body: {} })).document.location;
      this.user = "";
      this.show({ audience: this.audience }); // the provider may be slow, and browsers keep pages as they were left
      location.assign(way);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(by("news"), `Not signed out: ${error.message}.`);
    }
    by("sign-out").disabled = false;
  }

  /** Whether it is shown. */
  get open() {
    return !by("sign-in").hidden;
  }

  /** Ask for a token after `error`, a `SignInError`; everything else is put away. */
  show(error) {
    const ended = error.token ? "The token is no longer accepted. It may have expired: sign in with a new one." : this.user ? "Your session has ended. Sign in again." : trouble;
    keepToken("");
    this.user = "";
    this.explain(error.audience);
    if (this.open) return;
    document.body.classList.add("signed-out");
    by("sign-in").hidden = false;
    for (const id of SHOWS_USER) by(id).hidden = true;
    say(by("sign-in-trouble"), ended);
    by(provider ? "sign-in-provider" : "token").focus();
  }

  /** Say where a token comes from; a server without an audience is `harbormaster up`. */
  explain(audience) {
    if (audience === this.audience) return;
    this.audience = audience;
    const how = audience
      ? ["Create one for a ServiceAccount with access to this server: ", h("code", {}, `kubectl create token NAME --namespace NAMESPACE --audience ${audience}`)]
      : ["The token of ", h("code", {}, "harbormaster up"), " is in the file ", h("code", {}, "token"), " of its data folder."];
    by("sign-in-how").replaceChildren(...how);
  }

  /** Try the token in the field with a reading that every viewer makes. */
  async submit() {
    const trouble = by("sign-in-trouble");
    const given = readToken(by("token").value);
    if (given === null) {
      say(trouble, by("token").value.trim() ? "Not a valid token: it contains blanks or invalid characters." : "Paste a token.");
      by("token").focus();
      return;
    }
    by("sign-in-button").disabled = true;
    say(trouble, "");
    keepToken(given);
    try {
      await ask("/v1/clusters");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 403) { // 403: the token is good, even if its user may not read the fleet
        keepToken("");
        say(trouble, error instanceof SignInError ? "The token is not accepted." : `Not signed in: ${error.message}.`);
        by("token").focus();
        return;
      }
    } finally {
      by("sign-in-button").disabled = false;
    }
    by("token").value = "";
    by("sign-in").hidden = true;
    by("sign-out").hidden = false;
    document.body.classList.remove("signed-out");
    this.onSignedIn();
  }
}
