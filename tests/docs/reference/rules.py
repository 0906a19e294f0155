"""Every rule of admission, from the catalog that ``harbormaster rules`` prints."""

from tests.docs.reference.markdown import code, lines, plain, table, titled
from tests.docs.specified import rules_specified
from webhook.admission.catalogue import CatalogueEntry, Layer, catalogue

MOST_NAMED = 6
"""Kinds that one row names; more are counted."""


def page() -> str:
    """Return the page of all rules."""
    introduction = """
The rules of admission with their ids. `harbormaster rules` prints the same list, `harbormaster rules X-14`
one rule, `harbormaster rules crp -o wide` those of a kind with their sources. The ids of the rules that refused a
write are in the API server's audit log.

**Severity**: *deny* refuses the write, *warn* admits it with a warning, *default* sets an absent field,
*mutate* rewrites a field, *allow* deliberately admits it, *none* deliberately leaves it to other mechanisms.
**Layer**: *schema* and *CEL* are checked by the API server, from the CustomResourceDefinition, and also apply while no
webhook responds. *webhook* is harbormaster. *live* compares with the rest of the hub, and only warns. **Specified in**:
the section of the [specifications](../specifications/README.md) with fields, conditions and reasons.
"""
    headers = ["rule", "severity", "on", "kinds", "layers", "demands", "specified in"]
    return lines(titled("Rules of admission", introduction), *table(headers, map(row, catalogue())))


def row(entry: CatalogueEntry) -> tuple[str, ...]:
    """Return the row of a rule."""
    rule, enforced = entry.rule, entry.enforced
    kinds = list(dict.fromkeys((each.kind.short_names or (each.kind.plural,))[0] for each in enforced))
    operations = dict.fromkeys(
        f"{word.lower()} {each.subresource}".rstrip() for each in enforced for word in each.operations
    )
    layers = {layer for each in enforced for layer in each.layers}
    return (
        f'<a id="{rule.id.lower()}"></a>{code(rule.id)}',
        ", ".join(rule.severity),
        ", ".join(operations),
        ", ".join(kinds) if len(kinds) <= MOST_NAMED else f"{len(kinds)} kinds",
        ", ".join(layer for layer in Layer if layer in layers),
        plain(rule.what),
        _specified(rule.id),
    )


def _specified(rule_id: str) -> str:
    """Return a link to the section of the specifications that defines a rule. Empty: a test reports it."""
    place = rules_specified().get(rule_id)
    if place is None:
        return ""
    name = place.page.removesuffix(".md")
    return f"[{name} {place.section}](../specifications/{place.page}#{place.anchor})"
