"""Alerts and dashboards name metrics that are there, and alerts link to sections that are there."""

import re

import pytest

from tests.charts.dashboards import DASHBOARDS
from tests.charts.made import AGENT, HUB
from tests.docs.pages import DOCS, REFERENCE, read_page

ALERTS = {
    "hub": HUB / "templates/prometheusrule.yaml",
    "agent": AGENT / "templates/monitoring.yaml",
}
OF_THE_CLIENT = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def unknown(text):
    """Return the metrics that a text names and that we do not have."""
    listed = set(read_page(REFERENCE / "metrics.md").spans)
    named = re.findall(r"\b(?:harbormaster|process)_[a-z_]+", text)
    bare = {re.sub(r"_(total|bucket)$", "", name) for name in named if name not in OF_THE_CLIENT}
    return sorted(bare - listed)


@pytest.mark.parametrize("chart", ALERTS)
def test_alerts_name_metrics_that_are_there(chart):
    assert unknown(ALERTS[chart].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_name_metrics_that_are_there(name):
    for panel in DASHBOARDS[name][1]:
        assert unknown(panel.expression) == [], panel.title


@pytest.mark.parametrize("chart", ALERTS)
def test_alerts_link_to_sections_that_are_there(chart):
    text = ALERTS[chart].read_text(encoding="utf-8")
    linked = re.findall(r"\{\{.*runbook.*\}\}#(alert-\S+)", text)
    assert len(linked) == text.count("- alert: ")
    assert sorted(set(linked) - read_page(DOCS / "troubleshooting.md").anchors) == []


def test_every_alert_that_is_explained_is_shipped():
    explained = {each for each in read_page(DOCS / "troubleshooting.md").anchors if each.startswith("alert-")}
    shipped = {
        each for path in ALERTS.values() for each in re.findall(r"#(alert-\S+)", path.read_text(encoding="utf-8"))
    }
    assert explained == shipped
