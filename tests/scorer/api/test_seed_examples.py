"""The objects that the seed documents show: what they say can be read."""

from datetime import timedelta

import pytest
import yaml
from pydantic import ValidationError

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.crd.models import MODELS
from scorer.api.kinds import group_kind
from scorer.api.placement.placement import PlacementType, StrategyType
from scorer.api.placement.staged_update import RunState, StageTaskType
from scorer.api.values.duration import parse_wait_time

SELECTORS = """
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: test-deployment}
"""


def read(text: str):
    document = yaml.safe_load(text)
    return MODELS[group_kind(document)].read(document)


def placement(spec: str, version: str = "v1"):
    head = f"apiVersion: placement.kubernetes-fleet.io/{version}\nkind: ClusterResourcePlacement\n"
    return read(head + "metadata: {name: crp}\nspec:" + SELECTORS + spec)


def test_seed_003_pick_fixed():
    policy = placement("  policy: {placementType: PickFixed, clusterNames: [cluster1, cluster2]}").spec.policy
    assert policy.placement_type is PlacementType.PICK_FIXED
    assert policy.cluster_names == ("cluster1", "cluster2")


def test_seed_003_pick_all_with_required_labels():
    (term,) = placement("""
  policy:
    placementType: PickAll
    affinity:
        clusterAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
                clusterSelectorTerms:
                - labelSelector:
                    matchLabels:
                        environment: production
""").spec.policy.affinity.cluster_affinity.required.cluster_selector_terms
    assert term.label_selector.match_labels == {"environment": "production"}


def test_seed_003_pick_n_with_preferred_as_an_object_is_refused():
    with pytest.raises(ValidationError, match="preferredDuringSchedulingIgnoredDuringExecution"):
        placement("""
  policy:
    placementType: PickN
    numberOfClusters: 3
    affinity:
        clusterAffinity:
            preferredDuringSchedulingIgnoredDuringExecution:
              weight: 20
              preference:
              - labelSelector:
                  matchLabels:
                    critical-level: 1
""")


def test_seed_003_topology_spread():
    region, day = placement("""
  policy:
    placementType: PickN
    topologySpreadConstraints:
    - maxSkew: 2
      topologyKey: region
      whenUnsatisfiable: DoNotSchedule
    - maxSkew: 2
      topologyKey: updateDay
      whenUnsatisfiable: ScheduleAnyway
""").spec.policy.topology_spread_constraints
    assert (region.max_skew, region.topology_key, region.when_unsatisfiable.value) == (2, "region", "DoNotSchedule")
    assert day.when_unsatisfiable.value == "ScheduleAnyway"


def test_seed_000_property_selector_beside_labels():
    (term,) = placement(
        """
  policy:
    placementType: PickAll
    affinity:
        clusterAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
                clusterSelectorTerms:
                - labelSelector:
                    matchLabels:
                      region: east
                  propertySelector:
                    matchExpressions:
                    - name: "kubernetes.azure.com/node-count"
                      operator: Ge
                      values:
                      - "5"
""",
        "v1beta1",
    ).spec.policy.affinity.cluster_affinity.required.cluster_selector_terms
    (requirement,) = term.property_selector.match_expressions
    assert (requirement.name, requirement.operator, requirement.values) == (
        "kubernetes.azure.com/node-count",
        "Ge",
        ("5",),
    )
    assert term.label_selector.match_labels == {"region": "east"}


def test_seed_000_metric_sorter():
    (preferred,) = placement(
        """
  policy:
    placementType: PickN
    numberOfClusters: 10
    affinity:
        clusterAffinity:
            preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 20
              preference:
                labelSelector:
                  matchLabels:
                    env: prod
                metricSorter:
                  name: resources.kubernetes-fleet.io/total-cpu
                  sortOrder: Descending
""",
        "v1beta1",
    ).spec.policy.affinity.cluster_affinity.preferred
    assert preferred.weight == 20
    assert preferred.preference.metric_sorter.name == "resources.kubernetes-fleet.io/total-cpu"
    assert preferred.preference.property_sorter is None


def test_seed_004_rolling_update():
    strategy = placement("""
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 1
      maxSurge: 50%
""").spec.strategy
    assert strategy.type is StrategyType.ROLLING_UPDATE
    assert (strategy.rolling_update.max_unavailable, strategy.rolling_update.max_surge) == (1, "50%")
    assert strategy.rolling_update.unavailable_period_seconds == 60


def test_seed_004_staged_strategy():
    staging, canary, production = read("""
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata:
  name: example-staged-strategy
spec:
  stages:
    - name: staging
      labelSelector:
        matchLabels:
          environment: staging
      afterStageTasks:
        - type: TimedWait
          waitTime: 1h
    - name: canary
      labelSelector:
        matchLabels:
          environment: canary
      sortingLabelKey: name
      afterStageTasks:
        - type: Approval
    - name: production
      labelSelector:
        matchLabels:
          environment: production
      sortingLabelKey: order
""").spec.stages
    (wait,) = staging.after_stage_tasks
    assert (wait.type, parse_wait_time(wait.wait_time)) == (StageTaskType.TIMED_WAIT, timedelta(hours=1))
    assert canary.after_stage_tasks[0].type is StageTaskType.APPROVAL
    assert (production.name, production.sorting_label_key, production.max_concurrency) == ("production", "order", 1)


def test_seed_004_staged_run_with_its_status():
    run = read("""
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata:
  name: example-staged-update-run
spec:
  placementName: crp-staged-update-sample
  resourceSnapshotIndex: "1"
  stagedRolloutStrategyName: example-staged-strategy
status:
  conditions:
  - message: ClusterStagedUpdateRun initialized successfully
    observedGeneration: 1
    reason: UpdateRunInitializedSuccessfully
    status: "True"
    type: Initialized
  deletionStageStatus:
    clusters: []
    stageName: kubernetes-fleet.io/deleteStage
  policyObservedClusterCount: 3
  policySnapshotIndexUsed: "0"
  stagedUpdateStrategySnapshot:
    stages:
    - afterStageTasks:
      - type: TimedWait
        waitTime: 1h
      name: staging
""")
    assert run.spec.state is RunState.INITIALIZE
    assert run.status.policy_observed_cluster_count == 3
    assert run.status.deletion_stage_status.clusters == ()
    assert run.status.staged_update_strategy_snapshot.stages[0].name == "staging"


def test_a_member_cluster_with_what_its_agent_reports():
    status = MemberCluster.read(
        yaml.safe_load("""
spec: {identity: {kind: ServiceAccount, name: agent, namespace: fleet-system}}
status:
  conditions: [{type: Joined, status: "True"}]
  properties: {kubernetes-fleet.io/node-count: {value: "3", observationTime: 2026-11-20T00:00:00Z}}
  resourceUsage: {capacity: {cpu: "8", memory: 16Gi}, available: {cpu: 4, memory: 0.5}}
  agentStatus: [{type: MemberAgent, lastReceivedHeartbeat: "2026-11-20T00:00:00Z"}]
  namespaces: {}
""")
    ).status
    assert status.properties["kubernetes-fleet.io/node-count"].value == "3"
    assert status.resource_usage.available == {"cpu": 4, "memory": 0.5}
    assert status.agent_status[0].last_received_heartbeat.year == 2026
    assert status.namespaces == {}
    assert MemberCluster.read({"spec": {"identity": {"kind": "User", "name": "a"}}}).status.namespaces is None
