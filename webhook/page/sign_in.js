/** Asks the viewer for a token, and says where to get one. */

import { ApiError, SignInError, ask } from "./api.js";
import { h, say } from "./dom.js";
import { keepToken, readToken, token } from "./session.js";

const by = (id) => document.getElementById(id);

/**
 * The form. `onSignedIn()` is called once a token has been accepted.
 */
export class SignIn {
  constructor(onSignedIn) {
    this.onSignedIn = onSignedIn;
    this.audience = null;
    by("sign-in-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    by("sign-out").addEventListener("click", () => {
      keepToken("");
      location.reload();
    });
    by("sign-out").hidden = !token();
  }

  /** Whether it is shown. */
  get open() {
    return !by("sign-in").hidden;
  }

  /** Ask for a token after `error`, a `SignInError`; everything else is put away. */
  show(error) {
    const refused = Boolean(error.token);
    keepToken("");
    this.explain(error.audience);
    if (this.open) return;
    document.body.classList.add("signed-out");
    by("sign-in").hidden = false;
    by("sign-out").hidden = true;
    say(by("sign-in-trouble"), refused ? "The token is not accepted any more. It may have expired: sign in with a new one." : "");
    by("token").focus();
  }

  /** Say where a token comes from; a server without an audience is `harbormaster up`. */
  explain(audience) {
    if (audience === this.audience) return;
    this.audience = audience;
    const how = audience
      ? ["A ServiceAccount that may ask this server has one: ", h("code", {}, `kubectl create token NAME --namespace NAMESPACE --audience ${audience}`)]
      : ["That of ", h("code", {}, "harbormaster up"), " is in the file ", h("code", {}, "token"), " of its data folder."];
    by("sign-in-how").replaceChildren(...how);
  }

  /** Try the token in the field with a reading that every viewer makes. */
  async submit() {
    const trouble = by("sign-in-trouble");
    const given = readToken(by("token").value);
    if (given === null) {
      say(trouble, by("token").value.trim() ? "That is no token: it has blanks, or letters that no token has." : "Paste a token.");
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
