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
    found.program.stop()
    bare_hub.request("DELETE", f"{REGISTRATIONS}/mutatingwebhookconfigurations/{NAME}")
    bare_hub.kubectl("delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found")


def register(replica: Service) -> None:
    """Write both configurations as this release does."""
    for configuration in replica.configurations():
        configuration["metadata"]["name"] = NAME
        path = f"{REGISTRATIONS}/{configuration['kind'].lower()}s/{NAME}?fieldManager=operator&force=true"
        replica.cluster.request("PATCH", path, configuration, content_type="application/apply-patch+yaml")


def test_hooks_that_are_opened_or_taken_away_are_reported(bare_hub, replica):
    """After a restart, too, when the cache of the replica has never held what is missing."""
    wait_until("both are well", lambda: differs(replica, 1, 1))
    first = bare_hub.request("GET", f"{VALIDATING}/{NAME}")[0]["webhooks"]
    opened = {"webhooks": [{**hook, "failurePolicy": "Ignore"} for hook in first]}
    bare_hub.request("PATCH", f"{VALIDATING}/{NAME}", opened, content_type="application/merge-patch+json")
    wait_until("open hooks are reported", lambda: untold(bare_hub, "WebhooksFailOpen", "is Ignore and not Fail"))
    assert not differs(replica, 0, 1)
    register(replica)
    wait_until("their end is reported", lambda: untold(bare_hub, "WebhooksEnforced", "as it should be again"))
    bare_hub.request("DELETE", f"{VALIDATING}/{NAME}")
    wait_until("the deletion is reported", lambda: untold(bare_hub, "WebhookConfigurationMissing", "is not there"))
    replica.program.stop()
    replica.start()
    wait_until("a replica that never saw it misses it", lambda: differs(replica, 0, 1))


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
