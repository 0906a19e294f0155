"""What the charts are expected to render for the values in their ``ci`` folders, as files that one can read.

What is made from the code and compared with it elsewhere is left out: definitions, the hooks of the webhook
configurations, the content of dashboards.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.charts.rendering import Document, Helm, name_of, read_case
from tests.charts.made import AGENT, HUB
from webhook.runtime.yaml import format_yaml

GOLDEN: Final = Path(__file__).parent / "golden"


def cases() -> Iterator[tuple[Path, Path, Path]]:
    """Yield a chart, a file of values, and the file of what is expected for them."""
    for chart in (HUB, AGENT):
        for values in sorted((chart / "ci").glob("*-values.yaml")):
            yield chart, values, GOLDEN / chart.name / values.name.replace("-values", "")


def golden(helm: Helm, chart: Path, values: Path) -> str:
    """Return what a chart renders, sorted by kind and name."""
    rendered = sorted(helm.render(chart, read_case(values)), key=name_of)
    return format_yaml(*(_shown(each) for each in rendered if each["kind"] != "CustomResourceDefinition"))


def _shown(document: Document) -> Document:
    apart = "webhooks" if document["kind"].endswith("WebhookConfiguration") else ""
    if document["kind"] == "ConfigMap" and "-dashboard-" in document["metadata"]["name"]:
        apart = "data"
    return {key: value for key, value in document.items() if key != apart}
