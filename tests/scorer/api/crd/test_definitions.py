"""The generated CustomResourceDefinitions: structural, complete, and saying what placement-api.md says."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scorer.api.crd.cel import CEL_RULES
from scorer.api.crd.columns import PRINTER_COLUMNS
from scorer.api.crd.definitions import custom_resource_definitions, structural_schema
from scorer.api.crd.models import MODELS
from scorer.api.kinds import KINDS, NODE_POOL, OUR_KINDS, UPGRADE_GROUP

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in custom_resource_definitions()}
SCHEMAS = {kind.kind: structural_schema(kind) for kind in OUR_KINDS}
P = "x-kubernetes-"
KEYWORDS = {
    *("type", "format", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items", "anyOf"),
    *("additionalProperties", P + "validations", P + "int-or-string", P + "preserve-unknown-fields"),
    *(P + "embedded-resource", P + "list-type", P + "list-map-keys", P + "map-type"),
}
FORMATS = {"string": {"date-time", "date", "byte"}, "integer": {"int32", "int64"}}
ONLY_FOR = {
    "object": {"properties", "additionalProperties", "required", "minProperties", "maxProperties", P + "map-type"},
    "array": {"items", "minItems", "maxItems", P + "list-type", P + "list-map-keys"},
}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema node with its path; ``[]`` are the items of a list, ``{}`` the values of a map."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from nodes(schema["items"], path + "[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], path + "{}")


def structural_errors(node: dict[str, Any]) -> Iterator[str]:
    """Say what the API server would not accept of one node (a structural schema, apiextensions.k8s.io/v1)."""
    yield from (f"keyword {keyword} is not allowed" for keyword in node.keys() - KEYWORDS)
    kind = node.get("type")
    if node.get(P + "int-or-string"):
        if kind is not None or node.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
            yield "int-or-string goes with anyOf integer and string, and without type"
    elif "anyOf" in node:
        yield "anyOf belongs to int-or-string"
    elif kind is None and not node.get(P + "preserve-unknown-fields"):
        yield "type is missing"
    elif kind not in (None, "object", "array", "string", "integer", "number", "boolean"):
        yield f"type {kind} is unknown"
    for owner, keywords in ONLY_FOR.items():
        if kind != owner and keywords & node.keys():
            yield f"{keywords & node.keys()} belong to {owner}s"
    if kind == "array" and not isinstance(node.get("items"), dict):
        yield "an array needs one schema of its items"
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties exclude each other"
    if not isinstance(node.get("additionalProperties", {}), dict):
        yield "additionalProperties must be a schema"
    if unknown := set(node.get("required", ())) - node.get("properties", {}).keys():
        yield f"required but not described: {unknown}"
    if node.get("format") not in (None, *FORMATS.get(kind or "", ())):
        yield f"format {node['format']} does not go with {kind}"
    if "enum" in node and not node["enum"]:
        yield "an empty enum allows nothing"
    if node.get(P + "embedded-resource") and (kind != "object" or not node.get(P + "preserve-unknown-fields")):
        yield "an embedded resource is an object, of any content"
    if kind == "object" and not {"properties", "additionalProperties", P + "preserve-unknown-fields"} & node.keys():
        yield "an object without any content"
    if node.get(P + "list-type") == "map":
        items = node["items"]
        if not set(node.get(P + "list-map-keys", ())) or not set(node[P + "list-map-keys"]) <= set(items["required"]):
            yield "the keys of a map list must be required"
    if "pattern" in node:
        re.compile(node["pattern"], re.ASCII)
    for rule in node.get(P + "validations", ()):
        if (
            not {"rule", "message"} <= rule.keys() <= {"rule", "message", "fieldPath", "reason", "messageExpression"}
            or not rule["rule"].strip()
            or "\n" in rule["message"]
        ):
            yield f"a rule has an expression and a message on one line: {rule}"


def invalid(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Say why *value* is not valid under *schema*; covers every keyword that the generator uses, but CEL."""
    kind = schema.get("type")
    types = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    wanted = (int, str) if schema.get(P + "int-or-string") else types.get(kind, object)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value, re.ASCII):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{path}: length of {value!r}"
    elif isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{path}: {value} is out of bounds"
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} items"
        for index, item in enumerate(value):
            yield from invalid(item, schema["items"], f"{path}[{index}]")
    elif isinstance(value, dict):
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            yield f"{path}: {len(value)} members"
        yield from (f"{path}.{name}: required" for name in schema.get("required", ()) if name not in value)
        fields = schema.get("properties", {})
        for name, item in value.items():
            if name in fields or "additionalProperties" in schema:
                yield from invalid(item, fields.get(name) or schema["additionalProperties"], f"{path}.{name}")
            elif not schema.get(P + "preserve-unknown-fields"):
                yield f"{path}.{name}: unknown"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_schema_is_structural(kind):
    errors = [f"{path}: {error}" for path, node in nodes(SCHEMAS[kind]) for error in structural_errors(node)]
    metadata = "metadata: an object without any content"
    assert errors == [metadata]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_default_is_valid(kind):
    for path, node in nodes(SCHEMAS[kind]):
        if "default" in node:
            assert not list(invalid(node["default"], node, path))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_root_describes_the_whole_object(kind):
    schema = SCHEMAS[kind]
    assert schema["type"] == "object"
    assert schema["properties"]["apiVersion"]["type"] == schema["properties"]["kind"]["type"] == "string"
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["description"]


DEFAULTS = {  # placement-api.md 6, D1
    "policy": {"placementType": "PickAll"},
    "policy.topologySpreadConstraints[]": {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
    "policy.tolerations[]": {"operator": "Equal"},
    "applyStrategy": {
        "type": "ClientSideApply",
        "comparisonOption": "PartialComparison",
        "whenToApply": "Always",
        "whenToTakeOver": "Always",
    },
    "reportBackStrategy": {"type": "Disabled"},
}
ENVELOPE = {"type": "ConfigMap"}
PLACEMENT_DEFAULTS = {
    **{"spec." + path: DEFAULTS[path] for path in DEFAULTS if path.startswith("policy")},
    **{"spec.strategy." + path: DEFAULTS[path] for path in DEFAULTS if not path.startswith("policy")},
    "spec.resourceSelectors[]": {"selectionScope": "NamespaceWithResources"},
    "spec": {"revisionHistoryLimit": 10, "statusReportingScope": "ClusterScopeOnly"},
    "spec.strategy": {"type": "RollingUpdate"},
    "spec.strategy.rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60},
    "spec.strategy.deleteStrategy": {"propagationPolicy": "Delete"},
}


def placement_status_defaults(at: str) -> dict[str, dict[str, Any]]:
    per_cluster = [f"{at}.placementStatuses[].{word}Placements[].envelope" for word in ("failed", "drifted", "diffed")]
    return {path: dict(ENVELOPE) for path in (f"{at}.selectedResources[].envelope", *per_cluster)}


POLICY_SNAPSHOT_DEFAULTS = {"spec." + path: DEFAULTS[path] for path in DEFAULTS if path.startswith("policy")}
BINDING_DEFAULTS = {
    "spec.applyStrategy": DEFAULTS["applyStrategy"],
    **{f"status.{word}Placements[].envelope": ENVELOPE for word in ("failed", "drifted", "diffed")},
}
RUN_DEFAULTS = {
    "spec": {"state": "Initialize"},
    "status.appliedStrategy": DEFAULTS["applyStrategy"],
    "status.stagedUpdateStrategySnapshot.stages[]": {"maxConcurrency": 1},
}


def override_defaults(at: str, *, cluster: bool) -> dict[str, dict[str, Any]]:
    selectors = {f"{at}.clusterResourceSelectors[]": {"selectionScope": "NamespaceWithResources"}} if cluster else {}
    return {
        f"{at}.placement": {"scope": "Cluster"},
        f"{at}.policy.overrideRules[]": {"overrideType": "JSONPatch"},
        **selectors,
    }


def sequence_defaults(at: str) -> dict[str, dict[str, Any]]:
    """upgrade-runs.md 3.2; not the limits of a stage, see `scorer.api.upgrade.strategy`."""
    gates = [
        f"{at}.{where}.{side}Gates[]" for where in ("stages[]", "stages[].groups[]") for side in ("before", "after")
    ]
    return {
        f"{at}.stages[].groups[]": {"maxConcurrency": 1},
        **{f"{gate}.scheduledStart": {"utcOffset": "+00:00"} for gate in gates},
    }


EXPECTED_DEFAULTS = {
    "ClusterResourcePlacement": {**PLACEMENT_DEFAULTS, **placement_status_defaults("status")},
    "ResourcePlacement": {**PLACEMENT_DEFAULTS, **placement_status_defaults("status")},
    "ClusterResourcePlacementStatus": placement_status_defaults("sourceStatus"),
    "ClusterSchedulingPolicySnapshot": POLICY_SNAPSHOT_DEFAULTS,
    "SchedulingPolicySnapshot": POLICY_SNAPSHOT_DEFAULTS,
    "ClusterResourceBinding": BINDING_DEFAULTS,
    "ResourceBinding": BINDING_DEFAULTS,
    "Work": {
        "spec.applyStrategy": DEFAULTS["applyStrategy"],
        "spec.reportBackStrategy": DEFAULTS["reportBackStrategy"],
    },
    "ClusterStagedUpdateStrategy": {"spec.stages[]": {"maxConcurrency": 1}},
    "StagedUpdateStrategy": {"spec.stages[]": {"maxConcurrency": 1}},
    "ClusterStagedUpdateRun": RUN_DEFAULTS,
    "StagedUpdateRun": RUN_DEFAULTS,
    "ClusterResourceOverride": override_defaults("spec", cluster=True),
    "ResourceOverride": override_defaults("spec", cluster=False),
    "ClusterResourceOverrideSnapshot": override_defaults("spec.overrideSpec", cluster=True),
    "ResourceOverrideSnapshot": override_defaults("spec.overrideSpec", cluster=False),
    "MemberCluster": {"spec": {"heartbeatPeriodSeconds": 60}, "spec.deleteOptions": {"validationMode": "Strict"}},
    "InternalMemberCluster": {"spec": {"heartbeatPeriodSeconds": 60}},
    "NodePool": {
        "spec": {"disruption": {"consolidateAfter": "0s"}},
        "spec.disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "10%"}],
        },
        "spec.disruption.budgets[]": {"nodes": "10%"},
    },
    "ClusterUpgradeStrategy": sequence_defaults("spec"),
    "ClusterUpgradeRun": {  # upgrade-runs.md 3.3
        "spec": {
            "state": "Initialize",
            **{block: {} for block in ("timeouts", "versionPolicy", "windowPolicy", "placementGuard")},
        },
        "spec.upgrade.nodeImage": {"selection": "Latest"},
        "spec.timeouts": {
            "memberUpgradeSeconds": 14400,
            "pendingSeconds": 0,
            "onPendingTimeout": "Wait",
            "gateSeconds": 0,
            "cancelOnTimeout": False,
        },
        "spec.versionPolicy": {"onUnsupportedJump": "Fail", "onNotReady": "Wait"},
        "spec.windowPolicy": {"mode": "Respect", "reservation": "None", "tieBreak": "Name", "requireFit": False},
        "spec.placementGuard": {"mode": "Off"},
        **sequence_defaults("spec.strategy"),
        "status": {"state": "NotStarted"},
        **sequence_defaults("status.strategySnapshot"),
    },
    "ClusterUpgradeGate": {"spec.scheduledStart": {"utcOffset": "+00:00"}, "status": {"state": "Pending"}},
    "ClusterUpgradeProfile": {
        "spec": {"disabled": False, "autoStart": True, "concurrencyPolicy": "Queue", "runHistoryLimit": 10}
    },
    "ClusterMaintenanceWindow": {"spec": {"target": "All", "durationHours": 4, "utcOffset": "+00:00"}},
    "ClusterVersionCatalog": {
        "spec.regions[].kubernetesVersions[]": {"phase": "GA"},
        "spec.regions[].nodeImages[]": {"os": "Linux"},
    },
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_defaults_are_those_of_the_reference_and_no_others(kind):
    found = {
        path: defaults
        for path, node in nodes(SCHEMAS[kind])
        if (
            defaults := {
                name: field["default"] for name, field in node.get("properties", {}).items() if "default" in field
            }
        )
    }
    assert found == EXPECTED_DEFAULTS.get(kind, {})


def test_the_default_state_of_runs_is_a_setting():
    crds = custom_resource_definitions(staged_run_default_state="Run")
    states = [
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["state"]["default"]
        for crd in crds
        if crd["spec"]["names"]["kind"].endswith("StagedUpdateRun")
        for version in crd["spec"]["versions"]
    ]
    assert states == ["Run"] * 4
    assert SCHEMAS["StagedUpdateRun"]["properties"]["spec"]["properties"]["state"]["default"] == "Initialize"
    with pytest.raises(ValueError, match="'run'"):
        custom_resource_definitions(staged_run_default_state="run")


RULES_MARKED_CEL = {  # placement-api.md 7: rule → kinds, path, a telling part of the expression
    "P-04": ("ClusterResourcePlacement ResourcePlacement", "spec.resourceSelectors[]", "has(self.labelSelector)"),
    "P-11": ("ClusterResourcePlacement ResourcePlacement", "spec.resourceSelectors", ".size() <= 1"),
    "P-12": ("ClusterResourcePlacement ResourcePlacement", "spec.resourceSelectors", "!has(x.labelSelector)"),
    "P-13": ("ClusterResourcePlacement ResourcePlacement", "spec.resourceSelectors", ".size() == 1"),
    "P-15": ("ClusterResourcePlacement", "spec", "NamespaceAccessible"),
    "P-20": ("ClusterResourcePlacement ResourcePlacement", "spec.policy", "'PickFixed'"),
    "P-23": ("ClusterResourcePlacement ResourcePlacement", "spec.policy", "'PickAll'"),
    "P-25": ("ClusterResourcePlacement ResourcePlacement", "spec.policy", "'PickN'"),
    "P-39": ("ClusterResourcePlacement ResourcePlacement", "spec.policy.tolerations[]", "self.value == ''"),
    "P-40": ("ClusterResourcePlacement ResourcePlacement", "spec.policy.tolerations[]", "self.key != ''"),
    "P-52": ("ClusterResourcePlacement ResourcePlacement", "spec.strategy.reportBackStrategy", "has(self.destination)"),
    "U-01": ("ClusterResourcePlacement ResourcePlacement", "spec", "!has(oldSelf.policy) ||"),
    "U-02": ("ClusterResourcePlacement ResourcePlacement", "spec", "oldSelf.policy.placementType"),
    "U-04": ("ClusterResourcePlacement ResourcePlacement", "spec", "oldSelf.strategy.type != 'External'"),
    "U-05": ("ClusterResourcePlacement", "spec", "oldSelf.statusReportingScope"),
    "S-03": ("ClusterStagedUpdateStrategy StagedUpdateStrategy", "spec.stages[].maxConcurrency", "self >= 1"),
    "S-07a": ("ClusterStagedUpdateStrategy StagedUpdateStrategy", "spec.stages[].afterStageTasks[]", "'Approval'"),
    "S-07b": ("ClusterStagedUpdateStrategy StagedUpdateStrategy", "spec.stages[].beforeStageTasks[]", "'Approval'"),
    "S-08": (
        "ClusterStagedUpdateStrategy StagedUpdateStrategy",
        "spec.stages[].afterStageTasks[]",
        "|| has(self.waitTime)",
    ),
    "S-09": ("ClusterStagedUpdateStrategy StagedUpdateStrategy", "spec.stages[].beforeStageTasks[]", "!= 'TimedWait'"),
    "R-01": ("ClusterStagedUpdateRun StagedUpdateRun", "", "self.metadata.name.size() <= 63"),
    "R-05": ("ClusterStagedUpdateRun StagedUpdateRun", "spec", "oldSelf.placementName"),
    "R-06": ("ClusterStagedUpdateRun StagedUpdateRun", "spec", "oldSelf.resourceSnapshotIndex"),
    "R-07": ("ClusterStagedUpdateRun StagedUpdateRun", "spec", "oldSelf.stagedRolloutStrategyName"),
    "R-08": ("ClusterStagedUpdateRun StagedUpdateRun", "spec", "oldSelf.state"),
    "Q-02": ("ClusterApprovalRequest ApprovalRequest", "spec", "self == oldSelf"),
    "O-01": ("ClusterResourceOverride ResourceOverride", "spec", "has(self.placement) == has(oldSelf.placement)"),
    "O-02": ("ClusterResourceOverride", "spec", "'Namespaced'"),
    "V-02a": ("ClusterResourcePlacementEviction", "spec", "oldSelf.placementName"),
    "V-02b": ("ClusterResourcePlacementEviction", "spec", "oldSelf.clusterName"),
    "B-01": ("ClusterResourcePlacementDisruptionBudget", "spec", "has(self.minAvailable)"),
    "B-02a": ("ClusterResourcePlacementDisruptionBudget", "spec.maxUnavailable", "self >= 0"),
    "B-02b": ("ClusterResourcePlacementDisruptionBudget", "spec.minAvailable", "self >= 0"),
    "M-01": ("MemberCluster", "", "self.metadata.name.size() <= 63"),
    "N-01": ("ClusterSchedulingPolicySnapshot SchedulingPolicySnapshot", "spec.policy.tolerations[]", "'Exists'"),
    "N-08": ("ClusterResourceOverrideSnapshot ResourceOverrideSnapshot", "spec.overrideSpec", "oldSelf.placement"),
}


@pytest.mark.parametrize("rule", RULES_MARKED_CEL)
def test_rules_of_the_reference_that_are_cel_are_in_the_crd(rule):
    kinds, path, part = RULES_MARKED_CEL[rule]
    for kind in kinds.split():
        (node,) = [node for at, node in nodes(SCHEMAS[kind]) if at == path]
        assert any(part in entry["rule"] for entry in node[P + "validations"]), kind


def test_a_resource_placement_may_change_its_scope_and_select_any_namespace():
    for rule in SCHEMAS["ResourcePlacement"]["properties"]["spec"][P + "validations"]:
        assert "statusReportingScope" not in rule["rule"]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_rules_name_fields_that_exist_and_stand_where_they_can_run(kind):
    for path, node in nodes(SCHEMAS[kind]):
        for rule in node.get(P + "validations", ()):
            text = rule["rule"]
            assert text.count("(") == text.count(")"), text
            if "properties" in node:
                named = set(re.findall(r"\b(?:self|oldSelf)\.([A-Za-z]+)\b(?!\()", text))
                assert named <= node["properties"].keys(), text
            if "items" in node and "properties" in node["items"]:
                assert set(re.findall(r"\bx\.([A-Za-z]+)\b(?!\()", text)) <= node["items"]["properties"].keys(), text
            if "oldSelf" in text:
                assert "[]" not in path, f"{path}: items of a list cannot be told from each other: {text}"


@pytest.mark.parametrize("kind", [kind.kind for kind in CEL_RULES])
def test_the_field_that_a_rule_names_is_there(kind):
    """The API server refuses a definition with any other."""
    for path, node in nodes(SCHEMAS[kind]):
        for rule in node.get(P + "validations", ()):
            here = node
            for step in filter(None, rule.get("fieldPath", "").split(".")):
                assert step in here["properties"], f"{path}: {rule}"
                here = here["properties"][step]


@pytest.mark.parametrize("kind", [kind.kind for kind in CEL_RULES])
def test_what_rules_walk_over_is_bounded(kind):
    """Without an upper bound the API server estimates a cost that it refuses."""
    for path, node in nodes(SCHEMAS[kind]):
        if not any(P + "validations" in inner for at, inner in nodes(node) if at):
            continue
        assert node.get("type") != "array" or "maxItems" in node, path


@pytest.mark.parametrize("kind", OUR_KINDS, ids=str)
def test_definitions(kind):
    spec = CRDS[kind.kind]["spec"]
    assert CRDS[kind.kind]["metadata"]["name"] == f"{kind.plural}.{kind.group}"
    assert spec["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    assert spec["names"]["listKind"] == kind.kind + "List"
    assert spec["names"].get("shortNames", []) == list(kind.short_names)
    assert [version["name"] for version in spec["versions"] if version["storage"]] == [kind.versions[0]]
    assert [version["name"] for version in spec["versions"]] == list(kind.versions)
    assert all(version["served"] for version in spec["versions"])
    assert all(("status" in version.get("subresources", {})) is kind.has_status for version in spec["versions"])
    schemas = [version["schema"] for version in spec["versions"]]
    assert all(schema == {"openAPIV3Schema": SCHEMAS[kind.kind]} for schema in schemas)


def test_storage_is_v1beta1_but_for_node_pools_and_upgrades():
    first = {kind.kind: kind.versions[0] for kind in OUR_KINDS if kind.group != UPGRADE_GROUP}
    assert {kind for kind, version in first.items() if version != "v1beta1"} == {"NodePool"}
    assert {kind.versions for kind in OUR_KINDS if kind.group == UPGRADE_GROUP} == {("v1alpha1",)}
    assert CRDS["NodePool"]["spec"]["versions"][0]["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    }


@pytest.mark.parametrize(
    ("kind", "categories"),
    [
        ("Work", ["fleet", "fleet-placement"]),
        ("InternalMemberCluster", ["fleet", "fleet-cluster"]),
        ("NodePool", ["karpenter"]),
        ("ClusterMaintenanceWindow", ["fleet", "fleet-upgrade"]),
    ],
)
def test_categories(kind, categories):
    assert CRDS[kind]["spec"]["names"]["categories"] == categories


COLUMNS = {  # placement-api.md 1, of the upgrade kinds our own choice; * = wide
    "ClusterResourcePlacement": "Gen Type* Scheduled Scheduled-Gen Work-Synchronized* Work-Synchronized-Gen* Available "
    "Available-Gen Age",
    "ResourcePlacement": "Gen Type* Scheduled Scheduled-Gen Work-Synchronized* Work-Synchronized-Gen* Available "
    "Available-Gen Age",
    "ClusterResourcePlacementStatus": "Resource-Index Last-Updated Age",
    "ClusterSchedulingPolicySnapshot": "Gen Age",
    "ResourceSnapshot": "Gen Age",
    "ClusterResourceBinding": "WorkSynchronized ResourcesApplied ResourceAvailable* Age",
    "StagedUpdateRun": "Placement Resource-Snapshot-Index Policy-Snapshot-Index Initialized Progressing Succeeded "
    "Age Strategy*",
    "ApprovalRequest": "Update-Run Stage Approved ApprovalAccepted Age",
    "ClusterResourcePlacementEviction": "Valid Executed Age",
    "MemberCluster": "Joined Age Member-Agent-Last-Seen Node-Count Available-CPU Available-Memory Allocatable-CPU* "
    "Allocatable-Memory* Content-Applied",
    "InternalMemberCluster": "Age",
    "Work": "",
    "ClusterResourceOverride": "",
    "ClusterResourcePlacementDisruptionBudget": "",
    "ClusterStagedUpdateStrategy": "",
    "ClusterUpgradeStrategy": "Valid Age",
    "ClusterUpgradeRun": "Type Version State Members Completed Failed Age Strategy* Running* Pending* Next-Wakeup* "
    "ETA*",
    "ClusterUpgradeGate": "Run Stage Group Timing Type State Age Starts* Approved* Display-Name*",
    "ClusterUpgradeProfile": "Channel Disabled Last-Trigger Triggered Current-Run Age Strategy* Next-Candidate*",
    "ClusterMaintenanceWindow": "Target Start Hours Offset Age",
    "ClusterVersionCatalog": "",
    "ClusterUpgradeRequest": "Member Type Version Phase Progress Age Run* Heartbeat* Deadline*",
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_printer_columns(kind):
    for version in CRDS[kind]["spec"]["versions"]:
        columns = version.get("additionalPrinterColumns", [])
        names = [column["name"] + ("*" if column.get("priority") == 1 else "") for column in columns]
        assert names == COLUMNS[kind].split()


@pytest.mark.parametrize("kind", PRINTER_COLUMNS, ids=str)
def test_printer_columns_show_fields_that_exist(kind):
    described = {path for path, _ in nodes(SCHEMAS[kind.kind])} | {"metadata.generation", "metadata.creationTimestamp"}
    for column in PRINTER_COLUMNS[kind]:
        path = re.sub(r"\[\?\(@\.type==\"[A-Za-z]+\"\)\]", "[]", column.path).replace(r"\.", "~").lstrip(".")
        path = re.sub(r"(properties|available|allocatable|status\.resources)\.[-~/a-z]+", r"\1{}", path)
        assert path in described, column


def field(kind: str, path: str) -> dict[str, Any]:
    (found,) = [node for at, node in nodes(SCHEMAS[kind]) if at == path]
    return found


CONDITIONS = {
    "map": "ClusterResourcePlacement:status ResourcePlacement:status ClusterResourceBinding:status "
    "MemberCluster:status ClusterStagedUpdateRun:status ClusterStagedUpdateRun:status.stagesStatus[] "
    "ApprovalRequest:status "
    "ClusterSchedulingPolicySnapshot:status ClusterResourceSnapshot:status ClusterResourcePlacementStatus:sourceStatus "
    "ClusterUpgradeStrategy:status ClusterUpgradeRun:status ClusterUpgradeGate:status ClusterUpgradeProfile:status",
    None: "ClusterResourcePlacement:status.placementStatuses[] Work:status Work:status.manifestConditions[] "
    "ClusterResourcePlacementEviction:status InternalMemberCluster:status",
}


@pytest.mark.parametrize(
    ("list_type", "where"), [(kind, word) for kind, words in CONDITIONS.items() for word in words.split()]
)
def test_how_lists_of_conditions_are_merged(list_type, where):
    kind, _, path = where.partition(":")
    conditions = field(kind, path + ".conditions")
    assert conditions.get(P + "list-type") == list_type
    assert conditions["items"]["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]


@pytest.mark.parametrize(
    ("kind", "path", "wanted"),
    [
        ("MemberCluster", "spec.identity", {P + "map-type": "atomic", "required": ["kind", "name"]}),
        ("MemberCluster", "spec.taints", {"maxItems": 100}),
        ("MemberCluster", "spec.heartbeatPeriodSeconds", {"minimum": 1, "maximum": 600, "format": "int32"}),
        ("MemberCluster", "status.resourceUsage.capacity{}", {P + "int-or-string": True}),
        ("InternalMemberCluster", "spec.state", {"enum": ["Join", "Leave"]}),
        ("ClusterResourcePlacement", "spec.resourceSelectors", {"minItems": 1, "maxItems": 100}),
        ("ClusterResourcePlacement", "spec.resourceSelectors[].labelSelector", {P + "map-type": "atomic"}),
        ("ClusterResourcePlacement", "spec.policy.numberOfClusters", {"minimum": 0, "format": "int32"}),
        ("ClusterResourcePlacement", "spec.policy.tolerations[].effect", {"enum": ["NoSchedule"]}),
        ("ClusterResourcePlacement", "spec.policy.topologySpreadConstraints", {"maxItems": 100}),
        ("ClusterResourcePlacement", "spec.strategy.rollingUpdate.maxSurge", {P + "int-or-string": True, "minimum": 0}),
        ("ClusterResourcePlacement", "status.placementStatuses[].failedPlacements", {"maxItems": 100}),
        ("ClusterResourceBinding", "spec.state", {"enum": ["Scheduled", "Bound", "Unscheduled"]}),
        ("ClusterSchedulingPolicySnapshot", "spec.policyHash", {"type": "string", "format": "byte"}),
        ("ClusterSchedulingPolicySnapshot", "status", {"required": ["observedCRPGeneration"]}),
        ("ClusterSchedulingPolicySnapshot", "status.targetClusters", {"maxItems": 1000}),
        ("ClusterSchedulingPolicySnapshot", "status.targetClusters[].clusterScore.priorityScore", {"format": "int32"}),
        ("ClusterResourceSnapshot", "spec.selectedResources[]", {P + "embedded-resource": True}),
        ("Work", "spec.workload.manifests[]", {P + "embedded-resource": True, P + "preserve-unknown-fields": True}),
        ("Work", "status", {"required": ["conditions"]}),
        (
            "Work",
            "status.manifestConditions[].backReportedStatus.observedStatus",
            {P + "preserve-unknown-fields": True},
        ),
        ("ClusterStagedUpdateStrategy", "spec.stages", {"maxItems": 31}),
        ("ClusterStagedUpdateStrategy", "spec.stages[].name", {"maxLength": 63, "pattern": "^[a-z0-9]+$"}),
        ("ClusterStagedUpdateRun", "spec", {"required": ["placementName", "stagedRolloutStrategyName"]}),
        ("ClusterResourceOverride", "spec.policy.overrideRules[].jsonPatchOverrides", {"minItems": 1, "maxItems": 20}),
        ("ResourceOverride", "spec.resourceSelectors[]", {"required": ["group", "kind", "name", "version"]}),
        ("ResourceEnvelope", "data", {"minProperties": 1, "maxProperties": 50}),
        ("ResourceEnvelope", "", {"required": ["data"]}),
        ("ClusterResourcePlacementStatus", "", {"required": ["lastUpdatedTime", "sourceStatus"]}),
        ("ClusterResourcePlacementEviction", "spec.clusterName", {"maxLength": 255}),
        ("ClusterUpgradeStrategy", "spec.stages", {"minItems": 1, "maxItems": 31}),
        ("ClusterUpgradeStrategy", "spec.stages[].name", {"minLength": 1, "maxLength": 50}),
        ("ClusterUpgradeStrategy", "spec.stages[].groups", {"maxItems": 50}),
        ("ClusterUpgradeStrategy", "spec.stages[].groups[].memberSelector", {P + "map-type": "atomic"}),
        ("ClusterUpgradeStrategy", "spec.stages[].groups[].afterGates", {"maxItems": 5}),
        ("ClusterUpgradeStrategy", "spec.stages[].afterStageWaitSeconds", {"minimum": 0, "maximum": 2592000}),
        ("ClusterUpgradeStrategy", "spec.stages[].beforeGates[].displayName", {"minLength": 1, "maxLength": 100}),
        ("ClusterUpgradeStrategy", "spec.stages[].beforeGates[].type", {"enum": ["Approval", "ScheduledStart"]}),
        (
            "ClusterUpgradeStrategy",
            "spec.stages[].beforeGates[].scheduledStart",
            {"required": ["startDay", "startTime"]},
        ),
        ("ClusterUpgradeRun", "", {"required": ["spec"]}),
        ("ClusterUpgradeRun", "spec", {"required": ["upgrade"]}),
        ("ClusterUpgradeRun", "spec.upgrade.type", {"enum": ["Full", "ControlPlaneOnly", "NodeImageOnly"]}),
        ("ClusterUpgradeRun", "spec.upgrade.nodeImage.selection", {"enum": ["Latest", "Consistent", "Custom"]}),
        (
            "ClusterUpgradeRun",
            "spec.upgrade.nodeImage.customVersions",
            {"maxItems": 50, P + "list-type": "map", P + "list-map-keys": ["family"]},
        ),
        ("ClusterUpgradeRun", "spec.restartToken", {"maxLength": 64}),
        ("ClusterUpgradeRun", "spec.skipTargets", {"maxItems": 1000}),
        (
            "ClusterUpgradeRun",
            "spec.skipTargets[]",
            {"required": ["name", "type"]},
        ),
        ("ClusterUpgradeRun", "spec.skipTargets[].type", {"enum": ["Member", "Group", "Stage", "AfterStageWait"]}),
        ("ClusterUpgradeRun", "spec.timeouts.memberUpgradeSeconds", {"minimum": 0, "maximum": 604800}),
        ("ClusterUpgradeRun", "spec.timeouts.onPendingTimeout", {"enum": ["Wait", "Skip", "Fail"]}),
        ("ClusterUpgradeRun", "status.stages[].groups[].members[].operationID", {"type": "string"}),
        ("ClusterUpgradeRun", "status.plan.etaP90", {"type": "string", "format": "date-time"}),
        ("ClusterUpgradeGate", "spec", {"required": ["index", "runName", "stage", "timing", "type"]}),
        ("ClusterUpgradeGate", "spec.index", {"minimum": 0, "maximum": 4}),
        ("ClusterUpgradeGate", "status.state", {"enum": ["Pending", "Skipped", "Completed"]}),
        (
            "ClusterUpgradeProfile",
            "spec.channel",
            {"enum": ["Stable", "Rapid", "NodeImage", "SecurityPatch", "TargetKubernetesVersion"]},
        ),
        ("ClusterUpgradeProfile", "spec.nodeImage.selection", {"enum": ["Latest", "Consistent"]}),
        ("ClusterMaintenanceWindow", "spec", {"required": ["schedule", "startTime"]}),
        ("ClusterMaintenanceWindow", "spec.durationHours", {"minimum": 1, "maximum": 24}),
        ("ClusterMaintenanceWindow", "spec.startDate", {"type": "string", "format": "date"}),
        ("ClusterMaintenanceWindow", "spec.notAllowedDates", {"maxItems": 50}),
        ("ClusterMaintenanceWindow", "spec.schedule.daily.intervalDays", {"minimum": 1, "maximum": 7}),
        ("ClusterMaintenanceWindow", "spec.schedule.weekly.intervalWeeks", {"minimum": 1, "maximum": 4}),
        ("ClusterMaintenanceWindow", "spec.schedule.absoluteMonthly.dayOfMonth", {"minimum": 1, "maximum": 31}),
        ("ClusterMaintenanceWindow", "spec.schedule.relativeMonthly.intervalMonths", {"minimum": 1, "maximum": 6}),
        ("ClusterVersionCatalog", "spec.regions", {P + "list-type": "map", P + "list-map-keys": ["name"]}),
        ("ClusterUpgradeRequest", "spec", {"required": ["memberName", "operationID", "runName", "upgradeType"]}),
        ("ClusterUpgradeRequest", "status.progressPercent", {"minimum": 0, "maximum": 100}),
    ],
)
def test_limits_and_formats(kind, path, wanted):
    assert wanted.items() <= field(kind, path).items()


@pytest.mark.parametrize(
    ("kind", "path", "good", "bad"),
    [
        (
            "ClusterResourcePlacement",
            "spec.strategy.rollingUpdate.maxSurge",
            [0, 7, 2**31 - 1, "0%", "05%", "100%"],
            [-1, 2**31, "5", "101%"],
        ),
        (
            "ClusterStagedUpdateStrategy",
            "spec.stages[].maxConcurrency",
            [1, 2**31 - 1, "1%", "100%"],
            [2**31, "0%", "05%", "101%", "50"],
        ),
        (
            "ClusterResourcePlacementDisruptionBudget",
            "spec.minAvailable",
            [0, 2**31 - 1, "0%", "07%"],
            [2**31, "7", "101%", True],
        ),
        (
            "StagedUpdateStrategy",
            "spec.stages[].afterStageTasks[].waitTime",
            ["0s", "90s", "1h30m", "1.5h"],
            ["01h", "1d", "300ms", "90", "", 5],
        ),
        (
            "ResourcePlacement",
            "spec.strategy.rollingUpdate.unavailablePeriodSeconds",
            [0, 2**31 - 1],
            [-1, 2**31],
        ),
        ("NodePool", "spec.disruption.consolidateAfter", ["0s", "Never"], ["0" * 256 + "s"]),
        ("NodePool", "spec.disruption.budgets[].schedule", ["* * * * *"], ["0," * 300 + "0 * * * *"]),
        ("ClusterResourcePlacement", "spec.resourceSelectors[].name", ["a" * 253], ["a" * 254]),
        ("ClusterResourcePlacement", "spec.resourceSelectors[].labelSelector.matchLabels{}", ["a" * 63], ["a" * 64]),
        ("MemberCluster", "status.resourceUsage.available{}", ["1500m", "7168Mi", 4], ["4K", "x", 0.5]),
        ("Work", "status.conditions[].reason", ["AllApplied", "A_b:c"], ["", "9a", "a b"]),
        ("ClusterResourcePlacement", "spec.statusReportingScope", ["NamespaceAccessible"], [""]),
        (
            "ClusterUpgradeStrategy",
            "spec.stages[].maxConcurrency",
            [1, 50, "1", "50", "1%", "100%"],
            [0, 51, "0", "05", "0%", "01%", "101%", "x", "", 0.5, True],
        ),
        ("ClusterUpgradeStrategy", "spec.stages[].groups[].maxConcurrency", [1, 700, "700"], [0, "0"]),
        (
            "ClusterUpgradeStrategy",
            "spec.stages[].maxAllowedFailures",
            [0, 7, "0", "07", "0%", "07%", "100%"],
            [-1, "101%", "%"],
        ),
        (
            "ClusterUpgradeStrategy",
            "spec.stages[].groups[].name",
            ["a", "a-1", "1"],
            ["", "A", "-a", "a-", "a.b", "a" * 51],
        ),
        (
            "ClusterUpgradeRun",
            "spec.upgrade.kubernetesVersion",
            ["1.31", "v1.31.2", "1.31.2-rc.1", "1.31.2+k3s1"],
            ["", "1", "v", "1.31.x", "1.31-rc.1", "1.31.2.3"],
        ),
        ("ClusterUpgradeProfile", "spec.targetKubernetesVersion", ["", "1.31"], ["v1.31", "1.31.2"]),
        ("ClusterMaintenanceWindow", "spec.startTime", ["00:00", "23:59"], ["24:00", "9:00", "12:60", "09:00:00"]),
        (
            "ClusterMaintenanceWindow",
            "spec.utcOffset",
            ["+00:00", "-13:59", "+14:00", "-14:00"],
            ["+14:01", "01:00", "Z"],
        ),
    ],
)
def test_values_that_the_schema_takes(kind, path, good, bad):
    for value in good:
        assert not list(invalid(value, field(kind, path)))
    for value in bad:
        assert list(invalid(value, field(kind, path))), value


def test_there_is_a_model_for_every_kind():
    assert list(MODELS) == [kind.group_kind for kind in OUR_KINDS]
    assert all(KINDS[key].kind == model.__name__ for key, model in MODELS.items())


def test_two_calls_share_nothing():
    first, second = custom_resource_definitions(), custom_resource_definitions()
    assert first == second
    first[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert second == custom_resource_definitions()
    assert NODE_POOL.resource in {crd["metadata"]["name"] for crd in second}
