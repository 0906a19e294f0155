"""Placements as they stand on the wire, and the policies in them."""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.kinds import PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.meta import JsonObject


def namespace_term(name: str) -> JsonObject:
    """Make a term that selects a namespace and everything in it."""
    return {"group": "", "version": "v1", "kind": "Namespace", "name": name}


def make_placement(
    name: str = "shop",
    policy: JsonObject | None = None,
    *,
    home: str = "shop",
    selectors: Iterable[Any] | None = None,
    namespace: str = "",
    version: str = "v1beta1",
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """Make a ClusterResourcePlacement, a ResourcePlacement where there is a *namespace*.

    Args:
        name: ``metadata.name``.
        policy: ``spec.policy``; None: absent.
        home: Name of the namespace that it selects.
        selectors: ``spec.resourceSelectors``, where it selects something else.
        namespace: ``metadata.namespace``; empty: absent.
        version: Of the API, as it is written.
        labels: ``metadata.labels``; None: absent.
        metadata: More of it.
        spec: More of it.
    """
    kind = RESOURCE_PLACEMENT if namespace else PLACEMENT
    head: JsonObject = {"name": name} | ({"namespace": namespace} if namespace else {})
    head |= {} if labels is None else {"labels": labels}
    terms = [namespace_term(home)] if selectors is None else list(selectors)
    return {
        "apiVersion": f"{kind.group}/{version}",
        "kind": kind.kind,
        "metadata": {**head, **(metadata or {})},
        "spec": {"resourceSelectors": terms, **({} if policy is None else {"policy": policy}), **spec},
    }


def fixed(*names: str) -> JsonObject:
    """Make a PickFixed policy."""
    return {"placementType": "PickFixed", "clusterNames": list(names)}
