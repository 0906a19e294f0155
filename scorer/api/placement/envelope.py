"""Envelopes: objects to place that must not take effect on the hub.

Source: docs/specifications/placement-api.md 3.9.
"""

from pydantic import Field

from scorer.api.meta import AnyObject, ApiObject


class ClusterResourceEnvelope(ApiObject):
    """Wraps cluster-scoped objects. The keys of ``data`` are free, by convention file names."""

    data: dict[str, AnyObject] = Field(min_length=1, max_length=50)
    """The wrapped objects, each under an arbitrary key, by convention a file name."""


class ResourceEnvelope(ClusterResourceEnvelope):
    """Wraps objects of its own namespace. The keys of ``data`` are free, by convention file names."""
