"""Fields that an API server or a controller fills: each cluster has its own value.

One table serves every mechanism that separates the author's fields from the cluster's:

- a snapshot on the hub leaves out the fields that the hub's own cluster filled (`without_filled_fields`);
- a three-way merge and a comparison start from the manifest with the member's fields in it (`with_member_fields`), so
  that they neither revert nor report them;
- server-side apply leaves them out of its configuration (`without_member_fields`).

Example: Service ``web`` has ``clusterIP: 10.96.0.7`` on the hub and ``10.43.1.9`` on a member. The address is not sent.
The member's address is not drift, and a merge keeps it.

The author names further fields in the annotation ``harbormaster.dev/ignore-fields``: see
`scorer.rollout.ownership.ignored_fields`.

Source: docs/specifications/rollout.md 2.6 and 2.10.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any, Final, TypeAlias

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotations_of, dicts_at, labels_of, spec_of, text_at, texts_at
from scorer.rollout.ownership.ignored_fields import ignored_fields

Path: TypeAlias = tuple[str, ...]
"""Names from the root. `ITEMS` stands for every item of a list, a number for one of them."""

ITEMS: Final = "*"

Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]


def _always(_document: Mapping[str, Any]) -> bool:
    return True


def _never(_document: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One field, or the same field of every item of a list.

    Args:
        path: Location of the field.
        filled: Whether the hub's own cluster has filled the value in an object on the hub. Such a value is not sent.
        overwritten: Whether a controller replaces the author's value. The member's value then wins over the manifest's.
            Called with the manifest and with the live object, and one match is enough. `_never`: the field is
            allocated, and the member's value applies only if the manifest has none.
    """

    path: Path
    filled: Predicate = _always
    overwritten: Predicate = _never

    def prevails(self, manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
        """Return whether the member's value wins over one in the manifest."""
        return self.overwritten(manifest) or self.overwritten(live)

    def belongs_to_member(self, manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
        """Return whether the field is the member's if the manifest has no value for it.

        Example: the author of a ClusterRole removes all of its rules. Nothing aggregates the role, so the member's
        rules are removed as well.
        """
        return self.overwritten is _never or self.prevails(manifest, live)


def _is_headless(service: Mapping[str, Any]) -> bool:
    return "None" in (text_at(service, "spec", "clusterIP"), *texts_at(service, "spec", "clusterIPs"))


def _has_address(service: Mapping[str, Any]) -> bool:
    return not _is_headless(service)


def _has_generated_selector(job: Mapping[str, Any]) -> bool:
    return spec_of(job).get("manualSelector") is not True


def _is_bound_by_controller(volume_or_claim: Mapping[str, Any]) -> bool:
    """Return whether a controller bound a volume or a claim to its counterpart. Otherwise the author named it."""
    return "pv.kubernetes.io/bound-by-controller" in annotations_of(volume_or_claim)


def _is_aggregated(role: Mapping[str, Any]) -> bool:
    return bool(dicts_at(role, "aggregationRule", "clusterRoleSelectors"))


_CA_INJECTORS: Final = frozenset(
    {
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "cert-manager.io/inject-apiserver-ca",
        "service.beta.openshift.io/inject-cabundle",
        "service.alpha.openshift.io/inject-cabundle",
    }
)
_OPENSHIFT_SERVICE_CA: Final = frozenset({name for name in _CA_INJECTORS if "openshift" in name})
_OPENSHIFT_TRUSTED_CA: Final = "config.openshift.io/inject-trusted-cabundle"
_PEOPLES_TOOLS: Final = "kubectl"
"""Prefix of the field managers of interactive clients. A caBundle patched by hand belongs to the author."""


def _has_injected_ca(document: Mapping[str, Any]) -> bool:
    """Return whether a controller writes the CA bundles of an object.

    Either the object requests them from an injector, or a field manager other than kubectl wrote a bundle but not the
    ``service`` or ``url`` next to it. Controllers that rotate their own certificates write only the bundle (Gatekeeper,
    Kyverno).
    """
    if not _CA_INJECTORS.isdisjoint(annotations_of(document)):
        return True
    return any(
        not text_at(entry, "manager").startswith(_PEOPLES_TOOLS) and _has_ca_alone(entry.get("fieldsV1"))
        for entry in dicts_at(document, "metadata", "managedFields")
    )


def _has_ca_alone(fields: object) -> bool:
    if not isinstance(fields, Mapping):
        return False
    if "f:caBundle" in fields:
        return fields.keys().isdisjoint({"f:service", "f:url"})
    return any(map(_has_ca_alone, fields.values()))


def _has_injected_service_ca(config_map: Mapping[str, Any]) -> bool:
    return not _OPENSHIFT_SERVICE_CA.isdisjoint(annotations_of(config_map))


def _has_injected_trusted_ca(config_map: Mapping[str, Any]) -> bool:
    return labels_of(config_map).get(_OPENSHIFT_TRUSTED_CA) == "true"


def _annotation(key: str) -> FieldRule:
    return FieldRule(("metadata", "annotations", key), overwritten=_always)


def _is_of_managers(rule: FieldRule) -> bool:
    return rule.filled is _has_injected_ca


def _ca_bundle(*path: str) -> FieldRule:
    return FieldRule((*path, "caBundle"), _has_injected_ca, _has_injected_ca)


def _generated_labels(*path: str, names: tuple[str, ...] = ("controller-uid", "job-name")) -> Iterator[FieldRule]:
    """Yield the labels that a Job uses to find its pods.

    An author's label of the same name must have the same value.
    """
    for name in names:
        for prefix in ("", "batch.kubernetes.io/"):
            yield FieldRule((*path, prefix + name), _has_generated_selector, _has_generated_selector)


_WEBHOOKS: Final = (_ca_bundle("webhooks", ITEMS, "clientConfig"),)
_CONVERSION: Final = (_ca_bundle("spec", "conversion", "webhook", "clientConfig"),)

RULES: Final[Mapping[tuple[str, str], tuple[FieldRule, ...]]] = {
    ("", "Service"): (
        FieldRule(("spec", "clusterIP"), _has_address),
        FieldRule(("spec", "clusterIPs"), _has_address),
        FieldRule(("spec", "healthCheckNodePort")),
        FieldRule(("spec", "ports", ITEMS, "nodePort")),
    ),
    ("", "Namespace"): (
        FieldRule(("spec", "finalizers"), _never),
        *(_annotation(f"openshift.io/sa.scc.{name}") for name in ("mcs", "supplemental-groups", "uid-range")),
    ),
    ("", "ConfigMap"): (
        FieldRule(("data", "service-ca.crt"), _has_injected_service_ca, _has_injected_service_ca),
        FieldRule(("data", "ca-bundle.crt"), _has_injected_trusted_ca, _has_injected_trusted_ca),
    ),
    ("", "PersistentVolumeClaim"): (
        FieldRule(("spec", "volumeName"), _is_bound_by_controller),
        _annotation("pv.kubernetes.io/bind-completed"),
        _annotation("pv.kubernetes.io/bound-by-controller"),
        _annotation("volume.beta.kubernetes.io/storage-provisioner"),
        _annotation("volume.kubernetes.io/selected-node"),
        _annotation("volume.kubernetes.io/storage-provisioner"),
    ),
    ("", "PersistentVolume"): (
        FieldRule(("spec", "claimRef"), _is_bound_by_controller),
        FieldRule(("spec", "claimRef", "uid"), overwritten=_always),
        FieldRule(("spec", "claimRef", "resourceVersion"), overwritten=_always),
        FieldRule(("spec", "claimRef", "apiVersion"), _never),
        FieldRule(("spec", "claimRef", "kind"), _never),
        _annotation("pv.kubernetes.io/bound-by-controller"),
    ),
    ("apps", "DaemonSet"): (_annotation("deprecated.daemonset.template.generation"),),
    ("apps", "Deployment"): (_annotation("deployment.kubernetes.io/revision"),),
    ("apps", "ReplicaSet"): (_annotation("deployment.kubernetes.io/revision"),),
    ("batch", "Job"): (
        *_generated_labels("spec", "selector", "matchLabels"),
        *_generated_labels("spec", "template", "metadata", "labels"),
        *_generated_labels("metadata", "labels", names=("controller-uid",)),
        FieldRule(("spec", "template", "metadata", "creationTimestamp"), overwritten=_always),
    ),
    ("rbac.authorization.k8s.io", "ClusterRole"): (FieldRule(("rules",), _is_aggregated, _is_aggregated),),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        _ca_bundle("spec", "conversion", "webhook", "clientConfig"),
    ),
    ("apiregistration.k8s.io", "APIService"): (_ca_bundle("spec"),),
}
"""The fields of each kind that a cluster fills, by group and kind."""

WITH_MANAGERS: Final = frozenset(kind for kind, rules in RULES.items() if any(_is_of_managers(rule) for rule in rules))
"""Kinds whose field managers show who filled a field."""


def without_filled_fields(document: JsonObject) -> JsonObject:
    """Return an object of the hub without the fields that the hub's own cluster filled."""
    rules = RULES.get(group_kind(document), ())
    for path in [rule.path for rule in rules if rule.filled(document)]:
        document = _without(document, path) or {}
    return document


def with_member_fields(
    manifest: JsonObject, live: JsonObject, *, outcome: JsonObject | None = None, author: JsonObject | None = None
) -> JsonObject:
    """Return a manifest with the fields that belong to the member as *live* has them.

    Args:
        manifest: The author's manifest, or the outcome of applying it.
        live: The object on the member.
        outcome: The object that determines which fields belong to the member. None: unset, *live* determines it.
        author: The manifest whose annotation names the fields to ignore. Required if *manifest* is the outcome of an
            apply, because a client of the member may have written the annotation there. None: unset, *manifest* has the
            annotation.
    """
    reference = live if outcome is None else outcome
    for rule in _member_rules(manifest, reference):
        manifest = _adopt(manifest, live, rule.path, rule.prevails(manifest, reference))
    for path in ignored_fields(manifest if author is None else author):
        manifest = _adopt(manifest, live, path, prevails=True)
    return manifest


def without_member_fields(manifest: JsonObject, live: JsonObject) -> JsonObject:
    """Return a manifest without the fields that belong to the member. *live* is the object there, empty if missing.

    An object that does not exist yet is created with the fields that its author leaves to the member: a required one
    may be among them.
    """
    # The last positions of a list first: removing an item shifts those after it.
    for path in sorted(member_fields(manifest, live), key=_in_order_of_positions, reverse=True):
        manifest = _without(manifest, path) or {}
    return manifest


def _in_order_of_positions(path: Path) -> list[tuple[int, str]]:
    return [(len(part) if part.isdecimal() else 0, part) for part in path]


def unmanaged_fields(manifest: JsonObject, live: JsonObject) -> tuple[Path, ...]:
    """Return the fields that an apply must not manage where its configuration has no value for them."""
    return (*(rule.path for rule in _member_rules(manifest, live)), *ignored_fields(manifest))


def member_fields(manifest: JsonObject, live: JsonObject) -> tuple[Path, ...]:
    """Return the fields whose member value wins over the manifest's."""
    rules = RULES.get(group_kind(manifest), ())
    paths = [rule.path for rule in rules if rule.prevails(manifest, live)]
    return (*paths, *(ignored_fields(manifest) if live else ()))


def _member_rules(manifest: JsonObject, live: JsonObject) -> list[FieldRule]:
    rules = RULES.get(group_kind(manifest), ())
    return [rule for rule in rules if rule.belongs_to_member(manifest, live)]


def _without(value: Any, path: Path) -> Any:
    """Return *value* without the field at *path*. None if *value* is a map that would be empty."""
    head, *tail = path
    remaining_path = tuple(tail)
    if isinstance(value, list):
        pairs = [(item, _is_at(head, index)) for index, item in enumerate(value)]
        if not remaining_path:
            return [item for item, is_target in pairs if not is_target]
        return [(_without(item, remaining_path) or {}) if is_target and item else item for item, is_target in pairs]
    if not isinstance(value, Mapping) or head not in value:
        return value
    if remaining_path and (left := _without(value[head], remaining_path)) is not None:
        return value if left is value[head] else {**value, head: left}
    return {key: item for key, item in value.items() if key != head} or None


def _is_at(part: str, index: int) -> bool:
    return part in (ITEMS, str(index))


_ABSENT: Final = object()


def _adopt(desired: Any, live: Any, path: Path, prevails: bool) -> Any:
    """Return *desired* with the field at *path* as *live* has it.

    Args:
        desired: A part of the manifest.
        live: The same part of the object on the member.
        path: Path of the field in both objects.
        prevails: Whether the member's value wins. Otherwise it fills in for an empty one.
    """
    head, *tail = path
    if isinstance(desired, list):
        if not isinstance(live, list):
            return desired
        pairs = enumerate(zip(desired, _counterparts(desired, live), strict=True))
        return [
            _adopted_item(item, other, tuple(tail), prevails) if _is_at(head, index) else item
            for index, (item, other) in pairs
        ]
    if not isinstance(desired, Mapping):
        return desired
    own_value = desired.get(head, _ABSENT)
    member_value = live.get(head, _ABSENT) if isinstance(live, Mapping) else _ABSENT
    if not tail:
        if not prevails and not _is_blank(own_value):
            return desired
        return _with(desired, head, member_value)
    if member_value is _ABSENT or (own_value is not _ABSENT and own_value is not None):
        return (
            desired
            if own_value is _ABSENT
            else _with(desired, head, _adopt(own_value, member_value, tuple(tail), prevails))
        )
    if not isinstance(member_value, Mapping):  # without a list of the author, there are no items to fill
        return desired
    new_member = _adopt({}, member_value, tuple(tail), prevails)
    return _with(desired, head, new_member) if new_member else desired


def _adopted_item(desired: Any, live: Any, path: Path, prevails: bool) -> Any:
    if path:
        return _adopt(desired, live, path, prevails)
    return desired if live is None else live


def _with(value: Mapping[str, Any], key: str, item: Any) -> Mapping[str, Any]:
    if item is _ABSENT:
        return {name: other for name, other in value.items() if name != key} if key in value else value
    return value if key in value and value[key] is item else {**value, key: item}


def _is_blank(value: Any) -> bool:
    """Return whether an author leaves a field to the cluster: absent, or the empty value of its type."""
    return value is _ABSENT or value in (None, "", 0, [], {})


def _counterparts(desired: Sequence[Any], live: Sequence[Any]) -> Iterator[Any]:
    """Return the item of *live* for each item of *desired*, or None if it has none.

    Items are matched by port, else by name, if all items of both lists have distinct ones. Otherwise, they are matched
    by position.

    Example: two listeners of a Gateway share port 443, so their names distinguish them.
    """
    for key in (_port, _name):
        desired_keys, live_keys = [key(item) for item in desired], [key(item) for item in live]
        if all(None not in keys and len(set(keys)) == len(keys) for keys in (desired_keys, live_keys)):
            by_key = dict(zip(live_keys, live, strict=True))
            return map(by_key.get, desired_keys)
    return islice(chain(live, repeat(None)), len(desired))


def _port(item: Any) -> tuple[Any, ...] | None:
    port = item.get("port") if isinstance(item, Mapping) else None
    return (port, text_at(item, "protocol") or "TCP") if isinstance(port, int) else None


def _name(item: Any) -> str | None:
    return text_at(item, "name") or None
