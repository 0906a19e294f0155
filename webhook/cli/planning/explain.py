"""``harbormaster explain``: reasons for the clusters of a placement, from files or from the running hub."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from scorer.api.family import PlacementRef, placement_ref
from scorer.api.kinds import Kind
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import take_reference
from webhook.cli.options.base import output_option, placement_namespace_option, repository_option, run, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import now_option
from webhook.cli.planning.explanation import advice, details, heading, history, limits, overview, ranges
from webhook.cli.text.links import CLUSTER, url_of
from webhook.cli.text.output import print_document, print_line, print_table, with_urls

HELP = """Explain why a placement got its clusters.

PLACEMENT is NAME, crp/NAME or rp/NAMESPACE/NAME. With -n, NAME is a ResourcePlacement. With -f, the files are the hub,
as for `harbormaster plan`. Otherwise, queries the running hub. Without CLUSTER, prints one line per cluster of the
fleet. With one or more clusters, prints every check and every score with its numbers, and the changes that would alter
the result.

\b
Examples:
  harbormaster explain crp/payments
  harbormaster explain crp/payments busybee keenowl
  harbormaster explain -f examples/fleet crp/payments busybee
  harbormaster explain rp/team-a/web -o json
  harbormaster explain crp/payments -o wide    with a URL that explains each verdict
  harbormaster explain crp/payments --runs     earlier decisions, and what changed between them

\b
Exit codes:
  0  explained
  1  no such placement or cluster, a file cannot be used, or an unreachable hub
"""


@click.command("explain", help=HELP, short_help="Explain why a placement got its clusters.")
@click.argument("placement", shell_complete=tab("placements"))
@click.argument("clusters", nargs=-1, metavar="[CLUSTER]...", shell_complete=tab("clusters"))
@repository_option
@placement_namespace_option
@output_option("text", "wide", "json", "yaml")
@click.option("--runs", is_flag=True, help="Show the last decisions, each compared with the one before it.")
@now_option
@hub_options
def command(
    placement: str,
    clusters: Sequence[str],
    files: Files,
    namespace: str | None,
    output: str,
    runs: bool,
    now: datetime | None,
    hub: HubOptions,
) -> int:
    """Explain a decision. Raises `click.UsageError`."""
    words = (placement, *clusters)
    if runs and (files or take_reference(words, namespace)[1] or now is not None):
        raise click.UsageError("--runs cannot be used with -f, CLUSTER or --now")
    if files:
        hub.refuse_with_files()
    elif now is not None:
        raise click.UsageError("--now requires -f: the running hub uses its own clock")
    connection = None if files else hub.find()
    default = connection.namespace if connection else DEFAULT_NAMESPACE
    reference, clusters = take_reference(words, namespace, default=default)
    ref = placement_ref(reference.name, reference.namespace)
    if runs:
        assert connection is not None
        past = run(_ask(connection, ref, runs=True))
        if output in ("text", "wide"):
            _echo(list(history(past)))
        else:
            print_document(past, output)
        return 0
    answer = _from_files(files, *reference, now) if connection is None else run(_ask(connection, ref, runs=False))
    answer = _only(answer, clusters)
    if output in ("text", "wide"):
        _print(str(reference), answer, in_detail=bool(clusters), wide=output == "wide")
    else:
        print_document(answer, output)
    return 0


def _from_files(files: Files, kind: Kind, namespace: str, name: str, now: datetime | None) -> Mapping[str, Any]:
    from scorer.placement.plan_document import children_of, decide
    from scorer.placement.policy_hash import policy_in_force
    from scorer.placement.trace import DecisionContext, explanation
    from webhook.cli.offline.hub import find_placement, make_hub

    hub = make_hub(load_known(files), now=now, clock=datetime.now(UTC))
    placement = find_placement(hub, kind, namespace, name)
    bindings, snapshots = children_of(placement, hub.bindings), children_of(placement, hub.snapshots)
    decision = decide(placement, hub.fleet, bindings, snapshots, hub.now)
    if decision.invalid:
        raise UserError(f"{name}: the policy cannot be evaluated: {decision.invalid}")
    occasion = DecisionContext(
        f"rp/{namespace}/{name}" if namespace else f"crp/{name}", policy_in_force(placement, snapshots)
    )
    return explanation(decision, placement["spec"].get("policy"), str(hub.fleet.revision), occasion=occasion)


async def _ask(connection: HubConnection, ref: PlacementRef, *, runs: bool) -> JsonObject:
    """Return the reasons for a placement's clusters, or with *runs* its last decisions. Raises `UserError`."""
    from webhook.cli.hub.answers import hub_answers
    from webhook.cli.hub.client import HubRefusedError

    try:
        async with hub_answers(connection) as hub:
            return await (hub.placement_runs(ref) if runs else hub.explain(ref))
    except HubRefusedError as error:
        raise UserError(error.message) from error


def _only(answer: Mapping[str, Any], clusters: Sequence[str]) -> Mapping[str, Any]:
    """Return the answer with only the named clusters, in the order of the decision. All are kept if none is named.

    Raises:
        UserError: One of them is not in the fleet.
    """
    fleet = [item["cluster"] for item in answer["items"]]
    for cluster in clusters:
        if cluster not in fleet:
            others = ", ".join(sorted(fleet)[:20]) or "none"
            raise UserError(f"there is no member cluster {cluster!r}. The fleet: {others}")
    if not clusters:
        return answer
    return {**answer, "items": [item for item in answer["items"] if item["cluster"] in clusters]}


def _print(reference: str, answer: Mapping[str, Any], *, in_detail: bool, wide: bool) -> None:
    items = answer["items"]
    lines = heading(reference, answer)
    if in_detail:
        for item in items:
            lines += ["", *details(item), *([f"  see {url_of(item['verdict'], CLUSTER)}"] if wide else [])]
        _echo(lines)
        return
    _echo([*lines, ""])
    headers, rows = overview(items)
    if wide:
        headers, rows = with_urls(headers, rows)
    print_table(headers, rows)
    over = "Clusters that would exceed a spread limit (ranked after all others):"
    for title, notes in (
        (over, limits(items)),
        ("Clusters that set the ranges:", ranges(items)),
        ("What would help:", advice(items)),
    ):
        if notes:
            _echo(["", title, *(f"  {note}" for note in notes)])


def _echo(lines: Sequence[str]) -> None:
    for line in lines:
        print_line(line)
