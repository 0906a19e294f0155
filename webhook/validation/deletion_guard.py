"""Guard rails around deletions that would take a member's content with them, by mistake.

A member's namespace holds the Works of that member, and each of our definitions all objects of its kind: with them goes
what tells members to keep what was placed. Whoever means it annotates the object first; the loop, which deletes
such a namespace when a member has left, is not asked.

Source: placement-api.md 8, whose table these two rows extend.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.documents import annotation, is_deleting, name_of
from scorer.api.kinds import MEMBER_CLUSTER, OUR_KINDS, UPGRADE_GROUP, Kind
from scorer.api.names import ALLOW_DELETION, CLUSTER_GROUP, MEMBER_NAMESPACE_PREFIX, PLACEMENT_GROUP
from scorer.api.quoting import quote
from webhook.validation.context import Context, NotKnownError
from webhook.validation.guard_rail import RULES, Write
from webhook.validation.rule import enforces, pick

GUARDED_GROUPS: Final = (CLUSTER_GROUP, PLACEMENT_GROUP, UPGRADE_GROUP)

_BY_DEFINITION: Final = {kind.resource: kind for kind in OUR_KINDS if kind.group in GUARDED_GROUPS}


@enforces(*pick(RULES, "G-17"))
def guard_member_namespace(write: Write, context: Context) -> Iterator[str]:
    """The namespace of a member that is there, or is leaving, is not deleted by hand (G-17)."""
    name = name_of(write.subject)
    if not name.startswith(MEMBER_NAMESPACE_PREFIX) or not _is_guarded(write, context):
        return
    cluster = name.removeprefix(MEMBER_NAMESPACE_PREFIX)
    if any(name_of(member) == cluster for member in context.existing(MEMBER_CLUSTER)):
        yield (
            f"namespace {quote(name)} holds all that member cluster {quote(cluster)} is to keep; deleting it cuts the "
            f"member off from the hub. To take the member out of the fleet: kubectl delete membercluster {cluster}. "
            f"To delete the namespace all the same, first: kubectl annotate namespace {name} {ALLOW_DELETION}=true"
        )


@enforces(*pick(RULES, "G-18"))
def guard_definition_in_use(write: Write, context: Context) -> Iterator[str]:
    """A definition goes with all its objects, so it stays while there are any (G-18)."""
    name = name_of(write.subject)
    kind = _BY_DEFINITION.get(name)
    if kind is None or not _is_guarded(write, context):
        return
    if found := _in_use(kind, context):
        yield (
            f"{found}: deleting definition {quote(name)} deletes every {kind.kind} of the hub. To take harbormaster "
            "off the hub, delete placements and member clusters before definitions. To delete the definition all the "
            f"same, first: kubectl annotate crd {name} {ALLOW_DELETION}=true"
        )


def _is_guarded(write: Write, context: Context) -> bool:
    """Say whether a write is the beginning of a deletion that nobody has allowed."""
    old = write.old or {}
    return (
        context.settings.protect_deletions
        and write.operation == "DELETE"
        and not write.subresource
        and annotation(old, ALLOW_DELETION) != "true"
        and not is_deleting(old)
    )


def _in_use(kind: Kind, context: Context) -> str:
    """Return what there is of a kind, empty when there is nothing; kinds that nobody watches count while members do."""
    try:
        count = len(context.hub.list(kind))
    except NotKnownError:
        members = len(context.existing(MEMBER_CLUSTER))
        return f"the fleet has {_number(members, 'member cluster')}, and may need it" if members else ""
    return f"there {'is' if count == 1 else 'are'} {_number(count, kind.kind)}" if count else ""


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
