"""``simulate disruption``: the table, the documents, what is odd in a dump, and what cannot be used."""

import json
import re
import time

import pytest
import yaml

from scorer.api.meta import parse_time
from tests.builders.node import make_requirement
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_pool_of, make_worker
from tests.docs.pages import ROOT
from webhook.cli.disruption.cluster_dump import DUMP_LINE
from webhook.cli.disruption.simulate_output import amount

WEEK = ROOT / "examples" / "disruption"
PRICES = "name,cpu,memory,zone,price\nlarge,4,16Gi,z1,1.00\nsmall,2,8Gi,z1,0.30\n"
SINCE = "2026-06-10T12:00:00Z"


def whole(document):
    """Give an object of the builders what it has in a dump."""
    versions = {"PodDisruptionBudget": "policy/v1"}
    return {"apiVersion": versions.get(document.get("kind"), "v1"), **document}


def write(path, *documents):
    listed = [each for one in documents for each in ((one,) if isinstance(one, dict) else one)]
    path.write_text(yaml.safe_dump_all([whole(each) for each in listed]), encoding="utf-8")
    return path


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text(PRICES, encoding="utf-8")
    return path


@pytest.fixture
def dump(tmp_path):
    """One empty node, one that has drifted and is full."""
    full = [make_worker("full", conditions=drifted()), make_pod("p", "full", needs={"cpu": "4"}, owner="ReplicaSet")]
    return write(tmp_path / "dump.yaml", make_pool_of(), make_worker("empty"), full[0], full[1])


@pytest.fixture
def simulate(cli):
    def run(*words):
        return cli("simulate", "disruption", "--tz", "UTC", "--now", SINCE, *words)

    return run


def test_the_table(simulate, dump, prices):
    result = simulate("-f", dump, "--prices", prices)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[:3] == [
        "Wed 10 Jun 12:00 to Wed 17 Jun 12:00, times in UTC",
        "",
        "general: 2 nodes, then 1; 2.00 per hour, then 1.00; 1 Drifted, 1 Empty",
    ]
    drift = "the condition Drifted of the NodeClaim is True (NodeClassDrifted)"
    assert [re.split(" {3,}", line) for line in result.stdout.splitlines()[3:]] == [
        ["WHEN", "NODES", "REASON", "WHY", "SAVES", "NEW NODES", "DELAYED BY"],
        ["Wed 10 Jun 12:00", "empty", "Empty", "no pods to move", "1.00", "-", "-"],
        ["Wed 10 Jun 12:00", "full", "Drifted", drift, "0.00", "general-new-1", "-"],
    ]


def node_class(subnet, **spec):
    network = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets"
    return {
        "apiVersion": "karpenter.azure.com/v1beta1",
        "kind": "AKSNodeClass",
        "metadata": {"name": "default"},
        "spec": {"vnetSubnetID": f"{network}/{subnet}", **spec},
    }


def test_a_changed_node_class_drifts_its_nodes(simulate, tmp_path):
    """Seed 002: vnetSubnetID and imageFamily. The class alone is enough, its pool is in the dump."""
    pods = [make_pod(f"{name}-pod", name, needs={"cpu": "4"}, owner="ReplicaSet") for name in "ab"]
    dump = write(tmp_path / "dump.yaml", make_pool_of(), node_class("one"), make_worker("a"), make_worker("b"), *pods)
    changed = write(tmp_path / "class.yaml", node_class("two", imageFamily="AzureLinux"))
    result = simulate("-f", dump, "--pools", changed, "-o", "json")
    document = json.loads(result.stdout)
    assert [len(document[key]["pools"][0]["happenings"]) for key in ("today", "changed")] == [0, 2]
    why = {event["why"] for event in document["changed"]["pools"][0]["happenings"]}
    assert why == {"AKSNodeClass default has changed: spec.imageFamily, spec.vnetSubnetID"}
    assert [note for note in document["notes"] if "AKSNodeClass" in note] == [
        "AKSNodeClass default: spec.vnetSubnetID changes between valid subnets, which AKS does not support: check "
        "the CIDR ranges. Nodes: a, b"
    ]


def test_node_overlays_change_prices(simulate, tmp_path, prices):
    overlays = [
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "contract"},
            "spec": {"requirements": [], "priceAdjustment": adjustment},
        }
        for adjustment in ("-10%", "-50%")
    ]
    full = make_pod("p", "full", needs={"cpu": "4"}, owner="ReplicaSet")
    dump = write(tmp_path / "dump.yaml", make_pool_of(), make_worker("full"), full, overlays[0])
    changed = write(tmp_path / "overlay.yaml", overlays[1])
    document = json.loads(simulate("-f", dump, "--prices", prices, "--pools", changed, "-o", "json").stdout)
    found = [document[key]["pools"][0]["pricePerHourBefore"] for key in ("today", "changed")]
    assert (found, document["notes"]) == ([0.9, 0.5], [note for note in document["notes"] if "Overlay" not in note])
    unpriced = simulate("-f", dump)
    assert "note: NodeOverlays are not used without --prices" in unpriced.stderr


def test_nothing_happens(simulate, tmp_path, prices):
    full = make_pod("p", "full", needs={"cpu": "4"}, owner="ReplicaSet")
    result = simulate(
        "-f", write(tmp_path / "dump.yaml", make_pool_of(), make_worker("full"), full), "--prices", prices
    )
    assert (result.exit_code, "nothing happens" in result.stdout) == (0, True)


def test_json_has_everything(simulate, dump, prices):
    result = simulate("-f", dump, "--prices", prices, "-o", "json", "--days", "2")
    document = json.loads(result.stdout)
    assert (document["start"], document["end"], document["stopped"]) == (SINCE, "2026-06-12T12:00:00Z", None)
    assert document["assumptions"]["launchSeconds"] == 90
    (pool,) = document["pools"]
    assert (pool["nodesBefore"], pool["nodesAfter"], pool["savingsPerHour"]) == (2, 1, 1.0)
    first, second = pool["happenings"]
    assert first == {
        "at": "2026-06-10T12:00:15Z",
        "method": "Emptiness",
        "reason": "Empty",
        "nodes": ["empty"],
        "why": "no pods to move",
        "savingsPerHour": 1.0,
        "replacedBy": [],
        "gone": "2026-06-10T12:00:20Z",
        "limit": 2,
        "disrupting": 1,
        "podsOf": [],
        "heldBefore": [],
    }
    assert [each["instanceType"] for each in second["replacedBy"]] == ["large"]


def test_the_help_names_all_members(simulate, cli, dump, prices):
    """The documented shape is the real one."""
    document = json.loads(simulate("-f", dump, "--prices", prices, "-o", "json").stdout)
    said = cli("simulate", "disruption", "--help").stdout
    pool = document["pools"][0]
    members = {*document, *pool, *pool["happenings"][0]}
    assert sorted(each for each in members if each not in said) == []


def test_a_calendar(simulate, dump, prices):
    result = simulate("-f", dump, "--prices", prices, "-o", "ics")
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[0] == "BEGIN:VCALENDAR"
    assert "SUMMARY:general: Empty: empty" in lines
    assert "DTSTART:20260610T120015Z" in lines
    assert len({line for line in lines if line.startswith("UID:")}) == 2


def test_changed_pools_side_by_side(simulate, tmp_path, dump, prices):
    changed = write(tmp_path / "changed.yaml", make_pool_of(budgets=[{"nodes": "0"}]))
    result = simulate("-f", dump, "--prices", prices, "--pools", changed)
    assert result.exit_code == 2
    assert result.stdout.index("TODAY'S POOLS") < result.stdout.index("CHANGED POOLS")
    differences = result.stdout.partition("DIFFERENCES\n")[2].splitlines()
    assert [re.split(" {3,}", line.strip()) for line in differences] == [
        ["POOL", "TODAY", "CHANGED"],
        ["general", "nodes then", "1", "2"],
        ["price per hour then", "1.00", "2.00"],
        ["savings per hour", "1.00", "0.00"],
        ["disrupted", "1 Drifted, 1 Empty", "nothing"],
        ["longest block", "-", "7d"],
    ]


def test_changed_pools_as_json(simulate, tmp_path, dump, prices):
    changed = write(tmp_path / "changed.yaml", make_pool_of(budgets=[{"nodes": "0"}]))
    document = json.loads(simulate("-f", dump, "--prices", prices, "--pools", changed, "-o", "json").stdout)
    (difference,) = document["differences"]
    assert difference["disrupted"] == {"today": {"Drifted": 1, "Empty": 1}, "changed": {}}
    assert difference["longestBlockedSeconds"] == {"today": 0.0, "changed": 7 * 86400.0}


def test_changes_without_a_difference(simulate, tmp_path, dump, prices):
    changed = write(tmp_path / "changed.yaml", make_pool_of(weight=3))
    result = simulate("-f", dump, "--prices", prices, "--pools", changed)
    assert result.stdout.endswith("The changes make no difference.\n")


def test_a_pool_that_is_not_in_the_dump_is_noted(simulate, tmp_path, dump):
    result = simulate("-f", dump, "--pools", write(tmp_path / "changed.yaml", make_pool_of("other")))
    assert "note: NodePool other is not in the dump: it has no nodes" in result.stderr


def test_it_begins_when_the_dump_was_made(cli, tmp_path):
    node, claim = make_worker("empty")
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-06-09T00:00:00Z"
    result = cli("simulate", "disruption", "-f", write(tmp_path / "d.yaml", make_pool_of(), node, claim), "-o", "json")
    assert json.loads(result.stdout)["start"] == "2026-06-09T00:00:00Z"


def test_a_list_as_kubectl_writes_it(simulate, tmp_path):
    path = tmp_path / "dump.yaml"
    items = [whole(each) for each in (make_pool_of(), *make_worker("empty"))]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    assert "empty" in simulate("-f", path).stdout


@pytest.mark.parametrize(
    ("documents", "note"),
    [
        pytest.param([make_worker("w")[0]], "no NodeClaim: no node can be disrupted", id="claims"),
        pytest.param(make_worker("w"), "no Pod: every node counts as empty", id="pods"),
        pytest.param(make_worker("w"), "no PodDisruptionBudget: no budget protects a pod", id="budgets"),
        pytest.param(make_worker("w"), "no Namespace: namespace selectors match only by name", id="namespaces"),
        pytest.param(make_worker("w"), "no DaemonSet: only DaemonSets that already run a pod", id="daemon-sets"),
        pytest.param(
            [
                *make_worker("w"),
                make_pod("p", "w", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]),
            ],
            "no PersistentVolume and no PersistentVolumeClaim: volumes do not restrict pods",
            id="volumes",
        ),
        pytest.param(make_worker("w", pool="gone"), "whose pool (label karpenter.sh/nodepool)", id="no-pool"),
        pytest.param(
            [*make_worker("w"), make_pod("p", "elsewhere")],
            "pods on nodes that do not exist are ignored",
            id="no-node",
        ),
        pytest.param([*make_worker("w", created=NOW.replace(year=2027))], "created in the future: w", id="future"),
        pytest.param(
            [*make_worker("w"), *make_worker("w")],
            "duplicate objects (the last one counts): NodeClaim w, Node w",
            id="twice",
        ),
        pytest.param(
            [*make_worker("w"), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}],
            "ignored objects of other kinds: 1 Deployment",
            id="others",
        ),
    ],
)
def test_what_is_odd_is_noted(simulate, tmp_path, documents, note):
    result = simulate("-f", write(tmp_path / "dump.yaml", make_pool_of(), documents), "--days", "1")
    assert result.exit_code in (0, 2)
    assert note in result.stderr
    assert "error" not in result.stderr


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("large,4,16Gi,z1,\n", "line 2: price: is missing", id="missing"),
        pytest.param("large,4,16Gi,z1,-1\n", 'line 2: price: "-1" is not a price', id="negative"),
        pytest.param("large,4,16Gi,z1,NaN\n", 'line 2: price: "NaN" is not a price', id="nan"),
        pytest.param("large,4,16Gi,z1,inf\n", 'line 2: price: "inf" is not a price', id="infinite"),
        pytest.param("small,4,16Gi,z1,1\n", "no price of large in zone z1 as on-demand", id="not-in-table"),
        pytest.param("", "no instance types", id="empty"),
    ],
)
def test_prices_that_are_none_are_errors(simulate, tmp_path, dump, text, mistake):
    path = tmp_path / "prices.csv"
    path.write_text("name,cpu,memory,zone,price\n" + text, encoding="utf-8")
    result = simulate("-f", dump, "--prices", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {path}: {mistake}" in result.stderr


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param(
            "- {name: large, cpu: 4, memory: 16Gi, zone: z1, price: .nan}", 'line 1: [0].price: "nan" is not', id="nan"
        ),
        pytest.param("- {name: large, cpu: 4, memory: 16Gi, zone: z1}", "line 1: [0].price: is missing", id="missing"),
        pytest.param("a: 1\n---\nb: 2", "is neither YAML nor JSON: line 2: but found another document", id="documents"),
        pytest.param("[", "is neither YAML nor JSON: line 2: did not find", id="no-yaml"),
    ],
)
def test_prices_in_yaml(simulate, tmp_path, dump, text, mistake):
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    result = simulate("-f", dump, "--prices", path)
    assert (result.exit_code, f"error: {path}: {mistake}" in result.stderr) == (1, True), result.stderr


def test_prices_that_are_not_there(simulate, dump):
    result = simulate("-f", dump, "--prices", "nowhere.csv")
    assert (result.exit_code, result.stderr) == (1, "error: nowhere.csv: no such file or directory\n")


@pytest.mark.parametrize("days", ["0", "10000", "-1", "x"])
def test_days_have_bounds(simulate, dump, days):
    result = simulate("-f", dump, "--days", days)
    assert result.exit_code == 1
    assert days in result.stderr


def test_a_folder_without_files(simulate, tmp_path):
    (tmp_path / "empty").mkdir()
    result = simulate("-f", tmp_path / "empty")
    assert (result.exit_code, "no *.yaml" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("documents", "kind"),
    [pytest.param([make_pool_of()], "Node", id="nodes"), pytest.param(make_worker("w"), "NodePool", id="pools")],
)
def test_a_dump_needs_nodes_and_pools(simulate, tmp_path, documents, kind):
    result = simulate("-f", write(tmp_path / "dump.yaml", *documents))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: no {kind} in ")
    assert DUMP_LINE in result.stderr


def test_no_files_at_all(simulate):
    result = simulate()
    assert (result.exit_code, DUMP_LINE in result.stderr) == (1, True)


def test_a_pool_that_admission_refuses(simulate, tmp_path):
    pool = make_pool_of(budgets=[{"nodes": "110%"}])
    result = simulate("-f", write(tmp_path / "dump.yaml", pool, make_worker("w")))
    assert result.exit_code == 1
    assert 'spec.disruption.budgets[0].nodes: Invalid value: "110%"' in result.stderr


@pytest.mark.parametrize(
    ("number", "mistake"),
    [
        pytest.param(51, "spec.disruption.budgets: Too many: 51", id="one-too-many"),
        pytest.param(10_000, "spec: Too many: the object has more than 10000 JSON values", id="ten-thousand"),
    ],
)
def test_too_many_budgets_are_refused_at_once(simulate, tmp_path, number, mistake):
    pool = make_pool_of(budgets=[{"nodes": f"{each}"} for each in range(number)])
    path = write(tmp_path / "dump.yaml", pool, make_worker("w"))
    begin = time.process_time()
    result = simulate("-f", path)
    assert time.process_time() - begin < 10
    assert result.exit_code == 1
    assert mistake in result.stderr


@pytest.mark.parametrize(
    ("document", "mistake"),
    [
        pytest.param("kind: Node\nmetadata: {name: n}", "apiVersion: required", id="no-version"),
        pytest.param("apiVersion: v1\nkind: Node", "metadata.name: required", id="no-name"),
        pytest.param("- 1", "is a list, expected an object", id="no-object"),
    ],
)
def test_what_is_no_object(simulate, tmp_path, document, mistake):
    path = tmp_path / "dump.yaml"
    path.write_text(document, encoding="utf-8")
    result = simulate("-f", path)
    assert (result.exit_code, mistake in result.stderr) == (1, True)


def test_a_class_that_is_not_in_the_dump_is_noted(simulate, tmp_path, dump, prices):
    changed = write(tmp_path / "changed.yaml", make_pool_of("general"), node_class("one"))
    result = simulate("-f", dump, "--prices", prices, "--pools", changed)
    assert result.exit_code in (0, 2), result.output
    assert "note: AKSNodeClass default is not in the dump, so the drift caused by its changes" in result.stderr


def test_only_pools_can_be_changed(simulate, tmp_path, dump):
    result = simulate("-f", dump, "--pools", write(tmp_path / "changed.yaml", make_worker("w")[0]))
    assert (result.exit_code, 'kind: "Node": only NodePools, their classes and' in result.stderr) == (1, True)


def test_live_objects_may_be_odd(simulate, tmp_path):
    """Fields of the wrong type count as absent."""
    node, claim = make_worker("w")
    node["spec"]["taints"], node["status"]["allocatable"] = "none", []
    claim["status"]["conditions"] = {"a": 1}
    pod = make_pod("p", "w")
    pod["spec"]["containers"] = 7
    result = simulate("-f", write(tmp_path / "dump.yaml", make_pool_of(), node, claim, pod))
    assert result.exit_code == 0


def test_expiration_can_be_graceful(simulate, tmp_path):
    worker = make_worker("w", created=parse_time("2026-06-09T12:00:00Z"), expireAfter="24h")
    path = write(tmp_path / "dump.yaml", make_pool_of(budgets=[{"nodes": "0"}], after="Never"), worker)
    assert simulate("-f", path).exit_code == 2
    assert simulate("-f", path, "--graceful-expiration").exit_code == 0


@pytest.mark.parametrize("now", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_the_years_have_bounds(cli, dump, now):
    """At the last day there is no week to come; on the first, everything was made in the future."""
    result = cli("simulate", "disruption", "-f", dump, "--now", now)
    assert result.exit_code == (1 if now.startswith("9999") else 2), result.stderr
    assert ("the simulation must be within the years 1 to 9999" in result.stderr) is now.startswith("9999")


def full_node(name="full"):
    return [*make_worker(name), make_pod(f"p-{name}", name, needs={"cpu": "4"}, owner="ReplicaSet")]


@pytest.mark.parametrize(
    ("documents", "row"),
    [
        pytest.param(
            [*full_node(), make_pod("waits", needs={"cpu": "1"}, owner="ReplicaSet")], "Provisioning", id="new-node"
        ),
        pytest.param([*full_node(), *make_worker("gone", deleting=NOW)], "Deletion", id="going-already"),
    ],
)
def test_what_goes_on_without_a_disruption(simulate, tmp_path, prices, documents, row):
    """A node that is made for a pod that waits, or that was being deleted before: nothing is disrupted."""
    result = simulate("-f", write(tmp_path / "dump.yaml", make_pool_of(), documents), "--prices", prices)
    assert row in result.stdout
    assert "; nothing is disrupted\n" in result.stdout
    assert result.exit_code == 0


def test_small_prices_keep_their_digits(simulate, tmp_path, dump):
    path = tmp_path / "prices.csv"
    path.write_text(PRICES.replace("1.00", "0.0416"), encoding="utf-8")
    stdout = simulate("-f", dump, "--prices", path).stdout
    assert "general: 2 nodes, then 1; 0.0832 per hour, then 0.0416; " in stdout
    assert re.split(" {3,}", stdout.splitlines()[4])[4] == "0.0416"


@pytest.mark.parametrize(
    ("price", "text"),
    [(1.2, "1.20"), (100.0, "100.00"), (0.0415, "0.0415"), (-0.00001, "0.00"), (-0.1, "-0.10"), (0.1 + 0.2, "0.30")],
)
def test_amounts(price, text):
    assert amount(price) == text


def test_changes_of_which_only_the_instants_tell(simulate, tmp_path, prices):
    """Quiet for 5 h instead of not at all: the same nodes go, later."""
    small = make_pod("p", "a", needs={"cpu": "1"}, owner="ReplicaSet")
    nodes = [*make_worker("a", last_pod_event=NOW), *make_worker("b"), small]
    nodes.append(make_pod("q", "b", needs={"cpu": "3"}, owner="ReplicaSet"))
    dump = write(tmp_path / "dump.yaml", make_pool_of(), nodes)
    changed = write(tmp_path / "changed.yaml", make_pool_of(after="5h"))
    result = simulate("-f", dump, "--prices", prices, "--pools", changed)
    assert result.stdout.endswith("The changes make no difference to these figures, only to times or nodes.\n")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("now", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar(cli, dump, now, zone):
    result = cli("simulate", "disruption", "-f", dump, "--now", now, "--tz", zone)
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit | None)


def test_an_hour_that_clocks_show_twice(cli, dump):
    result = cli("simulate", "disruption", "-f", dump, "--now", "2026-10-25T01:30:00Z", "--tz", "Europe/Berlin")
    assert result.stdout.startswith("Sun 25 Oct 02:30 CET to Sun 01 Nov 02:30, times in Europe/Berlin\n")


def test_events_of_two_guards_are_two(simulate, tmp_path):
    """A calendar program keeps one event per UID."""
    guards = [
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
            "status": {"disruptionsAllowed": 0},
        }
        for name in ("web", "db")
    ]
    pods = [make_pod(name, "a", labels={"app": name}, owner="ReplicaSet") for name in ("web", "db")]
    dump = write(tmp_path / "dump.yaml", make_pool_of(), make_worker("a", conditions=drifted()), guards, pods)
    lines = simulate("-f", dump, "-o", "ics").stdout.splitlines()
    uids = [line for line in lines if line.startswith("UID:")]
    assert len(uids) == len(set(uids)) >= 2


def test_one_clock_that_is_wrong_does_not_move_the_beginning(cli, tmp_path):
    right, wrong = make_worker("right"), make_worker("wrong")
    right[0]["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-06-09T00:00:00Z"
    wrong[0]["status"]["conditions"][0]["lastHeartbeatTime"] = "9998-01-01T00:00:00Z"
    result = cli("simulate", "disruption", "-f", write(tmp_path / "d.yaml", make_pool_of(), right, wrong), "-o", "json")
    assert json.loads(result.stdout)["start"] == "2026-06-09T00:00:00Z"


def test_a_table_that_does_not_say_what_pools_ask_for_is_noted(simulate, tmp_path, prices):
    asked = make_requirement("karpenter.azure.com/sku-family", "In", "D")
    result = simulate(
        "-f", write(tmp_path / "dump.yaml", make_pool_of("general", asked), full_node()), "--prices", prices
    )
    assert "note: NodePool general requires label karpenter.azure.com/sku-family, which no" in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "mistake"),
    [
        pytest.param("p.csv", "name;cpu\n", "line 1: must have a column name. Columns are separated", id="semicolons"),
        pytest.param("p.csv", PRICES + "\n\nlarge,4,16Gi,z2,x\n", 'line 6: price: "x" is not', id="blank-lines"),
        pytest.param("p.csv", f"name\n{'x' * 200_000}\n", "not CSV: field larger", id="huge-cell"),
        pytest.param("p.txt", PRICES, "must be a price list in YAML or JSON. The name of a CSV", id="suffix"),
    ],
)
def test_what_is_no_table_of_prices(simulate, tmp_path, dump, name, text, mistake):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    result = simulate("-f", dump, "--prices", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {path}: {mistake}" in result.stderr
