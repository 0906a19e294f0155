/** Facts about the server, which it writes into the page: how harbormaster is called for its hub, and who may see the page. */

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

const program = meta("program") || "harbormaster";
const options = meta("hub-options");

const [, folder = ""] = / --data (\/[^\s'"]+)(?= |$)/.exec(options) ?? []; // a quoted path is left to the shell

/** Path of the file with the token of `harbormaster up`; empty: unknown. */
export const tokenPath = folder && `${folder}/token`;

/** Whether the hub simulates its members, as `harbormaster up` does. */
export const isSimulated = meta("members") === "simulated";

/** Whether the page may act on the hub, with the token of its viewer. */
export const hasActions = meta("actions") === "on";

/** Whether every user of the server's machine may see the page. */
export const isOpenToMachine = meta("open-to") === "machine";

/** The command line for a command of harbormaster on this hub. */
export function call(words) {
  return `${program} ${words}${words.endsWith(" --help") ? "" : options}`;
}

/** The same for a command as the API names it, which starts with `harbormaster`. */
export function called(command) {
  return call(command.replace(/^harbormaster /, ""));
}
