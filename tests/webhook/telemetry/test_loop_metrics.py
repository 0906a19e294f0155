"""The metrics of the loop: series that are there from the start, and queues of one term after another."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, PLACEMENT, STAGED_RUN
from webhook.controllers.assembly import CONTROLLERS
from webhook.controllers.machinery.observer import ReconcileOutcome
from webhook.runtime.clock import utc_now
from webhook.telemetry.loop_metrics import LoopMetrics


class Line:
    """A queue as the metrics see it."""

    def __init__(self, name, depth=0, longest_wait_seconds=0.0):
        self.name = name
        self.depth = depth
        self.longest_wait_seconds = longest_wait_seconds

    def __len__(self):
        return self.depth


def sample(registry, name, **labels):
    return registry.get_sample_value(f"harbormaster_{name}", labels)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_all_series_of_a_controller_exist_at_zero_before_this_process_leads(controller):
    registry = CollectorRegistry()
    LoopMetrics(registry, lambda: False)
    for outcome in ("success", "error", "requeue"):
        assert sample(registry, "reconcile_total", controller=controller, result=outcome) == 0
        assert sample(registry, "reconcile_duration_seconds_count", controller=controller, result=outcome) == 0
    for name in ("workqueue_depth", "workqueue_retries_total", "workqueue_longest_wait_seconds"):
        assert sample(registry, name, controller=controller) == 0
    assert sample(registry, "leader") == 0


def test_what_happens_is_counted_over_terms_and_lines_are_read_off_the_present_one():
    leading = [True]
    registry = CollectorRegistry()
    counts = LoopMetrics(registry, lambda: leading[0])
    metrics = counts.term()
    first = Line("work", 3, 1.5)
    metrics.watch(first)
    metrics.finished("work", ReconcileOutcome.SUCCESS, 0.02)
    metrics.finished("work", ReconcileOutcome.ERROR, 2.0)
    metrics.retried("work")
    assert sample(registry, "reconcile_total", controller="work", result="success") == 1
    assert sample(registry, "reconcile_duration_seconds_sum", controller="work", result="error") == 2.0
    assert sample(registry, "workqueue_depth", controller="work") == 3
    assert sample(registry, "workqueue_longest_wait_seconds", controller="work") == 1.5
    assert sample(registry, "leader") == 1
    leading[0] = False
    metrics.ended()
    assert sample(registry, "workqueue_depth", controller="work") == 0
    assert sample(registry, "workqueue_longest_wait_seconds", controller="work") == 0
    assert sample(registry, "leader") == 0
    metrics = counts.term()
    metrics.watch(Line("work", 7))
    metrics.finished("work", ReconcileOutcome.SUCCESS, 0.02)
    assert sample(registry, "workqueue_depth", controller="work") == 7
    assert sample(registry, "reconcile_total", controller="work", result="success") == 2
    assert sample(registry, "workqueue_retries_total", controller="work") == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("placements_stalled", PLACEMENT, id="placement"),
        pytest.param("update_runs_waiting_for_approval", STAGED_RUN, id="run"),
        pytest.param("members_silent", MEMBER_CLUSTER, id="member"),
        pytest.param("node_pools_shut", NODE_POOL, id="pool"),
    ],
)
def test_what_stands_still_is_counted_by_kind_until_it_goes_on_or_the_term_is_over(name, kind):
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, lambda: True).term()
    series = len(list(samples(registry)))

    def counted():
        return sample(registry, name, kind=kind.kind)

    assert counted() == 0
    for key in (*range(1000), 7):
        metrics.needs_action(kind, key, still=True)
    assert counted() == 1000
    metrics.needs_action(kind, 7, still=False)
    metrics.needs_action(kind, "never", still=False)
    assert counted() == 999
    assert len(list(samples(registry))) == series
    metrics.ended()
    assert counted() == 0


def test_terms_of_several_shards_are_added_up_and_one_that_ends_leaves_the_others():
    registry = CollectorRegistry()
    counts = LoopMetrics(registry, lambda: True)
    first, second = counts.term(), counts.term()
    first.watch(Line("work", 3, 1.5))
    second.watch(Line("work", 4, 0.5))
    first.needs_action(MEMBER_CLUSTER, "a", still=True)
    second.needs_action(MEMBER_CLUSTER, "b", still=True)
    assert sample(registry, "workqueue_depth", controller="work") == 7
    assert sample(registry, "workqueue_longest_wait_seconds", controller="work") == 1.5
    assert sample(registry, "members_silent", kind=MEMBER_CLUSTER.kind) == 2
    first.ended()
    assert sample(registry, "workqueue_depth", controller="work") == 4
    assert sample(registry, "workqueue_longest_wait_seconds", controller="work") == 0.5
    assert sample(registry, "members_silent", kind=MEMBER_CLUSTER.kind) == 1


def samples(registry):
    return (each for family in registry.collect() for each in family.samples)


def test_the_age_of_removals_that_wait_is_shown_until_they_are_confirmed_or_the_term_is_over():
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, lambda: True).term()
    kind = PLACEMENT.kind
    assert sample(registry, "removals_oldest_pending_seconds", kind=kind) == 0
    metrics.removal_pending(PLACEMENT, "old", utc_now() - timedelta(days=8))
    metrics.removal_pending(PLACEMENT, "new", utc_now())
    assert sample(registry, "removals_pending", kind=kind) == 2
    assert sample(registry, "removals_oldest_pending_seconds", kind=kind) >= 8 * 86400
    metrics.removal_pending(PLACEMENT, "old", None)
    assert sample(registry, "removals_oldest_pending_seconds", kind=kind) < 86400
    metrics.ended()
    assert sample(registry, "removals_pending", kind=kind) == 0


def test_content_that_no_user_has_confirmed_to_lose_is_counted_by_reason():
    registry = CollectorRegistry()
    metrics = LoopMetrics(registry, lambda: True).term()
    assert sample(registry, "removals_unconfirmed_total", reason="PlacementContentOrphaned") == 0
    metrics.unconfirmed("ContentRemoved")
    assert sample(registry, "removals_unconfirmed_total", reason="ContentRemoved") == 1
