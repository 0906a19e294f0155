"""Builders for the tests of the extender: pods, nodes, questions, and a hub that is written down at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.extender.filtering import filter_nodes
from scorer.extender.followed import read_followed
from scorer.extender.node import as_member, read_node
from scorer.extender.pod import PlacementName
from scorer.extender.preemption import preempt
from scorer.extender.question import read_args, read_preemption
from scorer.extender.scoring import prioritize
from scorer.extender.surroundings import ExtenderContext, Rules
from scorer.fleet import Fleet
from tests.scorer.builders import NOW

OURS = "harbormaster.dev/member-cluster"
LABELS = (OURS, "liqo.io/remote-cluster-id")
RULES = Rules(LABELS)


def pod(placement: str | None = None, *, mode: str | None = None, **facts: Any) -> dict[str, Any]:
    """Make a pod in namespace ``shop``; *facts* are ``tolerations``."""
    annotations = {}
    if placement is not None:
        annotations["harbormaster.dev/placement"] = placement
    if mode is not None:
        annotations["harbormaster.dev/placement-mode"] = mode
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [], **facts}}


def node(name: str, cluster: str = "", *, pool: str | None = None, **facts: Any) -> dict[str, Any]:
    """Make a node that stands for *cluster*, or belongs to *pool*.

    *facts* are labels, annotations, taints, deleting.
    """
    labels = dict(facts.pop("labels", {}))
    if cluster:
        labels[OURS] = cluster
    if pool is not None:
        labels["karpenter.sh/nodepool"] = pool
    metadata = {"name": name, "labels": labels, "annotations": facts.pop("annotations", {})}
    if facts.pop("deleting", False):
        metadata["deletionTimestamp"] = NOW.isoformat()
    return {"metadata": metadata, "spec": facts}


def placement(name: str, policy: Any = None, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {} if policy is None else {"policy": policy}}


class Hub:
    """A hub at `NOW`."""

    def __init__(
        self,
        clusters: Iterable[MemberCluster] = (),
        nodes: Iterable[Mapping[str, Any]] = (),
        *,
        placements: Iterable[Mapping[str, Any]] = (),
        selected: Mapping[str, Sequence[str]] | None = None,
        updating: Iterable[str] = (),
        leaving_pools: Iterable[str] = (),
        weights: Mapping[str, int] | None = None,
        aliases: Mapping[str, str] | None = None,
        **rules: Any,
    ) -> None:
        self.rules = replace(RULES, **rules)
        known = {found.name: found for found in (read_node(item, LABELS, "") for item in nodes)}
        placed = {
            PlacementName(item["metadata"].get("namespace", ""), item["metadata"]["name"]): read_followed(dict(item))
            for item in placements
        }
        decided = {PlacementName(*name.rpartition("/")[::2]): chosen for name, chosen in (selected or {}).items()}
        fleet = Fleet.of(clusters)
        rows = {name: row for row, name in enumerate(fleet.names)}

        def pool_nodes(given: Any) -> Fleet:
            nodes = {found.name: found for found in (*known.values(), *given) if found.is_of_pool}
            return Fleet.of(as_member(found, (weights or {}).get(found.pool, 0)) for found in nodes.values())

        self.around = ExtenderContext(
            now=NOW,
            fleet=fleet,
            rows={alias: rows[name] for alias, name in (aliases or {}).items()} | rows,
            nodes=known,
            updating=frozenset(updating),
            leaving_pools=frozenset(leaving_pools),
            placement=placed.get,
            selected=lambda name: decided.get(name, ()),
            pool_nodes=pool_nodes,
        )

    def filter(self, asked: Mapping[str, Any] | None, *names: str, **parts: Any) -> dict[str, Any]:
        """Ask about nodes by name, or with *parts* of the question as they are."""
        given = {"NodeNames": list(names)} if names else {}
        return filter_nodes(read_args({"Pod": asked, **given, **parts}, LABELS), self.around, self.rules)

    def obstacle(self, asked: Mapping[str, Any], name: str) -> tuple[str, str]:
        """Return which map one node is in, and its message there; two empty texts when it passes."""
        answer = self.filter(asked, name)
        if answer["NodeNames"] == [name]:
            return "", ""
        where = "FailedNodes" if name in answer["FailedNodes"] else "FailedAndUnresolvableNodes"
        return where, answer[where][name].removeprefix("harbormaster: ")

    def scores(self, asked: Mapping[str, Any] | None, *names: str, **parts: Any) -> dict[str, int]:
        given = {"NodeNames": list(names)} if names else {}
        answer = prioritize(read_args({"Pod": asked, **given, **parts}, LABELS), self.around, self.rules)
        assert all(type(entry["Score"]) is int for entry in answer)
        return {entry["Host"]: entry["Score"] for entry in answer}

    def preempt(self, asked: Mapping[str, Any] | None, **parts: Any) -> dict[str, Any]:
        answer = preempt(read_preemption({"Pod": asked, **parts}), self.around, self.rules)
        return answer["NodeNameToMetaVictims"]
