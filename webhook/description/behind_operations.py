"""The operations about what is behind and below what is listed, as `webhook.description.operations` has the others."""

from typing import Final

from webhook.description.behind import ClusterHistory, PlacementTree
from webhook.description.operation import Operation
from webhook.endpoints.problems import Problem

BEHIND_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
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
        Operation(
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
)
