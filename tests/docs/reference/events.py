"""Every Event: its reason and type, on what it is told, and when. Tests compare the list with the code."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.docs.pages import DOCS, read_page
from tests.docs.reference.markdown import code, lines, table, titled

NORMAL, WARNING, EITHER = "Normal", "Warning", "Normal, Warning"
HANDED_OFF: Final = "upgrades-that-are-handed-off"


class Told(NamedTuple):
    """One Event; *section*: of the page of troubleshooting, where that has no place for the reason by itself."""

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
        Told("PlacementRolloutCompleted", NORMAL, "everything that is expected of it has become True"),
        Told("PlacementRolloutStalled", WARNING, "nothing in its rollout has moved for ten minutes"),
        Told("PlacementObjectsTooLarge", WARNING, "the present content of an object does not fit into etcd"),
        Told("PlacementKindsNotRead", WARNING, "it selects a namespace with kinds that the loop may not read"),
        Told("InvalidReportBackStrategy", WARNING, "statuses are to be mirrored, and it may pick several clusters"),
        Told("StatusNotReportedBack", WARNING, "the status of an object could not be written back"),
        Told("PlacedContentKept", WARNING, "it goes with the definition of its kind, and what it placed stays"),
        Told("BindingsRestored", WARNING, "another client had set bindings of it to Unscheduled"),
        Told("UnprovenWorks", WARNING, "Works without a binding claim to belong to it, and cannot prove it"),
        Told(
            "RemovalPending", WARNING, "the removal of content waits for confirmation, or of other content than before"
        ),
        Told("PlacementContentOrphaned", WARNING, "its namespace is deleted unconfirmed, and its content stays"),
        Told("RemovalConfirmationBypassed", WARNING, "pending removals proceed because confirmation was switched off"),
        Told("ContentRemoved", WARNING, "content leaves members without confirmation"),
        Told("NoResourcesSelected", WARNING, "it selects nothing any more"),
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
        Told("OverrideWithoutSnapshot", WARNING, "no snapshot of it could be made"),
        Told("OverrideFailed", WARNING, "its controller fails on it again and again"),
    ),
    "ClusterResourcePlacementEviction": (
        Told("EvictionWaits", NORMAL, "another disruption of the member is in progress"),
    ),
    "Work, AppliedWork": (
        Told("OlderThanApplied", WARNING, "it is older than what the member has, and held"),
        Told("AppliedWorkMadeAnew", WARNING, "the AppliedWork was deleted on the member, and made again"),
        Told("KeptWithoutOrder", WARNING, "the Work goes without an order to remove what it placed, which stays"),
        Told("AnotherWriter", WARNING, "another client on the member keeps changing what is applied"),
        Told(
            "ObjectsReleased",
            NORMAL,
            "objects that every cluster's own controllers create are no longer placed, and remain on the member",
        ),
        Told("FinalizersRemain", WARNING, "objects that it no longer holds cannot be deleted on the member"),
        Told("DefinitionReleased", WARNING, "a definition stays on the member, because it has objects of the member"),
    ),
    "MemberCluster": (
        Told("MemberClusterReadyToJoin", NORMAL, "the hub is ready for the agent"),
        Told("MemberClusterJoined", NORMAL, "the agent has joined"),
        Told("MemberClusterJoinStateUnknown", WARNING, "the agent no longer says whether it has joined"),
        Told("UnreadableReport", WARNING, "a report of the agent was ignored, because it cannot be read"),
        Told("MemberClusterSilent", WARNING, "the agent has not reported for five minutes"),
        Told("MemberClusterReporting", NORMAL, "the agent reports"),
        Told("NamespaceCreated", NORMAL, "its namespace on the hub was made"),
        Told("NamespacePatched", NORMAL, "its namespace on the hub was put right"),
        Told("RoleCreated", NORMAL, "the Role of its agent was made"),
        Told("RoleUpdated", NORMAL, "the Role of its agent was put right"),
        Told("RoleBindingCreated", NORMAL, "the RoleBinding of its agent was made"),
        Told("RoleBindingUpdated", NORMAL, "the RoleBinding of its agent was put right"),
        Told("InternalMemberClusterCreated", NORMAL, "its InternalMemberCluster was made"),
        Told("InternalMemberClusterSpecUpdated", NORMAL, "its InternalMemberCluster was put right"),
    ),
    "ClusterStagedUpdateRun, StagedUpdateRun": (
        Told("UpdateRunPending", NORMAL, "it cannot be initialised yet"),
        Told("UpdateRunInitializedSuccessfully", NORMAL, "its plan is fixed"),
        Told("UpdateRunInitializedFailed", WARNING, "no plan can be made of it"),
        Told("UpdateRunProgressing", NORMAL, "clusters are being updated"),
        Told("UpdateRunWaiting", NORMAL, "it waits for an approval or for time"),
        Told("ApprovalNeeded", NORMAL, "it begins to wait for a person"),
        Told("UpdateRunStuck", WARNING, "clusters have been in flight for more than five minutes"),
        Told("UpdateRunStopping", NORMAL, "it is to stop, and clusters are in flight"),
        Told("UpdateRunStopped", NORMAL, "it has stopped, and nothing is in flight"),
        Told("UpdateRunSucceeded", NORMAL, "it is over"),
        Told("UpdateRunFailed", WARNING, "it was aborted"),
        Told("StageUpdatingStarted", NORMAL, "the clusters of a stage are being updated"),
        Told("StageUpdatingWaiting", NORMAL, "a stage waits for its tasks"),
        Told("StageUpdatingStopping", NORMAL, "a stage is to stop, and clusters of it are in flight"),
        Told("StageUpdatingStopped", NORMAL, "a stage has stopped"),
        Told("StageUpdatingSkippedNoClusters", NORMAL, "a stage has no cluster"),
        Told("StageUpdatingSucceeded", NORMAL, "a stage is over"),
        Told("StageUpdatingFailed", WARNING, "the run was aborted in a stage"),
        Told("StagedUpdateFailed", WARNING, "its controller fails on it again and again"),
    ),
    "ClusterApprovalRequest, ApprovalRequest": (
        Told("AnalysisPassed", NORMAL, "what the stage waits for is met, and the loop has approved"),
    ),
    "ClusterUpgradeRun": (
        Told("RunStarted", NORMAL, "it was started"),
        Told("RunRestarted", NORMAL, "it was started again"),
        Told("RunStopping", NORMAL, "it starts nothing more"),
        Told("RunStopped", NORMAL, "nothing is in flight any more"),
        Told("RunCompleted", NORMAL, "it is over"),
        Told("RunFailed", WARNING, "more members have failed than it allows"),
        Told("StageStarted", NORMAL, "a stage is reached"),
        Told("StageWaiting", NORMAL, "the wait after a stage begins"),
        Told("StageCompleted", NORMAL, "a stage is over"),
        Told("GateOpened", NORMAL, "a gate is waited for"),
        Told("ApprovalNeeded", NORMAL, "a gate is waited for that a person opens"),
        Told("GateCompleted", NORMAL, "a gate holds nothing any more"),
        Told("MemberUpgradeStarted", NORMAL, "the upgrade of a member begins"),
        Told("MemberUpgradeCompleted", NORMAL, "the upgrade of a member is done"),
        Told("MemberUpgradeFailed", WARNING, "the upgrade of a member has failed"),
        Told("MemberPending", NORMAL, "a member waits, once for each reason"),
        Told("MemberSkipped", NORMAL, "a member is skipped"),
        Told("SkipIgnored", NORMAL, "what is to be skipped is in upgrade or over already"),
        Told("SkipTargetUnknown", WARNING, "what is to be skipped is not part of it"),
        Told("ConcurrencyClamped", NORMAL, "a group upgrades fewer members at once than it is configured to"),
        Told("CommandRefused", WARNING, "it cannot start as it is, or an order is refused in its state"),
        Told("HandoffNotAccepted", WARNING, "no upgrader has taken up a request for 15 minutes", HANDED_OFF),
        Told("HandoffStale", WARNING, "an upgrader has not been heard of for 30 minutes", HANDED_OFF),
        Told("HandoffUnreadable", WARNING, "what an upgrader has reported cannot be read", HANDED_OFF),
        Told("ClusterUpgradeFailed", WARNING, "its controller fails on it again and again"),
        Told("UpgradePlanFailed", WARNING, "no plan of it can be made"),
    ),
    "ClusterUpgradeProfile": (
        Told("RunGenerated", NORMAL, "it has made a run for a version that was published"),
        Told("TriggerFailed", WARNING, "it has no target, or cannot make its run"),
        Told("UpgradeProfileFailed", WARNING, "its controller fails on it again and again; also on strategies"),
    ),
    "NodePool": (
        Told("DisruptionBlocked", EITHER, "its budgets let no node go (Normal), or have not for a day (Warning)"),
        Told("DisruptionUnblocked", NORMAL, "nodes may be disrupted again, after such a warning"),
        Told("DisruptionRefused", WARNING, "mode `Act` is not carried out here"),
        Told("NodePoolFailed", WARNING, "its controller fails on it again and again"),
        Told("NodeDisruptionFailed", WARNING, "the controller of node disruption fails; told on the first pool"),
    ),
    "Node, NodeClaim": (
        Told("DisruptionBlocked", EITHER, "it could go, and stays (Normal); it cannot go on (Warning)"),
        Told("Unconsolidatable", NORMAL, "it cannot be consolidated"),
        Told("ConsolidationCandidate", NORMAL, "it would go"),
        Told("ConsolidationApproved", NORMAL, "a command is begun"),
        Told("ConsolidationRejected", NORMAL, "a command does not hold any more"),
        Told("DisruptionLaunching", NORMAL, "its replacement is asked for"),
        Told("DisruptionWaitingReadiness", NORMAL, "its replacement is waited for"),
        Told("DisruptionTerminating", NORMAL, "it is drained, and then deleted"),
        Told("DisruptionUndone", WARNING, "a command was given up before any pod was evicted"),
        Told("FailedDraining", WARNING, "pods stay for now"),
        Told("TerminationGracePeriodExpiring", NORMAL, "it will be deleted at a time, whatever pods remain"),
    ),
    "Pod": (
        Told("Evicted", NORMAL, "it has been evicted from a node that is drained"),
        Told("Disrupted", WARNING, "the time of the drain was over, and so it was deleted"),
        Told("DoNotDisruptUntil", NORMAL, "its annotation protects it until then"),
        Told("DoNotDisruptGracePeriodElapsed", NORMAL, "its annotation protects it no longer"),
        Told("InvalidDoNotDisruptAnnotation", WARNING, "its annotation has no effect"),
    ),
    "ValidatingWebhookConfiguration, MutatingWebhookConfiguration": (
        Told("WebhookConfigurationMissing", WARNING, "it was deleted, or has no hooks"),
        Told("WebhooksFailOpen", WARNING, "hooks have failurePolicy Ignore that should have Fail"),
        Told("WebhooksEnforced", NORMAL, "it is as it should be again"),
    ),
    "Secret of the certificate authority": (
        Told(
            "CertificateNearEnd",
            WARNING,
            "the certificate or its authority is near its end; from files, on the webhook configuration",
        ),
        Told("CertificateAuthorityRotated", NORMAL, "another authority signs from now on"),
    ),
}
"""By the object on which they are told."""

_TROUBLESHOOTING: Final = "../troubleshooting.md"


def page() -> str:
    """Return the page of all Events."""
    introduction = """
What harbormaster tells in Events (`events.k8s.io/v1`, reported by `harbormaster.dev/controller`), by the object that it
is about. What a message means and what to do is behind each reason. `harbormaster get events` and `kubectl describe`
show them. What happens to one object for one reason within five minutes is one Event with a count. An API server
forgets Events after an hour; [the history](../observe.md#what-has-happened) keeps what matters for a week, and
[notifications](../observe.md#notifications) send those that you name.
"""
    parts = []
    for title, events in EVENTS.items():
        parts += [f"## {title}\n", *table(["reason", "type", "told when"], map(_row, events)), ""]
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
