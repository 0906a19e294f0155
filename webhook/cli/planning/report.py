"""The report of ``harbormaster plan``, in every format, and its exit code."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from scorer.api.kinds import NODE_POOL
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import complain
from webhook.cli.files.documents import Loaded
from webhook.cli.linting.sarif import findings, sarif_log
from webhook.cli.options.verdicts import admission_warnings, check_admission
from webhook.cli.planning.node_pools import print_node_pools
from webhook.cli.planning.output import changes_anything, coverage_lines, print_plan
from webhook.cli.text.output import print_document

CHANGES: Final = 2


class PlanReport(NamedTuple):
    """Output of a plan.

    Args:
        output: The format.
        texts: Texts of the planned files, for formats with line numbers.
        require_complete: Exit with 1 if the plan is incomplete.
    """

    output: str
    texts: Mapping[str, str]
    require_complete: bool = False

    def show(self, document: JsonObject, objects: Sequence[Loaded], *, everything: bool) -> int:
        """Print a plan, unless admission refuses part of it. Return the exit code."""
        if self.output == "sarif":
            from webhook.admission.catalogue import rule_texts

            written_objects = [item for item in objects if item.source.number]  # not the deletions
            results = list(findings(document["admission"], written_objects, self.texts))
            print_document(sarif_log(results, rule_texts(), Path.cwd()), "json")
            return self._code(document)
        check_admission(document["admission"], objects)
        if self.output == "markdown":
            from webhook.cli.planning.markdown import markdown  # loads the engine

            warnings = [
                f"{item.source}: {warning}" for item, warning in admission_warnings(document["admission"], objects)
            ]
            click.echo(markdown(document, warnings), nl=False)
        elif self.output == "table":
            print_plan(document, everything=everything)
            if "nodePools" in document:
                print_node_pools(document["nodePools"])
        else:
            print_document(document, self.output)
        return self._code(document)

    def _code(self, document: JsonObject) -> int:
        if any(verdict["errors"] for verdict in document["admission"]):
            return 1
        # A change that is left out has no effects in the plan, so CI would pass regardless of its effects.
        if document.get("hidden") or (self.require_complete and not document.get("complete", False)):
            reasons = "; ".join(coverage_lines(document)) or "the server does not report what it covers"
            complain(f"error: the plan is not complete: {reasons}")
            return 1
        has_node_changes = bool(document.get("nodePools", {}).get("pools"))
        return CHANGES if has_node_changes or changes_anything(document) else 0


def with_unused(document: JsonObject, unused: Counter[str]) -> JsonObject:
    """Return *document* with the *unused* objects added to ``notJudged``, by kind.

    If NodePools were simulated, written ones count as judged, and deleted ones do not.
    """
    if "complete" not in document:  # an older server
        return document
    counts = unused + Counter({entry["kind"]: entry["count"] for entry in document["notJudged"]})
    if "nodePools" in document:
        deletions = [verdict for verdict in document["admission"] if verdict["operation"] == "DELETE"]
        counts[NODE_POOL.kind] = sum(verdict["kind"] == NODE_POOL.kind for verdict in deletions)
    not_judged = [{"kind": kind, "count": count} for kind, count in sorted(counts.items()) if count]
    complete = not (not_judged or document["hidden"] or document["unread"])
    return {**document, "complete": complete, "notJudged": not_judged}
