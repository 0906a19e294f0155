"""What is wrong with the refused examples, as a hub tells it: in our words and at the same places as offline.

The API server asks its schema and its own rules first, and the webhook only when both are content.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.refusals import causes_of
from scorer.api.kinds import KINDS, group_kind
from webhook.admission.judge import judge, mutate
from webhook.validation.framework.context import Context

REFUSED = sorted((Path(__file__).parents[2] / "examples" / "refused").glob("*.yaml"))
WORDS_OF_THE_SCHEMA = {
    "affinity-as-an-object": {
        "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    },
    "budget-schedule": {"spec.disruption.budgets[2].duration", "spec.disruption.budgets[3].nodes"},
    "unquoted-label": {
        "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        ".preference.labelSelector.matchLabels.critical-level",
    },
}
"""Types and patterns: what the API server says about them cannot be chosen, so only the places are compared."""


def told(hub: Cluster, document: JsonObject) -> dict[str, set[str]]:
    """Return what a hub says is wrong, by field."""
    kind = KINDS[group_kind(document)]
    with pytest.raises(ApiError) as refused:
        hub.request("POST", f"/apis/{document['apiVersion']}/{kind.plural}?dryRun=All", document)
    return by_field(causes_of(refused.value))


def told_offline(document: JsonObject) -> dict[str, set[str]]:
    judgement = judge("CREATE", mutate(document, None, "CREATE").document, None, Context())
    return by_field((str(error.field), error.text()) for error in judgement.errors)


def by_field(mistakes: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Collect what is said after the value, which is written in two ways."""
    found: dict[str, set[str]] = {}
    for field, text in mistakes:
        found.setdefault(field, set()).add(text.rpartition(": ")[2])
    return found


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in REFUSED])
def test_a_hub_tells_the_mistakes_of_a_refused_example_as_we_do_offline(hub, path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    found, wanted = told(hub, document), told_offline(document)
    by_schema = WORDS_OF_THE_SCHEMA.get(path.stem, set())
    assert found
    assert found.keys() <= wanted.keys()
    assert {field for field, words in found.items() if not words <= wanted[field]} == by_schema


PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "fixed-fields"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"placementType": "PickAll"},
        "strategy": {"type": "External"},
    },
}
EVICTION = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterResourcePlacementEviction",
    "metadata": {"name": "fixed-fields"},
    "spec": {"placementName": "shop", "clusterName": "a"},
}


@pytest.mark.parametrize(
    ("document", "changed"),
    [
        pytest.param(PLACEMENT, {"strategy": {"type": "RollingUpdate"}}, id="strategy"),
        pytest.param(EVICTION, {"placementName": "dock"}, id="eviction-of-another-placement"),
        pytest.param(EVICTION, {"clusterName": "b"}, id="eviction-from-another-cluster"),
    ],
)
def test_a_hub_tells_what_cannot_be_changed_as_we_do_offline(hub, document, changed):
    kind = KINDS[group_kind(document)]
    place = f"/apis/{document['apiVersion']}/{kind.plural}"
    before, _ = hub.request("POST", place, document)
    try:
        after = {**before, "spec": {**before["spec"], **changed}}
        with pytest.raises(ApiError) as refused:
            hub.request("PUT", f"{place}/{document['metadata']['name']}?dryRun=All", after)
        judgement = judge("UPDATE", after, before, Context())
    finally:
        hub.request("DELETE", f"{place}/{document['metadata']['name']}")
    found = by_field((cause["field"], cause["message"]) for cause in refused.value.causes)
    assert found
    assert found == by_field((str(error.field), error.text()) for error in judgement.errors)
