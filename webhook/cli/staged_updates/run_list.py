"""``harbormaster run list``, and ``run status`` without a run: the staged updates of a hub, one line each."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from scorer.api.crd.table import format_age
from scorer.api.family import FAMILIES, Family, family_in
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.unstructured.documents import dicts_at, namespace_of, text_at
from webhook.cli.errors import complain
from webhook.cli.hub.client import FORBIDDEN, Client, HubRefusedError, ResourcePath
from webhook.cli.options.hub import HubOptions
from webhook.cli.text.output import print_document, print_table
from webhook.runtime.clock import utc_now

HEADERS: Final = ("RUN", "STATE", "STAGE", "CLUSTERS", "PLACEMENT", "STRATEGY", "AGE", "WAITS FOR")


async def list_runs(hub: HubOptions, namespace: str, output: str, *, unfinished: bool = False) -> int:
    """Print the runs of a namespace, or of all. Kinds that the caller may not list are named on standard error.

    Args:
        hub: The hub as named by the user.
        namespace: Namespace of the runs. Empty: unset, cluster-scoped runs and those of all namespaces.
        output: ``table``, ``json`` or ``yaml``.
        unfinished: Whether to omit finished runs.

    Raises:
        HubRefusedError: The caller may list none of the kinds.
    """
    families = (family_in(namespace),) if namespace else FAMILIES
    runs: list[Any] = []
    refusals: list[HubRefusedError] = []
    async with Client(hub.find()) as client:
        for family in families:
            try:
                runs += await _views(client, family, namespace)
            except HubRefusedError as error:
                if error.code != FORBIDDEN:
                    raise
                refusals.append(error)
    if len(refusals) == len(families):
        raise refusals[0]
    for refusal in refusals:
        complain(f"note: incomplete: {refusal.message}")
    runs = [run for run in runs if not unfinished or run["endedAt"] is None]
    runs.sort(key=lambda run: (run["createdAt"] or "", run["name"]), reverse=True)
    if output != "table":
        print_document({"items": runs}, output)
    elif runs:
        print_table(HEADERS, [_row(run) for run in runs])
    else:
        complain("No unfinished runs found. `harbormaster run list` shows all runs" if unfinished else "No runs found")
    return 0


async def _views(client: Client, family: Family, namespace: str) -> list[Any]:
    """Return the runs of a family as ``/v1/runs`` has them."""
    from webhook.answers.update_runs import run_view

    now, requests = utc_now(), defaultdict[tuple[str, str], list[JsonObject]](list)
    runs = await _all(client, family.run, namespace)
    try:
        for request in await _all(client, family.approval_request, namespace):
            requests[text_at(request, "spec", "parentStageRollout"), namespace_of(request)].append(request)
    except HubRefusedError as error:
        if error.code != FORBIDDEN:
            raise
    return [run_view(run, now, requests[run["metadata"]["name"], namespace_of(run)]) for run in runs]


async def _all(client: Client, kind: Kind, namespace: str) -> list[JsonObject]:
    return dicts_at(await client.list(ResourcePath(kind, namespace or None)), "items")


def _row(run: Any) -> Sequence[str]:
    age = format_age((utc_now() - parse_time(run["createdAt"])).total_seconds()) if run["createdAt"] else "-"
    progress = f"{run['updated']} of {run['clusters']}"
    wait = next((wait["message"] for wait in run["waits"]), "") or run["why"] or run["rejected"]
    return (
        run["ref"],
        run["state"],
        run["stage"] or "-",
        progress,
        run["placement"],
        run["strategy"],
        age,
        wait or "-",
    )
