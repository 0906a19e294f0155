"""Names that parts of the system agree on: labels, annotations, finalizers, prefixes.

Source: placement-api.md 2.9.
"""

FLEET = "kubernetes-fleet.io/"
OURS = "harbormaster.dev/"
SCORE_PREFIX = "scores.harbormaster.dev/"
"""Annotations of member clusters that are properties: see `scorer.api.external_score`."""
AGENT_VERSION = OURS + "agent-version"
"""A property of every member: the release of harbormaster that its agent is of."""

PLACEMENT_GROUP = "placement.kubernetes-fleet.io"
CLUSTER_GROUP = "cluster.kubernetes-fleet.io"

# Labels.
PARENT_PLACEMENT = FLEET + "parent-CRP"
IS_LATEST_SNAPSHOT = FLEET + "is-latest-snapshot"
POLICY_INDEX = FLEET + "policy-index"
RESOURCE_INDEX = FLEET + "resource-index"
PARENT_BINDING = FLEET + "parent-resource-binding"
PARENT_PLACEMENT_NAMESPACE = FLEET + "parent-placement-namespace"
PARENT_RESOURCE_SNAPSHOT_INDEX = FLEET + "parent-resource-snapshot-index"
MEMBER_NAME = FLEET + "member-name"
IS_FLEET_RESOURCE = FLEET + "is-fleet-resource"
MADE_BY = OURS + "made-by"
"""``join`` on what ``harbormaster join`` has made for a member: ``leave`` removes it."""
PARENT_OVERRIDE = FLEET + "parent-resource-override"
OVERRIDE_INDEX = FLEET + "override-index"

# Annotations.
PLACEMENT_GENERATION = FLEET + "CRP-generation"
NUMBER_OF_CLUSTERS = FLEET + "number-of-clusters"
PREVIOUS_BINDING_STATE = FLEET + "previous-binding-state"
UNSCHEDULED_AT = OURS + "unscheduled-at"
"""On an Unscheduled binding: when its cluster was dropped."""
RESOURCE_HASH = FLEET + "resource-hash"
NUMBER_OF_RESOURCE_SNAPSHOTS = FLEET + "number-of-resource-snapshots"
NUMBER_OF_ENVELOPED_OBJECTS = FLEET + "number-of-enveloped-object"
SUBINDEX_OF_RESOURCE_SNAPSHOT = FLEET + "subindex-of-resource-snapshot"
NEXT_CANDIDATE_DETECTION_TIME = FLEET + "next-resource-snapshot-candidate-detection-time"
PARENT_RESOURCE_SNAPSHOT_NAME = FLEET + "parent-resource-snapshot-name"
PARENT_OVERRIDE_HASH = FLEET + "parent-resource-override-snapshot-hash"
PARENT_CLUSTER_OVERRIDE_HASH = FLEET + "parent-cluster-resource-override-snapshot-hash"
SPEC_HASH = FLEET + "spec-hash"
WORK_GENERATION = OURS + "work-generation"
"""On a Work: its generation at the hub's last write. A higher generation: another client has changed its spec since."""
WORK_OBJECTS = OURS + "work-objects"
"""On a Work: a digest of the objects that the hub wrote into it. If it does not match the Work's content, the agent
removes nothing that the Work lacks."""
WRITTEN = OURS + "written"
"""On a Work: when the hub last wrote it, so that a Work restored from a backup can be recognized."""
OVERRIDES = OURS + "overrides"
"""On a Work: the override lists of its binding, as JSON, in case the binding is lost; absent: none."""
APPLIED_STAND = OURS + "applied"
"""On an AppliedWork: which state of the Work was applied last; see `scorer.rollout.restored`."""
ACCEPT_OLDER_UNTIL = OURS + "accept-older-until"
"""On a MemberCluster: until that time its agent applies Works that are older than what it has applied."""
REMOVE = OURS + "remove"
"""The controllers want the object removed with everything it stands for; the value is the object's uid, so that a copy
or a restored object does not inherit the request. On an AppliedWork, an administrator sets it."""
ALLOW_DELETION = OURS + "allow-deletion"
"""``true`` on a member's namespace or a definition: the user deletes it on purpose."""
ABANDON = OURS + "abandon"
"""On a Work: its objects stay on the member when it is deleted (rollout.md 18)."""
KEEP = OURS + "keep"
"""``true`` on an object on a member: it stays there when its placement no longer places it."""
LAST_APPLIED = FLEET + "last-applied-configuration"
HUB_UID = OURS + "hub-uid"
"""On an InternalMemberCluster and on an AppliedWork: the hub it belongs to; see `scorer.membership.identity`."""
CLUSTER_UID = OURS + "cluster-uid"
"""On a member's ServiceAccount on the hub: the uid of kube-system in the cluster that ``join`` has made this member."""
LET_GO = OURS + "let-go"
"""On an AppliedWork: its member has left the fleet or was taken over; the objects it owns stay."""
FREED = OURS + "freed"
"""On an object on a member: which AppliedWork owned it until a user deleted that AppliedWork, and of which member."""

# Finalizers.
PLACEMENT_CLEANUP = FLEET + "crp-cleanup"
SCHEDULER_CLEANUP = FLEET + "scheduler-cleanup"
SCHEDULER_BINDING_CLEANUP = FLEET + "scheduler-crb-cleanup"
WORK_CLEANUP = FLEET + "work-cleanup"
APPLIED_WORK_CLEANUP = OURS + "applied-work-cleanup"
"""On an AppliedWork: if a user deletes it, the agent first releases the objects it owns, which would go with it."""
MEMBER_CLUSTER_FINALIZER = FLEET + "membercluster-finalizer"
OVERRIDE_CLEANUP = FLEET + "override-cleanup"

MEMBER_NAMESPACE_PREFIX = "fleet-member-"
SYSTEM_NAMESPACE_PREFIXES = ("kube-", "fleet-")


def member_namespace(cluster: str) -> str:
    """Return the namespace on the hub that holds the Works of a member cluster."""
    return MEMBER_NAMESPACE_PREFIX + cluster


def is_reserved_namespace(name: str) -> bool:
    """Say whether placements never select the namespace *name*: ``default``, ``kube-*``, ``fleet-*``."""
    return name == "default" or name.startswith(SYSTEM_NAMESPACE_PREFIXES)
