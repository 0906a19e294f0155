"""The catalogue of rules and the code say the same."""

import ast
import json
import re
from pathlib import Path

import pytest

import scorer
import webhook
from scorer.api.crd.cel import CEL_RULES
from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import OUR_KINDS, api_version
from webhook.admission.catalogue import LIVE_RULES, Layer, catalogue
from webhook.admission.judge import judge
from webhook.admission.registry import REGISTRY
from webhook.validation import member_cluster
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldError
from webhook.validation.framework.rule import Severity, rules_of
from webhook.validation.guard_rails import writes as guard_rail
from webhook.validation.upgrade import gate

ENTRIES = {entry.rule.id: entry for entry in catalogue()}
NUMBERED = {
    "P": 52, "U": 7, "S": 10, "R": 8, "Q": 2, "O": 19, "E": 1, "V": 5, "B": 5, "M": 9, "N": 8, "G": 15, "D": 6, "F": 17
}  # fmt: skip
"""How many rules the reference has in each group, counted from 1."""
OURS = """
01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 27
30 31 32 33 34 35 36 40 41 42 43 44 45 46 50 51
60 61 62 63 64 65 66 67 68 70 71 72 73 74 77 78 79 80 81 82 83
90 91 92 93 94 95 96 97
"""
"""The rules of our own, group X."""
NODE_POOL_RULES = {f"K-{number:02}" for number in (*range(1, 27), *range(30, 40))}

REFUSALS = {rule.id for rule in (*guard_rail.RULES, *gate.GUARDS, *rules_of(member_cluster.refuse_deletion))}
"""Rules that refuse a whole write, without a field and an id."""
FOLDED = {"X-61"}
"""How O-07 and O-08 compare: it has no finding of its own."""
BEHAVIOUR = {"D-01", "D-02", "D-06", "U-06", "U-07", "X-21"}
"""What judging as a whole does; tested below."""

_ID = re.compile(r"\b[A-Z]-[0-9]{2}")
_TABLES = {"Rule", "deny", "schema", "warn", "default", "fills_in", "allow", "pick", "_left_to_others"}
_FINDINGS = {
    "FieldWarning": Severity.WARN,
    "Lint": Severity.WARN,
    **dict.fromkeys(("FieldError", "invalid", "not_supported", "duplicate", "too_many", "too_long"), Severity.DENY),
}


def sources():
    inside = Path(webhook.__file__).parent
    for folder in ("validation", "defaulting", "admission"):
        yield from sorted((inside / folder).rglob("*.py"))
    engine = Path(scorer.__file__).parent
    yield from (engine / "api" / name for name in ("crd/cel.py", "crd/node_pool_cel.py", "crd/upgrade_cel.py"))
    yield engine / "node_budgets" / "lints.py"
    yield engine / "rollout" / "overrides" / "effect.py"


class _Ids(ast.NodeVisitor):
    """The ids in a module: those that findings and CEL rules carry, and those in docstrings."""

    def __init__(self):
        self.emitted, self.mentioned, self.severities = set(), set(), set()

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _TABLES:
            return
        if name in _FINDINGS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            texts = [item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            self.severities |= {(text, _FINDINGS[name]) for text in texts if _ID.fullmatch(text)}
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str) and _ID.fullmatch(node.value):
            self.emitted.add(node.value)

    def visit_FunctionDef(self, node):
        self.mentioned |= set(_ID.findall(ast.get_docstring(node) or ""))
        self.generic_visit(node)


@pytest.fixture(scope="module")
def ids():
    visitor = _Ids()
    for path in sources():
        visitor.visit(ast.parse(path.read_text()))
    return visitor


def test_the_rules_of_the_specification_are_in_the_catalogue():
    wanted = {f"{group}-{number:02}" for group, last in NUMBERED.items() for number in range(1, last + 1)}
    wanted |= {f"X-{number}" for number in OURS.split()} | NODE_POOL_RULES
    assert wanted - ENTRIES.keys() == set()


def test_every_id_in_the_code_is_in_the_catalogue(ids):
    assert (ids.emitted | ids.mentioned) - ENTRIES.keys() == set()


def test_every_rule_of_the_catalogue_is_in_the_code(ids):
    """A rule that refuses or warns has a finding, or is all about the shape; any other is told by what does it."""
    by_shape = {
        rule_id
        for rule_id, entry in ENTRIES.items()
        if entry.rule.fields and (entry.rule.in_schema or Severity.DEFAULT in entry.rule.severity)
    }
    speaks = {
        rule_id for rule_id, entry in ENTRIES.items() if {Severity.DENY, Severity.WARN} & set(entry.rule.severity)
    }
    nowhere = {rule_id for rule_id, entry in ENTRIES.items() if entry.rule.severity == (Severity.NONE,)}
    silent = ENTRIES.keys() - speaks - nowhere
    repeated = {"D-03", "D-04", "D-05"}  # each the same finding as a rule of group X
    assert speaks - REFUSALS - FOLDED - repeated - ids.emitted - by_shape == set()
    assert (silent | REFUSALS | FOLDED | repeated) - ids.mentioned - by_shape - BEHAVIOUR == set()


def test_severities_are_those_of_the_findings(ids):
    found = {}
    for rule_id, severity in ids.severities:
        found.setdefault(rule_id, set()).add(severity)
    wrong = {rule_id for rule_id, severities in found.items() if not severities <= set(ENTRIES[rule_id].rule.severity)}
    lacking = {
        rule_id
        for rule_id, severities in found.items()
        if not {Severity.DENY, Severity.WARN} & set(ENTRIES[rule_id].rule.severity) <= severities
        and not ENTRIES[rule_id].rule.fields
    }
    assert (wrong, lacking) == (set(), set())


def test_every_live_check_has_its_rules():
    checks = {check for entry in REGISTRY.values() for check in (*entry.live, *entry.live_on_deletion)}
    assert checks == LIVE_RULES.keys()


def test_one_id_is_one_rule():
    rules = [rule for entry in REGISTRY.values() for slot in functions_of(entry) for rule in rules_of(slot)]
    rules += [rule for found in LIVE_RULES.values() for rule in found]
    assert {rule.id for rule in rules if rule != ENTRIES[rule.id].rule} == set()


def functions_of(entry):
    return (
        entry.validate,
        entry.default,
        entry.refuse_deletion,
        entry.warn_about_deletion,
        entry.warn_about_status,
        entry.default_status,
        entry.validate_status,
        entry.validate_deleted,
        entry.stamp,
        *entry.guards,
    )


def test_every_function_of_the_registry_says_its_rules():
    silent = [
        slot for entry in REGISTRY.values() for slot in functions_of(entry) if slot is not None and not rules_of(slot)
    ]
    assert silent == []


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.kind) for kind in CEL_RULES])
def test_cel_rules_have_ids_that_hold_for_the_kind(kind):
    for rules in CEL_RULES[kind].values():
        for rule in rules:
            assert rule.ids, rule.message
            for rule_id in rule.ids:
                layers = [each.layers for each in ENTRIES[rule_id].enforced if each.kind == kind]
                assert [Layer.CEL in here for here in layers] == [True], rule_id


_LIMITS = {"enum", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "maxProperties"}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        pytest.param(entry.rule, enforced.kind, id=f"{entry.rule.id}-{enforced.kind.kind}")
        for entry in ENTRIES.values()
        for enforced in entry.enforced
        if entry.rule.in_schema and entry.rule.fields and enforced.kind in OUR_KINDS
    ],
)
def test_what_the_schema_is_said_to_enforce_is_in_the_schema(rule, kind):
    """Some limit stands at one of the fields or below it, or the field is required."""
    if rule.id == "A-04":  # all of the types
        return
    assert any(is_limited(structural_schema(kind), field.split(".")) for field in rule.fields)


def is_limited(node, parts, required=False):
    if not parts:
        return required or has_limit(node)
    part, *rest = parts
    if part == "*":
        below = node.get("items") or node.get("additionalProperties")
        return below is not None and is_limited(below, rest)
    below = node.get("properties", {}).get(part)
    return below is not None and is_limited(below, rest, part in node.get("required", ()))


def has_limit(node):
    if isinstance(node, dict):
        if node.get("x-kubernetes-embedded-resource") or node.get("required") or _LIMITS & node.keys():
            return True
        return any(has_limit(item) for item in node.values())
    return isinstance(node, list) and any(has_limit(item) for item in node)


VECTORS = Path(__file__).parents[2] / "vectors"


def examples():
    for name in ("admission", "admission-extra", "nodepool_admission"):
        for line in (VECTORS / f"{name}.jsonl").read_text().splitlines():
            case = json.loads(line)
            if isinstance(case.get("object"), dict):
                yield pytest.param(case["object"], case.get("old"), id=case["id"])


@pytest.mark.parametrize(("document", "old"), list(examples()))
def test_what_is_found_in_examples_is_in_the_catalogue(document, old):
    """For that kind, that operation and with that severity."""
    group = str(document["apiVersion"]).rpartition("/")[0]
    entry = REGISTRY[group, document["kind"]]
    for finding in entry.validate(document, old, Context()):
        known = ENTRIES[finding.rule]
        severity = Severity.DENY if isinstance(finding, FieldError) else Severity.WARN
        assert severity in known.rule.severity
        here = next(each for each in known.enforced if each.kind == entry.kind)
        assert ("CREATE" if old is None else "UPDATE") in here.operations


def test_rules_are_plain_sentences_about_some_kind():
    odd = [
        rule_id
        for rule_id, entry in ENTRIES.items()
        if not re.fullmatch(r"[^\n]{8,119}\.", entry.rule.what)
        or not entry.rule.source
        or bool(entry.enforced) is (entry.rule.severity == (Severity.NONE,))
    ]
    assert odd == []


WITH_RULES = [pytest.param(entry, id=entry.kind.kind) for entry in REGISTRY.values() if entry.validate is not None]


def broken(entry, **metadata):
    """An object that breaks every schema."""
    version = api_version(entry.kind.group, entry.kind.versions[0])
    return {"apiVersion": version, "kind": entry.kind.kind, "metadata": {"name": "x", **metadata}, entry.body: 5}


@pytest.mark.parametrize("entry", WITH_RULES)
def test_an_invalid_object_can_be_deleted(entry):
    """D-01, D-02: from the stored object, or from nothing."""
    assert judge("DELETE", None, broken(entry), Context()).allowed
    assert judge("DELETE", None, None, Context()).allowed


@pytest.mark.parametrize("entry", WITH_RULES)
def test_finalizers_of_an_invalid_object_can_be_removed(entry):
    """D-06, U-07."""
    held = broken(entry, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    assert judge("UPDATE", broken(entry, deletionTimestamp="2026-01-01T00:00:00Z"), held, Context()).allowed


def test_a_stored_mistake_can_be_left_or_repaired():
    """U-06, X-21."""

    def placement(**spec):
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
        kind = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
        return {**kind, "metadata": {"name": "x"}, "spec": {"resourceSelectors": [selector], **spec}}

    stored = placement(revisionHistoryLimit=0)
    assert judge("UPDATE", placement(revisionHistoryLimit=1), stored, Context()).allowed
    left = judge(
        "UPDATE", placement(revisionHistoryLimit=0, statusReportingScope="ClusterScopeOnly"), stored, Context()
    )
    assert left.allowed
    assert [warning for warning in left.warnings if "revisionHistoryLimit" in warning]
    assert not judge("UPDATE", placement(revisionHistoryLimit=-1), stored, Context()).allowed
