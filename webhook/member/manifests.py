"""From the manifests of a Work to objects that can be applied.

Every manifest becomes either a `Manifest`, with its kind known and everything removed that only the
member may decide, or a `Rejected`, with the reason that the Work's status will show.

Source: rollout.md 2.6 and 11.2.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import orjson

from scorer.api.kinds import Kind, split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import LAST_APPLIED, SPEC_HASH
from scorer.rollout.work_status import ManifestReason, ManifestResult
from webhook.kube.ports import Key

FindKind: TypeAlias = Callable[[str, str], Kind | None]
"""Group and kind to the kind as the member serves it."""


_DECIDED_BY_THE_MEMBER = frozenset(
    {
        "resourceVersion",
        "generation",
        "uid",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "creationTimestamp",
        "managedFields",
        "ownerReferences",
        "generateName",
    }
)
_OUR_ANNOTATIONS = frozenset({LAST_APPLIED, SPEC_HASH, "kubectl.kubernetes.io/last-applied-configuration"})


class Identity(NamedTuple):
    """Tells objects apart. Without the version: one object may be served under several."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply.

    Args:
        ordinal: Position in the Work.
        kind: Its kind on the member.
        version: The version it is written in.
        key: Its key on the member.
        document: The object without status and without what the member decides.
    """

    ordinal: int
    kind: Kind
    version: str
    key: Key
    document: JsonObject

    @property
    def identity(self) -> Identity:
        """What tells the object apart from others."""
        return Identity(self.kind.group, self.kind.kind, self.key.namespace, self.key.name)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A manifest that cannot be applied as it is; fields that could not be read are empty."""

    ordinal: int
    identity: Identity
    version: str
    resource: str
    reason: ManifestReason
    message: str


def decode(manifests: Sequence[object], find_kind: FindKind) -> list[Manifest | Rejected]:
    """Read the manifests of a Work, in order.

    The same object twice (whatever the version): the second one is turned away.
    """
    decoded: list[Manifest | Rejected] = []
    seen: dict[Identity, int] = {}
    for ordinal, document in enumerate(manifests):
        item = _decode(ordinal, document, find_kind)
        if isinstance(item, Manifest):
            first = seen.setdefault(item.identity, ordinal)
            if first != ordinal:
                message = f"{item.kind} {item.key} is already manifest {first} of this Work"
                item = _rejected(item, ManifestReason.DUPLICATED, message)
        decoded.append(item)
    return decoded


def _rejected(item: Manifest, reason: ManifestReason, message: str) -> Rejected:
    return Rejected(item.ordinal, item.identity, item.version, item.kind.plural, reason, message)


def _decode(ordinal: int, document: object, find_kind: FindKind) -> Manifest | Rejected:
    if not isinstance(document, Mapping):
        return Rejected(ordinal, Identity("", "", "", ""), "", "", ManifestReason.DECODING_ERRED, "not an object")
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    group, version = split_api_version(_text(document, "apiVersion"))
    identity = Identity(group, _text(document, "kind"), _text(metadata, "namespace"), _text(metadata, "name"))
    kind = find_kind(identity.group, identity.kind)

    def reject(reason: ManifestReason, message: str) -> Rejected:
        return Rejected(ordinal, identity, version, kind.plural if kind else "", reason, message)

    for field in ("apiVersion", "kind"):
        if not _text(document, field):
            return reject(ManifestReason.DECODING_ERRED, f"{field} is {document.get(field)!r:.64}, expected a name")
    if kind is None or version not in kind.versions:
        what = f"{identity.kind} {document['apiVersion']}"
        return reject(ManifestReason.DECODING_ERRED, f"the member cluster does not know the kind {what:.200}")
    if not identity.name:
        if metadata.get("generateName"):
            message = "generateName cannot be used here: a name is needed to find the object again"
            return reject(ManifestReason.FOUND_GENERATE_NAME, message)
        return reject(ManifestReason.DECODING_ERRED, f"metadata.name is {metadata.get('name')!r:.64}, expected a name")
    if kind.namespaced and not identity.namespace:
        return reject(ManifestReason.DECODING_ERRED, f"metadata.namespace is missing; {kind.kind} is namespaced")
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, Mapping) or not all(isinstance(value, str) for value in annotations.values()):
        message = f"metadata.annotations is {annotations!r:.64}, expected an object of texts"
        return reject(ManifestReason.DECODING_ERRED, message)
    namespace = identity.namespace if kind.namespaced else ""
    key = Key(identity.name, namespace)
    return Manifest(ordinal, kind, version, key, applicable(document, kind))


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    return value if isinstance(value, str) else ""


def applicable(document: Mapping[str, Any], kind: Kind) -> JsonObject:
    """Return *document* without status and without the metadata that the member decides.

    Source: rollout.md 2.6; the content of envelopes gets here untrimmed (9.3).
    """
    metadata = {key: value for key, value in document["metadata"].items() if key not in _DECIDED_BY_THE_MEMBER}
    if not kind.namespaced:
        metadata.pop("namespace", None)
    annotations = metadata.pop("annotations", None) or {}
    if kept := {key: value for key, value in annotations.items() if key not in _OUR_ANNOTATIONS}:
        metadata["annotations"] = kept
    body = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    return {**body, "metadata": metadata}


def manifest_result(
    item: Manifest | Rejected,
    reason: ManifestReason,
    message: str,
    live: JsonObject | None = None,
    **details: Any,
) -> ManifestResult:
    """Return the result of a manifest, with the generation of the live object if there is one."""
    resource = item.kind.plural if isinstance(item, Manifest) else item.resource
    return ManifestResult(
        ordinal=item.ordinal,
        group=item.identity.group,
        version=item.version,
        kind=item.identity.kind,
        resource=resource,
        namespace=item.identity.namespace,
        name=item.identity.name,
        reason=reason,
        message=message,
        observed_generation=live["metadata"].get("generation", 0) if live else None,
        **details,
    )


def manifest_hash(document: JsonObject) -> str:
    """Return a hash that is equal for equal manifests, whatever the order of their members."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        text = orjson.dumps(orjson.loads(dump_json(document)), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def kinds_of(definitions: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Kind]:
    """Return the kinds that CustomResourceDefinitions make known; those of the wrong shape make none."""
    kinds = {}
    for definition in definitions:
        kind = _kind_of(definition)
        if kind is not None:
            kinds[kind.group_kind] = kind
    return kinds


def _kind_of(definition: Mapping[str, Any]) -> Kind | None:
    try:
        spec = definition["spec"]
        served = [version for version in spec["versions"] if version.get("served")]
        stored_first = sorted(served, key=lambda version: not version.get("storage"))
        return Kind(
            group=str(spec["group"]),
            versions=tuple(str(version["name"]) for version in stored_first),
            kind=str(spec["names"]["kind"]),
            plural=str(spec["names"]["plural"]),
            namespaced=spec["scope"] == "Namespaced",
            has_status=any("status" in (version.get("subresources") or {}) for version in served),
        )
    except (KeyError, TypeError, AttributeError):
        return None
