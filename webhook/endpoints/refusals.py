"""History entries for actions of users, and for refusals and warnings of admission and of the gate."""

from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL
from scorer.api.meta import JsonObject
from scorer.api.names import REQUESTED_BY
from scorer.api.unstructured.documents import annotation, text_at
from scorer.member_gate.answer import MemberAnswer, MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer, NodeBlocker, NodeGateAnswer, NodeInQuestion
from webhook.history.actions import AcceptedWrite
from webhook.history.entry import EntryType, InvolvedObject
from webhook.history.service import HistoryService

UNNAMED_PODS: Final = "pods block the node. The caller may not list them"
_OF_PODS: Final = ("Pod ", "PodDisruptionBudget ")
OPERATIONS: Final = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}


def note_review(history: HistoryService, hook: str, request: JsonObject, response: JsonObject) -> None:
    """Record an answer of admission: a refusal, warnings, and the actions of an accepted write. Dry runs are ignored.

    Args:
        history: The history.
        hook: ``mutate`` or ``validate``. The mutating hook is called first, for the same write.
        request: ``request`` of the review, from the API server.
        response: ``response`` of the answer.
    """
    if request.get("dryRun") is True:
        return
    warnings = response.get("warnings")
    if not response["allowed"] or warnings:
        document = request.get("object") or request.get("oldObject")
        history.note_review(
            OPERATIONS.get(text_at(request, "operation"), "change"),
            InvolvedObject(
                text_at(request, "kind", "kind"),
                text_at(request, "name") or text_at(document, "metadata", "name"),
                text_at(request, "namespace"),
            ),
            text_at(request, "userInfo", "username"),
            refused="" if response["allowed"] else text_at(response, "status", "message"),
            rules=text_at(response, "auditAnnotations", "rules") or text_at(response, "status", "reason"),
            warnings=tuple(warnings or ()),
        )
    if response["allowed"] and hook == "validate":
        _note_accepted(history, request)


def _note_accepted(history: HistoryService, request: JsonObject) -> None:
    """Record the actions of an accepted write.

    A command over HTTPS is written by a service account of the installation, and is recorded with its caller by
    `webhook.answers.upgrade_orders`.
    """
    document, old, by = request.get("object"), request.get("oldObject"), text_at(request, "userInfo", "username")
    if history.is_own_account(by) and isinstance(document, dict) and annotation(document, REQUESTED_BY):
        return
    deleted = request.get("operation") == "DELETE"
    write = AcceptedWrite(
        document if isinstance(document, dict) and not deleted else None,
        old if isinstance(old, dict) else None,
        text_at(request, "subResource"),
    )
    history.note_write(write, by)


def without_pods(answer: GateAnswer) -> GateAnswer:
    """Return a copy of *answer* that does not name pods or their budgets."""
    message, nodes = answer["message"], list[NodeInQuestion]()
    for node in answer["nodes"]:
        blockers = list[NodeBlocker]()
        for blocker in node["blockers"]:
            if blocker["source"].startswith(_OF_PODS):
                message = message.replace(blocker["message"], UNNAMED_PODS)
                blocker = {**blocker, "message": UNNAMED_PODS, "source": blocker["source"].partition(" ")[0]}
            blockers.append(blocker)
        nodes.append({**node, "blockers": blockers})
    return {**answer, "message": message, "nodes": nodes}


def note_nodes(history: HistoryService, pool: str, answer: NodeGateAnswer, by: str) -> None:
    """Record an answer of the gate about nodes of a pool, if it refuses."""
    if not answer.allowed:
        message = without_pods(answer.document())["message"]  # a node pool is shown to callers who may not list pods
        history.note(EntryType.GATE, InvolvedObject(NODE_POOL.kind, pool), str(answer.verdict), message, by)


def note_member(history: HistoryService, cluster: str, answer: MemberAnswer, by: str) -> None:
    """Record an answer of the gate about a member, if it refuses."""
    if not answer.allowed:
        history.note(
            EntryType.GATE, InvolvedObject(MEMBER_CLUSTER.kind, cluster), str(answer.reason), answer.message, by
        )


def note_reservation(
    history: HistoryService, question: JsonObject, answer: GateAnswer | MemberGateAnswer, by: str
) -> None:
    """Record that a reservation was refused.

    Args:
        history: The history.
        question: The question to the gate.
        answer: The gate's answer.
        by: The caller.
    """
    pool = text_at(question, "pool")
    answer = without_pods(answer) if "verdict" in answer else answer
    about = (
        InvolvedObject(NODE_POOL.kind, pool)
        if pool
        else InvolvedObject(MEMBER_CLUSTER.kind, text_at(question, "cluster"))
    )
    history.note(EntryType.GATE, about, text_at(answer, "reason") or "Refused", text_at(answer, "message"), by)
