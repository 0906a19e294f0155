"""The answers of the gate (nodepool-disruption.md 14)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.node_pool import Budget
from scorer.node_budgets.answer import GateVerdict
from scorer.node_budgets.blockers import Blocker, DisruptionClass
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts
from scorer.node_budgets.gate import answer
from scorer.node_budgets.nodes import PoolNode, count_nodes
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import InvalidQuestion, Mode, NodeGateQuestion
from scorer.reservations import DISRUPTION, Reservation

POOL_A = (
    Budget(nodes="15%"),
    Budget(nodes="4", reasons=("Empty", "Drifted")),
    Budget(nodes="0", schedule="30 18 * * 5", duration="62h"),
    Budget(nodes="1", reasons=("Underutilized",), schedule="0 */4 * * *", duration="1h30m"),
)
HOURS = (Budget(nodes="10%"), Budget(nodes="0", schedule="0 9 * * 1-5", duration="8h"))
UNUSABLE = (Budget(nodes="10%"), Budget(nodes="1", schedule="every day", duration="8h"))
FRIDAY = datetime(2026, 6, 12, 19, tzinfo=UTC)
WEDNESDAY = datetime(2026, 6, 10, 12, tzinfo=UTC)
NIGHT = datetime(2026, 6, 10, 3, tzinfo=UTC)


def at(text):
    return datetime.fromisoformat(text)


def nodes(total, *, deleting=0, not_ready=0):
    """Return nodes n0 to nX: those that are deleted first, then those that are not ready."""
    made = [
        PoolNode(f"n{number}", "p", f"c{number}", deleting=number < deleting, ready=number >= deleting + not_ready)
        for number in range(total)
    ]
    return {node.name: node for node in made}


def pool(budgets, total=0, **states):
    blocked = states.pop("blocked", {})
    held = states.pop("held", ())
    found = nodes(total, **states)
    view = PoolView("p", tuple(budgets), found, counted=count_nodes(found.values()))
    if blocked:
        view = PoolView("p", tuple(budgets), found, blockers=lambda node, *_: blocked.get(node.name, ()))
    return view.with_held(held)


def ask(view, reason="Drifted", now=WEDNESDAY, **asked):
    graceful = asked.pop("graceful_expiration", False)
    return answer(NodeGateQuestion("p", reason, **asked), view, now, graceful_expiration=graceful)


BLOCKED = {"n1": (Blocker("DoNotDisrupt", "pod shop/a has it", source="Pod shop/a"),)}


class TestVerdicts:
    """One word each, and when it opens."""

    @pytest.mark.parametrize(
        ("reason", "count", "opens"),
        [
            ("Drifted", 2, "2026-06-15T08:30:00+00:00"),
            ("Drifted", 5, None),
            ("Underutilized", 2, "2026-06-15T09:30:00+00:00"),
            ("Unhealthy", 7, "2026-06-15T08:30:00+00:00"),
            ("Unhealthy", 9, None),
        ],
    )
    def test_pool_a_with_nothing_in_flight(self, reason, count, opens):
        found = ask(pool(POOL_A, 47), reason, FRIDAY, count=count)
        assert found.next_open == (None if opens is None else at(opens))
        assert found.verdict is (GateVerdict.NEVER if opens is None else GateVerdict.WINDOW_CLOSED)
        assert (found.allowed, found.granted, found.active, found.binding) == (False, 0, (0, 1, 2), (2,))

    @pytest.mark.parametrize(("reason", "opens"), [("Drifted", None), ("Underutilized", "2026-06-15T09:30:00+00:00")])
    def test_pool_a_with_three_in_flight(self, reason, opens):
        found = ask(pool(POOL_A, 47, deleting=2, not_ready=1), reason, FRIDAY, count=2)
        assert found.next_open == (None if opens is None else at(opens))

    @pytest.mark.parametrize(
        ("count", "verdict", "opens"),
        [
            (1, GateVerdict.WINDOW_CLOSED, "2026-06-10T17:00:00+00:00"),
            (4, GateVerdict.NEVER, None),
            (0, GateVerdict.ALLOWED, None),
        ],
    )
    def test_business_hours(self, count, verdict, opens):
        found = ask(pool(HOURS, 30), count=count)
        assert found.verdict is verdict
        assert found.next_open == (
            WEDNESDAY if opens is None and verdict is GateVerdict.ALLOWED else opens and at(opens)
        )

    def test_a_chain_of_windows(self):
        budgets = (
            Budget(nodes="0", schedule="0 22 * * *", duration="3h"),
            Budget(nodes="0", schedule="0 1 * * *", duration="2h"),
            Budget(nodes="0", schedule="30 2 * * *", duration="5h"),
        )
        found = ask(pool(budgets, 10), now=at("2026-06-10T22:30:00+00:00"), count=1)
        assert found.next_open == at("2026-06-11T07:30:00+00:00")
        assert found.retry_after_seconds == 9 * 3600

    def test_what_is_in_flight_is_named(self):
        found = ask(pool([Budget(nodes="20%")], 10, deleting=1, not_ready=1), count=1)
        assert (found.verdict, found.next_open, found.retry_after_seconds) == (GateVerdict.IN_FLIGHT, None, 10)
        assert (found.limit, found.disrupting, found.remaining, found.total) == (2, 2, 0, 10)
        assert 'budgets[0] (nodes "20%")' in found.message
        assert "n0, n1" in found.message

    def test_as_many_as_may_go_at_all_wait_for_those_in_flight(self):
        found = ask(pool([Budget(nodes="2")], 10, deleting=1), count=2)
        assert (found.verdict, found.limit) == (GateVerdict.IN_FLIGHT, 2)
        assert found.message == (
            'budgets[0] (nodes "2") allows 2 of 10 nodes to be disrupted for Drifted, 2 requested, and 1 is already '
            "being disrupted or not ready (n0). Retry when they have finished or are ready"
        )

    def test_nodes_that_are_not_ready_do_not_hold_back_their_own_repair(self):
        view = pool([Budget(nodes="20%")], 10, not_ready=2)
        assert not ask(view, "Drifted", count=1).allowed
        assert ask(view, "Unhealthy", count=2).allowed

    def test_in_flight_gives_way_to_a_window_that_helps(self):
        budgets = (Budget(nodes="5"), Budget(nodes="2", schedule="0 9 * * 1-5", duration="8h"))
        found = ask(pool(budgets, 10, deleting=2), count=1)
        assert found.limit >= 1
        assert (found.verdict, found.next_open) == (GateVerdict.WINDOW_CLOSED, at("2026-06-10T17:00:00+00:00"))

    def test_a_closed_window_and_nodes_in_flight_are_not_for_ever(self):
        found = ask(pool(HOURS, 30, deleting=3), count=1)
        assert (found.limit, found.verdict, found.next_open, found.retry_after_seconds) == (
            0,
            GateVerdict.IN_FLIGHT,
            None,
            10,
        )
        assert "n0, n1, n2" in found.message
        assert "Retry when they have finished or are ready, at the earliest at 2026-06-10T17:00:00Z" in found.message
        assert ask(pool(HOURS, 30, deleting=3), count=4).verdict is GateVerdict.NEVER

    def test_never_says_which_budget(self):
        found = ask(pool([Budget(nodes="0", reasons=("Drifted",)), Budget(nodes="3")], 10), count=1)
        assert (found.verdict, found.next_open, found.searched_until) == (GateVerdict.NEVER, None, None)
        assert 'budgets[0] (nodes "0", reasons Drifted)' in found.message

    def test_a_schedule_that_never_fires_is_never(self):
        found = ask(pool([Budget(nodes="0", schedule="0 0 30 2 *", duration="1h")], 10), count=1)
        assert (found.verdict, found.retry_after_seconds) == (GateVerdict.NEVER, None), "waiting does not help"
        assert found.document()["retryAfterSeconds"] is None

    @pytest.mark.parametrize("reason", ["Drifted", "Empty", "Unhealthy"])
    def test_a_budget_that_cannot_be_used_shuts_everything(self, reason):
        found = ask(pool(UNUSABLE, 30, blocked=BLOCKED), reason, nodes=("n0", "n1"))
        assert (found.verdict, found.allowed, found.granted) == (GateVerdict.INVALID_BUDGET, False, ())
        assert (found.limit, found.remaining, found.next_open, found.retry_after_seconds) == (0, 0, None, None)
        assert 'budgets[1] (nodes "1", schedule "every day", duration 8h)' in found.message

    @pytest.mark.parametrize("asked", [{"count": 0}, {"nodes": ()}])
    @pytest.mark.parametrize("mode", Mode)
    def test_nothing_may_always_go(self, asked, mode):
        found = ask(pool(UNUSABLE, 0), mode=mode, **asked)
        assert (found.verdict, found.allowed, found.next_open, found.retry_after_seconds) == (
            GateVerdict.ALLOWED,
            True,
            WEDNESDAY,
            0,
        )
        assert found.granted == asked.get("nodes", 0)

    def test_no_budget_is_no_limit(self):
        found = ask(pool([], 9, deleting=2), count=9)
        assert (found.allowed, found.granted, found.limit, found.remaining) == (True, 9, UNLIMITED, UNLIMITED - 2)

    def test_a_pool_without_budgets_can_be_used_up_by_what_was_observed(self):
        found = ask(pool([], 1), count=1, observed=NodeCounts(UNLIMITED, UNLIMITED))
        assert (found.verdict, found.remaining) == (GateVerdict.IN_FLIGHT, 0)
        assert found.message.startswith("NodePool p allows")

    def test_a_question_may_be_about_another_instant(self):
        assert ask(pool(HOURS, 30), now=WEDNESDAY, count=3).verdict is GateVerdict.WINDOW_CLOSED
        asked = NodeGateQuestion("p", "Drifted", count=3, now=at("2026-06-10T19:00:00+02:00"))
        assert answer(asked, pool(HOURS, 30), WEDNESDAY).allowed


class TestNamedNodes:
    """All of them or none; what holds them."""

    def test_all_that_are_named_are_granted(self):
        found = ask(pool(HOURS, 30), now=NIGHT, nodes=("n3", "n1"))
        assert (found.verdict, found.granted, found.next_open) == (GateVerdict.ALLOWED, ("n3", "n1"), NIGHT)
        assert [(each.name, each.disruptable) for each in found.nodes] == [("n3", True), ("n1", True)]

    def test_one_that_is_held_holds_all(self):
        found = ask(pool(HOURS, 30, blocked=BLOCKED), now=NIGHT, nodes=("n0", "n1"))
        assert (found.verdict, found.granted, found.next_open) == (GateVerdict.NODE_BLOCKED, (), None)
        assert [each.disruptable for each in found.nodes] == [True, False]
        assert "n1: pod shop/a has it" in found.message

    def test_the_end_of_a_timed_blocker_is_given_with_it(self):
        end = NIGHT + timedelta(hours=2)
        held = {"n0": (Blocker("DoNotDisrupt", "pod shop/a has it", end, "Pod shop/a"),)}
        found = ask(pool(HOURS, 30, blocked=held), now=NIGHT, nodes=("n0",))
        assert (found.next_open, found.retry_after_seconds) == (None, 10)
        assert found.document()["nodes"] == [
            {
                "name": "n0",
                "disruptable": False,
                "blockers": [
                    {
                        "reason": "DoNotDisrupt",
                        "message": "pod shop/a has it",
                        "source": "Pod shop/a",
                        "until": "2026-06-10T05:00:00Z",
                    }
                ],
            }
        ]

    def test_budgets_come_before_nodes(self):
        found = ask(pool(HOURS, 30, blocked=BLOCKED), nodes=("n1",))
        assert found.verdict is GateVerdict.WINDOW_CLOSED
        assert not found.nodes[0].disruptable

    def test_a_node_that_is_being_deleted_is_no_answer(self):
        found = ask(pool([Budget(nodes="5")], 10, deleting=1), nodes=("n0",))
        assert found.verdict is GateVerdict.NODE_BLOCKED
        assert found.nodes[0].blockers[0].reason == "Deleting"

    def test_the_template_holds_nodes_that_are_there(self):
        found = nodes(3)
        view = PoolView("p", (Budget(nodes="3"),), found, template_do_not_disrupt=True)
        held = ask(view, nodes=("n0",))
        assert held.verdict is GateVerdict.NODE_BLOCKED
        assert held.nodes[0].blockers[0].source == "NodePoolTemplate"

    @pytest.mark.parametrize(
        ("asked", "pointer", "code"),
        [
            pytest.param({"nodes": ("n0", "x")}, "/nodes/1", "unknown-node", id="no-such-node"),
            pytest.param({"nodes": ("n0", "n1", "n0")}, "/nodes/2", "duplicate", id="twice"),
            pytest.param({"count": 4}, "/count", "more-than-exist", id="more-than-exist"),
            pytest.param({"count": 4, "mode": Mode.UP_TO}, "/count", "more-than-exist", id="up-to-more-than-exist"),
            pytest.param({"count": -1}, "/count", "negative", id="negative"),
            pytest.param({"count": 3, "observed": NodeCounts(2)}, "/count", "more-than-exist", id="than-observed"),
            pytest.param({"count": 1, "reason": "Bored"}, "/reason", "unknown-reason", id="reason"),
        ],
    )
    def test_a_question_that_does_not_fit_is_refused(self, asked, pointer, code):
        with pytest.raises(InvalidQuestion) as caught:
            ask(pool([], 3), asked.pop("reason", "Drifted"), **asked)
        assert (caught.value.pointer, caught.value.code) == (pointer, code)
        assert caught.value.detail


@pytest.mark.parametrize(
    ("budgets", "count"),
    [
        pytest.param(({"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"},), 1, id="while-another-one-holds"),
        pytest.param(({"nodes": "5"},), 6, id="beyond-another-one"),
    ],
)
def test_a_budget_that_cannot_be_used_is_said_although_it_is_not_in_force(budgets, count):
    """Once it is in force, it is not known what it allows (nodepool-disruption.md 14.2 and 14.3)."""
    broken = Budget(nodes="x", schedule="0 22 * * *", duration="1h")
    found = ask(pool([*(Budget(**budget) for budget in budgets), broken], 10), count=count)
    assert (found.verdict, found.next_open) == (GateVerdict.INVALID_BUDGET, None)
    assert 'budgets[1] (nodes "x"' in found.message


def test_what_the_budgets_in_force_allow_is_allowed_beside_one_that_will_not_be_usable():
    broken = Budget(nodes="x", schedule="0 22 * * *", duration="1h")
    assert ask(pool([Budget(nodes="5"), broken], 10), count=5).allowed


class TestUpTo:
    """As many as may go, the first ones first."""

    def test_the_first_disruptable_nodes_are_granted(self):
        found = ask(pool(HOURS, 30, blocked=BLOCKED), now=NIGHT, nodes=("n1", "n5", "n4", "n3", "n2"), mode=Mode.UP_TO)
        assert (found.verdict, found.granted) == (GateVerdict.ALLOWED, ("n5", "n4", "n3"))
        assert len(found.nodes) == 5

    def test_part_is_granted_now_and_all_later(self):
        budgets = (Budget(nodes="2", schedule="0 9 * * 1-5", duration="8h"),)
        found = ask(pool(budgets, 30), count=5, mode=Mode.UP_TO)
        assert (found.allowed, found.granted, found.next_open) == (True, 2, at("2026-06-10T17:00:00+00:00"))
        assert found.retry_after_seconds == 5 * 3600

    def test_what_is_held_back_by_a_budget_and_by_pods_is_said_with_both(self):
        budgets = (Budget(nodes="2", schedule="0 9 * * 1-5", duration="8h"),)
        found = ask(pool(budgets, 30, blocked=BLOCKED), nodes=("n1", "n3", "n4", "n5"), mode=Mode.UP_TO)
        assert (found.granted, found.next_open) == (("n3", "n4"), at("2026-06-10T17:00:00+00:00"))
        assert "budgets[0] " in found.message
        assert "more from 2026-06-10T17:00:00Z" in found.message
        assert "n1: pod shop/a has it" in found.message

    def test_part_is_granted_and_all_never(self):
        found = ask(pool([Budget(nodes="2")], 30), count=5, mode=Mode.UP_TO)
        assert (found.allowed, found.granted, found.next_open, found.retry_after_seconds) == (True, 2, None, 10)

    def test_no_budget_opens_what_a_pod_holds(self):
        found = ask(pool([], 30, blocked=BLOCKED), nodes=("n0", "n1"), mode=Mode.UP_TO)
        assert (found.granted, found.next_open) == (("n0",), None)
        assert "n1: pod shop/a has it" in found.message

    def test_refused_when_all_are_held(self):
        found = ask(pool([], 30, blocked=BLOCKED), nodes=("n1",), mode=Mode.UP_TO)
        assert (found.verdict, found.granted) == (GateVerdict.NODE_BLOCKED, ())

    def test_refused_until_one_may_go(self):
        """At most three can ever go: a wait for five would never end."""
        found = ask(pool(HOURS, 30), count=5, mode=Mode.UP_TO)
        assert (found.verdict, found.next_open) == (GateVerdict.WINDOW_CLOSED, at("2026-06-10T17:00:00+00:00"))


class TestHeld:
    """What is promised counts until it shows."""

    def test_held_nodes_use_the_budget_up(self):
        found = ask(pool([Budget(nodes="2")], 10, held={"n7", "n8"}), count=1)
        assert (found.verdict, found.disrupting) == (GateVerdict.IN_FLIGHT, 2)
        assert "n7, n8" in found.message

    def test_a_held_node_counts_once(self):
        view = pool([Budget(nodes="2")], 10, deleting=1, not_ready=1, held={"n0", "n1", "n5", "gone"})
        assert view.counts() == NodeCounts(10, 3, 0) == count_nodes(view.nodes.values(), view.held_nodes)

    def test_a_held_node_is_not_given_twice(self):
        found = ask(pool([Budget(nodes="5")], 10, held={"n7"}), nodes=("n7",))
        assert found.verdict is GateVerdict.NODE_BLOCKED
        assert found.nodes[0].blockers[0].reason == "Reserved"

    def test_what_is_held_without_names_never_exceeds_the_pool(self):
        view = pool([Budget(nodes="5")], 4, deleting=1, not_ready=1).with_held((), 2)
        assert view.counts() == NodeCounts(4, 3, 1)
        assert view.with_held((), 5).counts() == NodeCounts(4, 4, 0)

    def test_what_is_held_counts_besides_what_was_observed(self):
        view = pool([Budget(nodes="5")], 10, deleting=1, held={"n0", "n5"}).with_held((), 1)
        found = ask(view, count=1, observed=NodeCounts(20, 1, 2))
        assert (found.total, found.disrupting, found.remaining) == (20, 5, 0)


def reserved(granted, minutes, holder="patcher", now=WEDNESDAY):
    return Reservation("id", holder, "jane", DISRUPTION, granted, now + timedelta(minutes=minutes))


class TestReserved:
    """A caller that waits for a reservation is told its holder, and when it ends."""

    def test_the_holder_and_the_end_are_named(self):
        view = pool([Budget(nodes="2")], 10).with_reservations([reserved(("n7", "n8"), 10)])
        found = ask(view, count=1)
        assert found.retry_after_seconds == 600
        assert "2 nodes reserved by patcher until 2026-06-10T12:10:00Z" in found.message
        assert found.message.endswith("; opens 2026-06-10T12:10:00Z")

    @pytest.mark.parametrize("count", [1, 2])
    def test_what_a_reservation_holds_back_is_in_flight(self, count):
        view = pool([Budget(nodes="2")], 10).with_reservations([reserved(("n7", "n8"), 10)])
        found = ask(view, count=count)
        assert (found.verdict, found.next_open) == (GateVerdict.IN_FLIGHT, WEDNESDAY + timedelta(minutes=10))

    def test_a_reserved_node_is_free_when_the_reservation_ends(self):
        view = pool([Budget(nodes="5")], 10).with_reservations([reserved(("n7",), 10), reserved(("n8",), 20)])
        found = ask(view, nodes=("n7",))
        assert (found.verdict, found.next_open) == (GateVerdict.NODE_BLOCKED, WEDNESDAY + timedelta(minutes=10))
        assert "already reserved for a disruption, by patcher until 2026-06-10T12:10:00Z" in found.message
        assert found.nodes[0].blockers[0].until == WEDNESDAY + timedelta(minutes=10)
        assert ask(view, nodes=("n8", "n7")).next_open == WEDNESDAY + timedelta(minutes=20)
        assert ask(view, nodes=("n8", "n7"), mode=Mode.UP_TO).next_open == WEDNESDAY + timedelta(minutes=10)

    def test_what_is_kept_by_more_than_a_reservation_opens_at_no_known_time(self):
        view = pool([Budget(nodes="5")], 10, blocked=BLOCKED).with_reservations([reserved(("n7",), 10)])
        assert ask(view, nodes=("n7", "n1")).next_open is None

    @pytest.mark.parametrize(
        ("window", "minutes", "opens"),
        [
            pytest.param("5h", 10, "2026-06-10T12:10:00+00:00", id="the-reservation-ends-first"),
            pytest.param("3h5m", 10, "2026-06-10T12:05:00+00:00", id="the-window-ends-first"),
        ],
    )
    def test_the_earlier_of_the_two_counts(self, window, minutes, opens):
        """From nine o'clock on two may go at once, and two are reserved."""
        budget = Budget(nodes="2", schedule="0 9 * * *", duration=window)
        view = pool([budget], 10).with_reservations([reserved(2, minutes)])
        assert ask(view, count=1).next_open == at(opens)

    def test_a_window_that_opens_after_the_reservation_counts_without_it(self):
        """One may go from five o'clock on, and one is reserved until then."""
        budgets = [Budget(nodes="1"), Budget(nodes="0", schedule="0 9 * * *", duration="8h")]
        view = pool(budgets, 10).with_reservations([reserved(1, 50)])
        found = ask(view, count=1)
        assert (found.verdict, found.next_open) == (GateVerdict.WINDOW_CLOSED, at("2026-06-10T17:00:00+00:00"))

    def test_the_first_reservation_that_makes_room_counts(self):
        held = [reserved(1, 30, "c"), reserved(1, 10, "a"), reserved(("n1",), 20, "b")]
        view = pool([Budget(nodes="3")], 10).with_reservations(held)
        assert ask(view, count=1).next_open == WEDNESDAY + timedelta(minutes=10)
        assert ask(view, count=2).next_open == WEDNESDAY + timedelta(minutes=20)
        assert ask(view, count=4).next_open is None
        assert "a until 2026-06-10T12:10:00Z; 1 node reserved by b until" in ask(view, count=1).message

    def test_nodes_that_are_on_their_way_do_not_come_back(self):
        view = pool([Budget(nodes="2")], 10, deleting=2).with_reservations([reserved(("n0",), 10)])
        found = ask(view, count=1)
        assert (found.verdict, found.next_open) == (GateVerdict.IN_FLIGHT, None)
        assert "patcher" not in found.message

    def test_what_will_have_ended_at_the_instant_asked_about_holds_nothing(self):
        view = pool([Budget(nodes="2")], 10).with_reservations([reserved(2, 10)])
        found = answer(
            NodeGateQuestion("p", "Drifted", count=2, now=WEDNESDAY + timedelta(minutes=10)), view, WEDNESDAY
        )
        assert found.allowed

    def test_of_many_reservations_the_first_ends_and_the_last_are_tried(self):
        held = [reserved(1, number, f"h{number}") for number in range(1, 201)]
        view = pool([Budget(nodes="200")], 400).with_reservations(held)
        assert ask(view, count=1).next_open == WEDNESDAY + timedelta(minutes=1)
        assert ask(view, count=180).next_open == WEDNESDAY + timedelta(minutes=200)
        assert "h3 until 2026-06-10T12:03:00Z and 197 more reservations" in ask(view, count=1).message

    def test_one_further_reservation_is_in_the_singular(self):
        view = pool([Budget(nodes="4")], 40).with_reservations([reserved(1, number) for number in range(1, 5)])
        assert "12:03:00Z and 1 more reservation;" in ask(view, count=1).message

    def test_one_further_blocked_node_is_in_the_singular(self):
        blockers = {f"n{number}": BLOCKED["n1"] for number in range(4)}
        found = ask(pool([Budget(nodes="9")], 9, blocked=blockers), nodes=tuple(blockers))
        assert found.message.endswith("; 1 more node")


class TestExpired:
    """Expiration asks no gate unless the operator decides so."""

    @pytest.mark.parametrize("asked", [{"count": 5}, {"nodes": ("n0", "n1")}])
    def test_nothing_holds_it(self, asked):
        found = ask(pool(UNUSABLE, 10, blocked=BLOCKED), "Expired", **asked)
        assert (found.verdict, found.allowed, found.limit) == (GateVerdict.ALLOWED, True, UNLIMITED)
        assert found.granted == asked.get("nodes", 5)

    def test_graceful_expiration_asks_the_budgets_without_reasons(self):
        budgets = (Budget(nodes="2"), Budget(nodes="0", reasons=("Drifted", "Empty", "Underutilized", "Unhealthy")))
        found = ask(pool(budgets, 10), "Expired", count=2, graceful_expiration=True)
        assert (found.allowed, found.limit, found.binding) == (True, 2, (0,))
        assert not ask(pool(budgets, 10), "Expired", count=3, graceful_expiration=True).allowed

    def test_graceful_expiration_waits_for_pods_as_graceful_disruption_does(self):
        asked_as = []

        def blockers(node, class_, now):
            asked_as.append((node.name, class_, now))
            return BLOCKED["n1"]

        view = PoolView("p", (), nodes(3), blockers=blockers)
        asked = {"nodes": ("n0",), "class_": DisruptionClass.EVENTUAL}
        found = ask(view, "Expired", graceful_expiration=True, **asked)
        assert found.verdict is GateVerdict.NODE_BLOCKED
        assert asked_as == [("n0", DisruptionClass.GRACEFUL, WEDNESDAY)]


def test_a_document_has_the_members_of_the_wire():
    answered = ask(pool(HOURS, 30), count=1)
    assert answered.document() == {
        "allowed": False,
        "granted": 0,
        "limit": 0,
        "disrupting": 0,
        "remaining": 0,
        "total": 30,
        "active": [0, 1],
        "binding": [1],
        "nodes": [],
        "verdict": "WindowClosed",
        "nextOpen": "2026-06-10T17:00:00Z",
        "retryAfterSeconds": 18000,
        "message": 'budgets[1] (nodes "0", schedule "0 9 * * 1-5", duration 8h) allows 0 of 30 nodes to be '
        "disrupted for Drifted, 1 requested; opens 2026-06-10T17:00:00Z",
    }


budgets = st.lists(
    st.builds(
        Budget,
        nodes=st.sampled_from(["0", "1", "3", "10%", "50%", "100%", "many"]),
        reasons=st.sampled_from([None, (), ("Drifted",), ("Empty", "Unhealthy")]),
    )
    | st.builds(
        Budget,
        nodes=st.sampled_from(["0", "1", "50%"]),
        schedule=st.sampled_from(["0 9 * * 1-5", "@daily", "*/20 * * * *", "0 0 30 2 *", "bad"]),
        duration=st.sampled_from(["8h", "10m", "24h", "0m"]),
    ),
    max_size=4,
)


@given(
    budgets=budgets,
    total=st.integers(0, 12),
    deleting=st.integers(0, 3),
    not_ready=st.integers(0, 3),
    count=st.integers(0, 12),
    mode=st.sampled_from(Mode),
    reason=st.sampled_from(["Drifted", "Empty", "Unhealthy"]),
    minute=st.integers(0, 7 * 24 * 60),
)
def test_answers_hold_together(budgets, total, deleting, not_ready, count, mode, reason, minute):
    """For any question, no more is granted than remains, and at nextOpen the wanted nodes may go."""
    view = pool(budgets, total, deleting=deleting, not_ready=not_ready)
    if count > total:
        count = total
    now = WEDNESDAY + timedelta(minutes=minute)
    found = ask(view, reason, now, count=count, mode=mode)
    assert found.allowed is (found.verdict is GateVerdict.ALLOWED)
    assert found.granted <= min(count, found.remaining)
    assert found.allowed is (count == 0 or found.granted == count or (mode is Mode.UP_TO and found.granted > 0))
    assert found.remaining == max(0, found.limit - found.disrupting)
    assert found.message
    if found.verdict in {GateVerdict.NEVER, GateVerdict.INVALID_BUDGET}:
        assert (found.next_open, found.retry_after_seconds) == (None, None)
    else:
        assert found.retry_after_seconds >= (0 if found.next_open == now else 1)
    if found.next_open is not None:
        assert found.next_open >= now
        assert ask(view, reason, found.next_open, count=count, mode=mode).allowed
    if found.verdict is GateVerdict.WINDOW_CLOSED:
        assert found.next_open is not None
