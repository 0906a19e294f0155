"""The templates of the CustomResourceDefinitions: those that ``harbormaster crds`` prints, behind switches."""

from collections.abc import Iterator
from typing import Final

from scorer.api import kinds
from scorer.api.crd.definitions import custom_resource_definitions
from scorer.api.family import FAMILIES
from scorer.api.meta import JsonObject
from tests.charts.templates import HEADER, fill
from webhook.runtime.yaml import format_yaml

OWNERS: Final = {
    "placement.kubernetes-fleet.io": "fleet",
    "cluster.kubernetes-fleet.io": "fleet",
    "karpenter.sh": "karpenter",
    "upgrade.harbormaster.dev": "harbormaster",
}
"""Whose definitions those of a group are, as the values name them."""
_RUNS: Final = frozenset(family.run.resource for family in FAMILIES)
_KEEP: Final = "helm.sh/resource-policy"
_STATE: Final = "default: {}\n"


def hub_definitions() -> Iterator[tuple[str, str]]:
    """Yield the name of each file and its text."""
    for found in custom_resource_definitions():
        owner = OWNERS[found["spec"]["group"]]
        text = _page(found, f".Values.crds.{owner}.install")
        if found["metadata"]["name"] in _RUNS:
            text = text.replace(
                _STATE.format("Initialize"), _STATE.format("{{ .Values.settings.stagedRunsDefaultState }}")
            )
        yield _file(found), text


def member_definitions() -> Iterator[tuple[str, str]]:
    """Yield the same of what an agent needs in its member."""
    for found in custom_resource_definitions():
        if found["metadata"]["name"] == kinds.APPLIED_WORK.resource:
            yield _file(found), _page(found, ".Values.crds.install")


def _file(found: JsonObject) -> str:
    return f"{found['metadata']['name']}.yaml"


def _page(found: JsonObject, condition: str) -> str:
    metadata = found["metadata"]
    annotations = {**metadata.get("annotations", {}), _KEEP: "keep"}
    made = {**found, "metadata": {**metadata, "labels": "@LABELS@", "annotations": annotations}}
    text = format_yaml(made)
    if "{{" in text:
        raise ValueError(f"{metadata['name']}: Helm would read braces in it as its own")
    return f"{HEADER}{{{{- if {condition} }}}}\n{fill(text)}{{{{- end }}}}\n"
