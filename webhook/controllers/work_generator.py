"""Bindings: one Work per snapshot in the member's namespace, and what the Works say back.

Source: rollout.md 9, 10 and 15.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from scorer.api.kinds import MEMBER_CLUSTER, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, WORK_CLEANUP, member_namespace
from scorer.rollout.binding_status import binding_status
from scorer.rollout.resource_snapshots import SnapshotGroup, snapshot_groups
from scorer.rollout.works import needs_works, plan_works
from webhook.controllers.family import FAMILY_OF, Family, is_deleting, with_finalizer, without_finalizer
from webhook.controllers.result import DONE, Result, RetryError
from webhook.kube.hub import Hub

POLL_DELETION = timedelta(seconds=30)
"""How often a binding that is being deleted looks whether its Works are gone, besides their events."""


@dataclass(frozen=True, slots=True)
class BindingRef:
    """Names a binding; *kind* is that of its placement."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class WorkGenerator:
    """Keeps the Works of one binding.

    Args:
        hub: Where everything is.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now

    async def reconcile(self, ref: BindingRef) -> Result:
        """Make the Works of one binding match its snapshot, and its status match the Works."""
        family = FAMILY_OF[ref.kind]
        binding = self._hub.cache.get(family.binding, ref.name, ref.namespace)
        if binding is None:
            return DONE
        if is_deleting(binding):
            return await self._clean_up(family, binding)
        cluster = binding["spec"]["targetCluster"]
        if not needs_works(binding) or self._hub.cache.get(MEMBER_CLUSTER, cluster) is None:
            return DONE
        group = self._group(family, binding)
        placement = self._hub.cache.get(family.placement, family.parent(binding).name, ref.namespace)
        strategy = (placement or {}).get("spec", {}).get("strategy") or {}
        plan = plan_works(binding, group, self.works(binding), report_back=strategy.get("reportBackStrategy"))
        if plan.writes and (held := with_finalizer(binding, WORK_CLEANUP)) is not None:
            binding = await self._hub.replace(family.binding, held)
        await self._hub.carry_out(WORK, plan.writes)
        status = binding_status(binding, self.works(binding), plan, self._now())
        await self._hub.replace_status(family.binding, binding, status)
        if plan.problem and plan.problem.retry:
            raise RetryError(plan.problem.message)
        return DONE

    def works(self, binding: JsonObject) -> list[JsonObject]:
        """Return the Works that belong to a binding."""
        metadata = binding["metadata"]
        namespace = member_namespace(binding["spec"]["targetCluster"])
        parent = metadata["labels"][PARENT_PLACEMENT]
        found = self._hub.cache.labelled(WORK, PARENT_BINDING, metadata["name"], namespace)
        return [work for work in found if work["metadata"]["labels"].get(PARENT_PLACEMENT) == parent]

    def _group(self, family: Family, binding: JsonObject) -> SnapshotGroup | None:
        name = binding["spec"].get("resourceSnapshotName")
        snapshots = family.children(self._hub.cache, family.resource_snapshot, family.parent(binding))
        return next((group for group in snapshot_groups(snapshots) if name and group.name == name), None)

    async def _clean_up(self, family: Family, binding: JsonObject) -> Result:
        """Delete the Works of a binding that is being deleted; when none is left, let it go."""
        for work in self.works(binding):
            if not is_deleting(work):
                await self._hub.delete(WORK, work)
        if self.works(binding):
            return Result(POLL_DELETION)
        if (free := without_finalizer(binding, WORK_CLEANUP)) is not None:
            await self._hub.replace(family.binding, free)
        return DONE
