"""What disrupts members besides: upgrades under way, and who has reserved what."""

from datetime import UTC, datetime

from scorer.api.kinds import LEASE, NAMESPACE, UPGRADE_RUN
from scorer.reservations import MEMBER
from tests.webhook.edits import edit
from webhook.gate.reservations import LeaseReservations
from webhook.kube.ports import Key

NAMESPACE_OF_OURS = "harbormaster-system"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


async def add_namespace(store):
    await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_OF_OURS}})


async def reserved(store):
    """Return who has reserved what, by member, as it is stored."""
    found = LeaseReservations(store, NAMESPACE_OF_OURS, lambda: NOW)
    listing = await store.list(LEASE)
    found._cache.of_kind(LEASE).replace_all(listing.items, listing.resource_version)
    return {member: [each.holder for each in found.cached(MEMBER, member)] for member in "abc"}


async def set_upgrade(store, **states):
    """Make a run, or give it another status."""
    members = [{"name": name, "state": state} for name, state in states.items()]
    status = {"stages": [{"name": "s", "state": "Running", "groups": [{"name": "g", "members": members}]}]}
    if not (await store.list(UPGRADE_RUN)).items:
        head = {"apiVersion": UPGRADE_RUN.api_version, "kind": UPGRADE_RUN.kind}
        await store.create(UPGRADE_RUN, {**head, "metadata": {"name": "v131"}, "spec": {}})
    await edit(store, UPGRADE_RUN, Key("v131"), lambda it: {**it, "status": status}, status=True)
