"""Decoding of a Work's manifests into objects that can be applied, or rejections with a reason.

Every manifest becomes either a `Manifest`, with its kind resolved and without the fields that only the member sets, or
a `RejectedManifest`, with the reason that the Work's status will show.

Source: docs/specifications/rollout.md 2.6 and 11.2.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from scorer.api.kinds import Kind, split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import IGNORE_FIELDS, LAST_APPLIED, SPEC_HASH
from scorer.api.unstructured.documents import metadata_of, name_of, namespace_of, text_at
from scorer.rollout.envelopes import is_confined
from scorer.rollout.ownership.ignored_fields import ignored_fields_mistakes
from scorer.rollout.selection.exclusions import MemberLimits
from scorer.rollout.works.status import ManifestReason, ManifestResult
from webhook.kube.ports import Key

MESSAGE_LIMIT: Final = 4096
"""Maximum number of characters of an API server's message in a condition."""

DEFAULT_LIMITS: Final = MemberLimits()

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
        "finalizers",  # set for controllers on the hub: the member may have no controller that removes them
    }
)
_OUR_ANNOTATIONS = frozenset({LAST_APPLIED, SPEC_HASH, "kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(frozen=True, slots=True)
class ManifestKinds:
    """The kinds that manifests may have, by group and kind.

    Args:
        served: Kinds that the member serves.
        coming: Kinds and versions defined by CustomResourceDefinitions among the manifests.
    """

    served: Mapping[tuple[str, str], Kind]
    coming: Mapping[tuple[str, str], Kind] = field(default_factory=dict)

    def find(self, group: str, kind: str, version: str) -> Kind | None:
        """Return the kind with *version* first, or None if that version is neither served nor coming."""
        for kinds in (self.served.get((group, kind)), self.coming.get((group, kind))):
            if kinds is not None and version in kinds.versions:
                return in_version(kinds, version)
        return None

    def serves(self, kind: Kind) -> bool:
        """Return whether the member serves *kind* in its first version."""
        served_kind = self.served.get(kind.group_kind)
        return served_kind is not None and kind.versions[0] in served_kind.versions

    def problem(self, group: str, kind: str, version: str) -> str:
        """Return why the member has no objects of this kind."""
        served_kind = self.served.get((group, kind)) or self.coming.get((group, kind))
        if served_kind is None:
            return f"the member cluster does not serve kind {kind:.100} {group:.100}{'/' * bool(group)}{version:.100}"
        versions = ", ".join(served_kind.versions)
        return f"the member cluster does not serve version {version:.100} of {served_kind}, only {versions:.200}"


def in_version(kind: Kind, version: str) -> Kind:
    """Return *kind* with *version* first, so that requests use that version."""
    if kind.versions[0] == version:
        return kind
    return replace(kind, versions=(version, *(other for other in kind.versions if other != version)))


class ManifestIdentity(NamedTuple):
    """Identifies an object. Has no version, because one object may be served in several versions."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply.

    Args:
        ordinal: Position in the Work.
        kind: Kind on the member, with the manifest's version first.
        key: Key on the member.
        document: The object without status and without the metadata that the member sets.
    """

    ordinal: int
    kind: Kind
    key: Key
    document: JsonObject

    @property
    def version(self) -> str:
        """The API version of the manifest."""
        return self.kind.versions[0]

    @property
    def identity(self) -> ManifestIdentity:
        """The identity of the object."""
        return ManifestIdentity(self.kind.group, self.kind.kind, self.key.namespace, self.key.name)


@dataclass(frozen=True, slots=True)
class RejectedManifest:
    """A manifest that cannot be applied. Fields that could not be parsed are empty."""

    ordinal: int
    identity: ManifestIdentity
    version: str
    resource: str
    reason: ManifestReason
    message: str


def limits_of(work: JsonObject, limits: MemberLimits) -> MemberLimits:
    """Return the limits for the content of a Work."""
    return replace(limits, namespaced_only=is_confined(work))


def decode(
    manifests: Sequence[object], kinds: ManifestKinds, limits: MemberLimits = DEFAULT_LIMITS
) -> list[Manifest | RejectedManifest]:
    """Decode the manifests of a Work, in order.

    The second manifest of an object is rejected, in any version. So is an object that *limits* excludes.
    """
    items: list[Manifest | RejectedManifest] = []
    ordinals: dict[ManifestIdentity, int] = {}
    for ordinal, document in enumerate(manifests):
        item = _decode(ordinal, document, kinds, limits)
        if isinstance(item, Manifest):
            first = ordinals.setdefault(item.identity, ordinal)
            if first != ordinal:
                message = f"{item.kind} {item.key} is already manifest {first} of this Work"
                item = _rejected(item, ManifestReason.DUPLICATED, message)
        items.append(item)
    return items


def _rejected(item: Manifest, reason: ManifestReason, message: str) -> RejectedManifest:
    return RejectedManifest(item.ordinal, item.identity, item.version, item.kind.plural, reason, message)


def _decode(ordinal: int, document: object, kinds: ManifestKinds, limits: MemberLimits) -> Manifest | RejectedManifest:
    if not isinstance(document, Mapping):
        return RejectedManifest(
            ordinal, ManifestIdentity("", "", "", ""), "", "", ManifestReason.DECODING_ERRED, "not an object"
        )
    metadata = metadata_of(document)
    group, version = split_api_version(text_at(document, "apiVersion"))
    identity = ManifestIdentity(group, text_at(document, "kind"), namespace_of(document), name_of(document))
    kind = kinds.find(identity.group, identity.kind, version)

    def reject(reason: ManifestReason, message: str) -> RejectedManifest:
        return RejectedManifest(ordinal, identity, version, kind.plural if kind else "", reason, message)

    for member in ("apiVersion", "kind"):
        if not text_at(document, member):
            return reject(ManifestReason.DECODING_ERRED, f"{member} is {document.get(member)!r:.64}, expected a name")
    about = (identity.group, (version,), identity.kind, identity.name, identity.namespace)
    if reason := limits.refusal(*about, cluster_scoped=kind is not None and not kind.namespaced):
        return reject(
            ManifestReason.REFUSED, f"{identity.kind:.100} {identity.name:.253} {reason}: the agent leaves it alone"
        )
    if kind is None:
        return reject(ManifestReason.DECODING_ERRED, kinds.problem(identity.group, identity.kind, version))
    if not identity.name:
        if metadata.get("generateName"):
            message = "metadata.name must be set: generateName is not supported"
            return reject(ManifestReason.FOUND_GENERATE_NAME, message)
        return reject(ManifestReason.DECODING_ERRED, f"metadata.name is {metadata.get('name')!r:.64}, expected a name")
    if kind.namespaced and not identity.namespace:
        return reject(ManifestReason.DECODING_ERRED, f"metadata.namespace must be set: {kind.kind} is namespaced")
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, Mapping) or not all(isinstance(value, str) for value in annotations.values()):
        message = f"metadata.annotations is {annotations!r:.64}, expected an object of strings"
        return reject(ManifestReason.DECODING_ERRED, message)
    if mistakes := ignored_fields_mistakes(document):
        message = f"metadata.annotations[{IGNORE_FIELDS}] {'; '.join(mistakes)}"
        return reject(ManifestReason.DECODING_ERRED, message)
    namespace = identity.namespace if kind.namespaced else ""
    key = Key(identity.name, namespace)
    return Manifest(ordinal, kind, key, applicable(document, kind))


def applicable(document: Mapping[str, Any], kind: Kind) -> JsonObject:
    """Return *document* without status and without the metadata that the member sets.

    The content of envelopes arrives here untrimmed. Source: rollout.md 2.6 and 9.3.
    """
    metadata = {key: value for key, value in document["metadata"].items() if key not in _DECIDED_BY_THE_MEMBER}
    if not kind.namespaced:
        metadata.pop("namespace", None)
    annotations = metadata.pop("annotations", None) or {}
    if remaining := {key: value for key, value in annotations.items() if key not in _OUR_ANNOTATIONS}:
        metadata["annotations"] = remaining
    body = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    return {**body, "metadata": metadata}


def manifest_result(
    item: Manifest | RejectedManifest,
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
        message=message[:MESSAGE_LIMIT],
        observed_generation=live["metadata"].get("generation", 0) if live else None,
        **details,
    )


def manifest_hash(document: JsonObject) -> str:
    """Return a hash that is equal for equal manifests, regardless of field order."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # text that UTF-8 cannot encode; `dump_json` escapes it
        text = orjson.dumps(orjson.loads(dump_json(document)), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def kinds_of(definitions: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Kind]:
    """Return the kinds that CustomResourceDefinitions define. Malformed definitions are skipped."""
    kinds = {}
    for definition in definitions:
        kind = _kind_of(definition)
        if kind is not None:
            kinds[kind.group_kind] = kind
    return kinds


def _kind_of(definition: Mapping[str, Any]) -> Kind | None:
    try:
        spec = definition["spec"]
        versions = [version for version in spec["versions"] if version.get("served")]
        stored_first = sorted(versions, key=lambda version: not version.get("storage"))
        return Kind(
            group=str(spec["group"]),
            versions=tuple(str(version["name"]) for version in stored_first),
            kind=str(spec["names"]["kind"]),
            plural=str(spec["names"]["plural"]),
            namespaced=spec["scope"] == "Namespaced",
            has_status=any("status" in (version.get("subresources") or {}) for version in versions),
        )
    except (KeyError, TypeError, AttributeError):
        return None
