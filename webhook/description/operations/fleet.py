"""Operations that show clusters, placements, runs and events."""

from typing import Final

from webhook.answers.clusters import Cluster
from webhook.answers.placements import PlacementDetail
from webhook.answers.property_history import ClusterHistory
from webhook.answers.run_answers import UpdateRunDetail, UpdateRunList
from webhook.answers.trees import PlacementTree
from webhook.description.operations.operation import OpenApiOperation
from webhook.endpoints.fleet.clusters import ClusterList
from webhook.endpoints.fleet.event_stream import Change
from webhook.endpoints.fleet.placements import PlacementList, RemovalList, RunList
from webhook.endpoints.http.problems import Problem

FLEET_OPERATIONS: Final[tuple[OpenApiOperation, ...]] = (
    OpenApiOperation(
        "listClusters",
        "get",
        "/v1/clusters",
        "Fleet",
        "The fleet as the engine sees it",
        "Member clusters, by name: all, those asked for, or a page. Clusters may come and go between two pages.",
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
        "One member cluster",
        "One entry of the list.",
        Cluster,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "listPlacements",
        "get",
        "/v1/placements",
        "Fleet",
        "What is placed where",
        "Placements of the kinds that the caller may list in all namespaces, by reference: all, those asked for, or a "
        "page.",
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
        "Which removals of content wait for confirmation",
        "Placements of the kinds that the caller may list in all namespaces, by reference, with an entry for each "
        "digest that confirms something: all, those asked for, or a page. The content remains on the members until "
        "`harbormaster confirm`, or until its source is restored. Placements that were deleted with their namespace "
        "are listed while their content is orphaned. A page may have fewer items than its limit, because "
        "removals were confirmed since, or are younger than asked for.",
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
        "One ClusterResourcePlacement",
        "One entry of the list, with what it selects and how it is rolled out. A placement that the caller may not "
        "read does not exist for them.",
        PlacementDetail,
        problems=(Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "getResourcePlacement",
        "get",
        "/v1/placements/rp/{namespace}/{name}",
        "Fleet",
        "One ResourcePlacement",
        "One entry of the list, with what it selects and how it is rolled out. A placement that the caller may not "
        "read does not exist for them.",
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
            f"The last decisions on a {kind}",
            "What was decided, when and why, and how it differs from the decision before; the latest first. At most 20 "
            "are kept, for a week.",
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
        "The last day of a member cluster",
        "The numbers that it reported, a value per quarter of an hour, as far as this server saw them since it was "
        "started.",
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
                f"What is below a {kind} on one cluster",
                "Its binding, Works and objects there, with their states.",
                PlacementTree,
            ),
            (
                "Object",
                "/object",
                f"One {kind} as it is stored",
                "Without `managedFields`. With `Accept: application/yaml`, the answer is YAML.",
                None,
            ),
        )
    ),
    OpenApiOperation(
        "listUpdateRuns",
        "get",
        "/v1/runs",
        "Fleet",
        "Staged updates and upgrades, and what they wait for",
        "All runs of the kinds that the caller may list in all namespaces, the latest first.",
        UpdateRunList,
        tagged=True,
    ),
    *(
        OpenApiOperation(
            f"get{kind}",
            "get",
            path,
            "Fleet",
            f"One {kind}",
            "One entry of the list, with its timeline. A run that the caller may not read does not exist for them.",
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
        "followEvents",
        "get",
        "/v1/events",
        "Fleet",
        "When to read again",
        "Server-sent events: one `change` event at once, and one whenever something has changed, at most four a "
        "second. Its data is a `Change`: it names what to read again, without the new content. After 15 s without an "
        "event, the server sends a comment.",
        Change,
        media="text/event-stream",
    ),
)
