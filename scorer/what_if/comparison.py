"""Two policies side by side on the same fleet: for each cluster, the outcome under one and under the other."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from scorer.api.meta import JsonObject

PICKED: Final = "Picked"
SCORE_TOO_LOW: Final = "ScoreTooLow"
NOT_LISTED: Final = "NotListed"
"""Verdict on a cluster that a PickFixed policy does not name."""


class _Verdict(NamedTuple):
    verdict: str
    rank: int | None
    score: Mapping[str, int] | None
    reason: str


def compare(
    left: Mapping[str, Any], right: Mapping[str, Any], names: tuple[str, str] = ("left", "right")
) -> JsonObject:
    """Compare two entries of one plan, each of a new placement.

    Args:
        left: One of them.
        right: The other one.
        names: The names of the two in messages.

    Returns:
        ``{"left", "right", "clusters", "differs"}``. Clusters are sorted by the left rank, then the right one, then
        the name. ``differs`` is whether one policy picks a cluster that the other does not. For a single cluster,
        it is whether anything about it differs.
    """
    sides = _verdicts(left), _verdicts(right)
    unlisted = _Verdict(NOT_LISTED, None, None, "the policy does not list it")
    pairs = {name: tuple(side.get(name, unlisted) for side in sides) for name in sides[0].keys() | sides[1].keys()}
    order = sorted(pairs, key=lambda name: (*(_rank(verdict) for verdict in pairs[name]), name))
    clusters = []
    for name in order:
        left_verdict, right_verdict = pairs[name]
        clusters.append(
            {
                "cluster": name,
                "left": _document(left_verdict),
                "right": _document(right_verdict),
                "differs": left_verdict != right_verdict,
                "why": _difference_text(left_verdict, right_verdict, names),
            }
        )
    differs = any(
        (left_verdict.verdict == PICKED) != (right_verdict.verdict == PICKED)
        for left_verdict, right_verdict in pairs.values()
    )
    return {"left": _head(left), "right": _head(right), "clusters": clusters, "differs": differs}


def _head(entry: Mapping[str, Any]) -> JsonObject:
    remaining = ("name", "namespace", "type", "wanted", "satisfied", "message")
    return {key: entry[key] for key in remaining} | {"found": len(entry["picked"])}


def _rank(verdict: _Verdict) -> tuple[bool, int]:
    return verdict.rank is None, verdict.rank or 0


def _verdicts(entry: Mapping[str, Any]) -> dict[str, _Verdict]:
    verdicts = {pick["cluster"]: _Verdict(PICKED, pick["rank"], pick["score"], "") for pick in entry["picked"]}
    for rank, loser in enumerate(entry["notPicked"], start=len(verdicts) + 1):
        verdicts[loser["cluster"]] = _Verdict(SCORE_TOO_LOW, rank, loser["score"], "others score higher")
    for rejection in entry["filtered"]:
        category, _, message = rejection["reason"].partition(": ")
        verdicts[rejection["cluster"]] = _Verdict(category, None, None, message or category)
    return verdicts


def _document(verdict: _Verdict) -> JsonObject:
    return {
        "verdict": verdict.verdict,
        "rank": verdict.rank,
        "score": verdict.score,
        "reason": verdict.reason,
    }


def _difference_text(left: _Verdict, right: _Verdict, names: tuple[str, str]) -> str:
    """Return the differences in words, or an empty string."""
    if left == right:
        return ""
    words = []
    if (left.verdict, left.reason) != (right.verdict, right.reason):
        words += [
            f"{name}: {verdict.reason}" for name, verdict in zip(names, (left, right), strict=True) if verdict.reason
        ]
    if left.score is not None and right.score is not None:
        for key, score in (("topologySpread", "topology spread"), ("affinity", "affinity")):
            if left.score[key] != right.score[key]:
                words.append(f"{score} {left.score[key]} with {names[0]}, {right.score[key]} with {names[1]}")
    if not words and left.rank != right.rank:
        words.append(f"rank {left.rank} with {names[0]}, {right.rank} with {names[1]}, as others score differently")
    return "; ".join(words)
