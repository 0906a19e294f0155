"""Reviews of users' writes, by shape: the bytes that an API server sends.

The objects are as published in ``placements.yaml`` and ``others.yaml``, with what the mutating hook and the API server
fill in. ``user.json`` is one whole review of a user, whose creation is sent byte by byte: with the old name of the
sorter, as on a hub without the mutating hook.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import orjson
import yaml

from scorer.api.family import FAMILY_OF
from scorer.api.kinds import KINDS, Kind, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.names import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, POLICY_INDEX
from scorer.api.unstructured.documents import dict_at
from scorer.placement.policy_hash import policy_hash
from webhook.admission.judge import mutate
from webhook.settings.admission import OWN_CONTROLLER

FOLDER: Final = Path(__file__).parent
USER_REVIEW: Final[JsonObject] = orjson.loads((FOLDER / "user.json").read_bytes())
CASE: Final = "user review"
NAMESPACES: Final = 1_000
"""Of the hub that reviews are judged on, and as many placements."""
HELD: Final = 16
"""Of each shape: reviews that differ, and placements on the hub, which the updates are of."""
CLUSTERS: Final = 5
"""On which each of those is placed."""
WRITTEN: Final = "2026-11-20T12:00:00Z"
_DEPLOYER: Final = "system:serviceaccount:platform:deployer"


def _read(name: str) -> dict[str, JsonObject]:
    with (FOLDER / name).open(encoding="utf-8") as text:
        return {document["metadata"]["name"]: document for document in yaml.safe_load_all(text)}


PLACEMENTS: Final[Mapping[str, JsonObject]] = {
    CASE: USER_REVIEW["request"]["object"],
    **_read("placements.yaml"),
}
"""Twelve shapes of placements, by name."""
OTHERS: Final[Mapping[str, JsonObject]] = {document["kind"]: document for document in _read("others.yaml").values()}
"""An object of each of some other kinds."""


@dataclass(frozen=True, slots=True)
class Review:
    """One review, as it is sent.

    Args:
        target: The path of the hook, below the secret one.
        body: The body.
    """

    target: str
    body: bytes


def written(shape: str, number: int) -> JsonObject:
    """Return an object of a shape as a user writes the *number*-th of its kind."""
    document = deepcopy(PLACEMENTS.get(shape) or OTHERS[shape])
    metadata = document["metadata"]
    if shape in PLACEMENTS:
        metadata["name"] = f"{shape.replace(' ', '-')}-{number:04}"
        for term in document["spec"]["resourceSelectors"]:
            if term["kind"] == "Namespace" and "name" in term:
                term["name"] = f"shop-{number % NAMESPACES:04}"
    if "namespace" in metadata:
        metadata["namespace"] = f"shop-{number % NAMESPACES:04}"
    return document


def stored(shape: str, number: int) -> JsonObject:
    """Return the same object as the validating hook gets it: with defaults, and with what the API server fills in."""
    document = written(shape, number)
    if shape != CASE:
        document = mutate(document, None, "CREATE").document
    fields: JsonObject = {f"f:{name}": {} for name in document["spec"]}
    managed = {
        "manager": "deployer",
        "operation": "Update",
        "apiVersion": document["apiVersion"],
        "time": WRITTEN,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}, "f:spec": fields},
    }
    metadata = {
        "managedFields": [managed],
        **document["metadata"],
        "uid": str(UUID(int=number)),
        "generation": 1,
        "creationTimestamp": WRITTEN,
    }
    return {**document, "metadata": metadata}


def held_objects() -> Iterator[tuple[Kind, JsonObject]]:
    """Yield the placements that are updated, as the hub has them: with a policy snapshot and bindings."""
    for shape in PLACEMENTS:
        for number in range(HELD):
            document = stored(shape, number)
            family = FAMILY_OF[document["kind"]]
            metadata = document["metadata"]
            name, namespace = metadata["name"], metadata.get("namespace")
            about = {"labels": {PARENT_PLACEMENT: name}} | ({"namespace": namespace} if namespace else {})
            yield family.placement, {**document, "metadata": {**about, "name": name, "labels": {}}}
            latest = {**about["labels"], IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: "0"}
            policy = {"policy": document["spec"]["policy"], "policyHash": policy_hash(document["spec"]["policy"])}
            snapshot = {"metadata": {**about, "name": f"{name}-0", "labels": latest}, "spec": policy}
            yield family.policy_snapshot, {**_head(family.policy_snapshot), **snapshot}
            for cluster in (f"member-{(number + offset) % 100:04}" for offset in range(CLUSTERS)):
                spec = {"state": "Bound", "targetCluster": cluster, "schedulingPolicySnapshotName": f"{name}-0"}
                binding = {"metadata": {**about, "name": f"{name}-{cluster}"}, "spec": spec}
                yield family.binding, {**_head(family.binding), **binding}


def _head(kind: Kind) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def annotated(document: JsonObject) -> JsonObject:
    """Return a document as a GitOps controller updates it that has nothing to change but its own annotation."""
    annotations = {**dict_at(document, "metadata", "annotations"), "gitops.example.com/revision": "main@sha1:4f2a"}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def edited(document: JsonObject) -> JsonObject:
    """Return a placement whose rollout a user has changed."""
    return {**document, "spec": {**document["spec"], "revisionHistoryLimit": 12}}


def mistaken(document: JsonObject) -> JsonObject:
    """Return the placement of the user's review with ten mistakes."""
    wrong = deepcopy(document)
    policy, strategy = wrong["spec"]["policy"], wrong["spec"]["strategy"]
    affinity = policy["affinity"]["clusterAffinity"]
    [required] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
    [preferred] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    wrong["metadata"]["labels"]["team"] = "no spaces here"
    wrong["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    wrong["spec"]["resourceSelectors"][1]["kind"] = "ClusterRoles"
    policy["clusterNames"] = ["oslo"]
    required["labelSelector"]["matchLabels"]["region"] = "-east"
    required["propertySelector"]["matchExpressions"][0]["operator"] = "AtLeast"
    required["propertySelector"]["matchExpressions"][1]["values"] = ["two"]
    preferred["weight"] = 200
    policy["tolerations"][0]["operator"] = "Like"
    strategy["rollingUpdate"]["maxSurge"] = "125%"
    return wrong


def review(
    document: JsonObject, old: JsonObject | None, number: int, *, hook: str = "validate", user: str = _DEPLOYER
) -> Review:
    """Return the review of a creation, or of an update of *old*."""
    kind = KINDS[group_kind(document)]
    group, version = split_api_version(document["apiVersion"])
    kinds = {"group": group, "version": version, "kind": kind.kind}
    resource = {"group": group, "version": version, "resource": kind.plural}
    operation = "CREATE" if old is None else "UPDATE"
    metadata = document["metadata"]
    request: dict[str, Any] = {
        "uid": str(UUID(int=2**127 + number)),
        "kind": kinds,
        "resource": resource,
        "requestKind": kinds,
        "requestResource": resource,
        "name": metadata["name"],
        **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
        "operation": operation,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": document,
        "oldObject": old,
        "dryRun": False,
        "options": {
            "kind": f"{operation.capitalize()}Options",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "deployer",
        },
    }
    body = orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    return Review(f"/{hook}/{group}/{kind.plural}?timeout=5s", body)


def _creation(shape: str) -> Callable[[int], Review]:
    """Return creations of new objects, which select namespaces that no placement on a cluster selects."""
    if shape == CASE:
        return lambda _: Review(f"/validate/{_path(USER_REVIEW)}?timeout=5s", (FOLDER / "user.json").read_bytes())
    return lambda number: review(stored(shape, HELD + number), None, number)


def _path(whole: JsonObject) -> str:
    return "/".join(whole["request"]["resource"][part] for part in ("group", "resource"))


def _edit(shape: str) -> Callable[[int], Review]:
    return lambda number: review(edited(stored(shape, number)), stored(shape, number), number)


def _annotation(shape: str) -> Callable[[int], Review]:
    return lambda number: review(annotated(stored(shape, number)), stored(shape, number), number)


def _own(shape: str) -> Callable[[int], Review]:
    return lambda number: review(stored(shape, HELD + number), None, number, user=OWN_CONTROLLER)


def _mutation(shape: str) -> Callable[[int], Review]:
    return lambda number: review(written(shape, number), None, number, hook="mutate")


def _refusal(shape: str) -> Callable[[int], Review]:
    return lambda number: review(mistaken(stored(shape, number)), None, number)


ROWS: Final[Mapping[str, Callable[[int], Review]]] = {
    **{f"create, {shape}": _creation(shape) for shape in PLACEMENTS},
    **{f"update, {shape}": _edit(shape) for shape in PLACEMENTS},
    **{f"own account, {shape}": _own(shape) for shape in PLACEMENTS},
    **{f"annotation, {shape}": _annotation(shape) for shape in (CASE, "rolling-update", "spread")},
    **{f"mutate, {shape}": _mutation(shape) for shape in (CASE, "metric-sorter", "affinities")},
    **{f"create, {kind}": _creation(kind) for kind in OTHERS},
    f"refused, {CASE}": _refusal(CASE),
}
"""What makes the *number*-th review of each row."""
REFUSED: Final = frozenset({f"refused, {CASE}"})
