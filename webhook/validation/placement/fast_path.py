"""The fast path of placement rules: a placement is validated part by part, and a repeated part only once.

The rules in `webhook.validation.placement.placement` parse a whole object into its model, which takes most of the time
of a review. Almost every placement is valid, and the same few policies and strategies recur. Therefore:

* One call of a compiled validator accepts plain metadata.
* The findings of a spec without its resource selectors depend on nothing else. `judged` returns them, and caches those
  of short specs by their JSON text. A compiled validator accepts plain specs. Only others are parsed into the model.
* Resource selectors depend on the hub, so the rules validate them every time.

Validators and rules may differ in one direction only. A validator may reject an object that the rules allow, which
costs time. It must never accept one that has a finding, which would admit it. Each pattern is therefore narrower than
its rule: it covers the spellings that API servers store. Where a function returns None, the rules validate the whole
object. ``test_fast_path`` compares both.

Example: 29 February is a valid day in leap years only. No pattern here accepts it, so a placement that was created on
that day is parsed into its model, with the same result as any other.

A client that sends ever new specs costs no more than without the cache. The number of requirements is bounded below
that of X-28, and lists whose items must differ are compared in Python.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import orjson
from pydantic import ValidationError
from pydantic_core import SchemaValidator, core_schema
from pydantic_core.core_schema import CoreSchema

from scorer.api.meta import JsonObject, dump_json
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.placement import LONGEST_PERIOD_SECONDS, DeleteStrategy, PlacementSpec
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import LARGEST
from webhook.validation.framework.reading import Finding
from webhook.validation.framework.selector import OPERATORS, SORT_ORDERS, validate_property_name
from webhook.validation.placement.policy import validate_policy
from webhook.validation.placement.strategy import validate_strategy

_MOST_REQUIREMENTS: Final = 8
"""Maximum number of requirements of each kind in a term. With `_MOST_TERMS` of each type, a policy has at most 400."""
_MOST_TERMS: Final = 10
_MOST_CONSTRAINTS: Final = 10
MOST_KNOWN: Final = 256
"""Number of specs whose findings are cached."""
MOST_READ: Final = 64
"""Number of specs whose models are cached."""
LONGEST_KNOWN: Final = 4096
"""Size in bytes of the longest cached spec."""
MOST_FINDINGS: Final = 16
"""With this many findings or more, the rules validate the whole object."""
_ANY_SELECTOR: Final[JsonObject] = {"group": "", "version": "v1", "kind": "Namespace", "name": "any"}
"""Placeholder: a spec without a selector does not parse."""
_LONGEST_PAUSE: Final = 3600
_LONGEST_NAME: Final = 63

_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_WORD: Final = "(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_QUALIFIED: Final = f"(?:{_SUBDOMAIN}/)?{_WORD}"
_DAY: Final = "(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31"
_INSTANT: Final = f"20[0-9]{{2}}-(?:{_DAY})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"


def _text(pattern: str, longest: int = 253) -> CoreSchema:
    # The validator uses Rust's regular expressions, where `$` matches at the very end only. In Python it also matches
    # before a trailing newline, and `name\n` would be accepted.
    return core_schema.str_schema(strict=True, pattern=f"^(?:{pattern})$", max_length=longest)


def _integer(least: int, most: int) -> CoreSchema:
    return core_schema.int_schema(strict=True, ge=least, le=most)


def _list(items: CoreSchema, most: int, least: int = 0) -> CoreSchema:
    return core_schema.list_schema(items, strict=True, min_length=least, max_length=most)


def _map(keys: CoreSchema, values: CoreSchema, most: int | None = None, least: int = 0) -> CoreSchema:
    return core_schema.dict_schema(keys, values, strict=True, min_length=least, max_length=most)


def _words(*words: str) -> CoreSchema:
    return core_schema.literal_schema(list(words))


def _object(needed: dict[str, CoreSchema] | None = None, /, **optional: CoreSchema) -> CoreSchema:
    """Return the schema of an object with the *needed* fields, any of the *optional* ones, and no others."""
    fields = {name: core_schema.typed_dict_field(schema, required=True) for name, schema in (needed or {}).items()}
    fields |= {name: core_schema.typed_dict_field(schema, required=False) for name, schema in optional.items()}
    return core_schema.typed_dict_schema(fields, strict=True, extra_behavior="forbid")


def _by(member: str, choices: dict[str, CoreSchema]) -> CoreSchema:
    return core_schema.tagged_union_schema(choices, discriminator=member, strict=True)


_ANY_TEXT: Final = core_schema.str_schema(strict=True, max_length=2**18)
_FLAG: Final = core_schema.bool_schema(strict=True)
_KEY: Final = _text(_QUALIFIED)
_VALUE: Final = _text(f"(?:{_WORD})?", _LONGEST_NAME)
_PROPERTY: Final = core_schema.str_schema(strict=True, min_length=1, max_length=253)
_QUANTITY: Final = _text(r"[0-9]{1,12}(?:\.[0-9]{1,6})?(?:m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_SHARE: Final = core_schema.union_schema([_text("100%|[1-9][0-9]?%"), _integer(1, LARGEST)], mode="left_to_right")


def _label_selector() -> CoreSchema:
    listed = {"key": _KEY, "operator": _words("In", "NotIn"), "values": _list(_VALUE, 100, 1)}
    bare = {"key": _KEY, "operator": _words("Exists", "DoesNotExist")}
    expression = _by(
        "operator",
        {word: _object(members) for members, words in ((listed, ("In", "NotIn")), (bare, ("Exists", "DoesNotExist")))
         for word in words},
    )  # fmt: skip
    return _object(
        matchLabels=_map(_KEY, _VALUE, _MOST_REQUIREMENTS, 1),
        matchExpressions=_list(expression, _MOST_REQUIREMENTS, 1),
    )


def _affinity(*, with_preferences: bool) -> CoreSchema:
    labels = _label_selector()
    comparison = _object({"name": _PROPERTY, "operator": _words(*OPERATORS), "values": _list(_QUANTITY, 1, 1)})
    properties = _object({"matchExpressions": _list(comparison, _MOST_REQUIREMENTS, 1)})
    required = _object(
        {"clusterSelectorTerms": _list(_object(labelSelector=labels, propertySelector=properties), _MOST_TERMS, 1)}
    )
    sorter = _object({"name": _PROPERTY, "sortOrder": _words(*SORT_ORDERS)})
    preferred = _object(
        {
            "weight": _integer(-100, 100),
            "preference": _object(labelSelector=labels, propertySorter=sorter, metricSorter=sorter),
        }
    )
    members = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if with_preferences:
        members["preferredDuringSchedulingIgnoredDuringExecution"] = _list(preferred, _MOST_TERMS, 1)
    return _object(clusterAffinity=_object(**members))


def _policy() -> CoreSchema:
    effect = _words("NoSchedule")
    toleration = _by(
        "operator",
        {
            "Exists": _object({"operator": _words("Exists")}, key=_KEY, effect=effect),
            "Equal": _object({"operator": _words("Equal"), "key": _KEY}, value=_VALUE, effect=effect),
        },
    )
    tolerations = _list(toleration, 100)
    spread = _object(
        {"topologyKey": _KEY},
        maxSkew=_integer(1, LARGEST),
        whenUnsatisfiable=_words("DoNotSchedule", "ScheduleAnyway"),
    )
    names = _list(_text(_SUBDOMAIN, _LONGEST_NAME), 100, 1)
    return _by(
        "placementType",
        {
            "PickFixed": _object({"placementType": _words("PickFixed"), "clusterNames": names}),
            "PickAll": _object(
                {"placementType": _words("PickAll")},
                affinity=_affinity(with_preferences=False),
                tolerations=tolerations,
            ),
            "PickN": _object(
                {"placementType": _words("PickN"), "numberOfClusters": _integer(1, LARGEST)},
                affinity=_affinity(with_preferences=True),
                tolerations=tolerations,
                topologySpreadConstraints=_list(spread, _MOST_CONSTRAINTS),
            ),
        },
    )


def _strategy() -> CoreSchema:
    def choices(model: type[ApplyStrategy | DeleteStrategy], member: str) -> CoreSchema:
        return _words(*model.model_fields[member].annotation.__args__)  # type: ignore[union-attr] # a Literal

    def apply(kind: str, **members: CoreSchema) -> CoreSchema:
        return _object(
            {"type": _words(kind)},
            comparisonOption=choices(ApplyStrategy, "comparison_option"),
            whenToApply=choices(ApplyStrategy, "when_to_apply"),
            whenToTakeOver=choices(ApplyStrategy, "when_to_take_over"),
            allowCoOwnership=_FLAG,
            **members,
        )

    def strategy(kind: str, **members: CoreSchema) -> CoreSchema:
        return _object(
            {"type": _words(kind)},
            applyStrategy=_by(
                "type",
                {
                    "ClientSideApply": apply("ClientSideApply"),
                    "ReportDiff": apply("ReportDiff"),
                    "ServerSideApply": apply("ServerSideApply", serverSideApplyConfig=_object(force=_FLAG)),
                },
            ),
            deleteStrategy=_object(propagationPolicy=choices(DeleteStrategy, "propagation_policy")),
            reportBackStrategy=_object(type=_words("Disabled")),
            **members,
        )

    rolling = _object(
        maxUnavailable=_SHARE,
        maxSurge=_SHARE,
        unavailablePeriodSeconds=_integer(0, min(_LONGEST_PAUSE, LONGEST_PERIOD_SECONDS)),
    )
    return _by(
        "type",
        {"RollingUpdate": strategy("RollingUpdate", rollingUpdate=rolling), "External": strategy("External")},
    )


def _placement() -> CoreSchema:
    metadata = _object(
        {"name": _text(_SUBDOMAIN, _LONGEST_NAME)},
        namespace=_ANY_TEXT,
        uid=_ANY_TEXT,
        resourceVersion=_ANY_TEXT,
        generation=_integer(0, 2**62),
        creationTimestamp=_text(_INSTANT),
        labels=_map(_KEY, _VALUE),
        annotations=_map(_text(f"(?:{_SUBDOMAIN}/)?[a-z0-9](?:[-a-z0-9_.]{{0,61}}[a-z0-9])?"), _ANY_TEXT),
        finalizers=_list(_ANY_TEXT, 100),
    )
    spec = core_schema.dict_schema(_ANY_TEXT, core_schema.any_schema(), strict=True)
    return _object({"apiVersion": _ANY_TEXT, "kind": _ANY_TEXT, "metadata": metadata, "spec": spec})


def _spec() -> CoreSchema:
    return _object(
        policy=_policy(),
        strategy=_strategy(),
        revisionHistoryLimit=_integer(1, 1000),
        statusReportingScope=_words("ClusterScopeOnly"),
    )


_PLACEMENT: Final = SchemaValidator(_placement())
_SPEC: Final = SchemaValidator(_spec())


def has_plain_metadata(wish: Mapping[str, Any]) -> bool:
    """Return whether a placement has only the usual fields, and the rules have no finding about its metadata.

    Labels and annotations with the system's prefix are not checked (X-97).

    Args:
        wish: A decoded JSON object, without ``status`` and ``managedFields``.
    """
    return _PLACEMENT.isinstance_python(wish)


def rest_of(spec: Any) -> bytes | None:
    """Return a spec without its resource selectors as JSON.

    The result is None if the spec is not an object, has no resource selectors, or cannot be written as JSON.
    """
    if not isinstance(spec, dict) or "resourceSelectors" not in spec:
        return None
    try:
        return dump_json({name: value for name, value in spec.items() if name != "resourceSelectors"})
    except (orjson.JSONEncodeError, RecursionError):
        return None


def judged(rest: bytes) -> tuple[Finding, ...] | None:
    """Return the findings of the rules about a spec without its resource selectors.

    None: unknown, because its shape is wrong, it has too many findings, or the verdict depends on the selectors.

    Args:
        rest: The spec without its resource selectors, see `rest_of`.
    """
    return _judged(rest) if len(rest) <= LONGEST_KNOWN else _judged.__wrapped__(rest)


def read_rest(rest: bytes) -> PlacementSpec | None:
    """Return a spec as its model, with a placeholder selector. None: unknown, because its shape is wrong."""
    return _read_rest(rest) if len(rest) <= LONGEST_KNOWN else _read_rest.__wrapped__(rest)


@lru_cache(maxsize=MOST_KNOWN)
def _judged(rest: bytes) -> tuple[Finding, ...] | None:
    if _is_plain(orjson.loads(rest)):
        return ()
    spec = read_rest(rest)
    # NamespaceAccessible allows only selectors of one Namespace, and *rest* has no selectors. A cached result would
    # apply to placements with any selectors.
    if spec is None or spec.status_reporting_scope == "NamespaceAccessible":
        return None
    findings: list[Finding] = []
    if spec.policy is not None:
        findings += islice(validate_policy(spec.policy), MOST_FINDINGS)
    if spec.strategy is not None:
        findings += islice(validate_strategy(spec.strategy, spec.policy), MOST_FINDINGS)
    return tuple(findings) if len(findings) < MOST_FINDINGS else None


@lru_cache(maxsize=MOST_READ)
def _read_rest(rest: bytes) -> PlacementSpec | None:
    try:
        return PlacementSpec.read({**orjson.loads(rest), "resourceSelectors": [_ANY_SELECTOR]})
    except ValidationError:
        return None


def _is_plain(rest: JsonObject) -> bool:
    return _SPEC.isinstance_python(rest) and _is_consistent(rest.get("policy"))


def _is_consistent(policy: JsonObject | None) -> bool:
    """Return whether a policy passes the checks beyond a compiled validator: items differ, and terms have an effect."""
    if policy is None:
        return True
    tolerations = policy.get("tolerations", ())
    if len(tolerations) > 1:
        keys = {
            tuple(toleration.get(part, "") for part in ("key", "operator", "value", "effect"))
            for toleration in tolerations
        }
        if len(keys) < len(tolerations):
            return False
    constraints = policy.get("topologySpreadConstraints", ())
    if len(constraints) > 1:
        spread = {(each["topologyKey"], each.get("whenUnsatisfiable", "DoNotSchedule")) for each in constraints}
        if len(spread) < len(constraints):
            return False
    names = policy.get("clusterNames", ())
    affinity = policy.get("affinity", {}).get("clusterAffinity", {})
    return len(set(names)) == len(names) and _chooses(affinity)


def _chooses(affinity: JsonObject) -> bool:
    """Return whether each term and preference has an effect, and the rules have no finding about its properties.

    A term must not compare a property twice, because the comparisons could contradict each other.
    """
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    for term in () if required is None else required["clusterSelectorTerms"]:
        if not term or term.get("labelSelector") == {}:
            return False
        if "propertySelector" in term:
            compared = [each["name"] for each in term["propertySelector"]["matchExpressions"]]
            if len(set(compared)) < len(compared) or not all(map(_is_usual, compared)):
                return False
    for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
        preference = preferred["preference"]
        if preferred["weight"] == 0 or not preference or preference.get("labelSelector") == {}:
            return False
        sorters = [preference[name] for name in ("propertySorter", "metricSorter") if name in preference]
        if len(sorters) > 1 or not all(_is_usual(sorter["name"]) for sorter in sorters):
            return False
    return True


@lru_cache(maxsize=1024)
def _is_usual(name: str) -> bool:
    """Return whether the rules have no finding about the name of a property."""
    return not any(validate_property_name(name, FieldPath(), ""))


def has_prefix(wish: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a label or an annotation of a plain object has *prefix*."""
    metadata = wish["metadata"]
    return any(key.startswith(prefix) for member in ("labels", "annotations") for key in metadata.get(member, ()))
