"""Judging a placement in parts and as a whole gives the same findings, on everything that is tried here."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scorer.api.kinds import PLACEMENT
from tests.bench.admission import stored
from tests.thoroughness import SOAK
from tests.webhook.validation.placement.valid_placements import VALID
from webhook.access.user import UserInfo
from webhook.admission.judge import judge, mutate
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context, HubKinds
from webhook.validation.framework.reading import wish
from webhook.validation.placement import fast_path, placement
from webhook.validation.placement.fast_path import LONGEST_KNOWN, MOST_KNOWN, has_plain_metadata, judged, rest_of

FOLDER = Path(__file__).parents[3] / "vectors"
LINES = [
    line
    for path in sorted(FOLDER.glob("admission*.jsonl"))
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    if "http" not in line
]
WRITES = [
    (line["operation"], line["object"], line.get("old"))
    for line in LINES
    if (line.get("object") or {}).get("kind") in {"ClusterResourcePlacement", "ResourcePlacement"}
]
USER = Context(user=UserInfo("jane"))
CONTEXTS = [
    USER,
    Context(),
    replace(USER, kinds=HubKinds(complete=False)),
    replace(
        USER,
        settings=AdmissionSettings(
            skipped_namespaces=frozenset({"shop"}),
            skipped_kinds=frozenset({("apps", "Deployment")}),
            unblocked_namespaces=frozenset({"shop"}),
        ),
    ),
]
TEXTS = [
    "", "a", "A", "-a", "a-", "a.b", "a..b", "a_b", "a/b", "a/b/c", "/a", "a/", "A/b", "é", "a\n", "\n", " ",
    "\u0663", "\ud800",
    "a" * 63, "a" * 64, "a" * 253, "a" * 254, "a." * 120 + "a/b", f"{'a' * 63}/{'b' * 63}", f"a/{'b' * 64}",
    "0", "1", "-1", "+1", "1.5", "1e3", "5Mi", "5mi", ".5", "0.0000001", "9" * 13, "0%", "1%", "01%", "100%", "101%",
    "PickAll", "PickN", "PickFixed", "External", "RollingUpdate", "ServerSideApply", "ReportDiff", "Mirror", "Abandon",
    "Equal", "Exists", "In", "NotIn", "DoesNotExist", "Gt", "Ne", "NoSchedule", "NoExecute", "Ascending", "Descending",
    "NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors", "NamespaceAccessible",
    "ClusterScopeOnly", "ScheduleAnyway", "v1", "Namespace", "Pod", "ConfigMap", "CustomResourceDefinition",
    "kube-system", "fleet-system", "fleet-member-a", "shop", "placement.kubernetes-fleet.io", "kubernetes-fleet.io/x",
    "kubernetes-fleet.io/node-count", "kubernetes.azure.com/node-count", "k8s.io/k8s-version",
    "resources.kubernetes-fleet.io/total-cpu", "resources.kubernetes-fleet.io/cpu", "2026-02-28T23:59:59Z",
    "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-31T24:00:00Z", "0001-01-01T00:00:00Z", "2026-01-01",
]  # fmt: skip
NUMBERS = [
    0,
    1,
    -1,
    2,
    100,
    101,
    -100,
    1000,
    1001,
    3600,
    3601,
    2**31 - 1,
    2**31,
    2**63,
    2**70,
    1.0,
    0.5,
    True,
    False,
    None,
]
NAMES = [
    "labelSelector", "propertySelector", "propertySorter", "metricSorter", "matchLabels", "matchExpressions", "key",
    "operator", "value", "values", "effect", "name", "namespace", "clusterNames", "numberOfClusters", "tolerations",
    "topologySpreadConstraints", "serverSideApplyConfig", "destination", "status", "deletionTimestamp", "generateName",
    "ownerReferences", "selectionScope", "statusReportingScope", "unknown", "annotations", "labels",
]  # fmt: skip
VALUES = st.sampled_from([*TEXTS, *NUMBERS, [], {}, ["a"], {"a": "b"}, [{}], ["a", "a"]]).map(deepcopy)


def of_every_type():
    """Plain placements that show what the compiled validator knows."""
    whole = stored(7)
    found = [whole, stored(8)]
    for policy in (
        {"placementType": "PickFixed", "clusterNames": ["oslo", "bergen"]},
        {"placementType": "PickAll", "tolerations": [{"key": "a", "operator": "Equal", "value": "b"}]},
        {
            "placementType": "PickN",
            "numberOfClusters": 2,
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
                {"topologyKey": "zone"},
            ],
            "tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        },
    ):
        another = deepcopy(whole)
        another["spec"]["policy"] = policy
        found.append(another)
    for strategy in (
        {"type": "External", "applyStrategy": {"type": "ReportDiff", "whenToApply": "IfNotDrifted"}},
        {
            "type": "RollingUpdate",
            "applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}},
            "deleteStrategy": {"propagationPolicy": "Abandon"},
            "reportBackStrategy": {"type": "Disabled"},
        },
    ):
        another = deepcopy(whole)
        another["spec"]["strategy"] = strategy
        found.append(another)
    renamed = deepcopy(whole)
    affinity = renamed["spec"]["policy"]["affinity"]["clusterAffinity"]
    [first, *_] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    first["preference"]["metricSorter"] = first["preference"].pop("propertySorter")
    found.append(renamed)
    found[2]["metadata"]["annotations"] = {"shop.io/owner": "anyone at all"}
    namespaced = deepcopy(whole)
    namespaced["kind"] = "ResourcePlacement"
    namespaced["metadata"]["namespace"] = "shop"
    namespaced["spec"]["resourceSelectors"] = [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]
    return [*found, namespaced]


PLAIN = of_every_type()
BASES = PLAIN + [document for _, document, _ in WRITES]


def places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(document, path):
    for part in path:
        document = document[part]
    return document


@st.composite
def changed(draw, bases=BASES):
    """Draw a placement with up to three parts replaced, removed, added, doubled, or copied from elsewhere."""
    document = deepcopy(dict(wish(draw(st.sampled_from(bases)))))
    if draw(st.booleans()):
        document = mutate(document, None, "CREATE").document
        document = deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(
            st.sampled_from([path for path in places(document) if path[0] in ("metadata", "spec")] or [("kind",)])
        )
        holder, last = at(document, path[:-1]), path[-1]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "double", "twin", "copy", "rename"])):
            case "remove":
                del holder[last]
            case "add" if isinstance(holder[last], dict):
                holder[last][draw(st.sampled_from([*NAMES, *TEXTS]))] = draw(VALUES)
            case "double" if isinstance(holder, list):
                holder.append(deepcopy(holder[last]))
            case "twin" if isinstance(holder, list) and isinstance(holder[last], dict):
                holder.append({draw(st.sampled_from(["value", "key", "effect", "group"])): "", **holder[last]})
            case "copy":
                holder[last] = deepcopy(at(document, draw(st.sampled_from(list(places(document))))))
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(TEXTS))] = holder.pop(last)
            case _:
                holder[last] = draw(VALUES)
    return document


def is_plain(document) -> bool:
    """Return whether a compiled validator accepts a spec that no rule has judged yet."""
    with patch.object(fast_path, "read_rest", lambda _: None):
        rest = rest_of(document["spec"])
        return has_plain_metadata(wish(document)) and rest is not None and fast_path._judged.__wrapped__(rest) == ()


def both_judge(operation, document, old, context):
    """Judge in parts and as a whole, and return what both find."""
    quick = judge(operation, document, old, context)
    again = judge(operation, document, old, context)
    with patch.object(placement, "_judge_in_parts", lambda *_, **__: None):
        explained = judge(operation, document, old, context)
    assert quick == explained
    assert again == explained, "it depends on what is remembered"
    return quick


@pytest.mark.parametrize("document", PLAIN, ids=lambda each: each["spec"]["policy"]["placementType"])
def test_usual_placements_are_plain(document):
    """Else the properties below would hold because nothing ever is."""
    assert is_plain(document)
    assert both_judge("CREATE", document, None, USER).allowed
    assert both_judge("UPDATE", document, document, USER).allowed


@pytest.mark.parametrize("document", PLAIN, ids=lambda each: each["spec"]["policy"]["placementType"])
def test_a_plain_placement_is_not_read_by_the_explaining_rules(document):
    def fail(*_given):
        raise AssertionError("explained")

    with patch.object(placement, "read_object", fail):
        assert judge("CREATE", document, None, USER).allowed


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_vector_gets_the_same_verdict(write, context):
    operation, document, old = write
    both_judge(operation, document, old, context)
    both_judge(operation, mutate(document, old, operation).document, old, context)


@settings(max_examples=3000 if SOAK else 400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(document=changed(), context=st.sampled_from(CONTEXTS))
def test_creations_get_the_same_verdict(document, context):
    is_object = isinstance(document.get("metadata"), dict) and isinstance(document.get("spec"), dict)
    plain = is_object and is_plain(document)
    event(f"plain: {plain}")
    verdict = both_judge("CREATE", document, None, context)
    if plain and verdict.errors:
        assert all(str(error.field).startswith("spec.resourceSelectors") for error in verdict.errors) or any(
            error.rule == "X-01" for error in verdict.errors
        )


@settings(max_examples=1500 if SOAK else 250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    document=changed(PLAIN), old=changed(PLAIN), same=st.booleans(), context=st.sampled_from(CONTEXTS), data=st.data()
)
def test_updates_get_the_same_verdict(document, old, same, context, data):
    """Of objects that have nothing to do with each other, and of an object and a slightly changed one."""
    if same:
        old = (
            data.draw(changed([document])) if isinstance(document.get("spec"), dict) and document["spec"] else document
        )
    both_judge("UPDATE", document, old, context)


@settings(max_examples=3000 if SOAK else 400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(document=VALID, context=st.sampled_from(CONTEXTS))
def test_valid_placements_get_the_same_warnings(document, context):
    event(f"plain: {is_plain(document)}")
    verdict = both_judge("CREATE", document, None, context)
    event(f"allowed: {verdict.allowed}, warnings: {bool(verdict.warnings)}")
    both_judge("UPDATE", {**document, "metadata": {"name": "web", "labels": {"team": "a"}}}, document, context)


@settings(max_examples=1500 if SOAK else 200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(document=VALID, old=VALID, context=st.sampled_from(CONTEXTS))
def test_updates_to_valid_placements_get_the_same_verdict(document, old, context):
    both_judge("UPDATE", document, old, context)


def test_what_is_remembered_is_bounded():
    fast_path._judged.cache_clear()
    for number in range(MOST_KNOWN + 10):
        document = deepcopy(PLAIN[0])
        document["spec"]["policy"]["numberOfClusters"] = 1 + number
        assert judged(rest_of(document["spec"])) == ()
    assert fast_path._judged.cache_info().currsize == MOST_KNOWN
    large = deepcopy(PLAIN[2])
    large["spec"]["policy"]["clusterNames"] = [f"{'a' * 55}-{number:03}" for number in range(100)]
    rest = rest_of(large["spec"])
    assert len(rest) > LONGEST_KNOWN
    before = fast_path._judged.cache_info()
    assert judged(rest) == ()
    assert fast_path._judged.cache_info() == before


def test_few_findings_of_a_spec_are_remembered():
    document = deepcopy(PLAIN[2])
    document["spec"]["policy"]["clusterNames"] = ["-a"] * 20
    assert judged(rest_of(document["spec"])) is None
    assert len(both_judge("CREATE", document, None, USER).errors) == 39


def test_the_findings_of_a_spec_that_repeats_are_named_every_time():
    document = deepcopy(PLAIN[0])
    document["spec"]["policy"]["numberOfClusters"] = 0
    document["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": "0%"}
    verdict = both_judge("CREATE", document, None, USER)
    assert [error.rule for error in verdict.errors] == ["X-14"]
    assert ["removes the placed objects" in warning for warning in verdict.warnings] == [True]


@pytest.mark.parametrize("part", ["value", "effect"])
def test_an_empty_part_of_a_toleration_is_an_absent_one(part):
    document = deepcopy(PLAIN[0])
    toleration = {"key": "a", "operator": "Equal"}
    document["spec"]["policy"]["tolerations"] = [toleration, {**toleration, part: ""}]
    assert not both_judge("CREATE", document, None, USER).allowed


def test_a_kind_that_is_not_served_is_refused_though_all_else_is_plain():
    document = deepcopy(PLAIN[0])
    document["spec"]["resourceSelectors"][0]["kind"] = "Namespaces"
    verdict = both_judge("CREATE", document, None, USER)
    assert [error.rule for error in verdict.errors] == ["P-06"]
    assert document["kind"] == PLACEMENT.kind
