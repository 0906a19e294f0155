"""Random fleets: namespaces with content, placements and overrides, and a change to each, the same for the same seed.

Many of them fit on one hub: every name starts with that of its fleet. The members are shared.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.names import PLACEMENT_GROUP
from tests.builders.placement import make_placement, namespace_term

V1BETA1 = f"{PLACEMENT_GROUP}/v1beta1"
REGIONS, TIERS = ("north", "south"), ("gold", "tin")
AT_ONCE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 0}}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class RandomFleet:
    """Objects of a hub, without its members.

    Args:
        objects: As users create them.
        changed: Some of them as a user changes them later, and new ones.
    """

    objects: Sequence[JsonObject]
    changed: Sequence[JsonObject]


def random_labels(random: Random) -> dict[str, str]:
    """Return the labels of a random member. A label may be missing."""
    labels = {"region": random.choice(REGIONS), "tier": random.choice(TIERS)}
    return {key: value for key, value in labels.items() if random.random() < 0.9}


def random_fleet(name: str, random: Random) -> RandomFleet:
    """Return a random fleet whose names all start with *name*."""
    home = f"{name}-home"
    content = list(_content(home, random))
    cluster_wide = [_cluster_role(f"{name}-role", random)] if random.random() < 0.5 else []
    placements = list(_placements(name, home, cluster_wide, random))
    overrides = list(_overrides(name, home, content, cluster_wide, random))
    objects = [_object("v1", "Namespace", home), *content, *cluster_wide, *placements, *overrides]
    changed = [_changed(document, random) for document in (*content, *cluster_wide) if random.random() < 0.4]
    changed += [_override_again(document, random) for document in overrides if random.random() < 0.4]
    if random.random() < 0.5:
        changed.append(_config_map("later", home, random))
    return RandomFleet(objects, changed or [_config_map("later", home, random)])


def _object(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> JsonObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _word(random: Random) -> str:
    return random.choice(("a", "b", "42", "yes", "<&>", "zoë", "two\nlines", ""))


def _config_map(name: str, namespace: str, random: Random) -> JsonObject:
    data = {key: _word(random) for key in random.sample(("k", "l", "m"), random.randint(1, 3))}
    return _object("v1", "ConfigMap", name, namespace, data=data)


def _secret(name: str, namespace: str, random: Random) -> JsonObject:
    data = {"password": b64encode(random.randbytes(6)).decode()}
    return _object("v1", "Secret", name, namespace, type="Opaque", data=data)


def _deployment(name: str, namespace: str, random: Random) -> JsonObject:
    labels = {"app": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": f"i:{random.randint(1, 9)}"}]},
    }
    spec = {"replicas": random.randint(0, 2), "selector": {"matchLabels": labels}, "template": pod}
    return _object("apps/v1", "Deployment", name, namespace, spec=spec, status={"observedGeneration": 7})


def _service(name: str, namespace: str, random: Random) -> JsonObject:
    port = {"port": random.randint(1, 99), "nodePort": 30000 + random.randint(0, 99)}
    return _object(
        "v1", "Service", name, namespace, spec={"clusterIP": "10.0.0.9", "ports": [port], "type": "NodePort"}
    )


def _cluster_role(name: str, random: Random) -> JsonObject:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": random.sample(["get", "list", "watch"], 2)}]
    return _object("rbac.authorization.k8s.io/v1", "ClusterRole", name, rules=rules)


def _envelope(name: str, namespace: str, random: Random) -> JsonObject:
    data = {f"{key}.yaml": _config_map(f"{name}-{key}", namespace, random) for key in "ab"[: random.randint(1, 2)]}
    if random.random() < 0.5:
        data["secret.yaml"] = _secret(f"{name}-secret", namespace, random)
    return _object(V1BETA1, "ResourceEnvelope", name, namespace, data=data)


_MAKERS = {"web": _deployment, "front": _service, "rates": _config_map, "more": _config_map, "keys": _secret}


def _content(home: str, random: Random) -> Iterator[JsonObject]:
    for name in random.sample(sorted(_MAKERS), random.randint(1, 4)):
        document = _MAKERS[name](name, home, random)
        if random.random() < 0.3:
            annotations = {LAST_APPLIED: "{}", "example.com/note": _word(random)}
            document["metadata"] |= {"finalizers": ["example.com/hold"], "annotations": annotations}
        yield document
    if random.random() < 0.4:
        yield _envelope("wrapped", home, random)


def _policy(random: Random) -> JsonObject | None:
    if random.random() < 0.4:
        return None
    terms = [{"labelSelector": {"matchLabels": {"region": random.choice(REGIONS)}}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    if random.random() < 0.5:
        return {"placementType": "PickAll", "affinity": {"clusterAffinity": required}}
    return {"placementType": "PickN", "numberOfClusters": random.randint(1, 3)}


def _placements(name: str, home: str, cluster_wide: Sequence[JsonObject], random: Random) -> Iterator[JsonObject]:
    terms = [
        {
            "group": "rbac.authorization.k8s.io",
            "version": "v1",
            "kind": "ClusterRole",
            "name": document["metadata"]["name"],
        }
        for document in cluster_wide
    ]
    policy = _policy(random)
    alone = random.random() < 0.3
    scope = {"selectionScope": "NamespaceOnly"} if alone else {}
    yield make_placement(
        name, policy, selectors=[namespace_term(home) | scope, *terms], version="v1beta1", strategy=AT_ONCE
    )
    if alone:
        kinds = (("apps", "v1", "Deployment"), ("", "v1", "ConfigMap"), ("", "v1", "Secret"), ("", "v1", "Service"))
        selectors = [{"group": group, "version": version, "kind": kind} for group, version, kind in kinds]
        selectors.append({"group": PLACEMENT_GROUP, "version": "v1beta1", "kind": "ResourceEnvelope"})
        yield make_placement(f"{name}-rp", policy, selectors=selectors, namespace=home, strategy=AT_ONCE)


def _overrides(
    name: str, home: str, content: Sequence[JsonObject], cluster_wide: Sequence[JsonObject], random: Random
) -> Iterator[JsonObject]:
    inner = [wrapped for each in content if each["kind"] == "ResourceEnvelope" for wrapped in each["data"].values()]
    targets = [each for each in (*content, *inner) if each["kind"] != "ResourceEnvelope"]
    for at, target in enumerate(random.sample(targets, random.randint(0, min(2, len(targets))))):
        spec = {"resourceSelectors": [_selector(target)], "policy": {"overrideRules": _rules(random)}}
        yield _object(V1BETA1, "ResourceOverride", f"{name}-ro-{at}", home, spec=spec)
    for at, target in enumerate(cluster_wide):
        if random.random() < 0.5:
            spec = {"clusterResourceSelectors": [_selector(target)], "policy": {"overrideRules": _rules(random)}}
            yield _object(V1BETA1, "ClusterResourceOverride", f"{name}-cro-{at}", spec=spec)


def _selector(target: JsonObject) -> JsonObject:
    group, _, version = str(target["apiVersion"]).rpartition("/")
    return {"group": group, "version": version, "kind": target["kind"], "name": target["metadata"]["name"]}


def _rules(random: Random) -> list[JsonObject]:
    return [_rule(random) for _ in range(random.randint(1, 2))]


def _rule(random: Random) -> JsonObject:
    key, value = random.choice((("region", random.choice(REGIONS)), ("tier", random.choice(TIERS))))
    terms = [{"labelSelector": {"matchLabels": {key: value}}}] if random.random() < 0.6 else []
    rule: JsonObject = {"clusterSelector": {"clusterSelectorTerms": terms}}
    if random.random() < 0.15:
        return rule | {"overrideType": "Delete"}
    patches = [
        {"op": "add", "path": "/metadata/labels", "value": {"at": "${MEMBER-CLUSTER-NAME}"}},
        {"op": "add", "path": "/metadata/annotations", "value": {"n": f"n{random.randint(0, 9)}"}},
        {"op": "add", "path": "/metadata/labels", "value": {"in": "${MEMBER-CLUSTER-LABEL-KEY-region}"}},
        {"op": "replace", "path": "/data/nothing", "value": "fails"},
    ]
    (patch,) = random.choices(patches, weights=(5, 5, 3, 1))
    return rule | {"overrideType": "JSONPatch", "jsonPatchOverrides": [patch]}


def _changed(document: JsonObject, random: Random) -> JsonObject:
    """Return an object as a user edits it. It keeps its name."""
    metadata = document["metadata"]
    if document["kind"] == "ResourceEnvelope":
        return {**document, "data": {**document["data"], "c.yaml": _config_map("c", metadata["namespace"], random)}}
    labels = {"edited": f"e{random.randint(0, 9)}"}
    return {**document, "metadata": {**metadata, "labels": labels}}


def _override_again(document: JsonObject, random: Random) -> JsonObject:
    return {**document, "spec": {**document["spec"], "policy": {"overrideRules": _rules(random)}}}
