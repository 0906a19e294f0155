"""Boundaries of the rules on NodePools (nodepool-disruption.md 2.2 to 2.7 and 8.1), through both hooks."""

from copy import deepcopy

import pytest

from webhook.admission.judge import judge, mutate
from webhook.validation.framework.context import Context

TEMPLATE = "spec.template.spec"
BUDGET = "spec.disruption.budgets[0]"


def make_node_pool(node=None, budgets=None, **spec):
    reference = {"group": "g", "kind": "K", "name": "n"}
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference, **(node or {})}}, **spec}
    if budgets is not None:
        spec["disruption"] = {"budgets": budgets}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "np"}, "spec": spec}


def refused_fields(document):
    defaulted = mutate(deepcopy(document), None, "CREATE").document
    return sorted({str(error.field) for error in judge("CREATE", defaulted, None, Context()).errors})


@pytest.mark.parametrize(
    ("requirement", "refused"),
    [
        pytest.param({"operator": "Lt", "values": ["0" * 62 + "1"]}, [], id="2.3-63-digits"),
        pytest.param({"operator": "Lt", "values": ["0" * 63 + "1"]}, ["values[0]"], id="2.3-64-digits"),
        pytest.param({"operator": "Gt", "values": ["\u0663"]}, ["values[0]"], id="2.3-digits-of-others"),
        pytest.param({"operator": "Gt", "values": ["1\n"]}, ["values[0]"], id="2.3-newline"),
        pytest.param({"operator": "In", "values": [""]}, [], id="2.3-empty-value"),
        pytest.param({"operator": "In", "values": None}, ["values"], id="2.3-null"),
        pytest.param({"operator": "Exists", "minValues": 50}, [], id="2.3-min-values-50"),
        pytest.param({"operator": "Exists", "minValues": 51}, ["minValues"], id="2.3-min-values-51"),
        pytest.param({"operator": "In", "values": ["x"], "minValues": 1.0}, ["minValues"], id="2.3-float"),
        pytest.param({"key": "p" * 253 + "/n", "operator": "Exists"}, [], id="2.3-prefix-253"),
        pytest.param({"key": "p" * 254 + "/n", "operator": "Exists"}, ["key"], id="2.3-prefix-254"),
        pytest.param({"key": "Karpenter.SH", "operator": "Exists"}, [], id="2.4-case"),
    ],
)
def test_requirements(requirement, refused):
    document = make_node_pool({"requirements": [{"key": "a", **requirement}]})
    assert refused_fields(document) == [f"{TEMPLATE}.requirements[0].{field}" for field in refused]


@pytest.mark.parametrize(
    ("text", "fits"),
    [("9223372036s", True), ("2562047h47m16s", True), ("00h05m", True), (None, True)]
    + [(text, False) for text in ("9223372037s", "2562047h47m17s", "1h\n", "\u0663h", "1h 1m", "NEVER", "", 90, True)],
)
def test_durations(text, fits):
    """2.2: the bound is that of 64-bit nanoseconds."""
    assert refused_fields(make_node_pool({"expireAfter": text})) == ([] if fits else [f"{TEMPLATE}.expireAfter"])
    fields = [] if fits else [f"{TEMPLATE}.terminationGracePeriod"]
    assert refused_fields(make_node_pool({"terminationGracePeriod": text})) == fields


@pytest.mark.parametrize(
    ("budget", "refused"),
    [
        pytest.param({"nodes": "2147483647"}, [], id="2.6-largest"),
        pytest.param({"nodes": "2147483648"}, ["nodes"], id="2.6-one-more"),
        pytest.param({"nodes": "0" * 30 + "5"}, [], id="2.6-leading-zeros"),
        pytest.param({"nodes": "000%"}, ["nodes"], id="2.6-three-digits"),
        pytest.param({"nodes": "5\n"}, ["nodes"], id="2.6-newline"),
        pytest.param({"nodes": None}, [], id="2.8-null"),
        pytest.param({"schedule": "", "duration": "1h"}, ["schedule"], id="2.6-empty-schedule-is-given"),
        pytest.param({"schedule": "@daily", "duration": "8h00s"}, ["duration"], id="2.2-only-0s"),
        pytest.param({"schedule": "@daily", "duration": "90m0s"}, [], id="2.2-0s"),
        pytest.param({"reasons": {}}, ["reasons"], id="1-reasons-no-list"),
    ],
)
def test_budgets(budget, refused):
    assert refused_fields(make_node_pool(budgets=[budget])) == [f"{BUDGET}.{field}" for field in refused]


@pytest.mark.parametrize(
    ("schedule", "fits"),
    [(text, True) for text in (" 0 0 * * * ", "0 0 * * *\t", "0\n0\n*\n*\n*", "0 0 * * mon-5", "* * * * 0-6/2")]
    + [(text, True) for text in ("*/9223372036854775807 * * * *", "? ? ? ? ?", "@midnight  ")]
    + [
        (text, False)
        for text in ("*/9223372036854775808 * * * *", "0 0 * * *\n", "0\n0 * * *\n", "\uff11 * * * *", "\n")
    ]
    + [(text, False) for text in ("jan * * * *", "0 0 * * fri-mon", "-5 * * * *", "5/-1 * * * *", " " * 120)],
)
def test_schedules(schedule, fits):
    """8.1."""
    document = make_node_pool(budgets=[{"schedule": schedule, "duration": "1h"}])
    assert refused_fields(document) == ([] if fits else [f"{BUDGET}.schedule"])


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"limits": {"cpu": None}}, [], id="1-limit-null"),
        pytest.param({"limits": {"cpu": 1.5}}, ["limits.cpu"], id="1-limit-float"),
        pytest.param({"limits": {"cpu": True}}, ["limits.cpu"], id="1-limit-bool"),
        pytest.param({"limits": {"cpu": "1e1.5"}}, ["limits.cpu"], id="1-limit-cannot-be-decoded"),
        pytest.param({"weight": 1.0}, ["weight"], id="1-weight-float"),
        pytest.param({"replicas": True}, ["replicas"], id="1-replicas-bool"),
        pytest.param({"replicas": 1, "weight": None, "limits": {"cpu": None}}, [], id="2.7-null-is-absent"),
        pytest.param({"replicas": None, "weight": 5}, [], id="2.7-null-replicas"),
    ],
)
def test_pool_fields(spec, refused):
    assert refused_fields(make_node_pool(**spec)) == [f"spec.{field}" for field in refused]


REQUIREMENTS = f"{TEMPLATE}.requirements[0]"
CAPACITY = {"key": "karpenter.sh/capacity-type", "operator": "In"}
STATIC = {"replicas": 1}


def requiring(**requirement):
    return make_node_pool({"requirements": [{"key": "a", "operator": "Exists", **requirement}]})


def referring(**reference):
    return make_node_pool({"nodeClassRef": {"group": "g", "kind": "K", "name": "n", **reference}})


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        pytest.param("2026-03-01T10:00:00Z", True, id="utc"),
        pytest.param("2026-03-01T10:00:00.123456789+05:30", True, id="offset-and-fraction"),
        pytest.param("2024-02-29T23:59:59-11:00", True, id="leap-day"),
        pytest.param("yesterday", False, id="word"),
        pytest.param("", False, id="empty"),
        pytest.param("2026-03-01", False, id="date"),
        pytest.param("2026-03-01T10:00:00", False, id="no-offset"),
        pytest.param("2026-03-01 10:00:00Z", False, id="space"),
        pytest.param("2026-03-01t10:00:00z", False, id="lower-case"),
        pytest.param("20260301T100000Z", False, id="basic-format"),
        pytest.param("2026-W09-7T10:00:00Z", False, id="week"),
        pytest.param("2026-02-29T10:00:00Z", False, id="no-such-day"),
        pytest.param("2026-03-01T24:00:00Z", False, id="no-such-hour"),
        pytest.param("2026-03-01T10:00Z", False, id="no-seconds"),
        pytest.param("1772359200", False, id="seconds-of-the-epoch"),
        pytest.param(1772359200, False, id="number"),
    ],
)
def test_the_time_of_a_taint_is_an_rfc_3339_instant(field, text, allowed):
    document = make_node_pool({field: [{"key": "a", "effect": "NoExecute", "timeAdded": text}]})
    found = [(error.rule, str(error.field)) for error in judge("CREATE", document, None, Context()).errors]
    assert found == ([] if allowed else [("K-13", f"{TEMPLATE}.{field}[0].timeAdded")])


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(referring(name=""), ("K-01", f"{TEMPLATE}.nodeClassRef.name"), id="K-01"),
        pytest.param(referring(kind=None), ("K-01", f"{TEMPLATE}.nodeClassRef.kind"), id="K-01-shape"),
        pytest.param(make_node_pool({"requirements": {}}), ("K-03", f"{TEMPLATE}.requirements"), id="K-03"),
        pytest.param(requiring(key="a b"), ("K-04", f"{REQUIREMENTS}.key"), id="K-04"),
        pytest.param(requiring(key="a" * 317), ("K-04", f"{REQUIREMENTS}.key"), id="K-04-length"),
        pytest.param(requiring(key="karpenter.sh/nodepool"), ("K-05", f"{REQUIREMENTS}.key"), id="K-05"),
        pytest.param(requiring(operator="in"), ("K-06", f"{REQUIREMENTS}.operator"), id="K-06"),
        pytest.param(requiring(operator="In"), ("K-07", f"{REQUIREMENTS}.values"), id="K-07"),
        pytest.param(requiring(operator="Gt", values=["1", "2"]), ("K-08", f"{REQUIREMENTS}.values"), id="K-08"),
        pytest.param(requiring(operator="Lt", values=["-1"]), ("K-08", f"{REQUIREMENTS}.values[0]"), id="K-08-value"),
        pytest.param(requiring(values=["-"]), ("K-09", f"{REQUIREMENTS}.values[0]"), id="K-09"),
        pytest.param(requiring(minValues=0), ("K-10", f"{REQUIREMENTS}.minValues"), id="K-10-shape"),
        pytest.param(
            requiring(operator="In", values=["x"], minValues=2), ("K-10", f"{REQUIREMENTS}.minValues"), id="K-10"
        ),
        pytest.param(requiring(**CAPACITY, values=["x"]), ("K-11", f"{REQUIREMENTS}.values"), id="K-11"),
        pytest.param(
            requiring(**CAPACITY, values=["spot", "x"], minValues=2),
            ("K-11", f"{REQUIREMENTS}.minValues"),
            id="K-11-min-values",
        ),
        pytest.param(
            make_node_pool({"taints": [{"key": "a", "effect": "No"}]}),
            ("K-13", f"{TEMPLATE}.taints[0].effect"),
            id="K-13",
        ),
        pytest.param(
            make_node_pool({"startupTaints": [{"key": "a"}]}),
            ("K-13", f"{TEMPLATE}.startupTaints[0].effect"),
            id="shape",
        ),
        pytest.param(
            make_node_pool({"taints": [{"key": "a", "effect": "NoExecute"}] * 2}),
            ("K-14", f"{TEMPLATE}.taints[1]"),
            id="K-14",
        ),
        pytest.param(make_node_pool({"expireAfter": "1d"}), ("K-15", f"{TEMPLATE}.expireAfter"), id="K-15"),
        pytest.param(
            make_node_pool(disruption={"consolidationPolicy": "Always"}),
            ("K-16", "spec.disruption.consolidationPolicy"),
            id="K-16",
        ),
        pytest.param(make_node_pool(budgets=[{}] * 51), ("K-17", "spec.disruption.budgets"), id="K-17"),
        pytest.param(make_node_pool(budgets=[{"nodes": "101%"}]), ("K-18", f"{BUDGET}.nodes"), id="K-18"),
        pytest.param(make_node_pool(budgets=[{"nodes": 5}]), ("K-18", f"{BUDGET}.nodes"), id="K-18-shape"),
        pytest.param(make_node_pool(budgets=[{"reasons": ["x"]}]), ("K-19", f"{BUDGET}.reasons[0]"), id="K-19"),
        pytest.param(
            make_node_pool(budgets=[{"schedule": "0 0 * * 7", "duration": "1h"}]),
            ("K-20", f"{BUDGET}.schedule"),
            id="K-20",
        ),
        pytest.param(
            make_node_pool(budgets=[{"schedule": "@daily", "duration": "1d"}]),
            ("K-21", f"{BUDGET}.duration"),
            id="K-21",
        ),
        pytest.param(make_node_pool(budgets=[{"schedule": "@daily"}]), ("K-22", f"{BUDGET}.duration"), id="K-22"),
        pytest.param(make_node_pool(limits={"cpu": "x"}), ("K-23", "spec.limits.cpu"), id="K-23"),
        pytest.param(make_node_pool(weight=101), ("K-24", "spec.weight"), id="K-24"),
        pytest.param(make_node_pool(**STATIC, weight=1), ("K-25", "spec.weight"), id="K-25"),
        pytest.param(make_node_pool(**STATIC, limits={"cpu": 1}), ("K-25", "spec.limits.cpu"), id="K-25-limits"),
    ],
)
def test_refusals_carry_their_ids(document, wanted):
    errors = judge("CREATE", document, None, Context()).errors
    assert [(error.rule, str(error.field)) for error in errors] == [wanted]


@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        pytest.param({"a b": "c"}, "K-12", id="K-12-key"),
        pytest.param({"a": "-"}, "K-12", id="K-12-value"),
        pytest.param({"karpenter.sh/x": "c"}, "K-05", id="K-05"),
    ],
)
def test_refused_labels_carry_their_ids(labels, rule):
    document = make_node_pool()
    document["spec"]["template"]["metadata"] = {"labels": labels}
    assert [error.rule for error in judge("CREATE", document, None, Context()).errors] == [rule]


@pytest.mark.parametrize(
    ("new", "rule"),
    [
        pytest.param(referring(kind="L"), "K-02", id="K-02"),
        pytest.param(make_node_pool(**STATIC), "K-26", id="K-26"),
    ],
)
def test_refused_changes_carry_their_ids(new, rule):
    assert [error.rule for error in judge("UPDATE", new, make_node_pool(), Context()).errors] == [rule]
