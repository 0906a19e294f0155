"""Node pools from files, read by the same code as the pools of a hub."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from scorer.api.unstructured.json_object import JsonObject, parse_time
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.budgets import NodeCounts
from scorer.node_budgets.gate import answer
from scorer.node_budgets.question import InvalidQuestion, Mode, NodeGateQuestion
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.pools import WATCHED, HubNodePools
from webhook.kube.cache.informer import Cache


def gate_answer(pools: HubNodePools, question: JsonObject, now: datetime) -> Mapping[str, Any]:
    """Answer a question in the form of the request body of ``/v1/gate/disruption``.

    Args:
        pools: The pools.
        question: The question.
        now: The instant to evaluate at if the question has none.

    Raises:
        UserError: There is no such pool, or the question is invalid for the pool.
    """
    view = pools.pool(question["pool"])
    if view is None:
        pool_names = ", ".join(pools.names()[:20]) or "none"
        raise UserError(f"there is no NodePool {question['pool'][:253]!r} in the files, available: {pool_names}")
    observed = question.get("observed")
    try:
        counts = observed and NodeCounts(observed["total"], observed["deleting"], observed["notReady"])
        node_question = NodeGateQuestion(
            question["pool"],
            question["reason"],
            tuple(question["nodes"]) if "nodes" in question else None,
            question.get("count", 0),
            DisruptionClass(question["class"]),
            Mode(question["mode"]),
            parse_time(question["now"]) if "now" in question else None,
            counts,
        )
        return answer(node_question, view, now).document()
    except InvalidQuestion as error:
        if error.pointer == "/count" and observed is None and not view.nodes:
            advice = "give the number of its nodes with --total N"
            raise UserError(f"the files have no nodes of NodePool {view.name}: {advice}") from error
        raise UserError(error.detail) from error
    except ValueError as error:
        raise UserError(f"--total, --deleting, --not-ready: {error}") from error


def offline_pools(objects: Iterable[Loaded]) -> HubNodePools:
    """Return the pools among *objects*, with their nodes, claims, pods and PodDisruptionBudgets."""
    store = EmbeddedStore.open(None)
    try:
        cache = Cache(store)
        pools = HubNodePools(cache)
        kinds = {kind.group_kind: kind for kind in WATCHED}
        for item in objects:
            if (kind := kinds.get(item.kind.group_kind)) is not None:
                metadata = {**item.document["metadata"], "resourceVersion": "1"}
                cache.of_kind(kind).put({**item.document, "metadata": metadata})
        for kind in WATCHED:
            cache.of_kind(kind).synced.set()
    finally:
        store.close()
    return pools
