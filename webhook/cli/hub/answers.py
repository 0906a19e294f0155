"""Answers to the questions of commands: from the hub of ``up``, or computed here from readable objects of the hub.

The hub of ``up`` answers below ``/v1``. Any other hub only stores objects, so this process runs the advisors, planners
and gates of `harbormaster serve` (`webhook.processes.own_answers`). If the user may not read enough of the hub, its
server answers about one namespace (`webhook.cli.hub.team_answers`).
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from scorer.api.family import PlacementRef
from scorer.api.unstructured.json_object import JsonObject, format_time
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.cli.hub.connection import HubConnection, unreachable

if TYPE_CHECKING:
    from webhook.endpoints.http.problems import ProblemError


class HubAnswers(Protocol):
    """Answers questions about a hub. Every method raises `HubRefusedError` if there is no answer."""

    async def explain(self, ref: PlacementRef) -> JsonObject:
        """Return the reasons for the clusters of a placement."""
        ...

    async def status(self, namespace: str = "") -> JsonObject:
        """Return what needs attention on the hub, or in *namespace* unless it is empty."""
        ...

    async def placement_runs(self, ref: PlacementRef) -> JsonObject:
        """Return the last decisions on a placement."""
        ...

    async def plan(self, changes: JsonObject) -> JsonObject:
        """Return the effects of changes to the hub."""
        ...

    async def render(self, question: JsonObject) -> JsonObject:
        """Return the objects of placements before and after changes to the hub."""
        ...

    async def plan_upgrade(self, question: JsonObject) -> JsonObject:
        """Return when an upgrade run reaches each member."""
        ...

    async def budgets(self, pools: Sequence[str]) -> JsonObject:
        """Return the current limits of the budgets of *pools*, or of all node pools if *pools* is empty."""
        ...

    async def budget_calendar(
        self, pools: Sequence[str], start: datetime, days: int, zone: ZoneInfo | None
    ) -> JsonObject:
        """Return the limits of the budgets of node pools over time, with days in *zone*."""
        ...

    async def gate(self, gate: str, question: JsonObject) -> JsonObject:
        """Return the answer of a gate."""
        ...

    async def reserve(self, request: JsonObject) -> JsonObject:
        """Request a reservation from a gate."""
        ...

    async def reservations(self) -> JsonObject:
        """Return all reservations."""
        ...

    async def release(self, identifier: str) -> None:
        """Release a reservation."""
        ...


class ServedAnswers:
    """The answers of a server of harbormaster.

    Args:
        client: Client of the server.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def explain(self, ref: PlacementRef) -> JsonObject:
        """See `HubAnswers.explain`."""
        parameters = {"kind": ref.kind, "name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
        return await self._client.query("/v1/explain", {"placement": {"ref": parameters}})

    async def status(self, namespace: str = "") -> JsonObject:
        """See `HubAnswers.status`."""
        query = f"?namespace={quote(namespace, safe='')}" if namespace else ""
        return await self._client.read_json(f"/v1/status{query}")

    async def placement_runs(self, ref: PlacementRef) -> JsonObject:
        """See `HubAnswers.placement_runs`."""
        path = "/".join(quote(part, safe="") for part in str(ref).split("/"))
        return await self._client.read_json(f"/v1/placements/{path}/runs")

    async def plan(self, changes: JsonObject) -> JsonObject:
        """See `HubAnswers.plan`."""
        return await self._client.query("/v1/plan", changes)

    async def render(self, question: JsonObject) -> JsonObject:
        """See `HubAnswers.render`."""
        return await self._client.query("/v1/render", question)

    async def plan_upgrade(self, question: JsonObject) -> JsonObject:
        """See `HubAnswers.plan_upgrade`."""
        return await self._client.query("/v1/upgrade/plan", question)

    async def budgets(self, pools: Sequence[str]) -> JsonObject:
        """See `HubAnswers.budgets`."""
        return await self._client.read_json(f"/v1/budgets?{urlencode({'pool': pools}, doseq=True)}".rstrip("?"))

    async def budget_calendar(
        self, pools: Sequence[str], start: datetime, days: int, zone: ZoneInfo | None
    ) -> JsonObject:
        """See `HubAnswers.budget_calendar`."""
        query: dict[str, object] = {"from": format_time(start), "days": days, "pool": pools}
        query |= {"tz": zone.key} if zone is not None else {}
        return await self._client.read_json(f"/v1/budgets/calendar?{urlencode(query, doseq=True)}")

    async def gate(self, gate: str, question: JsonObject) -> JsonObject:
        """See `HubAnswers.gate`."""
        return await self._client.query(f"/v1/gate/{gate}", question)

    async def reserve(self, request: JsonObject) -> JsonObject:
        """See `HubAnswers.reserve`."""
        return await self._client.query("/v1/gate/reservations", request)

    async def reservations(self) -> JsonObject:
        """See `HubAnswers.reservations`."""
        return await self._client.read_json("/v1/gate/reservations")

    async def release(self, identifier: str) -> None:
        """See `HubAnswers.release`."""
        await self._client.withdraw(f"/v1/gate/reservations/{quote(identifier, safe='')}")


@asynccontextmanager
async def hub_answers(connection: HubConnection) -> AsyncIterator[HubAnswers]:
    """Connect to a hub for questions. See `answers_of`."""
    async with Client(connection) as client, answers_of(client) as answers:
        yield answers


@asynccontextmanager
async def answers_of(client: Client) -> AsyncIterator[HubAnswers]:
    """Yield a source of answers about the hub of *client*.

    Raises:
        UserError: The hub cannot be reached or read.
        HubRefusedError: A question that the block asks has no answer.
    """
    if client.connection.ours:
        yield ServedAnswers(client)
        return
    from scorer.api.family import UnknownObjectError
    from webhook.cli.hub.team_answers import OwnOrTeamAnswers
    from webhook.endpoints.http.problems import Problem, ProblemError
    from webhook.processes.hub_reading import NotReadableError
    from webhook.settings.answers import AnswerSettings
    from webhook.settings.environment import SettingsError
    from webhook.telemetry.logs import configure

    configure("text", "error")  # the cache's log messages are for servers, not for users of a command
    try:
        settings = AnswerSettings.read(os.environ)
        async with OwnOrTeamAnswers(client, settings, _note_unread) as answers:
            yield answers
    except SettingsError as error:
        raise UserError(str(error)) from error
    except NotReadableError as error:
        raise UserError(f"{client.connection}: {error}") from error
    except UnknownObjectError as error:
        raise _refusal(ProblemError(Problem.NOT_FOUND, str(error))) from error
    except ProblemError as error:
        raise _refusal(error) from error
    except TimeoutError as error:
        raise unreachable(client.connection, error) from error


def _refusal(problem: "ProblemError") -> HubRefusedError:
    """Return a problem as the error that a client of ``/v1`` would raise."""
    return HubRefusedError(
        {
            "code": int(problem.problem.status),
            "reason": problem.problem.title,
            "message": problem.detail,
            "errors": [{"pointer": mistake.pointer, "detail": mistake.detail} for mistake in problem.mistakes],
            "answer": problem.answer,
        }
    )


def _note_unread(unread: Sequence[str]) -> None:
    """Print the source of an answer, and the objects that it does not cover."""
    note = "note: computed locally from the objects that you may read on the hub, without harbormaster serve"
    missing = f", not including {', '.join(unread)}, which you may not read or the hub does not have" if unread else ""
    complain(note + missing)
