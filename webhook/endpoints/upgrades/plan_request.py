"""The request bodies of ``/v1/upgrade/plan`` and ``/v1/upgrade/whatif``, and the question in them.

No HTTP: a command that plans on the hub of a kubeconfig parses its own questions with it.

Source: docs/specifications/upgrade-runs.md 14.1, 14.4 and 14.7.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from scorer.api import kinds
from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, text_at
from scorer.api.upgrade.plan_change import MOST_CHANGES, DurationText, PlanChange
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.field_path import json_pointer
from scorer.api.values.quoting import quote
from scorer.upgrade.planning.changes import UnfitChangeError
from webhook.admission.rehearsal import rehearse
from webhook.answers.one_at_a_time import PlannerBusyError
from webhook.answers.upgrade_plans import (
    UnfitStrategyError,
    UnknownRunError,
    UnplannableError,
    UpgradeQuestion,
    unknown_run,
)
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import Name, RequestModel
from webhook.kube.ports import StoreError
from webhook.runtime.clock import DeadlineExceededError
from webhook.validation.framework.context import Context

MOST_MEMBERS: Final = 2000
MOST_DEFINITIONS: Final = 500
"""Maximum number of windows, and of catalogs."""


Document = dict[str, Any]


class AssumeModel(RequestModel):
    """Assumptions of a plan."""

    approve_after: DurationText = "0s"
    """Time from the opening of a gate to its approval, such as `1h30m`."""

    @field_validator("approve_after")
    @classmethod
    def _check(cls, text: str) -> str:
        parse_wait_time(text)
        return text


class UpgradePlanModel(RequestModel):
    """An upgrade run to plan, and objects that replace those on the hub."""

    run: Annotated[Name | Document, Field(union_mode="left_to_right")]
    """The name of a ClusterUpgradeRun on the hub, or a ClusterUpgradeRun, whose `status` is ignored."""
    strategy: Document | None = None
    """The ClusterUpgradeStrategy that the run refers to. Only for a run that has not started."""
    windows: Annotated[tuple[Document, ...], Field(max_length=MOST_DEFINITIONS)] | None = None
    """All ClusterMaintenanceWindows. Absent: those on the hub."""
    catalogs: Annotated[tuple[Document, ...], Field(max_length=MOST_DEFINITIONS)] | None = None
    """All ClusterVersionCatalogs. Absent: those on the hub."""
    members: Annotated[tuple[Document, ...], Field(max_length=MOST_MEMBERS)] | None = None
    """All MemberClusters. Absent: those on the hub that have joined. Their current versions are in the annotation
    `harbormaster.dev/upgrade-observed`."""
    assume: AssumeModel = AssumeModel()

    def objects(self) -> Iterator[tuple[tuple[str | int, ...], Kind, JsonObject]]:
        """Yield the objects of the body, each with its path and its required kind."""
        if not isinstance(self.run, str):
            yield ("run",), kinds.UPGRADE_RUN, self.run
        if self.strategy is not None:
            yield ("strategy",), kinds.UPGRADE_STRATEGY, self.strategy
        lists = (
            ("windows", kinds.MAINTENANCE_WINDOW, self.windows),
            ("catalogs", kinds.VERSION_CATALOG, self.catalogs),
            ("members", kinds.MEMBER_CLUSTER, self.members),
        )
        for member, kind, documents in lists:
            for at, document in enumerate(documents or ()):
                yield (member, at), kind, document


class UpgradeChangesModel(UpgradePlanModel):
    """An upgrade run, and changes to it, to the hub around it, or to the assumptions."""

    changes: Annotated[tuple[PlanChange, ...], Field(min_length=1, max_length=MOST_CHANGES)]
    """Changes, applied one after another."""


MayGet = Callable[[Kind, str], Awaitable[bool]]
"""Returns whether the caller may get an object. Raises `ProblemError` if the hub does not respond."""


@contextmanager
def upgrade_problems() -> Iterator[None]:
    """Raise the errors of an upgrade planner as problem details."""
    try:
        yield
    except UnfitChangeError as error:
        mistake = Mistake(json_pointer(("changes", error.position, *error.at)), "invalid", error.detail)
        raise ProblemError.of_mistakes([mistake]) from error
    except UnfitStrategyError as error:
        raise ProblemError.of_mistakes([Mistake("/strategy", "invalid", str(error))]) from error
    except UnknownRunError as error:
        raise ProblemError(Problem.NOT_FOUND, str(error)) from error
    except UnplannableError as error:
        raise ProblemError(Problem.CONFLICT, str(error)) from error
    except (PlannerBusyError, DeadlineExceededError) as error:
        raise ProblemError(Problem.DEADLINE_EXCEEDED, str(error), retry_after=1) from error
    except StoreError as error:
        raise ProblemError(Problem.NOT_READY, f"the request to the hub failed: {error}", retry_after=1) from error


async def read_question(body: UpgradePlanModel, context: Context, may_get: MayGet) -> UpgradeQuestion:
    """Return the question that a body asks, with the objects of the body validated.

    Args:
        body: The request body.
        context: Inputs of admission rules, with the caller as the user.
        may_get: Returns whether the caller may get an object.

    Raises:
        ProblemError: An object of the body is invalid, the caller may not get the run or its strategy, or the hub does
            not respond.
    """
    if isinstance(body.run, str) and not await may_get(kinds.UPGRADE_RUN, body.run):
        raise ProblemError(Problem.NOT_FOUND, unknown_run(body.run))
    documents, mistakes = dict[tuple[str | int, ...], JsonObject](), list[Mistake]()
    for at, kind, document in body.objects():
        checked_document, wrong = _checked(at, kind, document, context)
        mistakes += wrong
        documents[at] = checked_document
        await asyncio.sleep(0)  # there may be thousands, so other requests are served between them
    mistakes = mistakes or list(_twice(documents))
    if mistakes:
        raise ProblemError.of_mistakes(mistakes)
    await _check_strategy(documents, may_get)
    return UpgradeQuestion(
        run=documents.get(("run",), body.run),
        strategy=documents.get(("strategy",)),
        windows=_all(documents, "windows", body.windows),
        catalogs=_all(documents, "catalogs", body.catalogs),
        members=_all(documents, "members", body.members),
        approve_after=parse_wait_time(body.assume.approve_after),
        changes=body.changes if isinstance(body, UpgradeChangesModel) else (),
    )


async def _check_strategy(documents: dict[tuple[str | int, ...], JsonObject], may_get: MayGet) -> None:
    """Require that the caller may get the strategy that a run of the body refers to, unless the body includes it.

    Raises:
        ProblemError: The caller may not, which is reported like a missing strategy, or the hub does not respond.
    """
    if ("strategy",) in documents:
        return
    name = text_at(documents.get(("run",), {}), "spec", "strategyRef", "name")
    if name and not await may_get(kinds.UPGRADE_STRATEGY, name):
        raise ProblemError(Problem.NOT_FOUND, f"there is no {kinds.UPGRADE_STRATEGY.kind} {quote(name)}")


def _all(
    documents: dict[tuple[str | int, ...], JsonObject], member: str, members: tuple[Document, ...] | None
) -> list[JsonObject] | None:
    return None if members is None else [documents[member, at] for at in range(len(members))]


def _checked(
    at: tuple[str | int, ...], kind: Kind, document: JsonObject, context: Context
) -> tuple[JsonObject, list[Mistake]]:
    """Return an object as it would be stored, and its errors."""
    if not isinstance(document.get("kind"), str) or not isinstance(document.get("apiVersion"), str):
        return document, [Mistake(json_pointer((*at, "kind")), "required", f"must be a {kind.kind}, with apiVersion")]
    if group_kind(document) != kind.group_kind:
        subject = f"{quote(document['kind'])} of {quote(document['apiVersion'])}"
        return document, [Mistake(json_pointer((*at, "kind")), "invalid", f"{subject}: must be a {kind.kind}")]
    verdict = rehearse(document, None, "CREATE", context)
    mistakes = [Mistake(json_pointer((*at, *error.field.parts)), "invalid", error.text()) for error in verdict.errors]
    if verdict.refusal:
        mistakes.append(Mistake(json_pointer(at), "invalid", verdict.refusal))
    if not name_of(verdict.document):
        mistakes.append(Mistake(json_pointer((*at, "metadata", "name")), "required", "must be set"))
    return verdict.document, mistakes


def _twice(documents: dict[tuple[str | int, ...], JsonObject]) -> Iterator[Mistake]:
    """Yield an error for each object that has the name of an earlier object of its list."""
    visited_names = set()
    for at, document in documents.items():
        key = at[0], name_of(document)
        if key in visited_names:
            yield Mistake(json_pointer((*at, "metadata", "name")), "duplicate", f"{quote(key[1])} is listed twice")
        visited_names.add(key)
