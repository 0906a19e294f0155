"""Reads and writes runs of one kind, staged updates or upgrades, and their requests for approval."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.staged_update.orders import RunOrderRefusedError
from scorer.upgrade.patches import UpgradeOrderRefusedError
from webhook.actions.patches import answer_patch
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import title_of
from webhook.cli.hub.client import MISSING, Client, HubRefusedError, HubResponse, ResourcePath, retry_on_conflict

View = TypeVar("View")


class RunsOfKind(ABC, Generic[View]):
    """The runs of one kind, in one namespace or cluster-scoped.

    Args:
        client: Client of the hub.
        kind: Kind of the runs.
        namespace: Namespace of the runs, empty if they are cluster-scoped.
    """

    def __init__(self, client: Client, kind: Kind, namespace: str = "") -> None:
        self.client = client
        self.kind = kind
        self.space = namespace or None

    async def find(self, name: str) -> View | None:
        """Return a run, or None if it does not exist."""
        run = await self.get_object(self.kind, name)
        return None if run is None else await self.view(run)

    async def get(self, name: str) -> View:
        """Return a run. Raises `UserError` if it does not exist."""
        view = await self.find(name)
        if view is None:
            raise UserError(f"there is no {self.kind.kind} {name}{self.elsewhere()}")
        return view

    async def create(self, document: JsonObject) -> str:
        """Create a run and return its title."""
        print_warnings(await self.client.create(self.kind, document))
        return self.title(name_of(document))

    def title(self, name: str) -> str:
        """Return the name of a run for messages."""
        return title_of(self.kind, name)

    @abstractmethod
    async def view(self, run: JsonObject) -> View:
        """Return a run with its situation."""

    def elsewhere(self) -> str:
        """Return the end of the message about a run that does not exist."""
        return ""

    async def answer_request(self, kind: Kind, name: str, conditions: Callable[[JsonObject], object]) -> bool:
        """Answer an approval request or a gate, and return whether that changed it.

        A patch replaces the whole list of conditions, so it carries the resourceVersion that was read.

        Args:
            kind: Kind of the request.
            name: Name of the request.
            conditions: Returns the conditions of the answer, None if the request already has that answer.

        Raises:
            UserError: *conditions* refuses the answer.
        """

        async def attempt() -> bool:
            request = await self.client.get(ResourcePath(kind, self.space, name))
            with as_user_error():
                answer = conditions(request)
            if answer is None:
                return False
            status = ResourcePath(kind, self.space, name, subresource="status")
            print_warnings(await self.client.patch(status, answer_patch(request, answer)))
            return True

        return await retry_on_conflict(attempt)

    async def get_object(self, kind: Kind, name: str) -> JsonObject | None:
        """Return an object, or None if it does not exist. Raises `UserError` if its kind is not served."""
        try:
            return await self.client.get(ResourcePath(kind, self.space, name))
        except HubRefusedError as error:
            if error.code != MISSING:
                raise
            if name in error.message:
                return None
            message = f"the hub does not serve {kind.plural}: apply the output of `harbormaster crds` there"
            raise UserError(message) from error


@contextmanager
def as_user_error() -> Iterator[None]:
    """Convert `RunOrderRefusedError` and `UpgradeOrderRefusedError` to `UserError`."""
    try:
        yield
    except (RunOrderRefusedError, UpgradeOrderRefusedError) as error:
        raise UserError(str(error)) from error


def print_warnings(answer: HubResponse) -> None:
    """Print the warnings of the hub on standard error."""
    for warning in answer.warnings:
        complain(f"Warning: {warning}")
