"""NodeOverlays: prices of instance types as Karpenter adjusts them, per pool.

An overlay matches offerings by the labels of the pool and of the instance type, and by zone and capacity type. The
first matching overlay by weight sets the price of an offering. Of two overlays of the same weight that share an
offering, only the one with the later name is applied. ``capacity`` is not simulated.

Source: docs/specifications/nodepool-disruption.md 6.2; Karpenter v1.15.0 ``pkg/controllers/nodeoverlay``, and
AdjustedPrice in ``pkg/cloudprovider/types.go``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.node_pool import CAPACITY_TYPE, NODE_POOL_LABEL
from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, text_at, texts_at
from scorer.node_disruption.cluster.requirements import ZONE, Allowed, add, is_of_provider, read_allowed
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot, NodePoolState, OfferingKey
from scorer.node_disruption.instance_types.catalog import InstanceType, InstanceTypeCatalog, Offering

_PRICE: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_ADJUSTMENT: Final = re.compile(r"[+-]([0-9]+(\.[0-9]+)?|\.[0-9]+)%?", re.ASCII)
_LONGEST: Final = 64
"""Longest price or adjustment, in characters."""


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """An overlay with a price.

    Args:
        name: Name.
        weight: Overlays with a larger weight are tried first. Of equal weights, the later name comes first.
        change: The price, or the adjustment such as ``-10%`` or ``+0.5``.
        requirements: Requirements on the offerings.
    """

    name: str
    weight: int
    change: str
    requirements: Mapping[str, Allowed]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pool's instance type with these labels matches, regardless of zone and capacity type."""
        return all(
            requirement.allows(labels[key]) if key in labels else requirement.may_be_absent
            for key, requirement in self.requirements.items()
            if key not in (ZONE, CAPACITY_TYPE)
        )

    def covers(self, offering: Offering) -> bool:
        """Return whether zone and capacity type match."""
        values = ((ZONE, offering.zone), (CAPACITY_TYPE, offering.capacity_type))
        return all(key not in self.requirements or self.requirements[key].allows(value) for key, value in values)

    def price(self, price: float) -> float:
        """Return the price that replaces *price*."""
        if self.change[0] not in "+-":
            return float(self.change)
        if self.change.endswith("%"):
            return max(0.0, price * (1 + float(self.change[:-1]) / 100))
        return max(0.0, price + float(self.change))


def read_overlay(document: JsonObject) -> NodeOverlay | None:
    """Parse a NodeOverlay, or return None if it changes no price, or has a price that Karpenter would refuse."""
    spec = dict_at(document, "spec")
    price, adjustment = text_at(spec, "price"), text_at(spec, "priceAdjustment")
    change, form = (price, _PRICE) if price else (adjustment, _ADJUSTMENT)
    if (price and adjustment) or len(change) > _LONGEST or not form.fullmatch(change):
        return None
    requirements: dict[str, Allowed] = {}
    for requirement in dicts_at(spec, "requirements"):
        allowed = read_allowed(text_at(requirement, "operator"), texts_at(requirement, "values"))
        if allowed is None:
            return None
        add(requirements, text_at(requirement, "key"), allowed)
    weight = spec.get("weight")
    return NodeOverlay(name_of(document), weight if isinstance(weight, int) else 0, change, requirements)


def with_overlays(
    cluster: ClusterSnapshot, catalog: InstanceTypeCatalog, documents: Iterable[JsonObject]
) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """Return the cluster with the prices of its pools, and notes about overlays that are not applied as written.

    Args:
        cluster: The cluster.
        catalog: Instance types with the prices before overlays.
        documents: The NodeOverlays. The last of several with one name counts.
    """
    notes, overlays = list[str](), list[NodeOverlay]()
    for name, document in sorted({name_of(document): document for document in documents}.items()):
        overlay = read_overlay(document)
        if overlay is not None:
            overlays.append(overlay)
            notes += _unmatched_labels(overlay, catalog)
        elif dict_at(document, "spec").keys() & {"price", "priceAdjustment"}:
            notes.append(f"NodeOverlay {name} is invalid and is not applied")
        if dict_at(document, "spec", "capacity"):
            notes.append(f"capacity of NodeOverlay {name} is not simulated")
    prices: dict[str, dict[OfferingKey, float]] = {name: {} for name in cluster.pools}
    weights: dict[tuple[str, OfferingKey], int] = {}
    for overlay in sorted(overlays, key=lambda overlay: (overlay.weight, overlay.name), reverse=True):
        matches = [
            (name, key, offering.price)
            for name, pool in cluster.pools.items()
            for key, offering in _offerings(overlay, pool, catalog.types)
        ]
        if any(weights.get((name, key)) == overlay.weight for name, key, _ in matches):
            notes.append(
                f"NodeOverlay {overlay.name} is not applied: another of the same weight matches some of its offerings"
            )
            continue
        for name, key, price in matches:
            weights[name, key] = overlay.weight
            prices[name].setdefault(key, overlay.price(price))
    pools = {name: replace(pool, prices=prices[name]) for name, pool in cluster.pools.items()}
    return replace(cluster, pools=pools), tuple(notes)


def _offerings(
    overlay: NodeOverlay, pool: NodePoolState, types: Iterable[InstanceType]
) -> Iterator[tuple[OfferingKey, Offering]]:
    own = {NODE_POOL_LABEL: pool.name, **pool.model.spec.template.metadata.labels}
    for kind in types:
        if overlay.matches({**own, **kind.labels}):
            for offering in kind.offerings:
                if overlay.covers(offering):
                    yield (kind.name, offering.zone, offering.capacity_type), offering


def _unmatched_labels(overlay: NodeOverlay, catalog: InstanceTypeCatalog) -> Iterator[str]:
    """Yield messages about provider labels that an overlay requires and no type has. It then matches nothing."""
    labels = {key for kind in catalog.types for key in kind.labels}
    for key in sorted(key for key in overlay.requirements if is_of_provider(key) and key not in labels):
        if not overlay.requirements[key].may_be_absent:
            yield f"NodeOverlay {overlay.name} requires label {key}, which no instance type in the table has"
