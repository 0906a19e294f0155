import copy
import json
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.values.duration import parse_budget_duration
from scorer.node_budgets.budgets import BudgetWindow
from scorer.windows.cron import parse_schedule
from tests.scorer.windows.expressions import fires_after
from tests.thoroughness import examples
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, FieldWarning
from webhook.validation.node_pool import validate
from webhook.validation.node_pool_budgets import BudgetHint, BudgetWarning

NODE_CLASS = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


def make_node_pool(*, node=None, labels=None, budgets=None, disruption=None, **spec):
    template = {"spec": {"requirements": [], "nodeClassRef": NODE_CLASS, **(node or {})}}
    if labels is not None:
        template["metadata"] = {"labels": labels}
    if budgets is not None:
        spec["disruption"] = {"budgets": budgets}
    if disruption is not None:
        spec["disruption"] = disruption
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "np"},
        "spec": {"template": template, **spec},
    }


def requiring(key, operator, *values, **more):
    return make_node_pool(node={"requirements": [{"key": key, "operator": operator, "values": list(values), **more}]})


def errors(document, old=None):
    found = validate(document, old, Context())
    return [(str(error.field), error.cause) for error in found if isinstance(error, FieldError)]


def warnings(document, old=None):
    return [found for found in validate(document, old, Context()) if isinstance(found, FieldWarning)]


def test_a_plain_pool_is_fine():
    assert list(validate(make_node_pool(), None, Context())) == []


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(requiring("a", "NotIn"), id="not-in-nothing"),
        pytest.param(requiring("a", "Exists", "b"), id="exists-with-values"),
        pytest.param(requiring("a", "Gte", "007"), id="bound-with-leading-zeros"),
        pytest.param(requiring("a", "Lt", "9223372036854775807"), id="largest-bound"),
        pytest.param(requiring("a", "In", *["x"] * 90), id="many-values"),
        pytest.param(requiring("a", "In", "x", "x", minValues=2), id="duplicates-count-for-min-values"),
        pytest.param(requiring("a", "NotIn", "x", minValues=5), id="min-values-is-for-in"),
        pytest.param(requiring("karpenter.sh.example.com/x", "Exists"), id="domain-is-a-suffix-test"),
        pytest.param(requiring("failure-domain.beta.kubernetes.io/zone", "Exists"), id="alias"),
        pytest.param(requiring("karpenter.sh/capacity-type", "NotIn", "none-such"), id="capacity-type-not-in"),
        pytest.param(requiring("node.k8s.io/x", "Exists"), id="other-kubernetes-domains"),
        pytest.param(make_node_pool(labels={"karpenter.sh/capacity-type": "spot", "a": ""}), id="labels"),
        pytest.param(
            make_node_pool(
                node={
                    "taints": [{"key": "karpenter.sh/x", "value": "dom.io/v", "effect": "NoExecute"}],
                    "startupTaints": [{"key": "karpenter.sh/x", "effect": "NoSchedule"}],
                }
            ),
            id="taints",
        ),
        pytest.param(make_node_pool(node={"terminationGracePeriod": "0s", "expireAfter": "5s1h1h"}), id="durations"),
        pytest.param(make_node_pool(limits={"cpu": -5, "memory": "1e3", "x/y": ".5Gi"}), id="limits"),
        pytest.param(make_node_pool(replicas=0, limits={"nodes": "10"}), id="static-pool"),
        pytest.param(make_node_pool(replicas=None, weight=100, limits=None), id="nulls"),
        pytest.param(make_node_pool(budgets=[]), id="no-budgets"),
        pytest.param(
            make_node_pool(budgets=[{"nodes": "15%"}, {"schedule": "@daily", "duration": "1h30m0s"}, {"nodes": "007"}]),
            id="budgets",
        ),
    ],
)
def test_allowed_without_a_word(document):
    assert list(validate(document, None, Context())) == []


TEMPLATE = "spec.template.spec"
KEY, VALUES = f"{TEMPLATE}.requirements[0].key", f"{TEMPLATE}.requirements[0].values"
BUDGET = "spec.disruption.budgets[0]"


@pytest.mark.parametrize(
    ("document", "field", "cause"),
    [
        pytest.param({"kind": "NodePool"}, "spec", Cause.REQUIRED, id="no-spec"),
        pytest.param({"spec": "x"}, "spec", Cause.TYPE_INVALID, id="spec-text"),
        pytest.param(make_node_pool(weight=0), "spec.weight", Cause.INVALID, id="weight-0"),
        pytest.param(make_node_pool(weight=True), "spec.weight", Cause.TYPE_INVALID, id="weight-bool"),
        pytest.param(make_node_pool(replicas=-1), "spec.replicas", Cause.INVALID, id="replicas-negative"),
        pytest.param(make_node_pool(replicas=1, weight=5), "spec.weight", Cause.FORBIDDEN, id="static-weight"),
        pytest.param(
            make_node_pool(replicas=1, limits={"cpu": 1}), "spec.limits.cpu", Cause.FORBIDDEN, id="static-cpu"
        ),
        pytest.param(make_node_pool(limits={"cpu": "1e1.5"}), "spec.limits.cpu", Cause.INVALID, id="quantity-power"),
        pytest.param(make_node_pool(limits={"cpu": "1\n"}), "spec.limits.cpu", Cause.INVALID, id="quantity-newline"),
        pytest.param(
            make_node_pool(labels={"mykarpenter.sh/x": "y"}),
            "spec.template.metadata.labels[mykarpenter.sh/x]",
            Cause.INVALID,
            id="label-domain-suffix",
        ),
        pytest.param(
            make_node_pool(labels={"a": "-"}), "spec.template.metadata.labels.a", Cause.INVALID, id="label-value"
        ),
        pytest.param(
            make_node_pool(labels={f"l{i}": "" for i in range(101)}),
            "spec.template.metadata.labels",
            Cause.TOO_MANY,
            id="labels-101",
        ),
        pytest.param(
            make_node_pool(node={"nodeClassRef": NODE_CLASS | {"group": "a.io/v1"}}),
            f"{TEMPLATE}.nodeClassRef.group",
            Cause.INVALID,
            id="group-with-version",
        ),
        pytest.param(
            make_node_pool(node={"nodeClassRef": NODE_CLASS | {"name": ""}}),
            f"{TEMPLATE}.nodeClassRef.name",
            Cause.REQUIRED,
            id="class-name-empty",
        ),
        pytest.param(
            make_node_pool(node={"requirements": None}), f"{TEMPLATE}.requirements", Cause.REQUIRED, id="null"
        ),
        pytest.param(
            make_node_pool(node={"requirements": [{"key": f"k{i}", "operator": "Exists"} for i in range(101)]}),
            f"{TEMPLATE}.requirements",
            Cause.TOO_MANY,
            id="requirements-101",
        ),
        pytest.param(requiring("karpenter.sh", "Exists"), KEY, Cause.INVALID, id="bare-domain"),
        pytest.param(requiring("kubernetes.io/hostname", "Exists"), KEY, Cause.INVALID, id="hostname"),
        pytest.param(requiring("a/b/c", "Exists"), KEY, Cause.INVALID, id="two-slashes"),
        pytest.param(requiring("b" * 253 + "/" + "x" * 63, "Exists"), KEY, Cause.TOO_LONG, id="key-317"),
        pytest.param(
            requiring("a", "in", "x"), f"{TEMPLATE}.requirements[0].operator", Cause.NOT_SUPPORTED, id="operator-case"
        ),
        pytest.param(requiring("a", "In"), VALUES, Cause.REQUIRED, id="in-without-values"),
        pytest.param(requiring("a", "In", "b c"), f"{VALUES}[0]", Cause.INVALID, id="value-syntax"),
        pytest.param(requiring("a", "Gt"), VALUES, Cause.INVALID, id="bound-without-value"),
        pytest.param(requiring("a", "Gt", "1", "2"), VALUES, Cause.INVALID, id="bound-with-two-values"),
        pytest.param(requiring("a", "Lte", "-1"), f"{VALUES}[0]", Cause.INVALID, id="bound-negative"),
        pytest.param(requiring("a", "Lte", "+5"), f"{VALUES}[0]", Cause.INVALID, id="bound-with-sign"),
        pytest.param(requiring("a", "Gte", "9223372036854775808"), f"{VALUES}[0]", Cause.INVALID, id="bound-too-large"),
        pytest.param(requiring("a", "Gt", "\u0665"), f"{VALUES}[0]", Cause.INVALID, id="bound-with-other-digits"),
        pytest.param(
            requiring("a", "In", "x", minValues=2),
            f"{TEMPLATE}.requirements[0].minValues",
            Cause.INVALID,
            id="min-values-beyond-the-values",
        ),
        pytest.param(
            requiring("a", "Exists", minValues=51), f"{TEMPLATE}.requirements[0].minValues", Cause.INVALID, id="min-51"
        ),
        pytest.param(
            requiring("karpenter.sh/capacity-type", "In", "Spot"), VALUES, Cause.NOT_SUPPORTED, id="capacity-type-case"
        ),
        pytest.param(
            requiring("karpenter.sh/capacity-type", "In", "spot", "x", minValues=2),
            f"{TEMPLATE}.requirements[0].minValues",
            Cause.INVALID,
            id="min-values-counts-known-capacity-types",
        ),
        pytest.param(
            make_node_pool(node={"taints": [{"key": "a", "value": "", "effect": "NoSchedule"}]}),
            f"{TEMPLATE}.taints[0].value",
            Cause.INVALID,
            id="taint-value-empty",
        ),
        pytest.param(
            make_node_pool(
                node={
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "a", "effect": "NoSchedule"}],
                }
            ),
            f"{TEMPLATE}.startupTaints[0]",
            Cause.DUPLICATE,
            id="taint-in-both-lists",
        ),
        pytest.param(
            make_node_pool(node={"expireAfter": 720}),
            f"{TEMPLATE}.expireAfter",
            Cause.TYPE_INVALID,
            id="duration-number",
        ),
        pytest.param(
            make_node_pool(node={"expireAfter": "never"}), f"{TEMPLATE}.expireAfter", Cause.INVALID, id="never-in-small"
        ),
        pytest.param(
            make_node_pool(node={"expireAfter": "10m\n"}),
            f"{TEMPLATE}.expireAfter",
            Cause.INVALID,
            id="duration-newline",
        ),
        pytest.param(
            make_node_pool(node={"terminationGracePeriod": "Never"}),
            f"{TEMPLATE}.terminationGracePeriod",
            Cause.INVALID,
            id="grace-never",
        ),
        pytest.param(
            make_node_pool(disruption={"consolidateAfter": "2562048h"}),
            "spec.disruption.consolidateAfter",
            Cause.INVALID,
            id="duration-overflow",
        ),
        pytest.param(
            make_node_pool(disruption={"consolidationPolicy": "Always"}),
            "spec.disruption.consolidationPolicy",
            Cause.NOT_SUPPORTED,
            id="policy",
        ),
        pytest.param(make_node_pool(budgets=[{}] * 51), "spec.disruption.budgets", Cause.TOO_MANY, id="budgets-51"),
        pytest.param(make_node_pool(budgets=[{"nodes": 5}]), f"{BUDGET}.nodes", Cause.TYPE_INVALID, id="nodes-number"),
        pytest.param(make_node_pool(budgets=[{"nodes": "1e2"}]), f"{BUDGET}.nodes", Cause.INVALID, id="nodes-power"),
        pytest.param(
            make_node_pool(budgets=[{"nodes": "2147483648"}]), f"{BUDGET}.nodes", Cause.INVALID, id="nodes-too-large"
        ),
        pytest.param(
            make_node_pool(budgets=[{"reasons": ["drifted"]}]), f"{BUDGET}.reasons[0]", Cause.NOT_SUPPORTED, id="reason"
        ),
        pytest.param(
            make_node_pool(budgets=[{"reasons": ["Empty", "Empty"]}]),
            f"{BUDGET}.reasons[1]",
            Cause.DUPLICATE,
            id="reason-twice",
        ),
        pytest.param(
            make_node_pool(budgets=[{"schedule": "@daily"}]), f"{BUDGET}.duration", Cause.REQUIRED, id="schedule-alone"
        ),
        pytest.param(
            make_node_pool(budgets=[{"duration": "1h", "schedule": None}]),
            f"{BUDGET}.schedule",
            Cause.REQUIRED,
            id="duration-alone",
        ),
        pytest.param(
            make_node_pool(budgets=[{"duration": "30m1h", "schedule": "@daily"}]),
            f"{BUDGET}.duration",
            Cause.INVALID,
            id="budget-duration-order",
        ),
        *(
            pytest.param(
                make_node_pool(budgets=[{"duration": "1h", "schedule": text}]),
                f"{BUDGET}.schedule",
                Cause.INVALID,
                id=f"schedule-{name}",
            )
            for name, text in {
                "every": "@every 1h",
                "blank-before-macro": " @daily",
                "macro-with-tail": "@dailyfoo",
                "six-fields": "0 0 9 * * 1-5",
                "random": "R R * * *",
                "120-blanks": " " * 120,
                "100-kilobytes": "0 " * 50_000,
                "100-kilobytes-of-digits": "9" * 100_000 + " * * * *",
                "full-width-digit": "\uff10 9 * * *",
                "last-newline": "0 9 * * *\n",
                "empty": "",
            }.items()
        ),
    ],
)
def test_one_mistake_is_one_error_at_its_place(document, field, cause):
    assert errors(document) == [(field, cause)]


def test_every_mistake_is_in_one_answer():
    """A part of the wrong type does not hide what is wrong elsewhere."""
    document = make_node_pool(
        weight="10",
        labels={"karpenter.sh/x": "y"},
        node={
            "nodeClassRef": NODE_CLASS | {"kind": ""},
            "requirements": [{"key": "a b", "operator": "Gt", "values": "x"}, {"operator": "In", "values": ["x"]}],
            "taints": [{"key": "a", "effect": "Never"}, 5],
            "expireAfter": "7d",
        },
        disruption={
            "consolidationPolicy": "Sometimes",
            "consolidateAfter": "soon",
            "budgets": [{"nodes": 5, "schedule": "0 9 * * 7"}, {"nodes": "5.5", "reasons": ["Expired"]}],
        },
    )
    assert sorted(errors(document)) == [
        ("spec.disruption.budgets[0].duration", Cause.REQUIRED),
        ("spec.disruption.budgets[0].nodes", Cause.TYPE_INVALID),
        ("spec.disruption.budgets[0].schedule", Cause.INVALID),
        ("spec.disruption.budgets[1].nodes", Cause.INVALID),
        ("spec.disruption.budgets[1].reasons[0]", Cause.NOT_SUPPORTED),
        ("spec.disruption.consolidateAfter", Cause.INVALID),
        ("spec.disruption.consolidationPolicy", Cause.NOT_SUPPORTED),
        ("spec.template.metadata.labels[karpenter.sh/x]", Cause.INVALID),
        ("spec.template.spec.expireAfter", Cause.INVALID),
        ("spec.template.spec.nodeClassRef.kind", Cause.REQUIRED),
        ("spec.template.spec.requirements[0].key", Cause.INVALID),
        ("spec.template.spec.requirements[0].values", Cause.TYPE_INVALID),
        ("spec.template.spec.requirements[1].key", Cause.REQUIRED),
        ("spec.template.spec.taints[0].effect", Cause.NOT_SUPPORTED),
        ("spec.template.spec.taints[1]", Cause.TYPE_INVALID),
        ("spec.weight", Cause.TYPE_INVALID),
    ]


INVALID = make_node_pool(budgets=[{"schedule": "0 9 * * 7", "duration": "1h"}])


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param(make_node_pool(), make_node_pool(replicas=1), ["spec.replicas"], id="dynamic-to-static"),
        pytest.param(
            make_node_pool(replicas=0), make_node_pool(replicas=None), ["spec.replicas"], id="static-to-dynamic"
        ),
        pytest.param(make_node_pool(replicas=0), make_node_pool(replicas=5), [], id="scaling"),
        pytest.param(
            make_node_pool(),
            make_node_pool(node={"nodeClassRef": {"group": "b.io", "kind": "Other", "name": "default"}}),
            [f"{TEMPLATE}.nodeClassRef.group", f"{TEMPLATE}.nodeClassRef.kind"],
            id="node-class-group-and-kind",
        ),
        pytest.param(
            make_node_pool(),
            make_node_pool(node={"nodeClassRef": NODE_CLASS | {"name": "b"}}),
            [],
            id="node-class-name",
        ),
        pytest.param(INVALID, INVALID | {"metadata": {"name": "np", "finalizers": []}}, [], id="unchanged-but-invalid"),
        pytest.param(
            INVALID,
            make_node_pool(weight=3, budgets=INVALID["spec"]["disruption"]["budgets"]),
            [f"{BUDGET}.schedule"],
            id="still-invalid",
        ),
        pytest.param(INVALID, make_node_pool(), [], id="repaired"),
        pytest.param({"spec": {"template": "x", "replicas": []}}, make_node_pool(replicas=1), [], id="old-is-broken"),
        pytest.param(
            make_node_pool(),
            INVALID | {"metadata": {"name": "np", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            [],
            id="being-deleted",
        ),
    ],
)
def test_updates(old, new, refused):
    assert [field for field, _ in errors(new, old)] == refused


def test_an_unchanged_invalid_spec_is_pointed_out():
    (warning,) = warnings(INVALID, copy.deepcopy(INVALID))
    assert "would be refused today: spec.disruption.budgets[0].schedule" in str(warning)


@pytest.mark.parametrize(
    ("document", "warned", "mentions"),
    [
        pytest.param(
            make_node_pool(budgets=[{"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"}]),
            "spec.disruption.budgets[1]",
            "no disruption is ever allowed, and budgets[0] never matters",
            id="seed-002-weekend-only",
        ),
        pytest.param(
            make_node_pool(
                budgets=[
                    {"nodes": "1", "schedule": "0 2 * * *", "duration": "2h"},
                    {"nodes": "3", "schedule": "0 4 * * *", "duration": "4h"},
                ]
            ),
            "spec.disruption.budgets",
            "outside the windows",
            id="seed-002-step-wise-increase",
        ),
        pytest.param(
            make_node_pool(budgets=[{"nodes": "00%", "reasons": ["Empty", "Drifted"]}, {"reasons": ["Drifted"]}]),
            "spec.disruption.budgets[0]",
            "no disruption is ever allowed for Empty, Drifted, and budgets[1] never matters",
            id="zero-for-the-same-reasons",
        ),
        pytest.param(
            make_node_pool(budgets=[{"reasons": []}]), f"{BUDGET}.reasons", "applies to no reason", id="no-reason"
        ),
        pytest.param(
            make_node_pool(budgets=[{"schedule": "0 0 31 2 *", "duration": "1h"}]),
            f"{BUDGET}.schedule",
            "never fires",
            id="never-fires",
        ),
        pytest.param(
            make_node_pool(budgets=[{"nodes": "5"}, {"nodes": "0", "schedule": "@daily", "duration": "0m"}]),
            "spec.disruption.budgets[1].duration",
            '"0m" is zero',
            id="window-without-length",
        ),
        pytest.param(
            make_node_pool(budgets=[{"schedule": "0 0 * * *", "duration": "24h"}]),
            f"{BUDGET}.duration",
            "always in force",
            id="window-that-never-closes",
        ),
        pytest.param(
            make_node_pool(disruption={"expireAfter": {"any": "thing"}}),
            "spec.disruption.expireAfter",
            "spec.template.spec.expireAfter",
            id="old-place-of-expire-after",
        ),
        pytest.param(
            make_node_pool(node={"kubelet": {"maxPods": 10}}), f"{TEMPLATE}.kubelet", "node class", id="kubelet"
        ),
        pytest.param(
            make_node_pool(
                budgets=[{}, {"nodes": "0", "schedule": "@daily", "duration": "8h", "timeZone": "Europe/Berlin"}]
            ),
            "spec.disruption.budgets[1].timeZone",
            '"Europe/Berlin" is not a field of a budget and is dropped. Schedules are in UTC',
            id="time-zone",
        ),
        pytest.param(
            requiring("karpenter.sh/capacity-type", "In", "spot", "preemptible"),
            VALUES,
            '"preemptible" is not a known capacity type',
            id="unknown-capacity-type-beside-a-known-one",
        ),
    ],
)
def test_warnings(document, warned, mentions):
    found = [finding for finding in validate(document, None, Context()) if not isinstance(finding, BudgetHint)]
    assert [str(warning.field) for warning in found] == [warned]
    assert mentions in str(found[0])
    assert isinstance(found[0], FieldWarning)


WEEKEND = [{"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"}]
STEPS = [
    {"nodes": "1", "schedule": "0 2 * * *", "duration": "2h"},
    {"nodes": "3", "schedule": "0 4 * * *", "duration": "4h"},
]


@pytest.mark.parametrize(
    ("budgets", "told"),
    [
        pytest.param(
            WEEKEND,
            [
                "spec.disruption.budgets[1]: allows nothing and has no schedule: no disruption is ever allowed, and "
                "budgets[0] never matters",
                'spec.disruption.budgets: write [{nodes: "50%"}, {nodes: "0", schedule: "0 0 * * 1", duration: 120h}]',
            ],
            id="seed-002-weekend-only",
        ),
        pytest.param(
            STEPS,
            [
                "spec.disruption.budgets: outside the windows, disruption is unlimited: every budget has a schedule",
                'spec.disruption.budgets: add {nodes: "3"}',
            ],
            id="seed-002-step-wise-increase",
        ),
        pytest.param(
            WEEKEND[:1],
            [
                "spec.disruption.budgets: outside the windows, disruption is unlimited: every budget has a schedule",
                'spec.disruption.budgets: add {nodes: "0", schedule: "0 0 * * 1", duration: 120h} for 0 outside',
                'spec.disruption.budgets: add {nodes: "10%", schedule: "0 0 * * 1", duration: 120h} '
                "for the default of 10% outside",
            ],
            id="a-weekend-with-two-readings",
        ),
        pytest.param(
            [{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}],
            [
                "spec.disruption.budgets: outside the windows, disruption is unlimited: every budget has a schedule",
                'spec.disruption.budgets: add {nodes: "10%"}',
            ],
            id="business-hours-alone",
        ),
        pytest.param(
            [{"nodes": "50%", "schedule": "0 9 * * 1-5", "duration": "8h"}, {"nodes": "0"}],
            [
                "spec.disruption.budgets[1]: allows nothing and has no schedule: no disruption is ever allowed, and "
                "budgets[0] never matters",
                "spec.disruption.budgets: harbormaster lint -f FILE prints the corrected budgets",
            ],
            id="a-correction-that-is-too-long",
        ),
    ],
)
def test_who_writes_such_budgets_is_told_in_full(budgets, told):
    """What kubectl prints: the reason and the correction, none of them cut."""
    assert list(judge("CREATE", make_node_pool(budgets=budgets), None, Context()).warnings) == told


def test_a_correction_can_be_read_by_machines():
    found = warnings(make_node_pool(budgets=WEEKEND))
    assert [type(warning) for warning in found] == [BudgetWarning, BudgetHint]
    assert found[0].readings == (("", ({"nodes": "50%"}, {"nodes": "0", "schedule": "0 0 * * 1", "duration": "120h"})),)


def test_beside_a_mistake_only_single_fields_are_warned_about():
    """What budgets mean together is not known while one of them cannot be understood."""
    budgets = [*WEEKEND, {"nodes": "5%", "reasons": []}, {"nodes": "x"}]
    found = warnings(make_node_pool(budgets=budgets))
    assert [warning.rule for warning in found] == ["K-34"]


def test_a_zero_whose_window_never_closes_makes_the_others_moot():
    """K-30 and K-32; and outside of it nothing is left that could be unlimited (K-31)."""
    budgets = [{"nodes": "20%"}, {"nodes": "0%", "schedule": "0 9 * * 1-5", "duration": "72h"}]
    found = warnings(make_node_pool(budgets=budgets))
    assert [(warning.rule, str(warning.field)) for warning in found] == [
        ("K-32", "spec.disruption.budgets[1].duration"),
        ("K-30", "spec.disruption.budgets[1]"),
    ]


@pytest.mark.parametrize(
    ("schedule", "duration", "always"),
    [
        pytest.param("* * * * *", "1m", True, id="every-minute"),
        pytest.param("*/20 * * * *", "20m", True, id="every-20-minutes"),
        pytest.param("*/20 * * * *", "19m", False, id="a-minute-short"),
        pytest.param("*/25 * * * *", "24m", False, id="uneven-steps"),
        pytest.param("*/25 * * * *", "25m", True, id="uneven-steps-covered"),
        pytest.param("0 8,20 * * *", "12h", True, id="twice-a-day"),
        pytest.param("0 8,20 * * *", "11h59m", False, id="twice-a-day-short"),
        pytest.param("30 2 * * *", "24h", True, id="daily"),
        pytest.param("@hourly", "1h", True, id="macro"),
        pytest.param("0 9 * * 1-5", "72h", True, id="over-the-weekend"),
        pytest.param("0 9 * * 1-5", "71h59m", False, id="not-quite-over-the-weekend"),
        pytest.param("15,45 6,18 * * 0,3", "83h30m", True, id="wednesday-to-sunday"),
        pytest.param("15,45 6,18 * * 0,3", "83h29m", False, id="short-of-sunday"),
        pytest.param("@weekly", "168h", True, id="weekly"),
        pytest.param("@monthly", "744h", True, id="monthly"),
        pytest.param("@monthly", "743h", False, id="short-of-long-months"),
        pytest.param("30 6,18 1 1 *", "8772h", True, id="yearly"),
        pytest.param("30 6,18 1 1 *", "8771h59m", False, id="short-of-leap-years"),
        pytest.param("0 0 31 2 *", "1h", True, id="never-fires"),
    ],
)
def test_windows_that_never_close(schedule, duration, always):
    """K-32; the engine agrees at the last minute before each fire, of the next ones."""
    budget = {"nodes": "0", "schedule": schedule, "duration": duration}
    found = {warning.rule for warning in warnings(make_node_pool(budgets=[budget]))}
    assert found == ({"K-32"} if always else {"K-31"})
    window = BudgetWindow(parse_schedule(schedule), parse_budget_duration(duration))
    fires = islice(fires_after(parse_schedule(schedule), datetime(2026, 6, 7, tzinfo=UTC)), 600)
    stays = all(window.is_open(fire - timedelta(minutes=1)) for fire in fires)
    assert stays is always


def test_metadata_is_judged_as_that_of_any_kind():
    """A-01 to A-03, also where the spec stays as it is; what is stored is left alone."""
    metadata = {"name": "Not_a_name", "labels": {"a b": "c"}, "annotations": {"/": ""}}
    odd = {**make_node_pool(), "metadata": metadata}
    wanted = [
        ("metadata.name", Cause.INVALID),
        ("metadata.labels", Cause.INVALID),
        ("metadata.annotations", Cause.INVALID),
    ]
    assert errors(odd) == wanted
    assert errors({**odd, "metadata": {**metadata, "name": "np"}}, make_node_pool()) == wanted[1:]
    assert errors(odd, odd) == []


@pytest.mark.parametrize("metadata", [None, 5, "x", [], {"name": 3}, {"labels": {"a": 1}}])
def test_odd_metadata_is_told_once(metadata):
    found = [field for field, _ in errors({**make_node_pool(), "metadata": metadata})]
    assert len(found) == (metadata is not None)


@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param([{"nodes": "0"}], id="a-lone-zero"),
        pytest.param([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "10%"}], id="zero-for-fewer-reasons"),
        pytest.param([{"nodes": "50%"}, {"nodes": "0", "schedule": "0 0 * * 1", "duration": "120h"}], id="right-form"),
        pytest.param(
            [{"nodes": "20%"}, {"nodes": "5"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}], id="seed-002"
        ),
    ],
)
def test_sensible_budgets_get_no_warning(budgets):
    assert warnings(make_node_pool(budgets=budgets)) == []


def test_a_flood_of_mistakes_is_cut():
    document = make_node_pool(node={"taints": [{"key": "-", "effect": "x"}] * 5000})
    assert 50 < len(errors(document)) <= 1000


FULL = make_node_pool(
    labels={"a": "b"},
    node={
        "requirements": [{"key": "a", "operator": "In", "values": ["b"], "minValues": 1}],
        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        "expireAfter": "1h",
    },
    budgets=[{"nodes": "1", "reasons": ["Empty"], "schedule": "@daily", "duration": "1h"}],
    limits={"cpu": 1},
    weight=1,
)
ODD = st.sampled_from([None, True, -1, 10**30, 1.5, "", "%", "\ud800", "0 0 * * *", [], {}, [None], {"a": None}, [[]]])


def paths(value, prefix=()):
    yield prefix
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from paths(member, (*prefix, key))


@given(
    st.lists(st.tuples(st.sampled_from([path for path in paths(FULL["spec"]) if path]), ODD), min_size=1, max_size=4)
)
@settings(max_examples=examples(300))
def test_odd_values_anywhere_are_errors_never_exceptions(changes):
    document = json.loads(json.dumps(FULL))
    for path, value in changes:
        holder = document["spec"]
        try:
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    for old in (None, FULL, document):
        for found in validate(document, old, Context()):
            assert str(found)
            assert found.field.parts[0] == "spec"
