"""The Grafana dashboards, one JSON document each."""

import json
from dataclasses import dataclass
from typing import Any, Final

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_OPENING: Final = "harbormaster_disruption_next_opening_timestamp_seconds"
OWN: Final = 'namespace="$namespace",job=~"$job"'
"""Chooses the series of one installation."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph.

    Args:
        title: Above it.
        unit: Of its axis, as Grafana names it.
        legend: Of its lines.
        expression: What they show, in PromQL.
    """

    title: str
    unit: str
    legend: str
    expression: str


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{OWN}{more}}}[$__rate_interval]))"


def _sum(metric: str, by: str) -> str:
    return f"sum by ({by}) ({metric}{{{OWN}}})"


def _quantile(metric: str, by: str) -> str:
    inner = f"sum by (le, {by}) (rate({metric}_bucket{{{OWN}}}[$__rate_interval]))"
    return f"histogram_quantile(0.99, {inner})"


DASHBOARDS: Final[dict[str, tuple[str, tuple[Panel, ...]]]] = {
    "admission": (
        "harbormaster: admission and placement",
        (
            Panel(
                "Reviews",
                "reqps",
                "{{hook}} {{result}}",
                _rate("harbormaster_admission_requests_total", "hook, result"),
            ),
            Panel("Review latency, p99", "s", "{{hook}}", _quantile("harbormaster_admission_duration_seconds", "hook")),
            Panel(
                "Reviews rejected unread",
                "reqps",
                "{{surface}} {{reason}}",
                _rate("harbormaster_http_rejected_total", "surface, reason"),
            ),
            Panel(
                "Requests in flight",
                "short",
                "{{surface}}",
                f"sum by (surface) (harbormaster_http_in_flight{{{OWN}}})",
            ),
            Panel(
                "Requests to /v1",
                "reqps",
                "{{route}} {{code}}",
                _rate("harbormaster_api_requests_total", "route, code"),
            ),
            Panel(
                "/v1 request latency, p99",
                "s",
                "{{route}}",
                _quantile("harbormaster_api_duration_seconds", "route"),
            ),
            Panel(
                "Extender requests",
                "reqps",
                "{{verb}} {{result}}",
                _rate("harbormaster_extender_requests_total", "verb, result"),
            ),
            Panel("Filtered clusters", "short", "{{plugin}}", _rate("harbormaster_filter_rejections_total", "plugin")),
            Panel(
                "Certificates expire in",
                "s",
                "{{role}}",
                f"min by (role) (harbormaster_certificate_expiration_timestamp_seconds{{{OWN}}} - time())",
            ),
            Panel("Event loop lag", "s", "{{pod}}", f"harbormaster_event_loop_lag_seconds{{{OWN}}}"),
        ),
    ),
    "rollouts": (
        "harbormaster: rollouts and runs",
        (
            Panel("Leaders", "short", "leaders", f"sum(harbormaster_leader{{{OWN}}})"),
            Panel("Stalled placements", "short", "{{kind}}", _sum("harbormaster_placements_stalled", "kind")),
            Panel(
                "Runs waiting for approval",
                "short",
                "{{kind}}",
                f"{_sum('harbormaster_update_runs_waiting_for_approval', 'kind')}"
                f" or {_sum('harbormaster_upgrade_runs_waiting_for_approval', 'kind')}",
            ),
            Panel(
                "Silent members, shut node pools",
                "short",
                "{{kind}}",
                f"{_sum('harbormaster_members_silent', 'kind')} or {_sum('harbormaster_node_pools_shut', 'kind')}",
            ),
            Panel(
                "Reconciles",
                "ops",
                "{{controller}} {{result}}",
                _rate("harbormaster_reconcile_total", "controller, result"),
            ),
            Panel(
                "Reconcile duration, p99",
                "s",
                "{{controller}}",
                _quantile("harbormaster_reconcile_duration_seconds", "controller"),
            ),
            Panel(
                "Queue depth",
                "short",
                "{{controller}}",
                f"sum by (controller) (harbormaster_workqueue_depth{{{OWN}}})",
            ),
            Panel(
                "Longest wait in queue",
                "s",
                "{{controller}}",
                f"max by (controller) (harbormaster_workqueue_longest_wait_seconds{{{OWN}}})",
            ),
            Panel("Retries", "ops", "{{controller}}", _rate("harbormaster_workqueue_retries_total", "controller")),
            Panel("Cache age", "s", "{{resource}}", f"max by (resource) (harbormaster_cache_age_seconds{{{OWN}}})"),
            Panel("Watch events", "ops", "{{resource}}", _rate("harbormaster_watch_events_total", "resource")),
            Panel("Memory", "bytes", "{{pod}}", f"process_resident_memory_bytes{{{OWN}}}"),
            Panel("CPU", "short", "{{pod}}", _rate("process_cpu_seconds_total", "pod")),
        ),
    ),
    "budgets": (
        "harbormaster: budgets",
        (
            Panel(
                "Allowed disruptions",
                "short",
                "{{nodepool}} {{reason}}",
                f"max by (nodepool, reason) (harbormaster_disruption_allowed{{{OWN}}})",
            ),
            Panel(
                "Disrupted nodes",
                "short",
                "{{nodepool}} {{reason}}",
                f"max by (nodepool, reason) (harbormaster_disruption_active{{{OWN}}})",
            ),
            Panel(
                "Time until the next opening",
                "s",
                "{{nodepool}} {{reason}}",
                f"max by (nodepool, reason) ({_OPENING}{{{OWN}}}) - time() > 0",
            ),
            Panel(
                "Gate requests",
                "reqps",
                "{{route}} {{code}}",
                _rate("harbormaster_api_requests_total", "route, code", ',route=~"/v1/gate.*"'),
            ),
        ),
    ),
}
"""File to title and panels."""


def dashboard_page(name: str) -> str:
    """Return one dashboard as Grafana imports it."""
    title, panels = DASHBOARDS[name]
    source = {"type": "prometheus", "uid": "${source}"}
    return json.dumps(
        {
            "uid": f"harbormaster-{name}",
            "title": title,
            "tags": ["harbormaster"],
            "schemaVersion": 39,
            "time": {"from": "now-6h", "to": "now"},
            "refresh": "1m",
            "templating": {"list": _variables()},
            "panels": [_panel(number, panel, source) for number, panel in enumerate(panels)],
        },
        indent=1,
    )


def _variables() -> list[dict[str, Any]]:
    build = "harbormaster_build_info"
    return [
        {"name": "source", "type": "datasource", "query": "prometheus"},
        *(
            {
                "name": name,
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${source}"},
                "query": f"label_values({series}, {name})",
                "refresh": 2,
                "includeAll": several,
                "multi": several,
            }
            for name, series, several in (
                ("namespace", build, False),
                ("job", f'{build}{{namespace="$namespace"}}', True),
            )
        ),
    ]


def _panel(number: int, panel: Panel, source: dict[str, str]) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": "A", "legendFormat": panel.legend, "expr": panel.expression, "datasource": source},
        ],
    }
