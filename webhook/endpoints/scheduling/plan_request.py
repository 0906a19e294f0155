"""The request bodies of ``/v1/plan`` and ``/v1/render``, and the proposals in them.

No HTTP: a command that plans on the hub of a kubeconfig parses its own proposals with it.

Source: docs/specifications/serving.md 3; docs/specifications/scheduling.md 22.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from pydantic import Field

from scorer.api.family import FAMILY_OF, family_in
from scorer.api.kinds import KINDS, api_version, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.values.field_path import json_pointer
from scorer.api.values.quoting import quote
from scorer.what_if.state import ObjectKey
from webhook.access.ports import NotReviewedError
from webhook.answers.one_at_a_time import PlannerBusyError
from webhook.answers.proposal import Deleted, Proposal, ProposalError, ProposedObject
from webhook.answers.rendering import RenderScope
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import Name, RefModel, RequestModel
from webhook.runtime.clock import DeadlineExceededError
from webhook.validation.framework.context import HubKinds

MOST_OBJECTS: Final = 500
MOST_CLUSTERS: Final = 1000


class DeletedModel(RequestModel):
    """Names an object on the hub."""

    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Kind, such as `ClusterResourcePlacement`."""
    name: Name
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Empty for a cluster-scoped object."""


class RunRefModel(RequestModel):
    """Names a staged update run on the hub, or among the objects."""

    name: Name
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of a StagedUpdateRun. A ClusterStagedUpdateRun has none."""


class ChangesModel(RequestModel):
    """Changes to the hub, all made together."""

    objects: Annotated[tuple[dict[str, Any], ...], Field(max_length=MOST_OBJECTS)] = ()
    """Objects that would be created, or would replace the stored ones. A member cluster without `status` keeps the
    stored status."""
    deleted: Annotated[tuple[DeletedModel, ...], Field(max_length=MOST_OBJECTS)] = ()
    """Objects that would be deleted."""
    placements: Annotated[tuple[RefModel, ...], Field(max_length=MOST_OBJECTS)] | None = None
    """Limit the answer to these placements. Absent: all."""


class RenderModel(ChangesModel):
    """Changes to the hub, all made together. Without any change, the answer has the pending changes."""

    clusters: Annotated[tuple[Name, ...], Field(max_length=MOST_CLUSTERS)] | None = None
    """Limit the answer to these member clusters. Absent: all."""
    unchanged: bool = False
    """Whether to also list objects that would not change."""
    run: RunRefModel | None = None
    """Staged update run on the hub. The answer then has only its placement, with the resource snapshot and the
    overrides that the run rolls out, instead of the latest ones. Absent: no run."""


class PlanModel(ChangesModel):
    """Changes to the hub, all made together. Without any change, the plan shows how the hub will proceed."""

    lost: Annotated[tuple[Name, ...], Field(max_length=MOST_CLUSTERS)] = ()
    """Member clusters that would be lost."""
    drained: Annotated[tuple[Name, ...], Field(max_length=MOST_CLUSTERS)] = ()
    """Member clusters that would be tainted, and their placements evicted, as `kubectl fleet drain` does."""
    runs: Annotated[tuple[RunRefModel, ...], Field(max_length=MOST_OBJECTS)] | None = None
    """Limit the answer to these staged update runs. Absent: all unfinished ones."""


def requested_placements(body: ChangesModel) -> list[ObjectKey] | None:
    """Return the placements of the answer. None: unlimited."""
    if body.placements is None:
        return None
    return [ObjectKey(*FAMILY_OF[ref.kind].placement.group_kind, ref.name, ref.namespace) for ref in body.placements]


def requested_scope(body: RenderModel) -> RenderScope:
    """Return the clusters to render, whether unchanged objects are included, and the run."""
    if body.run is None:
        return RenderScope(body.clusters, body.unchanged)
    run = ObjectKey(*family_in(body.run.namespace).run.group_kind, body.run.name, body.run.namespace)
    return RenderScope(body.clusters, body.unchanged, run)


def requested_runs(body: PlanModel) -> list[ObjectKey] | None:
    """Return the staged update runs to which the request limits the answer. None: unset, all unfinished ones."""
    if body.runs is None:
        return None
    return [ObjectKey(*family_in(ref.namespace).run.group_kind, ref.name, ref.namespace) for ref in body.runs]


def read_proposal(body: PlanModel | RenderModel, kinds: HubKinds) -> Proposal:
    """Read the changes from the request body.

    Raises:
        ProblemError: An object has no name, or is of a kind or version that the hub does not have. Lists every error.
    """
    objects, mistakes = [], []
    for at, document in enumerate(body.objects):
        object_mistakes = list(_mistakes(document, kinds, ("objects", at)))
        mistakes += object_mistakes
        if not object_mistakes:
            kind = kinds.find(*group_kind(document))
            assert kind is not None
            objects.append(ProposedObject(kind, document))
    if mistakes:
        raise ProblemError.of_mistakes(mistakes)
    deleted = [Deleted(deletion.kind, deletion.name, deletion.namespace) for deletion in body.deleted]
    if isinstance(body, RenderModel):
        return Proposal(objects, (), deleted)
    return Proposal(objects, (), deleted, body.lost, body.drained)


@contextmanager
def plan_problems() -> Iterator[None]:
    """Raise the errors of a planner as problem details."""
    try:
        yield
    except ProposalError as error:
        raise ProblemError.of_mistakes([Mistake(*mistake) for mistake in error.mistakes]) from error
    except NotReviewedError as error:
        detail = "the caller's rights could not be reviewed: the hub refused the review or did not answer"
        raise ProblemError(Problem.NOT_READY, detail, retry_after=1) from error
    except (PlannerBusyError, DeadlineExceededError) as error:
        raise ProblemError(Problem.DEADLINE_EXCEEDED, str(error), retry_after=1) from error


def _mistakes(document: JsonObject, kinds: HubKinds, at: tuple[str | int, ...]) -> Iterator[Mistake]:
    for member in ("apiVersion", "kind"):
        value = document.get(member)
        if value is None or value == "":
            yield Mistake(json_pointer((*at, member)), "required", "must be set")
            return
        if not isinstance(value, str):
            yield Mistake(json_pointer((*at, member)), "type", f"{quote(value)}: must be a string")
            return
    yield from _kind_mistakes(document, kinds, at)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        code, reason = ("required", "must be set") if metadata is None else ("type", "must be an object")
        yield Mistake(json_pointer((*at, "metadata")), code, reason)
        return
    for member in ("name", "namespace"):
        value = metadata.get(member, "")
        if not isinstance(value, str):
            yield Mistake(json_pointer((*at, "metadata", member)), "type", f"{quote(value)}: must be a string")
        elif member == "name" and not value:
            yield Mistake(json_pointer((*at, "metadata", "name")), "required", "must be set")


def _kind_mistakes(document: JsonObject, kinds: HubKinds, at: tuple[str | int, ...]) -> Iterator[Mistake]:
    group, version = split_api_version(document["apiVersion"])
    kind = kinds.find(group, document["kind"])
    if kind is None:
        others = sorted({other.api_version for other in KINDS.values() if other.kind == document["kind"]})
        hint = f", but is served as {' and '.join(others)}" if others else ""
        detail = f"{quote(document['kind'])} of {quote(document['apiVersion'])} is not a known kind{hint}"
        yield Mistake(json_pointer((*at, "kind")), "unknown", detail)
    elif version not in kind.versions:
        versions = " and ".join(api_version(group, version) for version in kind.versions)
        detail = f"{quote(document['apiVersion'])}: {kind.kind} is served as {versions}"
        yield Mistake(json_pointer((*at, "apiVersion")), "unknown", detail)
