"""Every Event: its reason and type, its object, and when it is emitted. Tests compare the list with the code."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.docs.pages import DOCS, read_page
from tests.docs.reference.markdown import code, lines, table, titled

NORMAL, WARNING, EITHER = "Normal", "Warning", "Normal, Warning"
HANDED_OFF: Final = "upgrades-that-are-handed-off"


class Told(NamedTuple):
    """One Event. *section*: anchor on the page of troubleshooting, if the reason has none of its own."""

    reason: str
    type: str
    when: str
    section: str = ""


EVENTS: Final[dict[str, tuple[Told, ...]]] = {
    "ClusterResourcePlacement, ResourcePlacement": (
        Told("PlacementScheduled", NORMAL, "Scheduled has become True"),
        Told("PlacementNotScheduled", WARNING, "Scheduled has become False, or is so for another reason"),
        Told("ClustersPicked", NORMAL, "the scheduler has added or dropped clusters"),
        Told("PlacementRolloutStarted", NORMAL, "RolloutStarted has become True"),
        Told("PlacementOverriddenSucceeded", NORMAL, "Overridden has become True"),
        Told("PlacementWorkSynchronized", NORMAL, "WorkSynchronized has become True"),
        Told("PlacementApplied", NORMAL, "Applied has become True"),
        Told("PlacementAvailable", NORMAL, "Available has become True"),
        Told("PlacementDiffReported", NORMAL, "DiffReported has become True"),
        Told("PlacementRolloutCompleted", NORMAL, "all its expected conditions have become True"),
        Told("PlacementRolloutStalled", WARNING, "its rollout has made no progress for ten minutes"),
        Told("PlacementObjectsTooLarge", WARNING, "the present content of an object does not fit into etcd"),
        Told("PlacementKindsNotRead", WARNING, "it selects a namespace with kinds that the loop may not read"),
        Told("InvalidReportBackStrategy", WARNING, "statuses are to be mirrored, and it may pick several clusters"),
        Told("StatusNotReportedBack", WARNING, "the status of an object could not be written back"),
        Told("PlacedContentKept", WARNING, "it is deleted with the definition of its kind, and its content remains"),
        Told("BindingsRestored", WARNING, "another client had ordered the removal of bindings of it"),
        Told("UnprovenWorks", WARNING, "Works without a binding claim to belong to it, and cannot prove it"),
        Told(
            "RemovalPending", WARNING, "the removal of content waits for confirmation, or of other content than before"
        ),
        Told("PlacementContentOrphaned", WARNING, "its namespace is deleted unconfirmed, and its content remains"),
        Told("RemovalConfirmationBypassed", WARNING, "pending removals proceed because confirmation was switched off"),
        Told("ContentRemoved", WARNING, "content leaves members without confirmation"),
        Told("NoResourcesSelected", WARNING, "it no longer selects any object"),
        Told("PlacementNotRemoved", WARNING, "it is being deleted, and waits for Works"),
        Told("PlacementObjectsRemain", WARNING, "objects that it no longer places cannot be deleted on members"),
        Told("PlacementWorksLeft", WARNING, "it was released before its Works were deleted"),
        Told(
            "PlacementCleanupFinalizerRemoved", NORMAL, "it is being deleted, and its snapshots and Works are deleted"
        ),
    ),
    "ClusterResourceBinding, ResourceBinding": (
        Told("DuplicateEnvelopeWorks", WARNING, "one envelope has several Works"),
    ),
    "Overrides": (
        Told("OverrideWithoutSnapshot", WARNING, "no snapshot of it could be created"),
        Told("OverrideFailed", WARNING, "its controller keeps failing on it"),
    ),
    "ClusterResourcePlacementEviction": (
        Told("EvictionWaits", NORMAL, "another disruption of the member is in progress"),
    ),
    "Work, AppliedWork": (
        Told("OlderThanApplied", WARNING, "it is older than the content of the member, and held"),
        Told("AppliedWorkMadeAnew", WARNING, "the AppliedWork was deleted on the member, and created again"),
        Told("KeptWithoutOrder", WARNING, "the Work is deleted without an order to remove its content, which remains"),
        Told("AnotherWriter", WARNING, "another client on the member keeps changing what is applied"),
        Told(
            "ObjectsReleased",
            NORMAL,
            "objects that every cluster's own controllers create are no longer placed, and remain on the member",
        ),
        Told("FinalizersRemain", WARNING, "objects that it no longer holds cannot be deleted on the member"),
        Told("DefinitionReleased", WARNING, "a definition remains on the member, because it has objects of the member"),
    ),
    "MemberCluster": (
        Told("MemberClusterReadyToJoin", NORMAL, "the hub is ready for the agent"),
        Told("MemberClusterJoined", NORMAL, "the agent has joined"),
        Told("MemberClusterJoinStateUnknown", WARNING, "the agent no longer reports whether it has joined"),
        Told("UnreadableReport", WARNING, "a report of the agent was ignored, because it cannot be read"),
        Told("MemberClusterSilent", WARNING, "the agent has not reported for five minutes"),
        Told("MemberClusterReporting", NORMAL, "the agent reports"),
        Told("NamespaceCreated", NORMAL, "its namespace on the hub was created"),
        Told("NamespacePatched", NORMAL, "its namespace on the hub was repaired"),
        Told("RoleCreated", NORMAL, "the Role of its agent was created"),
        Told("RoleUpdated", NORMAL, "the Role of its agent was repaired"),
        Told("RoleBindingCreated", NORMAL, "the RoleBinding of its agent was created"),
        Told("RoleBindingUpdated", NORMAL, "the RoleBinding of its agent was repaired"),
        Told("InternalMemberClusterCreated", NORMAL, "its InternalMemberCluster was created"),
        Told("InternalMemberClusterSpecUpdated", NORMAL, "its InternalMemberCluster was repaired"),
    ),
    "ClusterStagedUpdateRun, StagedUpdateRun": (
        Told("UpdateRunPending", NORMAL, "it cannot be initialised yet"),
        Told("UpdateRunInitializedSuccessfully", NORMAL, "its plan is fixed"),
        Told("UpdateRunInitializedFailed", WARNING, "its plan cannot be computed"),
        Told("UpdateRunProgressing", NORMAL, "clusters are being updated"),
        Told("UpdateRunWaiting", NORMAL, "it waits for an approval or for time"),
        Told("ApprovalNeeded", NORMAL, "it requires approval"),
        Told("UpdateRunStuck", WARNING, "clusters have been in flight for more than five minutes"),
        Told("UpdateRunStopping", NORMAL, "it is stopping, and clusters are in flight"),
        Told("UpdateRunStopped", NORMAL, "it has stopped, and no cluster is in flight"),
        Told("UpdateRunSucceeded", NORMAL, "it has finished"),
        Told("UpdateRunFailed", WARNING, "it was aborted"),
        Told("StageUpdatingStarted", NORMAL, "the clusters of a stage are being updated"),
        Told("StageUpdatingWaiting", NORMAL, "a stage waits for its tasks"),
        Told("StageUpdatingStopping", NORMAL, "a stage is stopping, and clusters of it are in flight"),
        Told("StageUpdatingStopped", NORMAL, "a stage has stopped"),
        Told("StageUpdatingSkippedNoClusters", NORMAL, "a stage has no cluster"),
        Told("StageUpdatingSucceeded", NORMAL, "a stage has finished"),
        Told("StageUpdatingFailed", WARNING, "the run was aborted in a stage"),
        Told("StagedUpdateFailed", WARNING, "its controller keeps failing on it"),
    ),
    "ClusterApprovalRequest, ApprovalRequest": (
        Told("AnalysisPassed", NORMAL, "the check of the stage is met, and the loop has approved"),
    ),
    "ClusterUpgradeRun": (
        Told("RunStarted", NORMAL, "it was started"),
        Told("RunRestarted", NORMAL, "it was started again"),
        Told("RunStopping", NORMAL, "it starts no further upgrade"),
        Told("RunStopped", NORMAL, "no upgrade is in flight any more"),
        Told("RunCompleted", NORMAL, "it has finished"),
        Told("RunFailed", WARNING, "more members have failed than it allows"),
        Told("StageStarted", NORMAL, "a stage has started"),
        Told("StageWaiting", NORMAL, "the wait after a stage has started"),
        Told("StageCompleted", NORMAL, "a stage has finished"),
        Told("GateOpened", NORMAL, "a gate is waited for"),
        Told("ApprovalNeeded", NORMAL, "a gate requires approval"),
        Told("GateCompleted", NORMAL, "a gate no longer blocks"),
        Told("MemberUpgradeStarted", NORMAL, "the upgrade of a member has started"),
        Told("MemberUpgradeCompleted", NORMAL, "the upgrade of a member has finished"),
        Told("MemberUpgradeFailed", WARNING, "the upgrade of a member has failed"),
        Told("MemberPending", NORMAL, "a member waits, once for each reason"),
        Told("MemberSkipped", NORMAL, "a member is skipped"),
        Told("SkipIgnored", NORMAL, "the skipped member, group or stage is already in upgrade or finished"),
        Told("SkipTargetUnknown", WARNING, "the skipped member, group or stage is not part of it"),
        Told("ConcurrencyClamped", NORMAL, "a group upgrades fewer members concurrently than configured"),
        Told("CommandRefused", WARNING, "it cannot start, or a command is refused in its state"),
        Told("HandoffNotAccepted", WARNING, "no upgrader has accepted a request for 15 minutes", HANDED_OFF),
        Told("HandoffStale", WARNING, "an upgrader has not reported for 30 minutes", HANDED_OFF),
        Told("HandoffUnreadable", WARNING, "the report of an upgrader cannot be read", HANDED_OFF),
        Told("ClusterUpgradeFailed", WARNING, "its controller keeps failing on it"),
        Told("UpgradePlanFailed", WARNING, "its plan cannot be computed"),
    ),
    "ClusterUpgradeProfile": (
        Told("RunGenerated", NORMAL, "it has created a run for a published version"),
        Told("TriggerFailed", WARNING, "it has no target, or cannot create its run"),
        Told("UpgradeProfileFailed", WARNING, "its controller keeps failing on it, also on strategies"),
    ),
    "NodePool": (
        Told("DisruptionBlocked", EITHER, "its budgets allow 0 disruptions (Normal), or have for a day (Warning)"),
        Told("DisruptionUnblocked", NORMAL, "nodes may be disrupted again, after such a warning"),
        Told("DisruptionRefused", WARNING, "mode `Act` is not carried out here"),
        Told("NodePoolFailed", WARNING, "its controller keeps failing on it"),
        Told("NodeDisruptionFailed", WARNING, "the controller of node disruption fails. Reported on the first pool"),
    ),
    "Node, NodeClaim": (
        Told("DisruptionBlocked", EITHER, "it is a candidate, and is kept (Normal), or cannot be disrupted (Warning)"),
        Told("Unconsolidatable", NORMAL, "it cannot be consolidated"),
        Told("ConsolidationCandidate", NORMAL, "it is a candidate"),
        Told("ConsolidationApproved", NORMAL, "a command has started"),
        Told("ConsolidationRejected", NORMAL, "a command is no longer valid"),
        Told("DisruptionLaunching", NORMAL, "its replacement is requested"),
        Told("DisruptionWaitingReadiness", NORMAL, "its replacement is waited for"),
        Told("DisruptionTerminating", NORMAL, "it is drained, and then deleted"),
        Told("DisruptionUndone", WARNING, "a command was rolled back before any pod was evicted"),
        Told("FailedDraining", WARNING, "pods block its drain"),
        Told(
            "TerminationGracePeriodExpiring", NORMAL, "it will be deleted at a fixed time, regardless of remaining pods"
        ),
    ),
    "Pod": (
        Told("Evicted", NORMAL, "it has been evicted from a node that is drained"),
        Told("Disrupted", WARNING, "the drain timed out, so it was deleted"),
        Told("DoNotDisruptUntil", NORMAL, "its annotation protects it until then"),
        Told("DoNotDisruptGracePeriodElapsed", NORMAL, "its annotation no longer protects it"),
        Told("InvalidDoNotDisruptAnnotation", WARNING, "its annotation has no effect"),
    ),
    "ValidatingWebhookConfiguration, MutatingWebhookConfiguration": (
        Told("WebhookConfigurationMissing", WARNING, "it was deleted, or has no hooks"),
        Told("WebhooksFailOpen", WARNING, "hooks have failurePolicy Ignore that should have Fail"),
        Told("WebhooksEnforced", NORMAL, "it is correct again"),
    ),
    "Secret of the certificate authority": (
        Told(
            "CertificateNearEnd",
            WARNING,
            "the certificate or its authority expires soon. From files: on the webhook configuration",
        ),
        Told("CertificateAuthorityRotated", NORMAL, "another authority signs from now on"),
    ),
}
"""By their object."""

_TROUBLESHOOTING: Final = "../troubleshooting.md"


def page() -> str:
    """Return the page of all Events."""
    introduction = """
All Events of harbormaster (`events.k8s.io/v1`, reported by `harbormaster.dev/controller`), by their object. Each reason
links to its meaning and the reaction. `harbormaster get events` and `kubectl describe` show them. Repetitions for one
object and one reason within five minutes are one Event with a count. An API server deletes Events after an hour. [The
history](../observe.md#read-the-history) keeps the important ones for a week, and
[notifications](../observe.md#notifications) send the selected ones.
"""
    parts = []
    for title, events in EVENTS.items():
        parts += [f"## {title}\n", *table(["reason", "type", "when"], map(_row, events)), ""]
    return lines(titled("Events", introduction), *parts)


def _row(told: Told) -> tuple[str, str, str]:
    return f"[{code(told.reason)}]({_TROUBLESHOOTING}#{told.section or _anchor(told.reason)})", told.type, told.when


def _anchor(reason: str) -> str:
    """Return where an Event is explained: by itself, or with the condition that says the same."""
    anchors = read_page(DOCS / "troubleshooting.md").anchors
    return next((anchor for anchor in _anchors(reason.lower()) if anchor in anchors), f"event-{reason.lower()}")


def _anchors(reason: str) -> Iterator[str]:
    yield f"event-{reason}"
    yield from (f"{kind}-{reason}" for kind in ("initialized", "progressing", "succeeded", "reporting", "approved"))
