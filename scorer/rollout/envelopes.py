"""Envelopes: objects that are wrapped on the hub, so that they have no effect there, and placed unwrapped.

Source: docs/specifications/rollout.md 9.3; KubeFleet pkg/controllers/workgenerator/envelope.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from scorer.api.kinds import ENVELOPE, KINDS, NAMESPACED_ENVELOPE, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT_NAMESPACE, PLACEMENT_GROUP
from scorer.api.unstructured.documents import label, name_of, namespace_of
from scorer.rollout.object_size import ObjectIdentity
from scorer.rollout.selection.exclusions import DEFAULT_SETTINGS, SelectionSettings

ENVELOPE_WORK = "kubernetes-fleet.io/envelope-work"
ENVELOPE_NAME = "kubernetes-fleet.io/envelope-name"
ENVELOPE_NAMESPACE = "kubernetes-fleet.io/envelope-namespace"

MANIFEST_LIMIT = 50


@dataclass(frozen=True, slots=True)
class EnvelopeError:
    """The content of an envelope cannot be placed. The message is for users."""

    message: str


@dataclass(frozen=True, slots=True, order=True)
class EnvelopeKey:
    """Identity of an envelope.

    Args:
        type: ``ClusterResourceEnvelope`` or ``ResourceEnvelope``.
        namespace: Empty for the former.
        name: Name of the envelope.
    """

    type: str
    namespace: str
    name: str

    @classmethod
    def of(cls, envelope: JsonObject) -> "EnvelopeKey":
        """Return the key of an envelope."""
        return cls(str(envelope["kind"]), namespace_of(envelope), name_of(envelope))

    @classmethod
    def of_work(cls, work: JsonObject) -> "EnvelopeKey | None":
        """Return the envelope whose content a Work holds, or None for a Work without an envelope."""
        kind = label(work, ENVELOPE_WORK)
        return cls(kind, label(work, ENVELOPE_NAMESPACE), label(work, ENVELOPE_NAME)) if kind else None

    def labels(self) -> dict[str, str]:
        """Return the labels that identify the envelope's Work."""
        labels = {ENVELOPE_WORK: self.type, ENVELOPE_NAME: self.name, ENVELOPE_NAMESPACE: self.namespace}
        return {key: value for key, value in labels.items() if value}

    @property
    def identity(self) -> ObjectIdentity:
        """Group, kind, namespace and name of the envelope."""
        return PLACEMENT_GROUP, self.type, self.namespace, self.name

    def work_name(self, base: str) -> str:
        """Return the name of the envelope's Work. *base* is the name of the Work of the snapshot that holds it."""
        digest = sha256(f"{self.type}/{self.namespace}/{self.name}".encode()).hexdigest()
        return f"{base}-envelope-{digest[:16]}"

    def identifier(self) -> JsonObject:
        """Return the field ``envelope`` of a wrapped object's entry in a status."""
        fields = {"name": self.name, "namespace": self.namespace, "type": self.type}
        return {key: value for key, value in fields.items() if value}

    def __str__(self) -> str:
        return f"{self.type} {self.namespace}/{self.name}" if self.namespace else f"{self.type} {self.name}"


def is_confined(work: JsonObject) -> bool:
    """Return whether a Work holds content of a namespace of the hub: of a ResourcePlacement or a ResourceEnvelope.

    None of it may be cluster-scoped on a member. Only the agent can check that for kinds that the hub does not serve.
    """
    envelope = EnvelopeKey.of_work(work)
    from_envelope = envelope is not None and envelope.type == NAMESPACED_ENVELOPE.kind
    return from_envelope or bool(label(work, PARENT_PLACEMENT_NAMESPACE))


def unwrap(
    envelope: JsonObject,
    kinds: Mapping[tuple[str, str], Kind] = KINDS,
    settings: SelectionSettings = DEFAULT_SETTINGS,
) -> list[JsonObject] | EnvelopeError:
    """Return the objects in an envelope, sorted by key, or why they cannot be placed.

    Args:
        envelope: ClusterResourceEnvelope or ResourceEnvelope.
        kinds: Known kinds, with their scope. An unknown kind counts as namespaced if the object sets a namespace.
        settings: Selection settings of the operator, which apply to wrapped objects, too.
    """
    key = EnvelopeKey.of(envelope)
    if len(key.name) > 63:
        return EnvelopeError(f"{key}: its name has {len(key.name)} characters, must have at most 63")
    data = envelope.get("data") or {}
    if not isinstance(data, Mapping) or not 0 < len(data) <= MANIFEST_LIMIT:
        return EnvelopeError(f"{key}: data must have 1 to {MANIFEST_LIMIT} objects, has {len(data)}")
    for entry, content in sorted(data.items()):
        if wrong := _content_error(key, content, kinds, settings):
            return EnvelopeError(f"{key}: data[{entry}] {wrong}")
    return [data[entry] for entry in sorted(data)]


def _content_error(
    key: EnvelopeKey, content: Any, kinds: Mapping[tuple[str, str], Kind], settings: SelectionSettings
) -> str:
    if not isinstance(content, Mapping):
        return "is not an object"
    if not (content.get("apiVersion") and content.get("kind") and name_of(content)):
        return "lacks apiVersion, kind or metadata.name"
    group, name = group_kind(content)
    if group == PLACEMENT_GROUP:
        return f"is a {name}, which cannot be wrapped"
    if reason := settings.envelope_exclusion_reason(content):
        return f"is {name} {name_of(content)}, which {reason}"
    kind, content_namespace = kinds.get((group, name)), namespace_of(content)
    if key.type == ENVELOPE.kind:
        if content_namespace or (kind and kind.namespaced):
            return f"is a namespaced {name}. Wrap it in a ResourceEnvelope"
    elif kind and not kind.namespaced:
        return f"is a cluster-scoped {name}. Wrap it in a ClusterResourceEnvelope"
    elif content_namespace != key.namespace:
        return f"is in namespace {content_namespace or '(none)'}, not in the envelope's"
    return ""
