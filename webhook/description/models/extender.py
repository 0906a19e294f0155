"""What kube-scheduler sends and receives: the protocol of ``k8s.io/kube-scheduler/extender/v1``.

Source: serving.md 2.1.
"""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.description.schemas import NULLABLE

_NULLABLE: Final[dict[str, Any]] = {NULLABLE: True}


class NodeList(BaseModel):
    """Whole nodes, where the scheduler does not cache them for the extender."""

    model_config = ConfigDict(extra="allow")

    items: list["EmbeddedObject"]


class EmbeddedObject(BaseModel):
    """A Pod or Node as a scheduler sends it: without `apiVersion` and `kind`."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel)


class ExtenderArgs(BaseModel):
    """A pod and the nodes it could go to; one of both lists is null."""

    pod: EmbeddedObject = Field(alias="Pod")
    nodes: NodeList | None = Field(default=None, alias="Nodes", json_schema_extra=_NULLABLE)
    node_names: list[str] | None = Field(default=None, alias="NodeNames", json_schema_extra=_NULLABLE)


class ExtenderFilterResult(BaseModel):
    """The nodes that are left, in the form of the question."""

    nodes: NodeList | None = Field(alias="Nodes")
    node_names: list[str] | None = Field(alias="NodeNames")
    failed_nodes: dict[str, str] = Field(alias="FailedNodes")
    failed_and_unresolvable_nodes: dict[str, str] = Field(alias="FailedAndUnresolvableNodes")
    error: str = Field(alias="Error")


class HostPriority(BaseModel):
    """Points of one node."""

    host: str = Field(alias="Host")
    score: int = Field(alias="Score", ge=0)


class Victims(BaseModel):
    """Pods that would have to go."""

    pods: list[EmbeddedObject] = Field(alias="Pods")
    num_pdb_violations: int = Field(alias="NumPDBViolations")


class MetaPod(BaseModel):
    """A pod by its uid."""

    uid: str = Field(alias="UID")


class MetaVictims(BaseModel):
    """Pods that would have to go, by uid."""

    pods: list[MetaPod] = Field(alias="Pods")
    num_pdb_violations: int = Field(alias="NumPDBViolations")


class ExtenderPreemptionArgs(BaseModel):
    """A pod, and for each node the pods that would have to make room for it."""

    pod: EmbeddedObject = Field(alias="Pod")
    node_name_to_victims: dict[str, Victims] | None = Field(
        default=None, alias="NodeNameToVictims", json_schema_extra=_NULLABLE
    )
    node_name_to_meta_victims: dict[str, MetaVictims] | None = Field(
        default=None, alias="NodeNameToMetaVictims", json_schema_extra=_NULLABLE
    )


class ExtenderPreemptionResult(BaseModel):
    """The nodes where preemption may go on."""

    node_name_to_meta_victims: dict[str, MetaVictims] = Field(alias="NodeNameToMetaVictims")


class ExtenderBindingArgs(BaseModel):
    """A pod and its node."""

    pod_name: str = Field(alias="PodName")
    pod_namespace: str = Field(alias="PodNamespace")
    pod_uid: str = Field(alias="PodUID")
    node: str = Field(alias="Node")


class ExtenderBindingResult(BaseModel):
    """harbormaster does not bind: always an error."""

    error: str = Field(alias="Error")
