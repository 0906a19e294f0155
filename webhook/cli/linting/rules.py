"""``harbormaster rules``: every rule of admission, taken from the code."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

import click

from scorer.api.kinds import Kind, find_kind
from scorer.api.unstructured.json_object import JsonObject
from webhook.admission.catalogue import CatalogueEntry, Layer, RuleEnforcement, catalogue
from webhook.cli.errors import UserError, complain
from webhook.cli.options.base import output_option, tab
from webhook.cli.text.links import url_of
from webhook.cli.text.output import print_document, print_table

HELP = """Print the admission rules.

Without arguments, prints all rules. Arguments select rules (such as X-14), groups of rules (the letter before the dash)
and kinds, as in `harbormaster get`. With both rules and kinds, prints only the rules that apply to these kinds.

\b
Severity:
  deny   refused                    default  missing fields are filled in
  warn   admitted with a warning    mutate   a field is rewritten
  allow  admitted, by design        none     left to other components, by design

\b
Layers (-o wide). A write must pass all of them:
  schema, CEL  the API server, with the CustomResourceDefinition, even if no webhook responds
  webhook      this program
  live         this program, compared with other objects on the hub (warnings only)

\b
Examples:
  harbormaster rules
  harbormaster rules X-14 P-25
  harbormaster rules crp,rp U -o wide
  harbormaster rules nodepools -o json

\b
Exit codes:
  0  printed
  1  no such rule, group or kind
"""

_LONGEST_KINDS: Final = 32
"""Maximum width of kinds. Longer lists are counted, except with ``-o wide``."""


@click.command("rules", help=HELP, short_help="Print the admission rules.")
@click.argument("words", nargs=-1, metavar="[RULE|GROUP|KIND]...", shell_complete=tab("rules"))
@output_option("table", "wide", "json", "yaml")
def command(words: Sequence[str], output: str) -> int:
    """Print the catalog, or the part of it that *words* name."""
    entries = catalogue()
    matches = list(_Wanted.read(words, entries).among(entries))
    if output in ("json", "yaml"):
        print_document({"items": [_item(entry) for entry in matches]}, output)
    elif not matches:
        complain("No rules found")
    elif output == "wide":
        headers = ["RULE", "SEVERITY", "ON", "KINDS", "LAYERS", "DEMANDS", "SOURCE", "DOCS"]
        print_table(headers, [_row(entry, wide=True) for entry in matches])
    else:
        print_table(["RULE", "SEVERITY", "ON", "KINDS", "DEMANDS"], [_row(entry, wide=False) for entry in matches])
    return 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Selection of rules and groups by name, and of kinds. An empty selection means all."""

    names: frozenset[str]
    kinds: frozenset[Kind]

    @classmethod
    def read(cls, words: Sequence[str], entries: Sequence[CatalogueEntry]) -> "_Wanted":
        """Parse *words*.

        Raises:
            UserError: A word is neither a rule, a group nor a kind, or is a kind without rules.
        """
        rule_names = {name for entry in entries for name in (entry.rule.id, entry.rule.group)}
        with_rules = {enforcement.kind for entry in entries for enforcement in entry.enforced}
        names: set[str] = set()
        kinds: set[Kind] = set()
        for word in filter(None, ",".join(words).split(",")):
            if word.upper() in rule_names:
                names.add(word.upper())
            elif (kind := find_kind(word)) is None:
                raise UserError(_unknown(word, rule_names, with_rules))
            elif kind not in with_rules:
                raise UserError(f"{word!r}: there are no rules for {kind}")
            else:
                kinds.add(kind)
        return cls(frozenset(names), frozenset(kinds))

    def among(self, entries: Iterable[CatalogueEntry]) -> Iterator[CatalogueEntry]:
        """Yield the selected *entries*, each for the selected kinds only."""
        for entry in entries:
            if self.names and self.names.isdisjoint((entry.rule.id, entry.rule.group)):
                continue
            if not self.kinds:
                yield entry
            elif enforcements := tuple(enforcement for enforcement in entry.enforced if enforcement.kind in self.kinds):
                yield replace(entry, enforced=enforcements)


def _unknown(word: str, names: set[str], kinds: set[Kind]) -> str:
    groups = ", ".join(sorted(name for name in names if "-" not in name))
    words = [*names, *(alias for kind in kinds for alias in (kind.plural, kind.kind.lower(), *kind.short_names))]
    close = get_close_matches(word.upper(), words, n=1) or get_close_matches(word.lower(), words, n=1)
    hint = f". Did you mean {close[0]}?" if close else ""
    return f"{word!r} is not a rule such as X-14, a group of rules ({groups}) or a kind{hint}"


def _row(entry: CatalogueEntry, *, wide: bool) -> list[str]:
    rule, enforcements = entry.rule, entry.enforced
    kinds = dict.fromkeys(
        (enforcement.kind.short_names or (enforcement.kind.plural,))[0] for enforcement in enforcements
    )
    kind_names = ",".join(kinds)
    if not wide and len(kind_names) > _LONGEST_KINDS:
        kind_names = f"{len(kinds)} kinds"
    row = [rule.id, ",".join(rule.severity), _operations(enforcements), kind_names]
    if not wide:
        return [*row, rule.what]
    layers = {layer for enforcement in enforcements for layer in enforcement.layers}
    return [*row, ",".join(layer for layer in Layer if layer in layers), rule.what, rule.source, url_of(rule.id)]


def _operations(enforcements: Iterable[RuleEnforcement]) -> str:
    words = dict.fromkeys(
        f"{operation.lower()} {enforcement.subresource}".rstrip()
        for enforcement in enforcements
        for operation in enforcement.operations
    )
    return ",".join(words)


def _item(entry: CatalogueEntry) -> JsonObject:
    return {
        "id": entry.rule.id,
        "severity": [word.value for word in entry.rule.severity],
        "demands": entry.rule.what,
        "source": entry.rule.source,
        "kinds": [
            {
                "group": enforcement.kind.group,
                "kind": enforcement.kind.kind,
                **({"subresource": enforcement.subresource} if enforcement.subresource else {}),
                "operations": list(enforcement.operations),
                "layers": [layer.value for layer in enforcement.layers],
            }
            for enforcement in entry.enforced
        ],
    }
