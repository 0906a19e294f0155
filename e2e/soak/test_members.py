"""What a member that joins or is lost has to wait for: the end of a token, and the patience of the loop."""

import pytest

from e2e.fleet.joining import HUB_SECRET, SECRET, Pair, leave_without_the_member
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until

pytestmark = pytest.mark.soak


def test_an_agent_outlives_its_tokens(pair_with_loop: Pair) -> None:
    """With the shortest life that an API server grants, ten minutes: the token of the first minute has ended then."""
    pair = pair_with_loop
    pair.join()
    first = pair.token()
    pair.start_agent(hub_token_seconds=600)
    wait_until("the first renewal", lambda: "" if pair.token() != first else "the same")
    second = pair.token()
    wait_until("it has ended", lambda: "it is accepted" if pair.user_of(second) else "", seconds=800, pause=5)
    assert pair.agent is not None
    assert pair.agent.ready()
    pair.stop_agent(killed=True)
    pair.start_agent(hub_token_seconds=600)


def test_the_loop_lets_a_member_go_that_is_lost(pair_with_loop: Pair) -> None:
    """It waits for half a minute, the least that can be set."""
    pair = pair_with_loop
    pair.join()
    leave_without_the_member(pair)
    pair.leave()
    assert not pair.in_member.find(SECRET, HUB_SECRET, SYSTEM)
