"""The fast path of placement rules: one call of a compiled validator that accepts ordinary placements.

Almost every placement that comes is in order, and the rules in `webhook.validation.placement.placement`, which explain
what is not, then take most of the time of a review to find nothing. `is_plain` knows a part of what they allow without
a warning: the spellings that API servers store. It says yes only where they would be silent, and nothing else rests on
it: where it says no, or a field is not in its list, the rules decide. Rules that ask about more than the object itself,
such as the kinds of the hub, are not in here. ``test_plain_placement`` holds both against each other.

The same few policies and strategies come again and again, so those that were plain are remembered by their very text:
few of them, and no long ones. A client that makes up new ones gains nothing by it, and costs no more than the validator
takes.

The number of requirements is bounded below that of X-28, and a list whose items must differ has one item, or is
compared in Python.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson
from pydantic_core import SchemaValidator, core_schema
from pydantic_core.core_schema import CoreSchema

from scorer.api.meta import JsonObject
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.placement import LONGEST_PERIOD_SECONDS, DeleteStrategy
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import LARGEST
from webhook.validation.framework.selector import OPERATORS, SORT_ORDERS, validate_property_name

_MOST_REQUIREMENTS: Final = 8
"""In a selector, and of one sort. With `_MOST_TERMS` required and as many preferred terms there are at most 400."""
_MOST_TERMS: Final = 10
MOST_PROVEN: Final = 256
LONGEST_PROVEN: Final = 4096
"""Bytes; so what is remembered takes at most a megabyte."""
_LONGEST_PAUSE: Final = 3600
_LONGEST_NAME: Final = 63

_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_WORD: Final = "(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_QUALIFIED: Final = f"(?:{_SUBDOMAIN}/)?{_WORD}"
_DAY: Final = "(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31"
_INSTANT: Final = f"20[0-9]{{2}}-(?:{_DAY})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"


def _text(pattern: str, longest: int = 253) -> CoreSchema:
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
    """Return an object with exactly these members."""
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
        {"weight": _integer(-100, 100), "preference": _object(labelSelector=labels, propertySorter=sorter)}
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
                topologySpreadConstraints=_list(spread, 1),
            ),
        },
    )


def _strategy() -> CoreSchema:
    def choices(model: type[ApplyStrategy | DeleteStrategy], member: str) -> CoreSchema:
        return _words(*model.model_fields[member].annotation.__args__)  # type: ignore[union-attr] # a Literal

    return _object(
        {"type": _words("RollingUpdate")},
        rollingUpdate=_object(
            maxUnavailable=_SHARE,
            maxSurge=_SHARE,
            unavailablePeriodSeconds=_integer(0, min(_LONGEST_PAUSE, LONGEST_PERIOD_SECONDS)),
        ),
        applyStrategy=_object(
            type=_words("ClientSideApply", "ReportDiff"),
            comparisonOption=choices(ApplyStrategy, "comparison_option"),
            whenToApply=choices(ApplyStrategy, "when_to_apply"),
            whenToTakeOver=choices(ApplyStrategy, "when_to_take_over"),
            allowCoOwnership=_FLAG,
        ),
        deleteStrategy=_object(propagationPolicy=choices(DeleteStrategy, "propagation_policy")),
        reportBackStrategy=_object(type=_words("Disabled")),
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
_proven: Final[dict[bytes, None]] = {}
"""Specs, as JSON and without their resource selectors, that have been found to be plain, oldest first."""


def is_plain(wish: Mapping[str, Any]) -> bool:
    """Say whether all of a placement but ``spec.resourceSelectors`` is plainly in order.

    Labels and annotations with the system's prefix are not looked at (X-97).

    Args:
        wish: A decoded JSON object, without ``status`` and ``managedFields``.
    """
    if not _PLACEMENT.isinstance_python(wish):
        return False
    rest = {name: value for name, value in wish["spec"].items() if name != "resourceSelectors"}
    if len(rest) == len(wish["spec"]):
        return False
    try:
        text = orjson.dumps(rest)
    except orjson.JSONEncodeError:
        return False
    if text in _proven:
        return True
    if not _SPEC.isinstance_python(rest) or not _is_consistent(rest.get("policy")):
        return False
    if len(text) <= LONGEST_PROVEN:
        if len(_proven) >= MOST_PROVEN:
            del _proven[next(iter(_proven))]
        _proven[text] = None
    return True


def is_plain_update(spec: JsonObject, stored: JsonObject) -> bool:
    """Say whether a plain spec may follow a plain one that is stored (U-01 to U-05)."""
    new, old = spec.get("policy"), stored.get("policy")
    if old is None:
        return new is None or new["placementType"] == "PickAll"
    if new is None or new["placementType"] != old["placementType"]:
        return False
    return not old.get("tolerations") or old["tolerations"] == new.get("tolerations")


def _is_consistent(policy: JsonObject | None) -> bool:
    """Check in a policy what the compiled validator cannot: that items differ, and the names of properties."""
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
    names = policy.get("clusterNames", ())
    affinity = policy.get("affinity", {}).get("clusterAffinity", {})
    return len(set(names)) == len(names) and _chooses(affinity)


def _chooses(affinity: JsonObject) -> bool:
    """Whether each term chooses, and no property is compared twice in one term."""
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
        if "propertySorter" in preference and not _is_usual(preference["propertySorter"]["name"]):
            return False
    return True


@lru_cache(maxsize=1024)
def _is_usual(name: str) -> bool:
    """Whether no rule has anything to say about the name of a property."""
    return not any(validate_property_name(name, FieldPath(), ""))


def has_prefix(wish: Mapping[str, Any], prefix: str) -> bool:
    """Say whether a label or an annotation of a plain object begins with *prefix*."""
    metadata = wish["metadata"]
    return any(key.startswith(prefix) for member in ("labels", "annotations") for key in metadata.get(member, ()))
