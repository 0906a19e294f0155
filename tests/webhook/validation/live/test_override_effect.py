"""Overrides without effect: what admission, lint and plan make of the objects, placements and members of a hub."""

from copy import deepcopy

import pytest

from scorer.rollout.overrides.effect import CLUSTER_RULE, KIND_RULE, OBJECT_RULE
from tests.webhook.validation.live_objects import JANE, NOW, make, make_member, plain
from webhook.validation.framework.context import Context
from webhook.validation.live.check import run_checks
from webhook.validation.live.override import CHECKS

WEB = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "web"}
HOME = {"group": "", "version": "v1", "kind": "Namespace", "name": "stall"}
ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"}
EVERYWHERE = {"clusterSelectorTerms": []}
RO, CRO = "spec.resourceSelectors[0]", "spec.clusterResourceSelectors[0]"
TERMS = "spec.policy.overrideRules[0].clusterSelector.clusterSelectorTerms"
LABELS = f"{TERMS}[0].labelSelector"


def make_override(*selectors, namespace="stall", placement="stall", scope="Cluster", clusters=EVERYWHERE):
    rule = {"clusterSelector": clusters, "jsonPatchOverrides": [{"op": "replace", "path": "/data/a", "value": "2"}]}
    spec = {
        **({"placement": {"name": placement, "scope": scope}} if placement else {}),
        "resourceSelectors" if namespace else "clusterResourceSelectors": list(selectors),
        "policy": {"overrideRules": [rule]},
    }
    kind = "ResourceOverride" if namespace else "ClusterResourceOverride"
    return make(kind, "patch", spec, namespace=namespace)


def make_placement(name="stall", *terms, namespace="", **annotations):
    kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
    document = make(kind, name, {"resourceSelectors": list(terms) or [HOME]}, namespace=namespace)
    document["metadata"]["annotations"] = {f"harbormaster.dev/{key}": value for key, value in annotations.items()}
    return document


def make_snapshot(placement, *contents, namespace=""):
    labels = {
        "kubernetes-fleet.io/parent-CRP": placement,
        "kubernetes-fleet.io/resource-index": "0",
        "kubernetes-fleet.io/is-latest-snapshot": "true",
    }
    kind = "ResourceSnapshot" if namespace else "ClusterResourceSnapshot"
    spec = {"selectedResources": list(contents)}
    document = make(kind, f"{placement}-0-snapshot", spec, namespace=namespace, labels=labels)
    document["metadata"]["annotations"] = {
        "kubernetes-fleet.io/number-of-resource-snapshots": "1",
        "kubernetes-fleet.io/resource-hash": "x",
    }
    return document


def envelope(kind, content, namespace=""):
    document = make(kind, "wrap", namespace=namespace)
    return {**document, "data": {"a.yaml": content}}


STALL = plain("v1", "Namespace", "stall", team="blue")
MAP = plain("v1", "ConfigMap", "web", "stall", tier="front")
READER = plain("rbac.authorization.k8s.io/v1", "ClusterRole", "reader", tier="front")
INNER = plain("v1", "ConfigMap", "inner", "stall")
FLEET = [make_member("bravelion", env="prod"), make_member("busybee", env="canary")]
ELSEWHERE = [make_placement("dock", {**HOME, "name": "dock"}), make_placement("dock", WEB, namespace="dock")]
"""A placement of each kind, so that no kind is unknown."""
HUB = [STALL, MAP, READER, make_placement(), *ELSEWHERE, *FLEET]


def warnings_of(override, hub):
    hub, override = deepcopy((hub, override))
    context = Context.of_objects(hub, user=JANE, now=NOW)
    found = run_checks(CHECKS, override, None, context)
    return [(warning.rule, str(warning.field), warning.message) for warning in found if warning.rule != "X-62"]


def terms(**labels):
    return [{"labelSelector": {"matchLabels": labels}}]


def by_label(**labels):
    return {"clusterSelectorTerms": terms(**labels)}


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        pytest.param(make_override(WEB), [], id="has-effect"),
        pytest.param(
            make_override({**WEB, "name": "webb"}),
            [(OBJECT_RULE, f"{RO}.name", '"webb": "stall" places no such ConfigMap in stall yet; nearest: web')],
            id="case-12-typo-in-name",
        ),
        pytest.param(
            make_override({**WEB, "kind": "Configmap"}),
            [(KIND_RULE, f"{RO}.kind", '"Configmap": the hub has no such kind; did you mean ConfigMap?')],
            id="case-12-case-of-kind",
        ),
        pytest.param(
            make_override({**WEB, "version": "v2"}),
            [(KIND_RULE, f"{RO}.version", '"v2": the hub serves ConfigMap in v1')],
            id="case-12-other-version",
        ),
        pytest.param(
            make_override(WEB, placement="shop"),
            [(OBJECT_RULE, "spec.placement.name", '"shop" places no ConfigMap web in stall; stall does')],
            id="case-12-other-placement",
        ),
        pytest.param(
            make_override(WEB, clusters=by_label(env="nonesuch")),
            [(CLUSTER_RULE, LABELS, "no cluster has env=nonesuch; nearest: canary, prod")],
            id="case-12-no-cluster",
        ),
        pytest.param(
            make_override({**WEB, "group": "apps"}),
            [(KIND_RULE, f"{RO}.group", '"apps": ConfigMap is in ""')],
            id="other-group",
        ),
        pytest.param(
            make_override({**WEB, "name": "webb"}, placement=""),
            [(OBJECT_RULE, f"{RO}.name", '"webb": no placement places such a ConfigMap in stall yet; nearest: web')],
            id="for-every-placement",
        ),
        pytest.param(make_override(WEB, placement=""), [], id="for-every-placement-has-effect"),
        pytest.param(make_override(WEB, placement="nonesuch"), [], id="missing-placement-is-X-62"),
        pytest.param(
            make_override(ROLE),
            [(KIND_RULE, f"{RO}.kind", '"ClusterRole" is cluster-scoped: use a ClusterResourceOverride')],
            id="cluster-scoped-kind",
        ),
        pytest.param(
            make_override(WEB, namespace=""),
            [
                (
                    KIND_RULE,
                    f"{CRO}.kind",
                    '"ConfigMap" is namespaced: select its Namespace, or use a ResourceOverride',
                )
            ],
            id="namespaced-kind",
        ),
        pytest.param(make_override(HOME, namespace=""), [], id="namespace"),
        pytest.param(
            make_override(ROLE, namespace="", placement=""),
            [(OBJECT_RULE, f"{CRO}.name", '"reader": no placement places such a ClusterRole yet')],
            id="cluster-scoped-object-not-placed",
        ),
        pytest.param(
            make_override({"group": "x.org", "version": "v1", "kind": "Anchor", "name": "a"}),
            [(KIND_RULE, f"{RO}.kind", '"Anchor": the hub has no such kind')],
            id="no-similar-kind",
        ),
        pytest.param(
            make_override(WEB, clusters=by_label(zone="west")),
            [(CLUSTER_RULE, LABELS, 'no cluster has a label "zone"')],
            id="no-such-label",
        ),
        pytest.param(
            make_override(WEB, clusters=by_label(**{"kubernetes-fleet.io/member-name": "bravelio"})),
            [
                (
                    CLUSTER_RULE,
                    LABELS,
                    "no cluster has kubernetes-fleet.io/member-name=bravelio; nearest: bravelion, busybee",
                )
            ],
            id="name-of-a-member",
        ),
        pytest.param(
            make_override(WEB, clusters=by_label(env="prod", **{"kubernetes-fleet.io/member-name": "busybee"})),
            [(CLUSTER_RULE, LABELS, "no cluster matches the whole selector")],
            id="labels-of-different-clusters",
        ),
        pytest.param(
            make_override(
                WEB,
                clusters={"clusterSelectorTerms": [*terms(env="a"), *terms(env="b")]},
            ),
            [(CLUSTER_RULE, TERMS, "no cluster matches any of the terms")],
            id="several-terms",
        ),
        pytest.param(
            make_override(
                WEB,
                clusters={"clusterSelectorTerms": [*terms(env="a"), {"labelSelector": {}}]},
            ),
            [],
            id="one-term-matches",
        ),
    ],
)
def test_an_override_on_a_hub(override, wanted):
    hub = [*HUB, make_placement("shop", {**HOME, "name": "shop"})]
    assert warnings_of(override, hub) == wanted


BY_LABEL = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "blue"}}}
EVERY_NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace"}
MAPS = {"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"tier": "front"}}}
ROLES = {**ROLE, "name": "", "labelSelector": {"matchLabels": {"tier": "front"}}}
WRAPPED = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "inner"}
SHELL = {"group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ResourceEnvelope", "name": "wrap"}


@pytest.mark.parametrize(
    ("override", "placement", "more"),
    [
        pytest.param(make_override(WEB), make_placement("stall", BY_LABEL), [], id="namespace-by-label"),
        pytest.param(make_override(WEB), make_placement("stall", EVERY_NAMESPACE), [], id="every-namespace"),
        pytest.param(
            make_override(WEB, scope="Namespaced"),
            make_placement("stall", WEB, namespace="stall"),
            [],
            id="resource-placement-by-name",
        ),
        pytest.param(
            make_override(WEB, scope="Namespaced"),
            make_placement("stall", MAPS, namespace="stall"),
            [],
            id="resource-placement-by-label",
        ),
        pytest.param(
            make_override(HOME, namespace="", placement=""),
            make_placement("stall", MAPS, namespace="stall"),
            [],
            id="namespace-of-a-resource-placement",
        ),
        pytest.param(
            make_override(ROLE, namespace=""), make_placement("stall", ROLES), [], id="cluster-scoped-object-by-label"
        ),
        pytest.param(
            make_override(WRAPPED),
            make_placement(),
            [envelope("ResourceEnvelope", INNER, "stall")],
            id="in-an-envelope",
        ),
        pytest.param(
            make_override(WRAPPED, scope="Namespaced"),
            make_placement("stall", SHELL, namespace="stall"),
            [envelope("ResourceEnvelope", INNER, "stall")],
            id="in-a-selected-envelope",
        ),
        pytest.param(
            make_override({**WEB, "name": "former"}),
            make_placement(),
            [make_snapshot("stall", plain("v1", "ConfigMap", "former", "stall"))],
            id="deleted-on-the-hub-and-still-placed",
        ),
        pytest.param(
            make_override(WEB),
            make_placement(),
            [make_snapshot("stall", STALL)],
            id="created-and-not-yet-in-a-snapshot",
        ),
    ],
)
def test_every_way_to_select_an_object_counts(override, placement, more):
    hub = [STALL, MAP, READER, placement, *ELSEWHERE, *FLEET, *more]
    assert warnings_of(override, hub) == []
    wrong = deepcopy(override)
    (selectors,) = (value for key, value in wrong["spec"].items() if key.endswith("electors"))
    selectors[0]["name"] += "-x"
    assert [rule for rule, _, _ in warnings_of(wrong, hub)] == [OBJECT_RULE]


def test_a_placement_that_ignores_resource_overrides():
    exempt = make_placement(**{"ignore-resource-overrides": "true"})
    found = warnings_of(make_override(WEB), [STALL, MAP, exempt, *ELSEWHERE, *FLEET])
    message = '"stall" ignores ResourceOverrides (harbormaster.dev/ignore-resource-overrides)'
    assert found == [(OBJECT_RULE, "spec.placement.name", message)]
    found = warnings_of(make_override(WEB, placement=""), [STALL, MAP, exempt, *ELSEWHERE, *FLEET])
    assert found == [(OBJECT_RULE, f"{RO}.name", '"web": its placements ignore ResourceOverrides')]


def test_another_placed_version():
    """The hub serves both versions, and a selector matches only the one that is placed."""
    scaler = {"group": "autoscaling", "version": "v1", "kind": "HorizontalPodAutoscaler", "name": "web"}
    hub = [STALL, plain("autoscaling/v2", "HorizontalPodAutoscaler", "web", "stall"), make_placement(), *FLEET]
    message = '"v1": HorizontalPodAutoscaler web is placed in version v2'
    assert warnings_of(make_override(scaler), hub) == [(OBJECT_RULE, f"{RO}.version", message)]
    assert warnings_of(make_override({**scaler, "version": "v2"}), hub) == []


@pytest.mark.parametrize(
    "hub",
    [
        pytest.param([], id="empty"),
        pytest.param([STALL, MAP, *FLEET], id="no-placements"),
        pytest.param([MAP, make_placement(), *FLEET], id="no-namespaces"),
        pytest.param([STALL, make_placement(), *FLEET], id="no-objects-of-the-kind"),
        pytest.param([plain("v1", "Namespace", "dock"), MAP, make_placement(), *FLEET], id="namespace-elsewhere"),
    ],
)
def test_an_unknown_part_of_the_hub_is_no_reason_to_warn(hub):
    assert warnings_of(make_override({**WEB, "name": "webb"}), hub) == []


def test_unknown_members_are_no_reason_to_warn():
    assert warnings_of(make_override(WEB, clusters=by_label(env="nonesuch")), [STALL, MAP, make_placement()]) == []


def test_a_snapshot_is_enough():
    """A server that does not watch ConfigMaps knows those that are placed."""
    hub = [STALL, make_placement(), make_snapshot("stall", STALL, MAP), *FLEET]
    assert warnings_of(make_override(WEB), hub) == []
    assert [rule for rule, _, _ in warnings_of(make_override({**WEB, "name": "webb"}), hub)] == [OBJECT_RULE]


def test_names_of_secrets_are_not_suggested():
    token = plain("v1", "Secret", "token", "stall")
    selector = {"group": "", "version": "v1", "kind": "Secret", "name": "tokem"}
    ((_, _, message),) = warnings_of(make_override(selector), [STALL, token, make_placement(), *FLEET])
    assert message == '"tokem": "stall" places no such Secret in stall yet'
