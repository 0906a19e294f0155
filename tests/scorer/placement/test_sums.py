"""The explanation adds up: points give scores, scores give ranks, ranks give picks (scheduling.md 22, property 1).

The checks use nothing but the items of the explanation, as a reader of it would.
"""

from hypothesis import given
from hypothesis import strategies as st

from scorer.fleet import Fleet
from scorer.placement.trace import explain, explanation
from tests.scorer.builders import (
    CONSTRAINTS,
    COST,
    LATENCY,
    MINUTE,
    NODES,
    NOW,
    PREFERENCES,
    bindings_for,
    external,
    facts,
    held,
    make_cluster,
    members,
    modest,
    pick_n,
    pick_n_policies,
    prefer,
    run,
)

RANKED = ("Picked", "Kept", "ScoreTooLow", "NotNeeded")


@st.composite
def fleets(draw):
    """Draw a fleet: often one whose clusters are healthy, often with external scores, often after some updates."""
    clusters = draw(members(10, ill=draw(st.booleans())))
    fleet = Fleet.of(clusters)
    for _ in range(draw(st.integers(0, 2))):
        if len(fleet):
            names = draw(st.lists(st.sampled_from(fleet.names), max_size=3, unique=True))
            spans = st.sampled_from([None, MINUTE, -MINUTE])
            scores = {name: external(str(draw(st.integers(0, 9))), draw(spans)) for name in names}
            for name in (NODES, COST, LATENCY):
                assert fleet.quantity(name) is fleet.quantity(name)  # in use, and so carried over
            changed = [
                make_cluster(name, annotations={LATENCY: scores[name]}, **draw(facts(ill=False))) for name in names
            ]
            fleet = fleet.updated(changed)
    return fleet


SORTED = st.builds(
    prefer,
    st.integers(-100, 100),
    st.sampled_from([NODES, COST, LATENCY]),
    st.sampled_from(["Ascending", "Descending"]),
)


@st.composite
def runs(draw):
    """Draw a run on a drawn fleet, with bindings of the present and of an earlier policy."""
    fleet = draw(fleets())
    if draw(st.booleans()):
        return run(draw(pick_n_policies(6)), fleet, draw(bindings_for(fleet.members)))
    wanted = pick_n(
        draw(st.integers(0, 5)),
        preferred=draw(st.lists(SORTED | PREFERENCES, min_size=1, max_size=3)),
        constraints=draw(st.lists(CONSTRAINTS, max_size=2)),
    )
    return run(wanted, fleet, draw(bindings_for(fleet.members)))


def topology(item):
    return item["topology"]["score"] if "topology" in item else 0


def keys(item):
    """Return the sort keys of an item as it shows them: for a kept cluster, the recorded ones."""
    if item["verdict"] == "Kept":
        score = item["binding"].get("recordedScore", {"topologySpread": 0, "affinity": 0})
        return score["topologySpread"], score["affinity"], item["cluster"]
    return topology(item), item["affinity"]["score"], item["tieBonus"], item["cluster"]


@given(runs())
@modest(150)
def test_the_explanation_adds_up(judged):
    items = explain(judged)
    for item in items:
        if "affinity" in item:
            terms = item["affinity"]["terms"]
            assert item["affinity"]["score"] == sum(term["points"] for term in terms)
            assert all(term["sorter"]["points"] == term["points"] for term in terms if "sorter" in term)
            rounded = [term for term in terms if "raw" in term.get("sorter", {}) and _gate(term)]
            assert all(abs(term["points"] - term["sorter"]["raw"]) <= 0.5 + 1e-6 for term in rounded)
            assert all(term["points"] == 0 for term in terms if not _gate(term))
            assert all(term["points"] == term["weight"] for term in terms if _gate(term) and "sorter" not in term)
        if "topology" in item:
            constraints = item["topology"]["constraints"]
            assert item["topology"]["score"] == sum(entry["points"] for entry in constraints)
            for entry in constraints:
                counts = entry["counts"].values()
                assert entry["skew"] == (max(counts) - min(counts) if counts else 0)
                assert (entry["domain"] is None) == (entry.get("note") == "outside the spread")
                if entry["domain"] is not None:
                    more = {**entry["counts"], entry["domain"]: entry["counts"][entry["domain"]] + 1}.values()
                    alone = len(more) == 1  # a single domain counts as getting ahead
                    assert entry["change"] == 1 if alone else max(more) - min(more) == entry["skew"] + entry["change"]
                    assert entry["violated"] is (entry["skew"] + entry["change"] > entry["maxSkew"])
    assert [item["rank"] for item in items] == [
        *range(1, sum(item["verdict"] in RANKED for item in items) + 1),
        *(None for item in items if item["verdict"] not in RANKED),
    ]


def _gate(term):
    return term.get("labels", {"pass": True})["pass"]


@given(runs())
@modest(150)
def test_sorting_by_the_keys_gives_the_ranks(judged):
    items = explain(judged)
    for verdict in ("Kept", "ScoreTooLow", "NotNeeded"):
        group = [item for item in items if item["verdict"] == verdict]
        assert group == sorted(group, key=keys, reverse=True)
    picks = [item for item in items if item["verdict"] == "Picked"]
    losers = [item for item in items if item["verdict"] == "ScoreTooLow"]
    batches = [item["batch"] for item in picks]
    if judged.request.profile.spread.constraints:
        assert batches == list(range(1, len(picks) + 1))
        assert all(keys(picks[-1]) > keys(loser) for loser in losers)
    else:
        assert picks + losers == sorted(picks + losers, key=keys, reverse=True)
        assert set(batches) <= {1}


@given(runs())
@modest(60)
def test_every_batch_took_the_best_of_its_time(judged):
    """A run that holds what the earlier batches picked, and wants one more, ranks the pick of this batch first.

    The tie bonus exists in the first batch only, so later batches are run without the earlier bindings.
    """
    picks = [item for item in explain(judged) if item["verdict"] == "Picked"]
    taken = list(judged.holdings.taken)
    for place, item in enumerate(picks):
        earlier = [held(pick["cluster"], topology=0, affinity=0) for pick in picks[:place]]
        obsolete = judged.holdings.obsolete if place == 0 or not judged.request.profile.spread.constraints else ()
        holding = [
            *taken,
            *earlier,
            *(one for one in obsolete if one.cluster not in {each.cluster for each in earlier}),
        ]
        policy = judged.request.policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
        again = run(policy, judged.fleet, holding, number=len(taken) + place + 1)
        first = next(each for each in explain(again) if each["verdict"] == "Picked")
        assert keys(first) == keys(item)
        assert first["affinity"] == item["affinity"]
        assert first.get("topology") == item.get("topology")


@given(runs())
@modest(100)
def test_the_head_counts_what_the_items_say(judged):
    document = explanation(judged, None, "1")
    verdicts = [item["verdict"] for item in document["items"]]
    assert document["found"] == verdicts.count("Picked") + verdicts.count("Kept")
    assert document["fleetSize"] == len(judged.fleet)
    if judged.last is None:
        assert (document["batches"], document["counts"]) == (0, {})
        return
    assert document["counts"] == {verdict: verdicts.count(verdict) for verdict in document["counts"]}
    assert sum(document["counts"].values()) + document["found"] == len(judged.fleet)


@given(runs())
@modest(60)
def test_whatever_a_cluster_holds_is_told(judged):
    """Since when and under which snapshot, with which scores, whether it would match, and whether it goes."""
    live = {*judged.holdings.taken, *judged.holdings.obsolete, *judged.holdings.dangling}
    holders = {binding.cluster: binding for binding in live}
    lost = {binding.cluster for binding in judged.dropped}
    for item in explain(judged):
        binding = holders.get(item["cluster"])
        assert ("binding" in item) is (binding is not None)
        if binding is None:
            continue
        told = item["binding"]
        assert (told["name"], told["state"], told["currentPolicy"]) == (binding.name, binding.state, binding.current)
        assert told.get("dropped", False) is (item["cluster"] in lost)
        assert ("recordedScore" in told) is (binding.affinity is not None)
        row = judged.fleet.row(item["cluster"])
        if row is not None:
            refused = [check for check in item["filters"] if not check["pass"] and check["name"] != "topology"]
            assert told["wouldStillMatch"] is (not refused) or "TopologySpread" in told["wouldBeRefused"]
            assert ("wouldBeRefused" in told) is (not told["wouldStillMatch"])


def test_a_binding_tells_its_time_and_its_snapshot():
    since = (NOW - 3 * MINUTE).isoformat()
    kept = held("a", topology=-1, affinity=40, snapshot="payments-2", since=since)
    (item,) = explain(run(pick_n(1), [make_cluster("a")], [kept]))
    assert item["binding"] == {
        "name": "b-a",
        "state": "Bound",
        "currentPolicy": True,
        "snapshot": "payments-2",
        "since": since,
        "age": "3m",
        "recordedScore": {"topologySpread": -1, "affinity": 40},
        "wouldStillMatch": True,
    }


def test_a_binding_of_an_odd_time_has_no_age():
    (item,) = explain(run(pick_n(1), [make_cluster("a")], [held("a", since="long ago")]))
    assert item["binding"]["since"] == "long ago"
    assert "age" not in item["binding"]
