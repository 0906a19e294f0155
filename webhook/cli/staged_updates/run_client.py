"""Reads and writes staged update runs on a hub."""

import getpass
from dataclasses import dataclass
from typing import Final

from scorer.api.family import Family, family_in
from scorer.api.kinds import Kind
from scorer.api.names import PARENT_PLACEMENT, RESOURCE_INDEX, TARGET_UPDATE_RUN
from scorer.api.unstructured.documents import name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.rollout.snapshots.groups import retained_indices
from scorer.staged_update.orders import (
    RunOrder,
    approved_conditions,
    is_approved,
    parent_run,
)
from scorer.staged_update.phase import RunSituation, situation_of
from webhook.cli.errors import UserError
from webhook.cli.hub.client import FORBIDDEN, Client, HubRefusedError, ResourcePath
from webhook.cli.hub.resource_arguments import object_names
from webhook.cli.staged_updates.runs_of_kind import RunsOfKind, print_warnings
from webhook.runtime.clock import utc_now

_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and its situation.

    Args:
        run: The run as stored.
        requests: Approval requests.
        situation: Progress and waits.
    """

    run: JsonObject
    requests: list[JsonObject]
    situation: RunSituation


class Runs(RunsOfKind[RunView]):
    """The runs of one family and namespace.

    Args:
        client: Client of the hub.
        namespace: Namespace of the runs, empty for cluster-scoped ones.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self.family: Family = family_in(namespace)
        super().__init__(client, self.family.run, namespace)

    async def named(self, name: str, stage: str = "") -> tuple[RunView, str]:
        """Return the run of a name, and the approval request if the name is that of a request.

        Args:
            name: Name of a run or a request.
            stage: The stage, if the user gave one. In that case, *name* is the name of a run.

        Raises:
            UserError: No run and no request has that name, or both a run and a request have it.
        """
        view = await self.find(name)
        request = None if view is not None and stage else await self.get_object(self.family.approval_request, name)
        if view is not None and request is not None:
            owner = parent_run(request)
            subject = f"{name} is both a run and an approval request of run {owner}"
            raise UserError(f"{subject}: name the run, with --stage")
        if view is not None:
            return view, ""
        if request is None:
            raise UserError(f"there is no run and no approval request {name}{self.elsewhere()}")
        return await self.get(parent_run(request) or name), name

    async def all(self) -> list[JsonObject]:
        """Return all runs."""
        return await self._list(ResourcePath(self.family.run, self.space))

    async def retained(self, placement: str) -> set[int]:
        """Return the indexes of the resource snapshots of a placement that can be rolled out."""
        place = ResourcePath(self.family.resource_snapshot, self.space)
        snapshots = await self._list(place, f"{PARENT_PLACEMENT}={placement},{RESOURCE_INDEX}")
        return retained_indices(snapshots)

    async def check(self, order: RunOrder) -> None:
        """Require that the placement and the strategy of a new run exist, as far as the caller may read them.

        Raises:
            UserError: The placement or the strategy does not exist. Lists every error, with the existing objects.
        """
        references = (
            ("--placement", self.family.placement, order.placement),
            ("--strategy", self.family.strategy, order.strategy),
        )
        mistakes = [
            f"{option} {name}: there is no such {kind.kind}{self._within()}; {await self._existing(kind)}"
            for option, kind, name in references
            if await self._is_missing(kind, name)
        ]
        if mistakes:
            raise UserError(mistakes)

    async def _is_missing(self, kind: Kind, name: str) -> bool:
        try:
            return await self.get_object(kind, name) is None
        except HubRefusedError as error:
            if error.code != FORBIDDEN:
                raise
            return False

    async def _existing(self, kind: Kind) -> str:
        """Return the objects of a kind as text."""
        try:
            names = await object_names(self.client, ResourcePath(kind, self.space))
        except HubRefusedError:
            return f"you may not list {kind.plural}"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"existing: {', '.join(names[:_MOST_NAMED])}{more}" if names else f"there are no {kind.plural}"

    async def patch(self, run: JsonObject, patch: JsonObject) -> None:
        """Patch a run."""
        print_warnings(await self.client.patch(ResourcePath(self.family.run, self.space, name_of(run)), patch))

    async def approve(self, name: str, message: str) -> bool:
        """Approve a request and return whether it was not approved before."""

        def conditions(request: JsonObject) -> object:
            return None if is_approved(request) else approved_conditions(request, message, utc_now())

        return await self.answer_request(self.family.approval_request, name, conditions)

    async def view(self, run: JsonObject) -> RunView:
        """See `RunsOfKind.view`."""
        place, name = ResourcePath(self.family.approval_request, self.space), name_of(run)
        requests = await self._list(place, f"{TARGET_UPDATE_RUN}={name}")
        return RunView(run, requests, situation_of(run, requests, utc_now()))

    async def _list(self, place: ResourcePath, selector: str = "") -> list[JsonObject]:
        listing = await self.client.list(place, selector)
        about = {"apiVersion": place.kind.api_version, "kind": place.kind.kind}
        return [{**about, **item} for item in listing.get("items") or ()]

    def elsewhere(self) -> str:
        """Return the end of the message about a missing run: the namespace, or the option that selects one."""
        return self._within() or ". For a run of a namespace: -n NAMESPACE"

    def _within(self) -> str:
        return f" in namespace {self.namespace}" if self.namespace else ""


def approver() -> str:
    """Return the user who runs the command, as far as this machine knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unknown user"
