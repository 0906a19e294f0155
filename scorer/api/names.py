"""Names that parts of the system agree on: labels, annotations, finalizers, prefixes.

Source: placement-api.md 2.9.
"""

FLEET = "kubernetes-fleet.io/"
OURS = "harbormaster.dev/"
SCORE_PREFIX = "scores.harbormaster.dev/"
"""Annotations of member clusters that are properties: see `scorer.api.external_score`."""

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
"""On a Work: its generation as the hub wrote it last. A higher one: somebody else has changed what it holds."""
WORK_OBJECTS = OURS + "work-objects"
"""On a Work: a digest of which objects the hub wrote into it; with another one, what it lacks is not removed."""
WRITTEN = OURS + "written"
"""On a Work: when the hub wrote it last, so that one from a backup can be told."""
OVERRIDES = OURS + "overrides"
"""On a Work: the override lists of its binding, as JSON, for when that is lost; absent: none."""
APPLIED_STAND = OURS + "applied"
"""On an AppliedWork: which Work was applied last; see `scorer.rollout.restored`."""
ACCEPT_OLDER_UNTIL = OURS + "accept-older-until"
"""On a MemberCluster: until then its agent takes Works that are older than what it has applied."""
REMOVE = OURS + "remove"
"""Annotation: the loop wants the object gone, with all it stands for. Its value is the object's uid. On an AppliedWork
it is an administrator's word."""
ALLOW_DELETION = OURS + "allow-deletion"
"""``true`` on a member's namespace or a definition: whoever deletes it means it."""
ABANDON = OURS + "abandon"
"""On a Work: its objects stay on the member when it goes (rollout.md 18)."""
KEEP = OURS + "keep"
"""``true`` on an object on a member: it stays there when the placement that holds it lets go of it."""
LAST_APPLIED = FLEET + "last-applied-configuration"
HUB_UID = OURS + "hub-uid"
"""On an InternalMemberCluster and on an AppliedWork: which hub it is, see `scorer.membership.identity`."""
LET_GO = OURS + "let-go"
"""On an AppliedWork: its member has left the fleet or was taken over; what it owns stays."""
FREED = OURS + "freed"
"""On an object on a member: which AppliedWork of whose owned it until somebody deleted that."""

# Finalizers.
PLACEMENT_CLEANUP = FLEET + "crp-cleanup"
SCHEDULER_CLEANUP = FLEET + "scheduler-cleanup"
SCHEDULER_BINDING_CLEANUP = FLEET + "scheduler-crb-cleanup"
WORK_CLEANUP = FLEET + "work-cleanup"
APPLIED_WORK_CLEANUP = OURS + "applied-work-cleanup"
"""On an AppliedWork: whoever deletes it, its agent takes what it owns from it before it goes."""
MEMBER_CLUSTER_FINALIZER = FLEET + "membercluster-finalizer"
OVERRIDE_CLEANUP = FLEET + "override-cleanup"

MEMBER_NAMESPACE_PREFIX = "fleet-member-"
SYSTEM_NAMESPACE_PREFIXES = ("kube-", "fleet-")


def member_namespace(cluster: str) -> str:
    """Return the namespace on the hub that holds the Works of a member cluster."""
    return MEMBER_NAMESPACE_PREFIX + cluster


def is_reserved_namespace(name: str) -> bool:
    """Say whether *name* is never selected by a placement: ``default``, ``kube-*``, ``fleet-*``."""
    return name == "default" or name.startswith(SYSTEM_NAMESPACE_PREFIXES)
