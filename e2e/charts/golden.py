"""What the charts are expected to render for the values in their ``ci`` folders, as files that one can read.

What is made from the code and compared with it elsewhere is left out: definitions, the hooks of the webhook
configurations, the content of dashboards.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from e2e.charts.rendering import Document, Helm, name_of, read_case
from tests.charts.made import AGENT, HUB
from webhook.processes import agent_installation as installation
from webhook.runtime.yaml import format_yaml

GOLDEN: Final = Path(__file__).parent / "golden"
AGENT_DEPLOYMENT: Final = Path(installation.__file__).with_name(installation.RENDERING)


def cases() -> Iterator[tuple[Path, Path, Path]]:
    """Yield a chart, a file of values, and the file of what is expected for them."""
    for chart in (HUB, AGENT):
        for values in sorted((chart / "ci").glob("*-values.yaml")):
            yield chart, values, GOLDEN / chart.name / values.name.replace("-values", "")


def golden(helm: Helm, chart: Path, values: Path) -> str:
    """Return what a chart renders, sorted by kind and name."""
    rendered = sorted(helm.render(chart, read_case(values)), key=name_of)
    return format_yaml(*(_shown(each) for each in rendered if each["kind"] != "CustomResourceDefinition"))


def agent_deployment(helm: Helm) -> str:
    """Return the Deployment that `join` applies without helm, as the chart renders it."""
    values = {
        **_nested(installation.release_values(installation.MEMBER_PLACEHOLDER)),
        "image": {"repository": installation.IMAGE_PLACEHOLDER, "tag": "tag"},
    }
    [document] = helm.render(AGENT, values, release=AGENT.name, namespace=installation.NAMESPACE_PLACEHOLDER)
    [container] = document["spec"]["template"]["spec"]["containers"]
    container["image"] = installation.IMAGE_PLACEHOLDER
    return json.dumps(document, indent=2) + "\n"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *folders, name = path.split(".")
        place = nested
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return nested


def _shown(document: Document) -> Document:
    apart = "webhooks" if document["kind"].endswith("WebhookConfiguration") else ""
    if document["kind"] == "ConfigMap" and "-dashboard-" in document["metadata"]["name"]:
        apart = "data"
    return {key: value for key, value in document.items() if key != apart}
