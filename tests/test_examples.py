"""The examples are what newcomers start from: all of them are admitted and scheduled as their comments say."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Union, get_args, get_origin

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NODE_POOL, OUR_KINDS, PLACEMENT, RESOURCE_PLACEMENT, group_kind
from scorer.api.meta import format_time
from scorer.api.node_pool import Budget, DisruptionReason, NodePool
from scorer.api.placement.placement import PlacementPolicy
from scorer.fleet import Fleet
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts, allowance
from scorer.rollout.selection.selector import DocumentInventory, Selection, select_resources
from scorer.what_if.document import what_if
from scorer.what_if.state import HubState
from webhook.admission.judge import judge, mutate
from webhook.admission.review import answer, parse_review
from webhook.cli.root import root
from webhook.embedded.simulation.annotations import figures, parse_behaviour, silent_status, status_in_annotation
from webhook.embedded.simulation.scripts import SIMULATE, parse_script
from webhook.member.membership.heartbeat import heartbeat_status
from webhook.validation.framework.context import Context

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted((EXAMPLES / "fleet").glob("*.yaml"))
REFUSED = sorted((EXAMPLES / "refused").glob("*.yaml"))
BUDGETS = sorted((EXAMPLES / "budgets").glob("*.yaml"))
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)

EVERYWHERE = ("bravelion", "busybee", "calmheron", "jumpingcat", "keenowl", "quietseal", "smartfish", "swiftgull")
"""Clusters that a placement without conditions gets: neither leaving, silent nor tainted."""
PRODUCTION = ("bravelion", "calmheron", "keenowl", "smartfish")


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


OBJECTS = [document for path in FILES for document in documents(path)]
CONTEXT = Context.of_objects(OBJECTS, now=NOW)


def identity(document):
    metadata = document["metadata"]
    return *group_kind(document), metadata.get("namespace", ""), metadata["name"]


def named(document):
    _, kind, namespace, name = identity(document)
    return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"


def of_kind(*kinds):
    return [document for document in OBJECTS if group_kind(document) in {kind.group_kind for kind in kinds}]


def admitted(document):
    return mutate(document, None, "CREATE").document


PLACEMENTS = {named(document): admitted(document) for document in of_kind(PLACEMENT, RESOURCE_PLACEMENT)}


def member(document, namespaces=()):
    """Return a member as the hub knows it after the first heartbeat in `up`."""
    kept = status_in_annotation(admitted(document))
    behaviour = parse_behaviour(kept["metadata"]["annotations"])
    assert behaviour.problem == ""
    metadata = {**kept["metadata"], "generation": 1}
    if behaviour.leaving:
        metadata["deletionTimestamp"] = format_time(NOW - timedelta(minutes=1))
    if behaviour.silent:
        status = silent_status(behaviour, NOW, generation=1)
    else:
        reported = figures(behaviour, {}, dict.fromkeys(namespaces, "work"))
        status = heartbeat_status(MEMBER_CLUSTER, {}, reported, NOW, generation=1)
    return MemberCluster.read({**kept, "metadata": metadata, "status": status})


def plan(placements, namespaces=None):
    """Plan *placements* on the fleet; *namespaces* names what exists on which clusters."""
    members = [
        member(document, (namespaces or {}).get(document["metadata"]["name"], ()))
        for document in of_kind(MEMBER_CLUSTER)
    ]
    entries = what_if(HubState(Fleet.of(members), NOW, placements))["placements"]
    return {entry["name"]: entry for entry in entries}


def picked(entry):
    return tuple(pick["cluster"] for pick in entry["picked"])


@pytest.mark.parametrize("path", FILES + REFUSED + BUDGETS, ids=lambda path: path.stem)
def test_a_file_is_plain_yaml(path):
    """No anchors, no aliases, no key twice: what one reads is what there is."""
    text = path.read_text(encoding="utf-8")
    assert not [token for token in yaml.scan(text) if isinstance(token, yaml.AnchorToken | yaml.AliasToken)]
    for node in yaml.compose_all(text):
        assert not list(doubled_keys(node))


def doubled_keys(node) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        yield from {key for key in keys if keys.count(key) > 1}
        for _, value in node.value:
            yield from doubled_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from doubled_keys(item)


@pytest.mark.parametrize("path", FILES + BUDGETS, ids=lambda path: path.stem)
def test_every_object_is_commented(path):
    """One or two lines before each object say what it shows; content of a namespace is explained by the namespace."""
    explained = [
        bool(re.match(r"\s*#", part)) for part in path.read_text(encoding="utf-8").split("\n---\n") if part.strip()
    ]
    if path.stem.startswith("apps-"):
        namespaces = [document["kind"] == "Namespace" for document in documents(path)]
        assert all(has for has, is_namespace in zip(explained, namespaces, strict=True) if is_namespace)
    else:
        assert all(explained)


def test_no_name_is_used_twice():
    identities = [identity(document) for document in OBJECTS]
    assert len(set(identities)) == len(identities)


def test_objects_stand_behind_their_namespace():
    """Applied in the order of files and documents, nothing needs a namespace that is not there yet."""
    seen = set()
    for document in OBJECTS:
        _, kind, namespace, name = identity(document)
        assert not namespace or namespace in seen, named(document)
        seen |= {name} if kind == "Namespace" else set()


@pytest.mark.parametrize("document", OBJECTS, ids=named)
def test_the_fleet_is_admitted(document):
    """Every object is of a known kind and passes admission, before and after defaulting."""
    assert group_kind(document) in KINDS
    for version in (document, admitted(document)):
        judgement = judge("CREATE", version, None, CONTEXT)
        assert judgement.allowed, judgement.message


@pytest.mark.parametrize(
    ("name", "word"),
    [
        pytest.param("ClusterResourcePlacement/search", "metricSorter is now propertySorter", id="old-sorter"),
        pytest.param(
            "ClusterResourcePlacement/reports", "metricSorter is now propertySorter", id="old-sorter-and-label"
        ),
        pytest.param("ClusterResourcePlacement/east-cache", "is a deprecated name of", id="old-node-count"),
        pytest.param("NodePool/default", "was copied to spec.template.spec.expireAfter", id="old-expire-after"),
    ],
)
def test_old_spellings_work_with_a_warning(name, word):
    document = next(document for document in OBJECTS if named(document) == name)
    mutation = mutate(document, None, "CREATE")
    warnings = [*mutation.warnings, *judge("CREATE", mutation.document, None, CONTEXT).warnings]
    assert any(word in warning for warning in warnings)


def test_nothing_else_warns():
    """An example that draws a warning teaches a bad habit, unless its comment says so."""
    expected = {"search", "reports", "east-cache", "default"}
    for document in of_kind(*OUR_KINDS):
        mutation = mutate(document, None, "CREATE")
        judgement = judge("CREATE", mutation.document, None, CONTEXT)
        assert not (mutation.warnings or judgement.warnings) or document["metadata"]["name"] in expected


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_refused_example_is_refused_for_what_its_comments_say(path):
    (document,) = documents(path)
    wanted = re.findall(r"^# refused: (\S+) (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted
    judgement = judge("CREATE", admitted(document), None, CONTEXT)
    assert sorted((str(error.field), str(error.cause)) for error in judgement.errors) == sorted(wanted)


def test_the_tests_of_the_examples_pass():
    """As CI runs them; they name every refused object and every pool, and some placements of each kind."""
    result = CliRunner().invoke(root, ["test", str(EXAMPLES)])
    assert result.exit_code == 0, result.output
    cases = "".join(path.read_text(encoding="utf-8") for path in (EXAMPLES / "tests").iterdir())
    assert [path.name for path in REFUSED if f"../refused/{path.name}" not in cases] == []
    assert [path.stem for path in BUDGETS if f"pool: {path.stem}" not in cases] == []


def test_the_review_for_curl_is_answered_with_both_mistakes():
    review = parse_review((EXAMPLES / "admission-review.json").read_bytes())
    response = answer(review, "validate", Context())["response"]
    assert (response["uid"], response["allowed"]) == (review["request"]["uid"], False)
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == [
        "spec.policy.clusterNames",
        "spec.policy.numberOfClusters",
    ]


def values(document, path):
    """Return what stands at *path*; ``[]`` goes through the items of a list."""
    found = [document]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [value[name] for value in found if isinstance(value, dict) and name in value]
        if part.endswith("[]"):
            found = [item for value in found for item in value]
    return found


REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[]"
PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution[]"
COMPARISON = f"{REQUIRED}.propertySelector.matchExpressions[]"
EXPRESSION = f"{REQUIRED}.labelSelector.matchExpressions[]"
SPREAD = "spec.policy.topologySpreadConstraints[]"
ROLLING = "spec.strategy.rollingUpdate"


@pytest.mark.parametrize(
    ("placement", "path", "value"),
    [
        pytest.param("test-deployment", "spec.policy.placementType", "PickFixed", id="seed-003-pick-fixed"),
        pytest.param("test-deployment", "spec.policy.clusterNames[]", "smartfish", id="seed-003-cluster-names"),
        pytest.param("monitoring", "spec.policy.placementType", "PickAll", id="seed-003-pick-all"),
        pytest.param("shop", "spec.policy.placementType", "PickN", id="seed-003-pick-n"),
        pytest.param("shop", "spec.policy.numberOfClusters", 6, id="seed-003-number"),
        pytest.param("monitoring", f"{REQUIRED}.labelSelector.matchLabels.environment", "production", id="labels"),
        pytest.param("backup", f"{EXPRESSION}.operator", "In", id="label-in"),
        pytest.param("backup", f"{EXPRESSION}.operator", "NotIn", id="label-not-in"),
        pytest.param("backup", f"{EXPRESSION}.operator", "Exists", id="label-exists"),
        pytest.param("backup", f"{EXPRESSION}.operator", "DoesNotExist", id="label-does-not-exist"),
        pytest.param("backup", f"{COMPARISON}.operator", "Gt", id="seed-000-gt"),
        pytest.param("node-agent", f"{COMPARISON}.operator", "Ge", id="seed-000-ge"),
        pytest.param("backup", f"{COMPARISON}.operator", "Lt", id="seed-000-lt"),
        pytest.param("backup", f"{COMPARISON}.operator", "Le", id="seed-000-le"),
        pytest.param("backup", f"{COMPARISON}.operator", "Eq", id="seed-000-eq"),
        pytest.param("backup", f"{COMPARISON}.operator", "Ne", id="seed-000-ne"),
        pytest.param("node-agent", f"{COMPARISON}.name", "kubernetes-fleet.io/node-count", id="seed-003-node-count"),
        pytest.param("east-cache", f"{COMPARISON}.name", "kubernetes.azure.com/node-count", id="seed-000-node-count"),
        pytest.param(
            "east-cache", f"{REQUIRED}.labelSelector.matchLabels.region", "east", id="seed-000-label-and-property"
        ),
        pytest.param("backup", f"{COMPARISON}.name", "resources.kubernetes-fleet.io/total-cpu", id="total"),
        pytest.param(
            "backup", f"{COMPARISON}.name", "resources.kubernetes-fleet.io/allocatable-memory", id="allocatable"
        ),
        pytest.param("backup", f"{COMPARISON}.name", "resources.kubernetes-fleet.io/available-memory", id="available"),
        pytest.param("backup", f"{COMPARISON}.name", "kubernetes.azure.com/per-cpu-core-cost", id="seed-003-core-cost"),
        pytest.param(
            "backup", f"{COMPARISON}.name", "kubernetes.azure.com/per-gb-memory-cost", id="seed-003-memory-cost"
        ),
        pytest.param("checkout", f"{PREFERRED}.weight", 20, id="seed-003-weight"),
        pytest.param(
            "checkout", f"{PREFERRED}.preference.labelSelector.matchLabels.critical-level", "1", id="seed-003-prefer"
        ),
        pytest.param("batch", f"{PREFERRED}.weight", -100, id="negative-weight"),
        pytest.param(
            "payments", f"{PREFERRED}.preference.propertySorter.sortOrder", "Ascending", id="seed-000-ascending"
        ),
        pytest.param(
            "payments", f"{PREFERRED}.preference.propertySorter.sortOrder", "Descending", id="seed-000-descending"
        ),
        pytest.param(
            "reports", f"{PREFERRED}.preference.labelSelector.matchLabels.env", "prod", id="seed-000-label-and-sorter"
        ),
        pytest.param("shop", f"{SPREAD}.whenUnsatisfiable", "DoNotSchedule", id="seed-003-hard-spread"),
        pytest.param("shop", f"{SPREAD}.whenUnsatisfiable", "ScheduleAnyway", id="seed-003-soft-spread"),
        pytest.param("shop", f"{SPREAD}.maxSkew", 2, id="seed-003-skew"),
        pytest.param("shop", f"{SPREAD}.topologyKey", "updateDay", id="seed-003-topology-key"),
        pytest.param("node-agent", "spec.policy.tolerations[].operator", "Equal", id="seed-003-tolerate-equal"),
        pytest.param("mesh", "spec.policy.tolerations[].operator", "Exists", id="seed-003-tolerate-exists"),
        pytest.param("inventory", f"{ROLLING}.maxUnavailable", 1, id="seed-004-max-unavailable"),
        pytest.param("inventory", f"{ROLLING}.maxSurge", "50%", id="seed-004-max-surge"),
        pytest.param("monitoring", f"{ROLLING}.unavailablePeriodSeconds", 60, id="seed-003-unavailable-period"),
        pytest.param("flags", "spec.strategy.type", "External", id="seed-004-external"),
        pytest.param("inventory", "spec.strategy.applyStrategy.type", "ServerSideApply", id="apply-strategy"),
        pytest.param("inventory", "spec.revisionHistoryLimit", 5, id="seed-003-history"),
        pytest.param("pricing", "spec.resourceSelectors[].selectionScope", "NamespaceOnly", id="namespace-only"),
        pytest.param(
            "backup",
            "spec.resourceSelectors[].selectionScope",
            "NamespaceWithResourceSelectors",
            id="namespace-and-some",
        ),
        pytest.param(
            "base-roles", "spec.resourceSelectors[].labelSelector.matchLabels.rbac", "base", id="select-by-label"
        ),
        pytest.param("base-roles", "spec.resourceSelectors[].name", "fleet-viewers", id="select-by-name"),
    ],
)
def test_every_option_is_shown(placement, path, value):
    """Where to look for an option; the ids name the seed that has it."""
    assert value in values(PLACEMENTS[f"ClusterResourcePlacement/{placement}"], path)


def test_no_field_of_a_policy_is_left_out():
    """Whatever a policy may say, some example says it, as written or in its old spelling."""
    written = [document["spec"].get("policy", {}) for document in of_kind(PLACEMENT, RESOURCE_PLACEMENT)]
    missing = [path for path in leaves(PlacementPolicy) if not any(values(policy, path) for policy in written)]
    # A requirement never sorts and a preference never compares: one model serves both, admission tells them apart.
    assert [path for path in missing if not impossible(path)] == []


def impossible(path):
    required = "requiredDuringSchedulingIgnoredDuringExecution" in path
    return "Sorter" in path if required else "propertySelector" in path


def leaves(model, prefix=""):
    for field in model.model_fields.values():
        inner, suffix = unpacked(field.annotation)
        path = f"{prefix}{field.alias}{suffix}"
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{path}.")
        else:
            yield path


def unpacked(annotation):
    """Return what an annotation is about, and ``[]`` when there can be several."""
    suffix = ""
    while (origin := get_origin(annotation)) is not None and origin is not dict:
        arguments = [argument for argument in get_args(annotation) if argument not in (type(None), ...)]
        if origin is tuple:
            suffix = "[]"
        elif origin is not Union and len(arguments) > 1 and not hasattr(annotation, "__metadata__"):
            break
        annotation = arguments[0]
    return annotation, suffix


@pytest.mark.parametrize(
    ("name", "clusters"),
    [
        pytest.param("base-roles", EVERYWHERE, id="no-policy-is-pick-all"),
        pytest.param("mesh", tuple(sorted((*EVERYWHERE, "brightcrab", "dryduck"))), id="tolerating-all-taints"),
        pytest.param("monitoring", PRODUCTION, id="by-label"),
        pytest.param(
            "node-agent",
            tuple(sorted({*EVERYWHERE, "dryduck"} - {"busybee"})),
            id="by-node-count-tolerating-maintenance",
        ),
        pytest.param("east-cache", ("bravelion",), id="by-label-and-old-node-count"),
        pytest.param("backup", ("calmheron", "jumpingcat", "keenowl", "smartfish"), id="by-two-terms"),
        pytest.param("pricing", PRODUCTION, id="namespace-only"),
        pytest.param("test-deployment", ("bravelion", "smartfish"), id="by-name"),
        pytest.param("payments", ("bravelion", "smartfish", "calmheron"), id="size-against-price"),
        pytest.param("checkout", ("keenowl", "bravelion", "smartfish"), id="preferred-first-then-larger-name"),
        pytest.param("search", ("bravelion", "smartfish", "calmheron", "keenowl"), id="most-nodes"),
        pytest.param("batch", ("jumpingcat", "quietseal"), id="repelled-by-production"),
        pytest.param("training", ("brightcrab",), id="gpu"),
        pytest.param("inventory", ("quietseal", "jumpingcat"), id="by-location"),
        pytest.param("flags", EVERYWHERE, id="external-picks-too"),
    ],
)
def test_a_placement_gets_the_clusters_its_comment_promises(name, clusters):
    entry = plan([PLACEMENTS[f"ClusterResourcePlacement/{name}"]])[name]
    assert (picked(entry), entry["satisfied"]) == (clusters, True)


def test_the_shop_is_spread_over_regions():
    """Six clusters, and no region has more than two above the region with the fewest."""
    entry = plan([PLACEMENTS["ClusterResourcePlacement/shop"]])["shop"]
    regions = {
        document["metadata"]["name"]: document["metadata"]["labels"]["region"] for document in of_kind(MEMBER_CLUSTER)
    }
    counts = [sum(regions[cluster] == region for cluster in picked(entry)) for region in set(regions.values())]
    assert entry["satisfied"]
    assert (sum(counts), max(counts) - min(counts) <= 2) == (6, True)


def test_reports_stays_short_and_says_why():
    entry = plan([PLACEMENTS["ClusterResourcePlacement/reports"]])["reports"]
    assert (entry["wanted"], set(picked(entry)), entry["satisfied"]) == (10, set(EVERYWHERE), False)
    assert {item["cluster"] for item in entry["filtered"]} == {"brightcrab", "dryduck", "oldwhale", "slowtortoise"}
    assert "8 of 10" in entry["message"]


def test_rates_wait_for_their_namespace():
    """No cluster has it at first; once `pricing` has brought it, the preferred region wins."""
    rates = PLACEMENTS["ResourcePlacement/pricing/rates"]
    assert picked(plan([rates])["rates"]) == ()
    entry = plan([rates], {name: ["pricing"] for name in PRODUCTION})["rates"]
    assert (picked(entry)[0], len(picked(entry)), entry["satisfied"]) == ("calmheron", 2, True)


def test_only_reports_is_short_offline():
    """What `harbormaster plan -f examples/fleet` prints."""
    entries = plan(PLACEMENTS.values())
    assert {name for name, entry in entries.items() if not entry["satisfied"]} == {"reports"}
    assert all(entry["picked"] for entry in entries.values())


def test_the_fleet_is_as_described():
    """Twelve members in four regions: one leaving, one silent, two tainted."""
    members = [member(document) for document in of_kind(MEMBER_CLUSTER)]
    locations = {document["metadata"]["labels"]["fleet.azure.com/location"] for document in of_kind(MEMBER_CLUSTER)}
    assert (len(members), len(locations)) == (12, 4)
    assert [one.metadata.name for one in members if one.metadata.deletion_timestamp] == ["slowtortoise"]
    stale = [
        one.metadata.name
        for one in members
        if NOW - one.status.agent_status[0].last_received_heartbeat > timedelta(minutes=5)
    ]
    assert stale == ["oldwhale"]
    assert sorted(one.metadata.name for one in members if one.spec.taints) == ["brightcrab", "dryduck"]


def test_every_placement_selects_something_and_no_two_the_same():
    """Two placements of one object on one cluster would fight over it."""
    inventory = DocumentInventory(OBJECTS)
    owners = {}
    for name, placement in PLACEMENTS.items():
        terms, namespace = placement["spec"]["resourceSelectors"], placement["metadata"].get("namespace", "")
        selection = select_resources(terms, namespace, inventory)
        assert isinstance(selection, Selection), selection
        assert selection.objects, name
        for document in selection.objects:
            assert owners.setdefault(identity(document), name) == name, identity(document)


@pytest.mark.parametrize("document", [one for one in OBJECTS if one["kind"] != "MemberCluster"], ids=named)
def test_simulated_workloads_are_ready_soon(document):
    """`make run` waits until everything has settled."""
    script = parse_script((document["metadata"].get("annotations") or {}).get(SIMULATE, ""))
    assert (script.problem, script.crash_after) == ("", None)
    assert script.ready_after <= timedelta(seconds=5)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("pool", "now", "nodes", "allowed"),
    [
        pytest.param("general", at("2026-03-04T08:59"), 40, 4, id="tenth-before-business-hours"),
        pytest.param("general", at("2026-03-04T09:00"), 40, 0, id="none-in-business-hours"),
        pytest.param("general", at("2026-03-07T12:00"), 40, 4, id="tenth-on-saturday"),
        pytest.param("default", at("2026-03-04T00:09"), 10, 0, id="none-in-the-first-ten-minutes"),
        pytest.param("default", at("2026-03-04T12:00"), 10, 2, id="fifth-of-a-small-pool"),
        pytest.param("default", at("2026-03-04T12:00"), 40, 5, id="five-of-a-large-pool"),
        pytest.param("weekends", at("2026-03-07T12:00"), 10, 5, id="half-on-saturday"),
        pytest.param("weekends", at("2026-03-04T12:00"), 10, 0, id="none-on-wednesday"),
        pytest.param("stepwise", at("2026-03-04T03:00"), 10, 1, id="one-at-three"),
        pytest.param("stepwise", at("2026-03-04T05:00"), 10, 3, id="three-at-five"),
        pytest.param("stepwise", at("2026-03-04T12:00"), 10, 5, id="capped-at-noon"),
    ],
)
def test_a_pool_allows_what_its_comment_says(pool, now, nodes, allowed):
    document = next(document for document in of_kind(NODE_POOL) if document["metadata"]["name"] == pool)
    budgets = NodePool.read(admitted(document)).spec.disruption.budgets
    assert allowance(budgets, NodeCounts(nodes), DisruptionReason.DRIFTED, now).remaining == allowed


def test_pools_have_three_budgets_and_business_hours():
    pools = {document["metadata"]["name"]: document["spec"] for document in of_kind(NODE_POOL)}
    assert [budget["nodes"] for budget in pools["default"]["disruption"]["budgets"]] == ["20%", "5", "0"]
    assert pools["general"]["disruption"]["budgets"][1]["schedule"] == "0 9 * * 1-5"


def budgets_of(name):
    (document,) = documents(EXAMPLES / "budgets" / f"{name}.yaml")
    assert document["metadata"]["name"] == name
    return document["spec"]["disruption"]["budgets"]


def lint_text(name):
    result = CliRunner().invoke(root, ["lint", "-f", str(EXAMPLES / "budgets" / f"{name}.yaml")])
    return result.stdout


BUSINESS_HOURS = {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}
PUBLISHED = {
    "typical": [{"nodes": "10%"}, BUSINESS_HOURS],
    "three-budgets": [{"nodes": "20%"}, {"nodes": "5"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}],
    "business-hours": [BUSINESS_HOURS],
    "weekend-as-published": [{"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"}],
    "step-wise-as-published": [
        {"nodes": "1", "schedule": "0 2 * * *", "duration": "2h"},
        {"nodes": "3", "schedule": "0 4 * * *", "duration": "4h"},
    ],
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_budgets_are_those_of_seed_002(name):
    assert budgets_of(name) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("published", "why", "corrected"),
    [
        pytest.param(
            "weekend-as-published",
            "spec.disruption.budgets[1]: allows nothing and has no schedule: no disruption is ever allowed, and "
            "budgets[0] never matters",
            "weekend-corrected",
            id="weekend",
        ),
        pytest.param(
            "step-wise-as-published",
            "spec.disruption.budgets: outside the windows, disruption is unlimited: every budget has a schedule",
            "step-wise-corrected",
            id="step-wise",
        ),
    ],
)
def test_lint_says_why_budgets_do_not_work_and_prints_those_that_do(published, why, corrected):
    text = lint_text(published)
    assert why in text
    block = text.partition("  corrected:\n")[2].rpartition("1 object")[0]
    assert yaml.safe_load(block) == {"budgets": budgets_of(corrected)}
    assert lint_text(corrected) == "1 object: 0 errors, 0 warnings\n"


@pytest.mark.parametrize(
    ("name", "now", "allowed"),
    [
        pytest.param("weekend-as-published", at("2026-03-07T12:00"), 0, id="published-saturday"),
        pytest.param("weekend-corrected", at("2026-03-07T12:00"), 5, id="corrected-saturday"),
        pytest.param("weekend-corrected", at("2026-03-08T23:59"), 5, id="corrected-end-of-sunday"),
        pytest.param("weekend-corrected", at("2026-03-09T00:00"), 0, id="corrected-monday"),
        pytest.param("weekend-corrected", at("2026-03-13T23:59"), 0, id="corrected-end-of-friday"),
        pytest.param("step-wise-as-published", at("2026-03-04T12:00"), UNLIMITED, id="published-noon"),
        pytest.param("step-wise-corrected", at("2026-03-04T03:00"), 1, id="corrected-three"),
        pytest.param("step-wise-corrected", at("2026-03-04T12:00"), 3, id="corrected-noon"),
        pytest.param("business-hours", at("2026-03-04T12:00"), 0, id="business-hours"),
        pytest.param("business-hours", at("2026-03-04T20:00"), UNLIMITED, id="evening"),
    ],
)
def test_budgets_do_what_their_comments_say(name, now, allowed):
    budgets = [Budget.read(document) for document in budgets_of(name)]
    assert allowance(budgets, NodeCounts(10), DisruptionReason.DRIFTED, now).remaining == allowed


def test_the_readme_counts_what_is_there():
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(OBJECTS)} objects: {len(OBJECTS)} created" in text
    assert "nineteen placements" in " ".join(text.split())
    assert len(PLACEMENTS) == 19
