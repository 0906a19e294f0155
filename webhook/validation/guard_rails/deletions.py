"""Guard rails against accidental deletions of objects that members depend on.

Deleting a member's namespace deletes the Works of that member. Deleting one of our definitions deletes all objects of
its kind. Deleting the namespace of the installation deletes the loop, the server and the accounts of all agents. A user
who intends the deletion annotates the object first. Guard rails do not apply to our own controllers, which delete the
namespace of a member that has left.

The annotation does not confirm a removal (removal.md 5). Members keep their content in all three cases, so no placement
loses content that a digest could name. Only the fleet's own objects are lost, and the right to delete them is enough.

Source: docs/specifications/placement-api.md 8, whose table these three rows extend.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, OUR_KINDS, UPGRADE_GROUP, Kind
from scorer.api.names import ALLOW_DELETION, CLUSTER_GROUP, MEMBER_NAMESPACE_PREFIX, PLACEMENT_GROUP
from scorer.api.unstructured.documents import annotation, is_deleting, name_of
from scorer.api.values.quoting import format_count, quote
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.rule import enforces, pick
from webhook.validation.guard_rails.writes import RULES, ReviewedWrite

GUARDED_GROUPS: Final = (CLUSTER_GROUP, PLACEMENT_GROUP, UPGRADE_GROUP)

_BY_DEFINITION: Final = {kind.resource: kind for kind in OUR_KINDS if kind.group in GUARDED_GROUPS}


@enforces(*pick(RULES, "G-17"))
def guard_member_namespace(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Users must not delete the namespace of a member that exists, even if the member is leaving (G-17)."""
    name = name_of(write.subject)
    if not name.startswith(MEMBER_NAMESPACE_PREFIX) or not _is_guarded(write, context):
        return
    cluster = name.removeprefix(MEMBER_NAMESPACE_PREFIX)
    if any(name_of(member) == cluster for member in context.existing(MEMBER_CLUSTER)):
        yield (
            f"namespace {quote(name)} contains all content placed on member cluster {quote(cluster)}. Deleting it "
            "disconnects the member from the hub. To remove the member from the fleet: kubectl delete "
            f"membercluster {cluster}. To delete the namespace anyway, first: kubectl annotate namespace {name} "
            f"{ALLOW_DELETION}=true"
        )


@enforces(*pick(RULES, "G-19"))
def guard_own_namespace(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Users must not delete the namespace of the installation (G-19)."""
    name = name_of(write.subject)
    if name == context.settings.own_namespace and _is_guarded(write, context):
        yield (
            f"harbormaster is installed in namespace {quote(name)}. Deleting it stops the loop and the server, and "
            "locks out the agents of all members that joined with a ServiceAccount there. To remove harbormaster "
            "from the hub, first: helm uninstall, or harbormaster unregister. To delete the namespace anyway, "
            f"first: kubectl annotate namespace {name} {ALLOW_DELETION}=true"
        )


@enforces(*pick(RULES, "G-18"))
def guard_definition_in_use(write: ReviewedWrite, context: Context) -> Iterator[str]:
    """Users must not delete a definition that still has objects, which would be deleted with it (G-18)."""
    name = name_of(write.subject)
    kind = _BY_DEFINITION.get(name)
    if kind is None or not _is_guarded(write, context):
        return
    if users := _in_use(kind, context):
        yield (
            f"{users}: deleting definition {quote(name)} deletes every {kind.kind} on the hub. To remove harbormaster "
            "from the hub, delete placements and member clusters before definitions. To delete the definition anyway, "
            f"first: kubectl annotate crd {name} {ALLOW_DELETION}=true"
        )


def _is_guarded(write: ReviewedWrite, context: Context) -> bool:
    """Return whether a write starts a deletion without the annotation that allows it."""
    old = write.old or {}
    # Read from the stored object in the review: the cached one may still lack the annotation.
    return (
        context.settings.protect_deletions
        and write.operation == "DELETE"
        and not write.subresource
        and annotation(old, ALLOW_DELETION) != "true"
        and not is_deleting(old)  # refusing a second DELETE would not stop the deletion
    )


def _in_use(kind: Kind, context: Context) -> str:
    """Return why the definition of a kind is in use, empty if it is not.

    If the kind is not cached, its definition counts as in use while the fleet has members.
    """
    try:
        count = len(context.hub.list(kind))
    except UnknownStateError:
        members = len(context.existing(MEMBER_CLUSTER))
        return (
            f"the fleet has {format_count(members, 'member cluster')} and may need this definition" if members else ""
        )
    return f"there {'is' if count == 1 else 'are'} {format_count(count, kind.kind)}" if count else ""
