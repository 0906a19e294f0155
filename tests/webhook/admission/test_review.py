"""Bodies that are no reviews, and the answers to those that are (serving.md 1.5 to 1.8)."""

import base64
import json
from copy import deepcopy

import pytest

from webhook.admission.judge import Judgement
from webhook.admission.patch import apply_patch
from webhook.admission.review import InvalidReviewError, answer, for_headers, parse_review, respond
from webhook.kube.transport.serialization import encode
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import LONGEST_WARNING

GROUP_VERSION = {"group": "placement.kubernetes-fleet.io", "version": "v1"}
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "crp-a"},
    "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
}
INVALID = {**PLACEMENT, "spec": {**PLACEMENT["spec"], "policy": {"placementType": "PickN"}}}


def make_review(**request):
    request = {
        "uid": "b2e3ca9d-dfe7-44e0-8ceb-54e384ce05c8",
        "kind": {**GROUP_VERSION, "kind": "ClusterResourcePlacement"},
        "resource": {**GROUP_VERSION, "resource": "clusterresourceplacements"},
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": PLACEMENT,
        "oldObject": None,
        **request,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def ask(hook="validate", context=None, **request):
    review = parse_review(encode(make_review(**request)))
    whole = answer(review, hook, context or Context())
    assert (whole["apiVersion"], whole["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert whole["response"]["uid"] == review["request"]["uid"]
    json.loads(encode(whole))
    return whole["response"]


ENVELOPE = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":%s}'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"x"', id="string"),
        pytest.param(b"{", id="truncated"),
        pytest.param(b"{} {}", id="two-texts"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte-order-mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="utf-16"),
        pytest.param(b'{"a":"\xff"}', id="bad-utf-8"),
        pytest.param(b'{"a":NaN}', id="nan"),
        pytest.param(b'{"a":-Infinity}', id="infinity"),
        pytest.param(b'{"a":1e400}', id="overflow"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", id="5000-digits"),
        pytest.param(b"[" * 100_000, id="100000-brackets"),
        pytest.param(b'{"a":' * 101 + b"1" + b"}" * 101, id="101-levels"),
        pytest.param(
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}', id="v1beta1"
        ),
        pytest.param(b'{"kind":"Status","apiVersion":"admission.k8s.io/v1","request":{"uid":"a"}}', id="other-kind"),
        pytest.param(ENVELOPE % b"[]", id="request-a-list"),
        pytest.param(ENVELOPE % b"{}", id="no-uid"),
        pytest.param(ENVELOPE % b'{"uid":""}', id="empty-uid"),
        pytest.param(ENVELOPE % b'{"uid":7}', id="uid-a-number"),
        pytest.param(ENVELOPE % (b'{"uid":"' + b"a" * 257 + b'"}'), id="long-uid"),
        pytest.param(ENVELOPE % b'{"uid":"a\\nb"}', id="uid-with-newline"),
        pytest.param(ENVELOPE % b'{"uid":"a\\u0085b"}', id="uid-with-c1-control"),
    ],
)
def test_bodies_that_cannot_be_answered(body):
    with pytest.raises(InvalidReviewError) as caught:
        parse_review(body)
    assert caught.value.code == 400
    assert len(caught.value.message) > 3
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("fragment", "value"),
    [
        pytest.param(b'"\\ud800"', "\ud800", id="lone-surrogate"),
        pytest.param(b"9" * 400, pytest.approx(1.7976931348623157e308), id="400-digits"),
        pytest.param(b'{"a":' * 90 + b"1" + b"}" * 90, None, id="90-levels"),
    ],
)
def test_odd_bodies_that_can(fragment, value):
    review = parse_review(ENVELOPE % (b'{"uid":"u","x":' + fragment + b"}"))
    assert value is None or review["request"]["x"] == value
    assert answer(review, "validate", Context())["response"]["allowed"] is False


def test_a_valid_object_is_allowed_without_a_word():
    assert ask() == {"uid": "b2e3ca9d-dfe7-44e0-8ceb-54e384ce05c8", "allowed": True}


def test_a_refusal_names_object_and_causes():
    """kubectl shows nothing but the causes of an Invalid refusal."""
    response = ask(object=INVALID)
    status = response["status"]
    assert (response["allowed"], status["code"], status["reason"], status["status"]) == (
        False,
        422,
        "Invalid",
        "Failure",
    )
    assert status["details"] == {
        "name": "crp-a",
        "group": "placement.kubernetes-fleet.io",
        "kind": "ClusterResourcePlacement",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: must be set when placementType is PickN",
                "field": "spec.policy.numberOfClusters",
            }
        ],
    }


def test_at_most_50_causes_are_shown():
    tolerations = [{"key": f"bad {i}"} for i in range(60)]
    document = {**PLACEMENT, "spec": {**PLACEMENT["spec"], "policy": {"tolerations": tolerations}}}
    assert len(ask(object=document)["status"]["details"]["causes"]) == 50


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"operation": None}, id="no-operation"),
        pytest.param({"operation": "create"}, id="case-matters"),
        pytest.param({"operation": ["CREATE"]}, id="operation-a-list"),
        pytest.param({"kind": None}, id="no-kind"),
        pytest.param({"resource": "x"}, id="resource-a-string"),
        pytest.param({"object": None}, id="create-without-object"),
        pytest.param({"object": [1]}, id="object-a-list"),
        pytest.param({"operation": "UPDATE"}, id="update-without-old-object"),
        pytest.param({"object": {**PLACEMENT, "kind": "ResourcePlacement"}}, id="other-kind"),
        pytest.param(
            {"object": {**PLACEMENT, "apiVersion": "placement.kubernetes-fleet.io/v1beta1"}}, id="other-version"
        ),
    ],
)
@pytest.mark.parametrize("hook", ["validate", "mutate"])
def test_request_nonsense(hook, request_):
    response = ask(hook, **request_)
    assert (response["allowed"], response["status"]["code"], response["status"]["reason"]) == (False, 400, "BadRequest")
    assert response["status"]["message"]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"operation": "CONNECT", "object": None}, id="connect"),
        pytest.param({"operation": "DELETE", "object": None}, id="delete-without-old-object"),
        pytest.param({"operation": "DELETE", "object": None, "oldObject": INVALID}, id="delete-of-something-invalid"),
        pytest.param(
            {"operation": "UPDATE", "object": INVALID, "oldObject": PLACEMENT, "subResource": "status"}, id="status"
        ),
        pytest.param({"userInfo": None, "options": 3, "dryRun": "x", "response": {"allowed": False}}, id="odd-extras"),
    ],
)
def test_what_passes(request_):
    response = ask(**request_)
    assert response["allowed"]
    assert "patch" not in response


def test_a_kind_without_rules_passes_with_a_warning():
    kind = {"group": "toys.example.org", "version": "v1", "kind": "Wid\x1bget"}
    document = {"apiVersion": "toys.example.org/v1", "kind": "Wid\x1bget"}
    response = ask(kind=kind, object=document)
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.isprintable() or "\N{REPLACEMENT CHARACTER}" in warning


def test_guard_rails_hold_for_objects_being_deleted():
    work = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "Work",
        "metadata": {"name": "w", "namespace": "fleet-member-edge", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
    }
    member = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": "edge"},
        "spec": {"identity": {"kind": "User", "name": "agent"}},
    }
    context = Context.of_objects([member])
    request = {"operation": "UPDATE", "kind": {**GROUP_VERSION, "kind": "Work"}, "object": work, "oldObject": work}
    response = ask(context=context, **request)
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert ask(context=context, **request, userInfo={"username": "agent"})["allowed"]


def test_a_member_with_exports_may_leave_later():
    """M-09: a conflict, with the time to try again."""
    kind = {"group": "cluster.kubernetes-fleet.io", "version": "v1", "kind": "MemberCluster"}
    member = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": "edge"}}
    export = {
        "apiVersion": "networking.fleet.azure.com/v1alpha1",
        "kind": "InternalServiceExport",
        "metadata": {"name": "web", "namespace": "fleet-member-edge"},
    }
    context = Context.of_objects([export], settings=AdmissionSettings(networking_agents=True))
    response = ask(context=context, operation="DELETE", kind=kind, object=None, oldObject=member)
    assert response["status"]["code"] == 409
    assert response["status"]["details"]["retryAfterSeconds"] == 10


def test_an_approval_that_will_be_ignored_warns():
    """X-51, the rule of a status subresource."""
    request = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterApprovalRequest",
        "metadata": {"name": "run-after-pilot", "generation": 2},
        "spec": {"parentStageRollout": "run", "targetStage": "pilot"},
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "ok", "observedGeneration": 1}]},
    }
    kind = {**GROUP_VERSION, "kind": "ClusterApprovalRequest"}
    response = ask(operation="UPDATE", kind=kind, object=request, oldObject=request, subResource="status")
    assert response["allowed"]
    assert "observedGeneration must be 2" in response["warnings"][0]


APPROVAL = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterApprovalRequest",
    "metadata": {"name": "run-after-canary", "generation": 1},
    "spec": {"parentStageRollout": "run", "targetStage": "canary"},
    "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "tested as OK", "message": "lgtm"}]},
}


def test_mutation_changes_only_the_reason_and_the_message_of_an_approval():
    """F-18, the only change of a status. The object itself is not changed, and neither is one that is being deleted."""
    kind = {**GROUP_VERSION, "kind": "ClusterApprovalRequest"}
    write = {"operation": "UPDATE", "kind": kind, "object": APPROVAL, "oldObject": {**APPROVAL, "status": {}}}
    response = ask("mutate", **write, subResource="status")
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "replace", "path": "/status/conditions/0/message", "value": "tested as OK: lgtm"},
        {"op": "replace", "path": "/status/conditions/0/reason", "value": "ApprovedByUser"},
    ]
    assert '"tested as OK" is not one word' in response["warnings"][0]
    deleted = {**APPROVAL, "metadata": {**APPROVAL["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}}
    for other in ({}, {"subResource": "scale"}, {"subResource": "status", "object": deleted}):
        assert "patch" not in ask("mutate", **write | other)


def patched(response, document):
    assert response["patchType"] == "JSONPatch"
    return apply_patch(document, json.loads(base64.b64decode(response["patch"])))


def test_mutation_is_idempotent_and_ends():
    first = ask("mutate")
    document = patched(first, PLACEMENT)
    assert document["spec"]["policy"] == {"placementType": "PickAll"}
    again = ask("mutate", object=document)
    assert "patch" not in again
    assert "patchType" not in again


def test_mutation_does_not_judge():
    assert ask("mutate", object=INVALID)["allowed"]
    assert ask("mutate", object={**PLACEMENT, "spec": None}) == {"uid": ask()["uid"], "allowed": True}


def test_mutation_tells_about_a_rename():
    sorter = {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"metricSorter": sorter}}]
    }
    policy = {"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": affinity}}
    response = ask("mutate", object={**PLACEMENT, "spec": {**PLACEMENT["spec"], "policy": policy}})
    assert "metricSorter is now propertySorter" in response["warnings"][0]


def test_texts_of_an_answer_cannot_steer_a_terminal():
    document = deepcopy(PLACEMENT)
    document["metadata"] = {"name": "a\x1b[31m\nb", "labels": {"x\u202ey": "\x07"}}
    document["spec"]["policy"] = {"placementType": "\x1b]0;x\x07"}
    status = ask(object=document)["status"]
    texts = [status["message"], status["details"]["name"]]
    texts += [text for cause in status["details"]["causes"] for text in (cause["message"], cause["field"])]
    assert not [text for text in texts if any(character < " " or character in "\x7f\u202e" for character in text)]


def test_a_lone_surrogate_cannot_break_the_answer():
    document = {**PLACEMENT, "metadata": {"name": "crp-a", "annotations": {"a": "\ud800"}}}
    assert ask(object=document)["allowed"]
    assert ask("mutate", object=document)["allowed"]


def test_a_refusal_without_errors_tells_the_audit_log_its_rule():
    refused = Judgement(allowed=False, code=403, reason="Forbidden", message="no", rule="disruption-budget")
    response = respond(refused, {"uid": "1"})["response"]
    assert response["auditAnnotations"] == {"rules": "disruption-budget"}
    assert "auditAnnotations" not in respond(Judgement(allowed=False, code=403), {"uid": "1"})["response"]


AFFINITY = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("spec.policy: is odd", "spec.policy: is odd", id="short"),
        pytest.param(
            f"{AFFINITY}.clusterSelectorTerms[0].labelSelector: selects nothing, since no cluster has the label",
            "...clusterSelectorTerms[0].labelSelector: selects nothing, since no cluster has the label",
            id="the-path-loses-its-first-parts",
        ),
        pytest.param(f"spec.x: {'long ' * 40}", f"spec.x: {'long ' * 21}lon...", id="the-message-is-cut"),
        pytest.param(
            f"unknown field of {'a.' * 60}b: gone", f"unknown field of {'a.' * 49}a...", id="what-is-no-path-is-cut"
        ),
    ],
)
def test_a_warning_fits_into_a_header(text, shown):
    assert for_headers([text]) == [shown]
    assert len(shown) <= LONGEST_WARNING
    response = respond(Judgement(warnings=(text,)), {"uid": "u"})["response"]
    assert response["warnings"] == [shown]
