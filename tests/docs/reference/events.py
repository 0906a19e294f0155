"""Every Event: its reason and type, its object, and when it is emitted. Tests compare the list with the code."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.docs.pages import DOCS, read_page
from tests.docs.reference.markdown import code, lines, table, titled

NORMAL, WARNING, EITHER = "Normal", "Warning", "Normal, Warning"
HANDED_OFF: Final = "handed-off-upgrades"


class Told(NamedTuple):
    """One Event. *section*: anchor on the page of troubleshooting, if the reason has none of its own."""

    reason: str
    type: str
    when: str
    section: str = ""


EVENTS: Final[dict[str, tuple[Told, ...]]] = {
    "ClusterResourcePlacement, ResourcePlacement": (
        Told("PlacementScheduled", NORMAL, "Scheduled has become True"),
        Told("PlacementNotScheduled", WARNING, "Scheduled has become False, or the reason for False has changed"),
        Told("ClustersPicked", NORMAL, "the scheduler has added or dropped clusters"),
        Told("PlacementRolloutStarted", NORMAL, "RolloutStarted has become True"),
        Told("PlacementOverriddenSucceeded", NORMAL, "Overridden has become True"),
        Told("PlacementWorkSynchronized", NORMAL, "WorkSynchronized has become True"),
        Told("PlacementApplied", NORMAL, "Applied has become True"),
        Told("PlacementAvailable", NORMAL, "Available has become True"),
        Told("PlacementDiffReported", NORMAL, "DiffReported has become True"),
        Told("PlacementRolloutCompleted", NORMAL, "all conditions of a completed rollout have become True"),
        Told(
            "PlacementRolloutStalled",
            WARNING,
            "the rollout has made no progress for `HARBORMASTER_ROLLOUT_STALLED_SECONDS` (default: ten minutes)",
        ),
        Told("PlacementObjectsTooLarge", WARNING, "an object is too large to be placed"),
        Told("AdvisoriesChanged", WARNING, "new admission warnings apply to the placement"),
        Told("AdvisoriesCleared", NORMAL, "no admission warning applies to the placement any longer"),
        Told("PlacementKindsNotRead", WARNING, "a selected namespace has kinds that the loop may not read"),
        Told(
            "InvalidReportBackStrategy",
            WARNING,
            "status is to be mirrored to the original objects, but the policy may pick several clusters",
        ),
        Told("StatusNotReportedBack", WARNING, "the status of an object could not be written back"),
        Told(
            "PlacedContentKept",
            WARNING,
            "the placement is being deleted with the definition of its kind, and its content remains",
        ),
        Told("BindingsRestored", WARNING, "another client had ordered the removal of bindings"),
        Told("UnprovenWorks", WARNING, "Works without a binding name this placement but have no valid proof"),
        Told(
            "RemovalPending",
            WARNING,
            "the removal of content waits for confirmation, or the waiting content has changed",
        ),
        Told(
            "PlacementContentOrphaned",
            WARNING,
            "the namespace was deleted without confirmation, and placed content remains on members",
        ),
        Told("RemovalConfirmationBypassed", WARNING, "pending removals proceed because confirmation was turned off"),
        Told("ContentRemoved", WARNING, "content is being removed from members without confirmation"),
        Told("NoResourcesSelected", WARNING, "the selectors no longer match any object"),
        Told("PlacementNotRemoved", WARNING, "the deletion of the placement waits for Works"),
        Told("PlacementObjectsRemain", WARNING, "objects that are no longer placed cannot be deleted on members"),
        Told("PlacementWorksLeft", WARNING, "the placement was released before its Works were deleted"),
        Told(
            "PlacementCleanupFinalizerRemoved",
            NORMAL,
            "the snapshots of a deleted placement are deleted, and it waits for no more Works",
        ),
    ),
    "ClusterResourceBinding, ResourceBinding": (
        Told("DuplicateEnvelopeWorks", WARNING, "one envelope has several Works"),
    ),
    "Overrides": (
        Told("OverrideWithoutEffect", WARNING, "a selector matches no placed object, or a rule no member cluster"),
        Told("OverrideWithoutSnapshot", WARNING, "no snapshot of the override could be created"),
        Told("OverrideFailed", WARNING, "the controller keeps failing on the object"),
    ),
    "ClusterResourcePlacementEviction": (
        Told("EvictionWaits", NORMAL, "another disruption of the member is in progress"),
    ),
    "Work, AppliedWork": (
        Told("OlderThanApplied", WARNING, "the Work is older than the content of the member, and is not applied"),
        Told(
            "AppliedWorkMadeAnew",
            WARNING,
            "the AppliedWork was deleted on the member, and the agent has created it again",
        ),
        Told(
            "KeptWithoutOrder",
            WARNING,
            "the Work was deleted without an order to remove its content, so the content remains",
        ),
        Told("AnotherWriter", WARNING, "another client on the member keeps changing an applied object"),
        Told(
            "ObjectsReleased",
            NORMAL,
            "objects that controllers of the member create are no longer placed, and remain on the member",
        ),
        Told("FinalizersRemain", WARNING, "objects that were removed from the Work cannot be deleted on the member"),
        Told(
            "DefinitionReleased",
            WARNING,
            "a definition remains on the member, because objects exist that no Work applied",
        ),
    ),
    "MemberCluster": (
        Told("MemberClusterReadyToJoin", NORMAL, "the hub is ready for the agent"),
        Told("MemberClusterJoined", NORMAL, "the agent has joined"),
        Told("MemberClusterJoinStateUnknown", WARNING, "the agent no longer reports whether it has joined"),
        Told(
            "UnreadableReport",
            WARNING,
            "a report of the agent was ignored, except for its heartbeat, because it cannot be read",
        ),
        Told("MemberClusterSilent", WARNING, "the agent has not reported for five minutes"),
        Told("MemberClusterReporting", NORMAL, "the agent reports"),
        Told("AllContentRefused", WARNING, "no object of any Work could be applied"),
        Told("ContentAccepted", NORMAL, "the member no longer refuses all content"),
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
        Told("UpdateRunPending", NORMAL, "the run cannot be initialized yet"),
        Told("UpdateRunInitializedSuccessfully", NORMAL, "the plan of the run is fixed"),
        Told("UpdateRunInitializedFailed", WARNING, "its plan cannot be computed"),
        Told("UpdateRunProgressing", NORMAL, "clusters are being updated"),
        Told("UpdateRunWaiting", NORMAL, "the run waits for an approval or a timed wait"),
        Told("ApprovalNeeded", NORMAL, "a stage requires approval"),
        Told("UpdateRunStuck", WARNING, "clusters have been in flight for more than five minutes"),
        Told("UpdateRunStopping", NORMAL, "the run is stopping, and clusters are in flight"),
        Told("UpdateRunStopped", NORMAL, "the run has stopped, and no cluster is in flight"),
        Told("UpdateRunSucceeded", NORMAL, "it has finished"),
        Told("UpdateRunFailed", WARNING, "the run was aborted"),
        Told("StageUpdatingStarted", NORMAL, "the clusters of a stage are being updated"),
        Told("StageUpdatingWaiting", NORMAL, "a stage waits for its tasks"),
        Told("StageUpdatingStopping", NORMAL, "a stage is stopping, and some of its clusters are in flight"),
        Told("StageUpdatingStopped", NORMAL, "a stage has stopped"),
        Told("StageUpdatingSkippedNoClusters", NORMAL, "a stage has no cluster"),
        Told("StageUpdatingSucceeded", NORMAL, "a stage has finished"),
        Told("StageUpdatingFailed", WARNING, "the run was aborted in a stage"),
        Told("StagedUpdateFailed", WARNING, "the controller keeps failing on the object"),
    ),
    "ClusterApprovalRequest, ApprovalRequest": (
        Told("AnalysisPassed", NORMAL, "the check of the stage has passed, and the loop has approved the stage"),
        Told("AnalysisFailed", WARNING, "the controller of checks keeps failing on the object"),
    ),
    "ClusterUpgradeRun": (
        Told("RunStarted", NORMAL, "the run was started"),
        Told("RunRestarted", NORMAL, "the run was restarted"),
        Told("RunStopping", NORMAL, "the run starts no further upgrades"),
        Told("RunStopped", NORMAL, "the run has stopped, and no upgrade is in flight"),
        Told("RunCompleted", NORMAL, "it has finished"),
        Told("RunFailed", WARNING, "more members have failed than the run allows"),
        Told("StageStarted", NORMAL, "a stage has started"),
        Told("StageWaiting", NORMAL, "the wait after a stage has started"),
        Told("StageCompleted", NORMAL, "a stage has finished"),
        Told("GateOpened", NORMAL, "the run waits at a gate"),
        Told("ApprovalNeeded", NORMAL, "a gate requires approval"),
        Told("GateCompleted", NORMAL, "a gate no longer blocks"),
        Told("MemberUpgradeStarted", NORMAL, "the upgrade of a member has started"),
        Told("MemberUpgradeCompleted", NORMAL, "the upgrade of a member has finished"),
        Told("MemberUpgradeFailed", WARNING, "the upgrade of a member has failed"),
        Told("MemberPending", NORMAL, "a member waits. Once for each reason"),
        Told("MemberSkipped", NORMAL, "a member is skipped"),
        Told("SkipIgnored", NORMAL, "the member, group or stage to skip is already being upgraded or has finished"),
        Told("SkipTargetUnknown", WARNING, "the skipped member, group or stage is not part of the run"),
        Told("ConcurrencyClamped", NORMAL, "a group upgrades fewer members concurrently than configured"),
        Told("CommandRefused", WARNING, "the run cannot start, or its state does not allow a command"),
        Told("HandoffNotAccepted", WARNING, "no upgrader has accepted a request for 15 minutes", HANDED_OFF),
        Told("HandoffStale", WARNING, "an upgrader has not reported for 30 minutes", HANDED_OFF),
        Told("HandoffUnreadable", WARNING, "the report of an upgrader cannot be read", HANDED_OFF),
        Told("ClusterUpgradeFailed", WARNING, "the controller keeps failing on the object"),
        Told("UpgradePlanFailed", WARNING, "its plan cannot be computed"),
    ),
    "ClusterUpgradeProfile": (
        Told("RunGenerated", NORMAL, "the profile has created a run for a published version"),
        Told("TriggerFailed", WARNING, "the profile has no target version, or cannot create a run"),
        Told("UpgradeProfileFailed", WARNING, "the controller keeps failing on the profile or strategy"),
    ),
    "NodePool": (
        Told(
            "DisruptionBlocked", EITHER, "the budgets allow 0 disruptions (Normal), or have done so for a day (Warning)"
        ),
        Told("DisruptionUnblocked", NORMAL, "nodes may be disrupted again, after that warning"),
        Told("DisruptionRefused", WARNING, "mode `Act` is set, but this program does not carry it out"),
        Told("NodePoolFailed", WARNING, "the controller keeps failing on the object"),
        Told("NodeDisruptionFailed", WARNING, "the controller of node disruption fails. Reported on the first pool"),
    ),
    "Node, NodeClaim": (
        Told("DisruptionBlocked", EITHER, "a candidate is kept (Normal), or cannot be disrupted (Warning)"),
        Told("Unconsolidatable", NORMAL, "the node cannot be consolidated"),
        Told(
            "ConsolidationCandidate",
            NORMAL,
            "the node would be disrupted (`Advise`), or will be consolidated or deleted as empty (`Act`)",
        ),
        Told("ConsolidationApproved", NORMAL, "a command has started"),
        Told("ConsolidationRejected", NORMAL, "a command is no longer valid"),
        Told("DisruptionLaunching", NORMAL, "a replacement was requested"),
        Told("DisruptionWaitingReadiness", NORMAL, "the command waits for the replacement to be ready"),
        Told("DisruptionTerminating", NORMAL, "the node is being drained, and is then deleted"),
        Told("DisruptionUndone", WARNING, "a command was rolled back before any pod was evicted"),
        Told("FailedDraining", WARNING, "pods block the drain"),
        Told(
            "TerminationGracePeriodExpiring",
            NORMAL,
            "the node will be deleted at a fixed time, regardless of remaining pods",
        ),
    ),
    "Pod": (
        Told("Evicted", NORMAL, "the pod has been evicted from a node that is being drained"),
        Told("Disrupted", WARNING, "the drain timed out, so the pod was deleted"),
        Told("DoNotDisruptUntil", NORMAL, "the annotation protects the pod until the time in the message"),
        Told("DoNotDisruptGracePeriodElapsed", NORMAL, "the annotation no longer protects the pod"),
        Told("InvalidDoNotDisruptAnnotation", WARNING, "the annotation has no effect"),
    ),
    "ValidatingWebhookConfiguration, MutatingWebhookConfiguration": (
        Told("WebhookConfigurationMissing", WARNING, "the configuration was deleted, or has no hooks"),
        Told("WebhooksFailOpen", WARNING, "hooks have failurePolicy Ignore that should have Fail"),
        Told("WebhooksEnforced", NORMAL, "the configuration is correct again"),
    ),
    "Secret of the certificate authority": (
        Told(
            "CertificateNearEnd",
            WARNING,
            "the certificate or its authority expires soon. If they are files: on the webhook configuration",
        ),
        Told("CertificateAuthorityRotated", NORMAL, "a new authority signs certificates from now on"),
    ),
}
"""By their object."""

_TROUBLESHOOTING: Final = "../troubleshooting.md"


def page() -> str:
    """Return the page of all Events."""
    introduction = """
All Events of harbormaster (`events.k8s.io/v1`, reported by `harbormaster.dev/controller`), grouped by object. Each
reason links to its explanation in troubleshooting. `harbormaster get events` and `kubectl describe` show Events.
Repetitions for the same object and reason within five minutes become one Event with a count. The API server deletes
Events after an hour. [The history](../observe.md#read-the-history) keeps the important ones for a week, and
[notifications](../observe.md#notifications) send those that you select.
"""
    parts = []
    for title, events in EVENTS.items():
        parts += [f"## {title}\n", *table(["reason", "type", "when"], map(_row, events)), ""]
    return lines(titled("Events", introduction), *parts)


def _row(told: Told) -> tuple[str, str, str]:
    return f"[{code(told.reason)}]({_TROUBLESHOOTING}#{told.section or _anchor(told.reason)})", told.type, told.when


_KINDS: Final = ("initialized", "progressing", "succeeded", "reporting", "approved", "contentapplied")
"""Conditions whose sections also explain Events."""


def _anchor(reason: str) -> str:
    """Return where an Event is explained: by itself, or with the condition that says the same."""
    anchors = read_page(DOCS / "troubleshooting.md").anchors
    return next((anchor for anchor in _anchors(reason.lower()) if anchor in anchors), f"event-{reason.lower()}")


def _anchors(reason: str) -> Iterator[str]:
    yield f"event-{reason}"
    yield from (f"{kind}-{reason}" for kind in _KINDS)
