"""The tables of ``docs/moving-from-karmada.md`` name fields and values that Karmada and harbormaster have.

Those of Karmada are looked up in the definitions that it publishes, those of harbormaster in ours.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.printed import printed
from e2e.karmada.definitions import published
from tests.docs.pages import DOCS

PAGE: Final = (DOCS / "moving-from-karmada.md").read_text(encoding="utf-8")
SECTIONS: Final = {
    "PropagationPolicy and ClusterPropagationPolicy": ("propagationpolicies",),
    "OverridePolicy and ClusterOverridePolicy": ("overridepolicies",),
    "Cluster, ResourceBinding, Work": ("resourcebindings", "works"),
}
"""Headings of tables, with the definitions of Karmada that the left column is about."""
OF_CLUSTERS: Final = frozenset(
    {
        *("syncMode", "apiEndpoint", "secretRef", "impersonatorSecretRef", "proxyURL", "insecureSkipTLSVerification"),
        *("provider", "region", "zone", "zones", "taints", "conditions", "nodeSummary", "resourceSummary"),
        "apiEnablements",
    }
)
"""Fields of Clusters, which have no CustomResourceDefinition. Source: Karmada pkg/apis/cluster/v1alpha1/types.go."""
VALUES: Final = frozenset(
    {"NotIn", "In", "Exists", "operator", "matchExpressions", "labelSelector", "NoSchedule", "replicas", "Reporting"}
)
"""Values, fields and conditions that no schema lists."""
OTHERS: Final = re.compile(r"/|\$\{|~1|harbormaster \w+|-CLUSTER$")
"""Keys of labels and annotations, paths of patches, variables, commands and names."""
ROW: Final = re.compile(r"^\|(.+?)\|(.+)\|$", re.MULTILINE)
SPAN: Final = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[tuple[str, str]]:
    """Return the cells of the table of a section."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [(left, right) for left, right in ROW.findall(section) if set(left) != {"-"} and left.strip() != "Karmada"]


def words(schema: JsonObject, path: str = "") -> Iterator[str]:
    """Yield every path of a schema, with ``[]`` for items, and every alternative of a value."""
    yield path
    yield from (str(each) for each in schema.get("enum", ()))
    for name, inner in schema.get("properties", {}).items():
        yield from words(inner, f"{path}.{name}")
    if "items" in schema:
        yield from words(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from words(schema["additionalProperties"], f"{path}.*")


def vocabulary(definitions: list[JsonObject]) -> frozenset[str]:
    """Return the words of all schemas, and every end of each path."""
    found: set[str] = set()
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            for word in words(version["schema"]["openAPIV3Schema"]):
                parts = word.strip(".").split(".")
                found.update(".".join(parts[start:]) for start in range(len(parts)))
    return frozenset(found | {each.replace("[]", "") for each in found})


@cache
def of_karmada(plurals: tuple[str, ...]) -> frozenset[str]:
    text = published([name for plural in plurals for name in NAMES if name.endswith(f"_{plural}")])
    of_clusters = {f"{prefix}{each}" for prefix in ("", "spec.", "status.") for each in OF_CLUSTERS}
    found = vocabulary([each for each in yaml.load_all(text, yaml.CSafeLoader) if each])
    return found | of_clusters | VALUES


NAMES: Final = (
    "policy/policy.karmada.io_propagationpolicies",
    "policy/policy.karmada.io_overridepolicies",
    "work/work.karmada.io_resourcebindings",
    "work/work.karmada.io_works",
)


@cache
def of_ours() -> frozenset[str]:
    return vocabulary(json.loads(printed("crds", "-o", "json"))["items"])


def unknown(cell: str, known: frozenset[str]) -> list[str]:
    """Return the fields and values of a cell that are not *known*."""
    left = []
    for span in SPAN.findall(cell):
        field, _, value = span.partition(": ")
        parts = [field, *([value] if re.fullmatch(r"\w+", value) else [])]
        left += [each for each in parts if not OTHERS.search(each) and each.strip(".") not in known]
    return left


@pytest.mark.parametrize("heading", SECTIONS)
def test_karmada_has_the_fields_of_the_left_column(heading: str) -> None:
    assert [word for left, _ in rows(heading) for word in unknown(left, of_karmada(SECTIONS[heading]))] == []


@pytest.mark.parametrize("heading", SECTIONS)
def test_harbormaster_has_the_fields_of_the_right_column(heading: str) -> None:
    """Or Karmada has them: some cells name its fields again."""
    known = of_ours() | of_karmada(SECTIONS[heading])
    assert [word for _, right in rows(heading) for word in unknown(right, known)] == []
