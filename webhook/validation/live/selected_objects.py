"""Live checks on the objects that a placement selects.

Source: docs/specifications/placement-api.md 10.1.
"""

from collections.abc import Callable, Iterator
from typing import Final

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import SelectionScope
from scorer.api.unstructured.documents import dicts_at, is_deleting, labels_of, name_of, namespace_of, text_at
from scorer.rollout.ownership.objects import owning_controller
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.live.check import LiveCheck, selector_of, timed
from webhook.validation.live.placement import selected_home
from webhook.validation.placement.envelope import JOB, RUNS_ONCE, has_ttl
from webhook.validation.placement.rules import SELECTORS


def warn_about_jobs_with_a_ttl(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A selected Job has a TTL: members delete it when it has finished, and run it again only if it changes (X-37)."""
    if not context.hub.list(JOB):
        return
    before = dicts_at(old, "spec", "resourceSelectors")
    terms = dicts_at(document, "spec", "resourceSelectors")
    home = namespace_of(document or {}) or selected_home(terms)
    for i, term in enumerate(terms):
        if term in before:
            continue
        for job in timed(_jobs(term, home, context), context):
            if has_ttl(job) and not is_deleting(job) and not owning_controller(job):
                subject = f"Job {namespace_of(job)}/{name_of(job)} has ttlSecondsAfterFinished"
                yield FieldWarning(SELECTORS / i, f"{subject}: {RUNS_ONCE}", "X-37")


def _jobs(term: JsonObject, home: str, context: Context) -> Iterator[JsonObject]:
    """Yield the Jobs that a term selects. *home* is the namespace of terms for namespaced kinds."""
    kind = text_at(term, "group"), text_at(term, "kind")
    if kind == JOB.group_kind and home:
        fits = _matcher(term)
        yield from (job for job in context.hub.list(JOB, home) if fits(job))
    scope = text_at(term, "selectionScope") or SelectionScope.NAMESPACE_WITH_RESOURCES
    if kind != NAMESPACE.group_kind or scope != SelectionScope.NAMESPACE_WITH_RESOURCES:
        return
    if name := text_at(term, "name"):
        yield from context.hub.list(JOB, name)
        return
    fits = _matcher(term)
    for namespace in timed(context.hub.list(NAMESPACE), context):
        if fits(namespace):
            yield from context.hub.list(JOB, name_of(namespace))


def _matcher(term: JsonObject) -> Callable[[JsonObject], bool]:
    """Return a predicate for the objects that a term selects.

    Raises:
        UnknownStateError: The label selector of the term is malformed.
    """
    if name := text_at(term, "name"):
        return lambda document: name == name_of(document)
    selector = selector_of(term)
    return lambda document: selector.matches(labels_of(document))


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_jobs_with_a_ttl,)
