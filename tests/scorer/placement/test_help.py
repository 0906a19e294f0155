"""What would help: after the named change the cluster is picked (scheduling.md 22, property 7)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.values.quantity import parse_quantity
from scorer.fleet import Fleet
from scorer.placement.trace import explain
from scorer.properties import RESOURCE_PREFIX, read_property
from tests.scorer.builders import (
    AVAILABLE_CPU,
    CONSTRAINTS,
    COST,
    NODES,
    OLD_NODES,
    bindings_for,
    cluster_document,
    facts,
    has,
    held,
    make_cluster,
    members,
    modest,
    pick_fixed,
    pick_n,
    pick_n_policies,
    picked,
    policy,
    prefer,
    run,
    spread,
    term,
)

OFFER = re.compile(r"(?P<name>[^ ]+) (?P<sign>[≥≤]) (?P<value>[^ ]+)")
NUMBER = re.compile(r"would be picked with numberOfClusters ([0-9]+)")


def with_reading(member: MemberCluster, name: str, text: str) -> MemberCluster:
    """Return *member* with another reading of a property."""
    document = member.model_dump(by_alias=True, mode="json", exclude_none=True)
    if name.startswith(RESOURCE_PREFIX):
        kind, _, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
        field = {"total": "capacity", "allocatable": "allocatable", "available": "available"}[kind]
        document["status"]["resourceUsage"][field][resource] = text
    else:
        known = document["status"]["properties"]
        known[name] = {**known.get(name, {}), "value": text}
    return MemberCluster.read(document)


def offers(text: str) -> list[tuple[str, str, str]]:
    words = re.fullmatch(r"would be picked with (.*[≥≤].*)", text)
    return [OFFER.fullmatch(part).group("name", "sign", "value") for part in words[1].split(" or ")] if words else []


def assert_help_helps(wanted, clusters, bindings=()):
    """Make each change that is named for a loser, and only that, and look at the next run."""
    fleet = Fleet.of(clusters)
    judged = run(wanted, fleet, bindings)
    tried = 0
    for item in explain(judged):
        if item["verdict"] not in ("ScoreTooLow", "NotNeeded"):
            continue
        name = item["cluster"]
        for prop, sign, value in offers(item["help"]):
            before = read_property(fleet.member(name), prop).quantity
            assert (parse_quantity(value) > before) is (sign == "≥")
            better = fleet.updated([with_reading(fleet.member(name), prop, value)])
            assert name in picked(run(wanted, better, bindings)), item["help"]
            tried += 1
        if number := NUMBER.fullmatch(item["help"]):
            assert name in picked(run(wanted, fleet, bindings, number=int(number[1]))), item["help"]
            tried += 1
    return tried


SORTERS = st.permutations([NODES, COST, AVAILABLE_CPU])


@given(data=st.data())
@modest(80)
def test_losers_are_picked_after_the_change(data):
    """Preferences over different properties, clusters that hold nothing yet."""
    clusters = data.draw(members(10))
    preferred = [
        prefer(data.draw(st.integers(-100, 100)), sorter, data.draw(st.sampled_from(["Ascending", "Descending"])))
        for sorter in data.draw(SORTERS)[: data.draw(st.integers(0, 3))]
    ]
    assert_help_helps(pick_n(data.draw(st.integers(1, 5)), preferred=preferred), clusters)


@given(data=st.data())
@modest(80)
def test_losers_are_picked_after_the_change_whatever_the_policy(data):
    clusters = data.draw(members(10))
    assert_help_helps(data.draw(pick_n_policies(6)), clusters, data.draw(bindings_for(clusters)))


@given(data=st.data())
@modest(80)
def test_losers_are_picked_after_the_change_beside_what_is_held(data):
    clusters = data.draw(members(10, ill=False))
    preferred = [prefer(data.draw(st.integers(-100, 100)), sorter) for sorter in data.draw(SORTERS)[:2]]
    constraints = data.draw(st.lists(CONSTRAINTS, max_size=1))
    wanted = pick_n(data.draw(st.integers(1, 5)), preferred=preferred, constraints=constraints)
    assert_help_helps(wanted, clusters, data.draw(bindings_for(clusters)))


def test_help_is_given_and_true_for_an_ordinary_fleet():
    clusters = [
        make_cluster(
            f"port-{row}",
            properties={NODES: str(10 * row + 3), COST: f"0.0{row + 2}7"},
            available={"cpu": f"{5 * row}"},
        )
        for row in range(7)
    ]
    wanted = pick_n(2, preferred=[prefer(60, NODES), prefer(40, COST, "Ascending")])
    assert assert_help_helps(wanted, clusters) >= 5


def test_help_is_true_beside_kept_clusters():
    """The cluster to beat is the weakest one picked now, not a kept one with its earlier scores."""
    clusters = [
        make_cluster(name, properties={NODES: count})
        for name, count in [("a", "10"), ("b", "30"), ("c", "90"), ("d", "99"), ("e", "1")]
    ]
    bindings = [held("e", topology=0, affinity=50)]
    assert assert_help_helps(pick_n(2, preferred=[prefer(100, NODES)]), clusters, bindings)


def test_beside_clusters_that_satisfy_the_policy_a_change_helps_in_a_new_decision():
    clusters = [
        make_cluster(name, properties={NODES: count})
        for name, count in [("a", "1"), ("b", "30"), ("c", "99"), ("d", "9")]
    ]
    judged = run(pick_n(1, preferred=[prefer(100, NODES)]), clusters, [held("b", topology=0, affinity=50)])
    found = {item["cluster"]: item["help"] for item in explain(judged)}
    assert found["d"] == f"would be picked by a new decision with {NODES} ≥ 30"


@pytest.mark.parametrize(
    ("highest", "own", "words"),
    [
        pytest.param("90500m", "1500m", f"{NODES} ≥ 90.048", id="more-than-one"),
        pytest.param("900m", "15m", f"{NODES} ≥ 896m", id="less-than-one"),
    ],
)
def test_a_reading_of_one_or_more_is_not_suggested_in_thousandths(highest, own, words):
    clusters = [
        make_cluster(name, properties={NODES: amount}) for name, amount in [("a", highest), ("b", own), ("c", "0")]
    ]
    assert help_of(pick_n(1, preferred=[prefer(100, NODES)]), clusters, "b") == f"would be picked with {words}"


def help_of(wanted, clusters, name):
    return next(item["help"] for item in explain(run(wanted, clusters)) if item["cluster"] == name)


@pytest.mark.parametrize(
    ("wanted", "before", "change", "words"),
    [
        pytest.param(policy(required=[term({"env": "prod"})]), {}, {"labels": {"env": "prod"}}, "env=prod", id="label"),
        pytest.param(
            policy(required=[term({"env": "prod"}), term(properties=[has(NODES, "Ge", "5")])]),
            {"properties": {NODES: "4"}},
            {"properties": {NODES: "4"}, "labels": {"env": "prod"}},
            "env=prod",
            id="one-of-two-terms",
        ),
        pytest.param(
            policy(required=[term(properties=[has(NODES, "Ge", "5")])]),
            {"properties": {NODES: "4"}},
            {"properties": {NODES: "5"}},
            f"{NODES} ≥ 5",
            id="property",
        ),
        pytest.param(
            policy(), {"taints": [("dock", "dry")]}, None, "toleration for taint dock=dry:NoSchedule", id="taint"
        ),
        pytest.param(policy(), {"heartbeat": None}, {}, "heartbeat", id="silent"),
        pytest.param(policy(), {"healthy": "False"}, {"healthy": "True"}, "healthy", id="ill"),
    ],
)
def test_a_filtered_cluster_passes_after_the_change(wanted, before, change, words):
    assert words in help_of(wanted, [make_cluster("a", **before)], "a")
    if change is None:
        wanted = {**wanted, "tolerations": [{"key": "dock", "value": "dry"}]}
        change = before
    assert picked(run(wanted, [make_cluster("a", **change)])) == ["a"]


def test_a_wider_skew_helps():
    clusters = [make_cluster(name, labels={"region": region}) for name, region in [("a", "n"), ("b", "n"), ("c", "s")]]
    wanted = pick_n(3, constraints=[spread("region")])
    assert picked(run(wanted, clusters)) == ["c", "b", "a"]
    clusters.append(make_cluster("dead", labels={"region": "w"}, heartbeat=None))
    found = help_of(wanted, clusters, "a")
    skew = int(re.search("maxSkew ([0-9]+) for region", found)[1])
    assert "a" in picked(run(pick_n(3, constraints=[spread("region", skew)]), clusters))


def repaired(member, text, wanted):
    """Return (member, policy) after the one change that *text* names."""
    document = member.model_dump(by_alias=True, mode="json", exclude_none=True)
    labels = document["metadata"].setdefault("labels", {})
    agent = next((agent for agent in document["status"]["agentStatus"] if agent["type"] == "MemberAgent"), None)
    well = cluster_document("well")["status"]["agentStatus"][0]
    if (found := re.fullmatch(r"a toleration for taint ([^=:]+)(?:=([^:]*))?:NoSchedule", text)) is not None:
        added = {"key": found[1], "operator": "Equal", "value": found[2] or ""}
        return member, {**wanted, "tolerations": [*wanted.get("tolerations", []), added]}
    if "heartbeat" in text:
        agent["lastReceivedHeartbeat"] = well["lastReceivedHeartbeat"]
    elif "joined" in text or "healthy" in text:
        sound = well["conditions"]["joined" not in text]
        agent["conditions"] = [*(one for one in agent["conditions"] if one["type"] != sound["type"]), sound]
    elif (found := re.fullmatch(r"(\S+) ([≥≤=><≠]) (\S+)", text)) is not None:
        step = {">": 1, "<": -1, "≠": 1}.get(found[2])
        value = found[3] if step is None else str(float(parse_quantity(found[3]).number + step))
        return with_reading(member, found[1], value), wanted
    elif (found := re.fullmatch(r"(env|region|nowhere)=(\w*)(?: or .*)?", text)) is not None:
        labels[found[1]] = found[2]
    elif (found := re.fullmatch(r"(env|region|nowhere) other than .*", text)) is not None:
        labels[found[1]] = "something-else"
    elif (found := re.fullmatch(r"label (env|region|nowhere)", text)) is not None:
        labels[found[1]] = "there"
    elif (found := re.fullmatch(r"no label (env|region)", text)) is not None:
        del labels[found[1]]
    elif (found := re.fullmatch(r"namespace '(\w+)' existing there", text)) is not None:
        document["status"]["namespaces"][found[1]] = ""
    else:
        pytest.fail(f"a change that nobody can make: {text!r}")
    return MemberCluster.read(document), wanted


def says_each_thing_once(wanted):
    """Whether no term uses one label or property twice: no change helps a contradiction."""
    affinity = wanted.get("affinity", {}).get("clusterAffinity", {})
    for written in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("clusterSelectorTerms", ()):
        labels = written.get("labelSelector", {})
        keys = [*labels.get("matchLabels", {}), *(one["key"] for one in labels.get("matchExpressions", ()))]
        keys += [one["name"] for one in written.get("propertySelector", {}).get("matchExpressions", ())]
        if len(keys) != len({NODES if key == OLD_NODES else key for key in keys}):
            return False
    return True


@given(data=st.data())
@modest(300)
def test_filtered_clusters_pass_after_the_one_change_that_is_named(data):
    """For any policy and any obstacle, the change that is said to help does."""
    name, other = "port-3", make_cluster("port-4")
    member = make_cluster(name, **data.draw(facts()))
    wanted = data.draw(pick_n_policies(1, constraints=0).filter(says_each_thing_once)) | {"placementType": "PickAll"}
    namespace = data.draw(st.sampled_from(["", "shop", "market"]))
    judged = run(wanted, [member, other], namespace=namespace)
    item = next(item for item in explain(judged) if item["cluster"] == name)
    if item["verdict"] == "Picked":
        assert item["help"] == ""
        return
    if item["help"]:
        changed, policy_after = repaired(member, item["help"].removeprefix("would pass with: "), wanted)
        assert name in picked(run(policy_after, [changed, other], namespace=namespace)), item


def test_help_was_named_for_every_verdict_that_one_change_can_turn():
    single = {
        "AffinityMismatch": ({"labels": {}}, policy(required=[term({"env": "prod"})]), ""),
        "TaintNotTolerated": ({"taints": [("gpu", "")]}, policy(), ""),
        "HeartbeatStale": ({"heartbeat": None}, policy(), ""),
        "AgentNotJoined": ({"joined": "Unknown"}, policy(), ""),
        "HealthUnknown": ({"healthy": None}, policy(), ""),
        "ClusterUnhealthy": ({"healthy": "False"}, policy(), ""),
        "NamespaceMissing": ({"collects": "True", "namespaces": ["shop"]}, policy(), "market"),
    }
    for verdict, (ill, wanted, namespace) in single.items():
        member = make_cluster("a", **ill)
        (item,) = explain(run(wanted, [member], namespace=namespace))
        assert item["verdict"] == verdict
        changed, after = repaired(member, item["help"].removeprefix("would pass with: "), wanted)
        assert picked(run(after, [changed], namespace=namespace)) == ["a"]


@pytest.mark.parametrize(
    "ill",
    [
        pytest.param({"leaving": True}, id="leaving"),
        pytest.param({"agents": ()}, id="no-agent-at-all"),
        pytest.param({"heartbeat": None, "joined": "False"}, id="two-ailments"),
        pytest.param({"joined": "False", "healthy": None}, id="neither-joined-nor-healthy"),
        pytest.param({"taints": [("gpu", ""), ("dock", "dry")]}, id="two-taints"),
        pytest.param({"heartbeat": None, "taints": [("gpu", "")]}, id="two-checks"),
    ],
)
def test_no_single_change_is_named_where_there_is_none(ill):
    assert help_of(policy(), [make_cluster("a", **ill)], "a") == ""


@given(data=st.data())
@modest(150)
def test_a_wider_skew_lets_the_cluster_pass_in_the_batch_that_refused_it(data):
    clusters = data.draw(members(10, ill=False))
    constraints = data.draw(st.lists(CONSTRAINTS, min_size=1, max_size=3))
    wanted = pick_n(data.draw(st.integers(1, 8)), constraints=constraints)
    judged = run(wanted, clusters)
    items = explain(judged)
    for item in items:
        if item["verdict"] != "TopologySpreadViolated" or not item["help"]:
            continue
        skew, key = re.fullmatch(r"would pass with: maxSkew ([0-9]+) for (\w+)", item["help"]).groups()
        hard = [one for one in constraints if one.get("whenUnsatisfiable") == "DoNotSchedule"]
        if sum(one["topologyKey"] == key for one in hard) > 1:
            continue  # two limits over one label: the words do not say which
        wider = [
            {**one, "maxSkew": int(skew)} if one["topologyKey"] == key and one in hard else one for one in constraints
        ]
        earlier = [one for one in items if one["verdict"] == "Picked" and one["batch"] < judged.last.number]
        holding = [held(one["cluster"], topology=0, affinity=0) for one in earlier]
        again = run(pick_n(len(holding) + 1, constraints=wider), clusters, holding)
        verdicts = {one["cluster"]: one["verdict"] for one in explain(again)}
        assert verdicts[item["cluster"]] in ("Picked", "ScoreTooLow"), item


def test_a_cluster_that_is_not_listed_would_be_picked_if_it_were():
    clusters = [make_cluster("a"), make_cluster("b"), make_cluster("c", heartbeat=None)]
    found = {item["cluster"]: item["help"] for item in explain(run(pick_fixed("a"), clusters))}
    assert found == {"a": "", "b": "would be picked with: its name in clusterNames", "c": ""}
    assert picked(run(pick_fixed("a", "b"), clusters)) == ["a", "b"]
