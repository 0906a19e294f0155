"""The fields of a pod that the extender reads: its placement and its tolerations.

Source: docs/specifications/serving.md 2.4; Kubernetes ``core/v1`` Toleration.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from scorer.extender.reading import read_list, read_object, read_text, read_texts, wrong_type

PLACEMENT_ANNOTATION: Final = "harbormaster.dev/placement"
MODE_ANNOTATION: Final = "harbormaster.dev/placement-mode"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


class PlacementMode(StrEnum):
    """Whether a pod follows the present policy, or only the clusters selected so far."""

    POLICY = "Policy"
    DECISIONS = "Decisions"


class PlacementName(NamedTuple):
    """Names a placement. *namespace* is empty for a ClusterResourcePlacement."""

    namespace: str
    name: str


class ExtenderTaint(NamedTuple):
    """A taint of a node or of a member cluster."""

    key: str
    value: str
    effect: str


class ExtenderToleration(NamedTuple):
    """A toleration of a pod. An empty operator means Equal, an empty effect every effect, an empty key every key."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: ExtenderTaint) -> bool:
        """Return whether the toleration covers *taint* by the rules of Kubernetes."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


@dataclass(frozen=True, slots=True)
class ExtenderPod:
    """A pod that waits for a node, or a victim of preemption.

    Args:
        namespace: Namespace of the pod.
        placement: Value of the placement annotation, empty if the annotation is missing.
        mode: Mode in which the pod follows the placement. Any value except Decisions counts as Policy.
        tolerations: Tolerations of the pod, unchecked.
        uid: Uid of the pod.
        undisturbed: Whether the pod has the do-not-disrupt annotation.
    """

    namespace: str = ""
    placement: str = ""
    mode: PlacementMode = PlacementMode.POLICY
    tolerations: tuple[ExtenderToleration, ...] = ()
    uid: str = ""
    undisturbed: bool = False

    @property
    def follows(self) -> PlacementName | None:
        """The placement that the annotation names. None if it is in another namespace, or the name is malformed."""
        namespace, slash, name = self.placement.partition("/")
        if not slash:
            return PlacementName("", self.placement)
        return PlacementName(namespace, name) if namespace and namespace == self.namespace else None

    def tolerates(self, taint: ExtenderTaint) -> bool:
        """Return whether any toleration covers *taint*."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)


def read_pod(document: Any, path: str) -> ExtenderPod:
    """Read a pod.

    Raises:
        scorer.extender.reading.MalformedArgsError: A field that the extender reads has the wrong type.
    """
    if not isinstance(document, dict):
        raise wrong_type(document, path, "an object")
    metadata = read_object(document.get("metadata"), f"{path}.metadata")
    annotations = read_texts(metadata.get("annotations"), f"{path}.metadata.annotations")
    spec = read_object(document.get("spec"), f"{path}.spec")
    tolerations = read_list(spec.get("tolerations"), f"{path}.spec.tolerations")
    decisions = annotations.get(MODE_ANNOTATION) == PlacementMode.DECISIONS
    return ExtenderPod(
        namespace=read_text(metadata.get("namespace"), f"{path}.metadata.namespace"),
        placement=annotations.get(PLACEMENT_ANNOTATION, ""),
        mode=PlacementMode.DECISIONS if decisions else PlacementMode.POLICY,
        tolerations=tuple(
            _read_toleration(entry, f"{path}.spec.tolerations[{index}]") for index, entry in enumerate(tolerations)
        ),
        uid=read_text(metadata.get("uid"), f"{path}.metadata.uid"),
        undisturbed=annotations.get(DO_NOT_DISRUPT) == "true",
    )


def _read_toleration(document: Any, path: str) -> ExtenderToleration:
    if not isinstance(document, dict):
        raise wrong_type(document, path, "an object")
    return ExtenderToleration(*(read_text(document.get(part), f"{path}.{part}") for part in ExtenderToleration._fields))
