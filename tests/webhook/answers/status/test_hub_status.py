"""Reading the status of a large hub: other tasks run between the steps."""

import asyncio

from scorer.api.family import placement_ref
from scorer.api.kinds import PLACEMENT
from tests.webhook.placed import make_placement
from webhook.answers.advisor import HubAdvisor
from webhook.answers.status.hub_status import HubStatus
from webhook.answers.update_runs import HubRuns
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.runtime.clock import utc_now

COUNT = 450


class RemovalsAdvisor(HubAdvisor):
    """A hub whose only placements are those with pending removals. Notes when each one is read."""

    def __init__(self, cache, turn):
        super().__init__(cache, utc_now)
        self.turns = []
        self._turn = turn

    def pending_removal_refs(self):
        return [placement_ref(f"p{number}") for number in range(COUNT)]

    def removals(self, refs):
        self.turns += [self._turn() for _ in refs]
        return [{"placement": str(ref), "removals": []} for ref in refs]


async def test_pending_removals_are_read_in_steps():
    store, turn = EmbeddedStore.open(None), 0

    async def others():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    cache = Cache(store)
    cache.of_kind(PLACEMENT).put({**make_placement(), "metadata": {"resourceVersion": "1", "name": "web"}})
    advisor = RemovalsAdvisor(cache, lambda: turn)
    other_task = asyncio.create_task(others())
    await HubStatus(advisor, HubRuns(cache, utc_now)).status({PLACEMENT})
    other_task.cancel()
    assert len(advisor.turns) == COUNT
    assert max(map(advisor.turns.count, set(advisor.turns))) <= 100
    store.close()
