"""Operations that show clusters, placements, runs and events."""

from typing import Final

from webhook.actions.page_actions import ActionAnswer
from webhook.answers.clusters import Cluster
from webhook.answers.placements import PlacementDetail
from webhook.answers.property_history import ClusterHistory
from webhook.answers.run_answers import UpdateRunDetail, UpdateRunList
from webhook.answers.status.fleet_status import FleetStatus
from webhook.answers.trees import PlacementTree
from webhook.description.operations.operation import OpenApiOperation
from webhook.endpoints.fleet.clusters import ClusterList
from webhook.endpoints.fleet.event_stream import Change
from webhook.endpoints.fleet.placements import PlacementList, RemovalList, RunList
from webhook.endpoints.http.problems import Problem
from webhook.endpoints.ui.actions import ActionModel

FLEET_OPERATIONS: Final[tuple[OpenApiOperation, ...]] = (
    OpenApiOperation(
        "getStatus",
        "get",
        "/v1/status",
        "Fleet",
        "Get what needs attention",
        "Returns what waits for a user, fails, is stuck or waits for confirmation, with the command to run, "
        "and the next maintenance windows. Covers the kinds that the caller may list in all namespaces. `unread` names "
        "the others. With `namespace`, only its placements, runs and removals are covered.",
        FleetStatus,
        query=("ofNamespace",),
        tagged=True,
    ),
    OpenApiOperation(
        "listClusters",
        "get",
        "/v1/clusters",
        "Fleet",
        "List member clusters",
        "Returns member clusters by name: all, those named, or a page. The list may change between two pages.",
        ClusterList,
        problems=(Problem.VALIDATION_FAILED,),
        query=("clusterNames", "limit", "continue"),
        tagged=True,
    ),
    OpenApiOperation(
        "getCluster",
        "get",
        "/v1/clusters/{name}",
        "Fleet",
        "Get a member cluster",
        "Returns one entry of the list.",
        Cluster,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "listPlacements",
        "get",
        "/v1/placements",
        "Fleet",
        "List placements and their clusters",
        "Returns placements of the kinds that the caller may list in all namespaces, by reference: all, those "
        "named, or a page.",
        PlacementList,
        problems=(Problem.VALIDATION_FAILED,),
        query=("placementRefs", "limit", "continue"),
        tagged=True,
    ),
    OpenApiOperation(
        "listRemovals",
        "get",
        "/v1/removals",
        "Fleet",
        "List removals that wait for confirmation",
        "Returns placements of the kinds that the caller may list in all namespaces, by reference, with an entry per "
        "digest that confirms a removal: all, those named, or a page. The content remains on the members until the "
        "removal is confirmed. If its source is restored, the removal is no longer listed.\n\n"
        "Placements that were deleted with their namespace are listed while their content is orphaned. A page may "
        "have fewer items than its limit, because removals were confirmed since then or are younger than the filter "
        "allows.",
        RemovalList,
        problems=(Problem.VALIDATION_FAILED,),
        query=("placementRefs", "olderThanSeconds", "limit", "continue"),
        tagged=True,
    ),
    OpenApiOperation(
        "getClusterResourcePlacement",
        "get",
        "/v1/placements/crp/{name}",
        "Fleet",
        "Get a ClusterResourcePlacement",
        "Returns one placement, as in `listPlacements`, with the selected objects and the rollout. Also returns 404 "
        "if the caller may not read the placement.",
        PlacementDetail,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "getResourcePlacement",
        "get",
        "/v1/placements/rp/{namespace}/{name}",
        "Fleet",
        "Get a ResourcePlacement",
        "Returns one placement, as in `listPlacements`, with the selected objects and the rollout. Also returns 404 "
        "if the caller may not read the placement.",
        PlacementDetail,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    *(
        OpenApiOperation(
            f"list{kind}Runs",
            "get",
            f"{path}/runs",
            "Fleet",
            f"List the last decisions on a {kind}",
            "Returns each decision with its time, its reason, and its difference from the previous one, latest "
            "first. The last 20 decisions of the past week are kept, and the latest decision regardless of its age.",
            RunList,
            problems=(Problem.NOT_FOUND,),
            tagged=True,
        )
        for kind, path in (
            ("ClusterResourcePlacement", "/v1/placements/crp/{name}"),
            ("ResourcePlacement", "/v1/placements/rp/{namespace}/{name}"),
        )
    ),
    OpenApiOperation(
        "getClusterHistory",
        "get",
        "/v1/clusters/{name}/history",
        "Fleet",
        "Get the last day of a member cluster",
        "Returns the numbers that the member reported since this server started, one value per 15 minutes.",
        ClusterHistory,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    *(
        OpenApiOperation(
            f"get{kind}{what}",
            "get",
            f"{path}{suffix}",
            "Fleet",
            summary,
            description,
            answer,
            problems=(Problem.NOT_FOUND,),
            tagged=True,
        )
        for kind, path in (
            ("ClusterResourcePlacement", "/v1/placements/crp/{name}"),
            ("ResourcePlacement", "/v1/placements/rp/{namespace}/{name}"),
        )
        for what, suffix, summary, description, answer in (
            (
                "Tree",
                "/tree/{cluster}",
                f"Get the objects of a {kind} on a cluster",
                "Returns its binding, Works and objects on the cluster, with their states.",
                PlacementTree,
            ),
            (
                "Object",
                "/object",
                f"Get a {kind} as stored",
                "Returns the object without `managedFields`. With `Accept: application/yaml`, the response is YAML.",
                None,
            ),
        )
    ),
    OpenApiOperation(
        "listUpdateRuns",
        "get",
        "/v1/runs",
        "Fleet",
        "List staged updates and upgrades",
        "Returns all runs of the kinds that the caller may list in all namespaces, and what they wait for, latest "
        "first.",
        UpdateRunList,
        tagged=True,
    ),
    *(
        OpenApiOperation(
            f"get{kind}",
            "get",
            path,
            "Fleet",
            f"Get a {kind}",
            "Returns one run, as in `listUpdateRuns`, with its timeline. Also returns 404 if the caller may not read "
            "the run.",
            UpdateRunDetail,
            problems=(Problem.NOT_FOUND,),
            tagged=True,
        )
        for kind, path in (
            ("ClusterStagedUpdateRun", "/v1/runs/csur/{name}"),
            ("StagedUpdateRun", "/v1/runs/sur/{namespace}/{name}"),
            ("ClusterUpgradeRun", "/v1/runs/cuprun/{name}"),
        )
    ),
    OpenApiOperation(
        "act",
        "post",
        "/v1/actions",
        "Fleet",
        "Preview or execute an action of the page",
        "Served only if `HARBORMASTER_PAGE_ACTIONS` is true. The server sends each request of the action to the API "
        "server of the hub with the token of the caller, never with its own.\n\n"
        "With `dryRun`, returns the effect and the equivalent command, and sends the write as a dry run. Without it, "
        "`precondition` must be that of a preview.\n\n"
        "409: the object has changed since the preview, its state does not allow the action, or the API server "
        "refuses the write. 403 has the message of the API server. It also means that the API server does not accept "
        "the token, or that the caller has a client certificate, which cannot be forwarded.",
        ActionAnswer,
        ActionModel,
        problems=(Problem.NOT_FOUND, Problem.CONFLICT),
    ),
    OpenApiOperation(
        "followEvents",
        "get",
        "/v1/events",
        "Fleet",
        "Watch for changes",
        "Sends server-sent events: one `change` event immediately, then one after each change, at most four per "
        "second. The data is a `Change`: it names the documents to read again, without their content. After 15 s "
        "without an event, the server sends a comment.",
        Change,
        media="text/event-stream",
    ),
)
