"""What the metrics say of pools, and how often they search for it."""

import threading
from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from scorer.api.node_pool import Budget
from scorer.node_budgets.nodes import PoolNode
from scorer.node_budgets.outlook import outlook
from scorer.node_budgets.pool_view import PoolView
from webhook.endpoints import probes
from webhook.gate import metrics as pool_metrics
from webhook.gate.metrics import PoolMetrics
from webhook.telemetry.health import Health
from webhook.telemetry.metrics import Metrics

WEDNESDAY = datetime(2026, 6, 10, 12, tzinfo=UTC)
OFFICE_HOURS = Budget(nodes="0", schedule="0 9 * * 1-5", duration="8h")
SCHEDULES = ["*/7 * * * *", "3 */2 * * *", "0 0 29 2 *", "59 23 * * 1-5", "soon", "@every 1h"]
FIVE = 17 * 3600 + datetime(2026, 6, 10, tzinfo=UTC).timestamp()


def view(*budgets, ready=10, deleting=0, name="a", **more):
    nodes = {f"n{i}": PoolNode(f"n{i}", name, f"c{i}", deleting=i < deleting) for i in range(ready + deleting)}
    return PoolView(name, budgets, nodes, **more)


class Scrape:
    """A registry over pools that can be exchanged, and a clock that stands still unless it is moved."""

    def __init__(self, *views):
        self.views, self.now = views, WEDNESDAY
        self._registry = CollectorRegistry(auto_describe=True)
        PoolMetrics(self._registry, lambda: self.views, lambda: self.now)

    def __call__(self, word, reason="Drifted", nodepool="a"):
        labels = {"nodepool": nodepool, "reason": reason}
        return self._registry.get_sample_value(f"harbormaster_disruption_{word}", labels)


@pytest.mark.parametrize(
    ("pool", "allowed", "active", "opening"),
    [
        pytest.param(view(Budget()), 1, 0, 0, id="open"),
        pytest.param(view(), inf, 0, 0, id="no-budget-no-limit"),
        pytest.param(view(Budget(nodes="3"), deleting=2), 3, 2, 0, id="partly-used"),
        pytest.param(view(Budget(nodes="3"), held_nodes=frozenset({"n1"}), held_count=1), 3, 2, 0, id="reserved"),
        pytest.param(view(OFFICE_HOURS), 0, 0, FIVE, id="window"),
        pytest.param(view(Budget(nodes="0")), 0, 0, inf, id="never"),
        pytest.param(view(Budget(nodes="1", schedule="soon", duration="1h")), 0, 0, inf, id="cannot-be-used"),
        pytest.param(view(Budget(nodes="1"), deleting=1), 1, 1, None, id="in-flight"),
        pytest.param(view(Budget(), ready=0), 0, 0, None, id="no-nodes"),
    ],
)
def test_limit_use_and_opening(pool, allowed, active, opening):
    scrape = Scrape(pool)
    assert (scrape("allowed"), scrape("active"), scrape("next_opening_timestamp_seconds")) == (allowed, active, opening)


def test_every_pool_and_reason_has_its_own():
    only_drift = Budget(nodes="0", reasons=("Drifted",))
    scrape = Scrape(view(only_drift), view(Budget(nodes="2"), name="b"))
    assert [scrape("allowed", reason) for reason in ("Underutilized", "Empty", "Drifted", "Unhealthy")] == [
        inf,
        inf,
        0,
        inf,
    ]
    assert scrape("allowed", "Drifted", "b") == 2
    scrape.views = ()
    assert scrape("allowed") is None


def test_what_was_found_out_is_kept_until_a_window_opens_or_closes_or_something_changes(monkeypatch):
    looked = []
    found = pool_metrics.outlook
    monkeypatch.setattr(pool_metrics, "outlook", lambda *given: (looked.append(given), found(*given))[1])
    scrape = Scrape(view(Budget(nodes="0", schedule="0 9 * * *", duration="8h")))
    scrape.now = WEDNESDAY + timedelta(hours=2)
    for minutes in (0, 1, 179):
        scrape.now = WEDNESDAY + timedelta(hours=2, minutes=minutes)
        assert scrape("next_opening_timestamp_seconds") == FIVE
    assert len(looked) == 1
    scrape.now = WEDNESDAY + timedelta(hours=5)
    assert (scrape("next_opening_timestamp_seconds"), scrape("allowed")) == (0, inf)
    scrape.now = WEDNESDAY + timedelta(hours=21)
    assert (scrape("next_opening_timestamp_seconds"), scrape("allowed")) == (FIVE + 86_400, 0)
    scrape.views = (view(Budget(nodes="0"), deleting=1),)
    assert (scrape("next_opening_timestamp_seconds"), scrape("active")) == (inf, 1)


@given(
    budgets=st.lists(
        st.builds(
            Budget,
            nodes=st.sampled_from(["0", "1", "50%"]),
            schedule=st.sampled_from(
                ["*/7 * * * *", "3 */2 * * *", "0 0 29 2 *", "59 23 * * 1-5", "soon", "@every 1h"]
            ),
            duration=st.sampled_from(["3m", "0m", "1h", "13h"]),
            reasons=st.sampled_from([None, ("Drifted",), ()]),
        ),
        max_size=3,
    ),
    steps=st.lists(st.integers(1, 30_000), max_size=12),
)
def test_what_is_kept_is_what_would_be_found_anew(budgets, steps):
    """However scrapes lie in time, one that remembers says the same as one that does not."""
    pool = view(*budgets, deleting=1)
    scrape = Scrape(pool)
    scrape("allowed")
    for seconds in steps:
        scrape.now += timedelta(seconds=seconds)
        anew = Scrape(pool)
        anew.now = scrape.now
        for word in ("allowed", "active", "next_opening_timestamp_seconds"):
            for reason in ("Empty", "Drifted"):
                assert scrape(word, reason) == anew(word, reason)


async def test_pools_are_judged_beside_the_event_loop_when_metrics_are_asked_for(monkeypatch):
    threads = []

    def noting(*asked):
        threads.append(threading.get_ident())
        return outlook(*asked)

    monkeypatch.setattr(pool_metrics, "outlook", noting)
    metrics = Metrics()
    pools = (view(OFFICE_HOURS), view(Budget(), name="b"))
    metrics.prepare_with(PoolMetrics(metrics.registry, lambda: pools, lambda: WEDNESDAY).prepare)
    app = web.Application()
    probes.add_routes(app, Health(), metrics)
    async with TestClient(TestServer(app)) as client:
        for _ in range(2):
            answer = await client.get("/metrics")
            assert 'harbormaster_disruption_allowed{nodepool="b",reason="Empty"} 1.0' in await answer.text()
    assert len(threads) == 2, "each pool once, as nothing changed"
    assert threading.get_ident() not in threads
