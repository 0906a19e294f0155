"""A webhook configuration is deleted, or its hooks opened: the replicas report it, also one that starts later."""

from collections.abc import Iterator

import pytest

from e2e.conftest import StartService
from e2e.controlplane.cluster import Cluster
from e2e.controlplane.service import REGISTRATIONS, Service
from e2e.fleet.waiting import wait_until

NAME = "opened-hooks"
VALIDATING = f"{REGISTRATIONS}/validatingwebhookconfigurations"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture
def replica(bare_hub: Cluster, start_service: StartService) -> Iterator[Service]:
    """A replica with configurations of a name of its own."""
    found = start_service(bare_hub, webhook_configuration=NAME, webhooks_expected="true")
    register(found)
    yield found
    remove(found)


def remove(replica: Service) -> None:
    """Stop it, and delete both configurations."""
    replica.program.stop()
    for word in ("validating", "mutating"):
        replica.cluster.kubectl("delete", f"{word}webhookconfiguration", NAME, "--ignore-not-found")


def open_hooks(replica: Service) -> None:
    """Have the API server let writes pass that the replica cannot judge."""
    hooks = replica.cluster.request("GET", f"{VALIDATING}/{NAME}")[0]["webhooks"]
    opened = {"webhooks": [{**hook, "failurePolicy": "Ignore"} for hook in hooks]}
    replica.cluster.request("PATCH", f"{VALIDATING}/{NAME}", opened, content_type="application/merge-patch+json")


def register(replica: Service) -> None:
    """Write both configurations as this release does."""
    for configuration in replica.configurations():
        configuration["metadata"]["name"] = NAME
        path = f"{REGISTRATIONS}/{configuration['kind'].lower()}s/{NAME}?fieldManager=operator&force=true"
        replica.cluster.request("PATCH", path, configuration, content_type="application/apply-patch+yaml")


def test_hooks_that_are_opened_or_taken_away_are_reported(bare_hub, replica):
    """After a restart, too, when the cache of the replica has never held what is missing."""
    wait_until("both are well", lambda: differs(replica, 1, 1))
    open_hooks(replica)
    wait_until(
        "open hooks are reported",
        lambda: untold(bare_hub, "WebhooksFailOpen", "with failurePolicy Ignore instead of Fail"),
    )
    wait_until("the metric follows", lambda: differs(replica, 0, 1))
    register(replica)
    wait_until("their end is reported", lambda: untold(bare_hub, "WebhooksEnforced", "is correct again"))
    bare_hub.request("DELETE", f"{VALIDATING}/{NAME}")
    wait_until("the deletion is reported", lambda: untold(bare_hub, "WebhookConfigurationMissing", "does not exist"))
    replica.program.stop()
    replica.start()
    wait_until("a replica that never saw it misses it", lambda: differs(replica, 0, 1))


def test_hooks_that_are_opened_are_closed_again_where_the_settings_say_so(bare_hub, start_service):
    """Those that this release registers so, and no others."""
    replica = start_service(bare_hub, webhook_configuration=NAME, repair_webhooks="true")
    register(replica)
    try:
        policies = closed_of(bare_hub)
        wait_until("both are well", lambda: differs(replica, 1, 1))
        open_hooks(replica)
        wait_until("they are closed again", lambda: "" if closed_of(bare_hub) == policies else "they are not")
        assert policies
    finally:
        remove(replica)


def closed_of(hub: Cluster) -> list[str]:
    """The names of the hooks that fail closed."""
    hooks = hub.request("GET", f"{VALIDATING}/{NAME}")[0]["webhooks"]
    return sorted(hook["name"] for hook in hooks if hook["failurePolicy"] == "Fail")


def differs(replica: Service, validating: int, mutating: int) -> str:
    """Return an empty text when the metric of both configurations is as given."""
    name = 'harbormaster_webhooks_enforced{configuration="%sWebhookConfiguration"}'
    found = [with_default(replica, name % word) for word in ("Validating", "Mutating")]
    return "" if found == [validating, mutating] else str(found)


def with_default(replica: Service, name: str) -> float:
    """Return a metric; -1 while there is no such sample."""
    return replica.metric(name) if name in replica.exposition() else -1


def untold(hub: Cluster, reason: str, words: str) -> str:
    """Return an empty text when an Event about the configuration says so."""
    found = [event for event in hub.request("GET", EVENTS)[0]["items"] if event["regarding"]["name"] == NAME]
    notes = [(event["reason"], event["note"]) for event in found]
    return "" if any(each == reason and words in note for each, note in notes) else str(notes)
