"""The digest that decides whether a policy needs a new snapshot.

It is computed after defaulting and after renaming ``metricSorter``. An explicit default, or the rewrite by the mutating
webhook, therefore causes no new snapshot. ``numberOfClusters`` is not part of it. Empty lists and the empty strings of
tolerations are not part of it either: the types of KubeFleet omit them from snapshots.

Source: docs/specifications/scheduling.md 1; KubeFleet apis/placement/v1beta1, PlacementPolicy.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from scorer.api.meta import JsonObject, without_nulls
from scorer.api.unstructured.documents import is_labelled_latest, spec_of

_CONSTRAINT_DEFAULTS = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
_TOLERATION_DEFAULTS = {"operator": "Equal"}


def canonical_policy(policy: Mapping[str, Any] | None) -> JsonObject:
    """Return a copy of *policy* with explicit defaults and current field names. No policy means PickAll (DR-2)."""
    canonical: JsonObject = {"placementType": "PickAll"} | _without_empty_lists(without_nulls(dict(policy or {})))
    if isinstance(canonical.get("tolerations"), list):
        canonical["tolerations"] = [_without_empty_texts(entry) for entry in canonical["tolerations"]]
    for key, defaults in (("topologySpreadConstraints", _CONSTRAINT_DEFAULTS), ("tolerations", _TOLERATION_DEFAULTS)):
        if isinstance(canonical.get(key), list):
            canonical[key] = [defaults | entry if isinstance(entry, dict) else entry for entry in canonical[key]]
    affinity = canonical.get("affinity", {}).get("clusterAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    if isinstance(preferred, list):
        new_affinity = {
            **affinity,
            "preferredDuringSchedulingIgnoredDuringExecution": [_rename_sorter(term) for term in preferred],
        }
        canonical["affinity"] = {**canonical["affinity"], "clusterAffinity": new_affinity}
    return canonical


def _without_empty_lists(value: Any) -> Any:
    if isinstance(value, dict):
        remaining = {key: item for key, item in value.items() if item != [] and (key, item) != ("matchLabels", {})}
        return {key: _without_empty_lists(item) for key, item in remaining.items()}
    return [_without_empty_lists(item) for item in value] if isinstance(value, list) else value


def _without_empty_texts(toleration: Any) -> Any:
    if not isinstance(toleration, dict):
        return toleration
    return {key: item for key, item in toleration.items() if item != ""}


def _rename_sorter(term: JsonObject) -> JsonObject:
    preference = dict(term.get("preference") or {})
    if "metricSorter" in preference and preference.get("propertySorter") in (None, preference["metricSorter"]):
        preference["propertySorter"] = preference.pop("metricSorter")
    return {**term, "preference": preference}


def policy_hash(policy: Mapping[str, Any] | None) -> str:
    """Return the lower-case hex SHA-256 of *policy* without ``numberOfClusters``."""
    content = {key: value for key, value in canonical_policy(policy).items() if key != "numberOfClusters"}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def policy_in_force(placement: Mapping[str, Any], snapshots: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the latest policy snapshot if it holds the placement's current policy, else empty."""
    digest = policy_hash(spec_of(placement).get("policy"))
    for snapshot in snapshots:
        latest = is_labelled_latest(snapshot)
        if latest and policy_hash(spec_of(snapshot).get("policy")) == digest:
            return str(snapshot["metadata"]["name"])
    return ""
