"""A rehearsal says what the hooks say: every vector of admission, and what an API server demands besides."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from tests.vector_families.admission import _context
from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.judge import judge, mutate
from webhook.admission.patch import apply_patch
from webhook.admission.rehearsal import default, rehearse
from webhook.validation.framework.context import Context

VECTORS = Path(__file__).parents[2] / "vectors"
LINES = [
    line
    for name in ("admission", "admission-extra", "admission-stateful", "nodepool_admission")
    for text in (VECTORS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    if (line := json.loads(text)).get("operation") in ("CREATE", "UPDATE") and isinstance(line.get("object"), dict)
]
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "payments"},
    "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
}
OLD = PLACEMENT | {"spec": PLACEMENT["spec"] | {"policy": {"placementType": "PickAll"}}}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["id"])
def test_it_agrees_with_the_hooks(line):
    """The verdict of every vector; where the hooks have a reason, the rehearsal has the same."""
    old, operation, context = line.get("old"), line["operation"], _context(line)
    verdict = rehearse(line["object"], old, operation, context)
    assert ("allow" if verdict.allowed else "deny") == line["want"], verdict
    if line["want"] == "deny":
        asked = judge(operation, mutate(line["object"], old, operation).document, old, context)
        assert {(str(error.field), error.cause) for error in asked.errors} <= {
            (str(error.field), error.cause) for error in verdict.errors
        }
        assert verdict.refusal == ("" if asked.errors else asked.message)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["id"])
def test_the_patch_leads_to_the_object(line):
    before = deepcopy(line["object"])
    result = default(line["object"], line.get("old"), line["operation"])
    assert apply_patch(line["object"], result.patch) == result.document
    assert line["object"] == before


def test_a_kind_without_rules_is_let_in_with_a_warning():
    chart = {"apiVersion": "example.com/v1", "kind": "Chart", "metadata": {"name": "No_Name"}}
    verdict = rehearse(chart, None, "CREATE", Context())
    assert (verdict.allowed, verdict.document) == (True, chart)
    assert verdict.warnings == ("harbormaster has no rules for Chart of example.com/v1",)
    assert default(chart, None, "CREATE").warnings == verdict.warnings


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({}, "metadata.name", id="no-name"),
        pytest.param({"name": "Pay_ments"}, "metadata.name", id="no-dns-name"),
        pytest.param({"name": "a", "namespace": "shop"}, "metadata.namespace", id="cluster-scoped"),
        pytest.param({"name": "a", "labels": {"a": 1}}, "metadata.labels.a", id="label-no-text"),
    ],
)
def test_metadata_an_api_server_refuses(metadata, field):
    verdict = rehearse(PLACEMENT | {"metadata": metadata}, None, "CREATE", Context())
    assert field in [str(error.field) for error in verdict.errors]


def test_a_namespace_may_come_from_the_url():
    """A manifest need not name its namespace: kubectl sends the object to that of the command line."""
    placement = PLACEMENT | {"kind": "ResourcePlacement"}
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "cart"}
    placement["spec"] = {"resourceSelectors": [selector]}
    assert rehearse(placement, None, "CREATE", Context()).allowed


def test_unknown_fields_are_told():
    verdict = rehearse(PLACEMENT | {"spec": PLACEMENT["spec"] | {"polices": {}}}, None, "CREATE", Context())
    assert verdict.allowed
    assert 'unknown field "spec.polices"' in verdict.warnings
    assert "polices" not in verdict.document["spec"]


def test_a_deletion_mark_of_the_author_changes_nothing():
    """Only what the hub stores as being deleted is beyond the rules."""
    broken = PLACEMENT | {"spec": {"resourceSelectors": []}}
    marked = {"metadata": {"name": "payments", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not rehearse(broken | marked, OLD, "UPDATE", Context()).allowed
    assert rehearse(broken | marked, OLD | marked, "UPDATE", Context()).allowed


def test_missing_rights_are_told():
    denied = Reviewed((Access("get", "", "namespaces", "shop"),))
    verdict = rehearse(PLACEMENT, None, "CREATE", Context().with_user(UserInfo("ann")), denied)
    assert verdict.allowed
    assert any("may not get namespaces" in warning for warning in verdict.warnings)


def test_what_is_asked_is_not_changed():
    asked, old = deepcopy(PLACEMENT), deepcopy(OLD)
    rehearse(asked, old, "UPDATE", Context())
    assert (asked, old) == (PLACEMENT, OLD)
