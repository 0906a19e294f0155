"""Collection of the data for a heartbeat: nodes, resources, cost, namespaces.

Built in: the watches on nodes, pods and namespaces. Optional: a price list and a property provider. Values that cannot
be collected keep their last state, which the conditions report.

Source: docs/specifications/scheduling.md 18.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import NAMESPACE, NODE, POD, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import AGENT_VERSION, FLEET
from scorer.api.values.quoting import format_count
from scorer.cost import CPU_COST, MEMORY_COST, NO_PRICE, Cost, cluster_cost
from scorer.prices import PriceList
from webhook.kube.ports import EventType, StoreError, WatchEvent, key_of
from webhook.member.membership.heartbeat import HeartbeatFigures, Statement
from webhook.member.objects.owner_references import is_applied_work, owners
from webhook.member.properties.provider import CollectionError, Provided, ProviderCommand
from webhook.member.properties.usage import UNDEFINED_SKU, Usage
from webhook.member.store.reflector import ResourceEventHandler
from webhook.runtime.price_files import PriceFile

NODE_COUNT: Final = FLEET + "node-count"
VERSION: Final = "k8s.io/k8s-version"
VM_SIZES: Final = "kubernetes.azure.com/vm-sizes/{}/count"
COSTS_COLLECTED: Final = "AKSClusterCostPropertiesCollectionSucceeded"
VERSION_LASTS: Final = timedelta(minutes=15)


class _Feed:
    """Forwards the events of one watch, and tracks whether the watch works.

    Args:
        kind: The watched kind.
        replace_all: Called with all objects.
        on_event: Called with an object that was added or modified.
        drop: Called with a deleted object.
        on_answer: Called when the member has answered, even with an error.
    """

    def __init__(
        self,
        kind: Kind,
        replace_all: Callable[[Sequence[JsonObject]], None],
        on_event: Callable[[JsonObject], None],
        drop: Callable[[JsonObject], None],
        on_answer: Callable[[], None],
    ) -> None:
        self.kind = kind
        self.synced = False
        self.problem = "not listed yet"
        self.refused = False
        self._replace_all = replace_all
        self._put = on_event
        self._drop = drop
        self._answered = on_answer

    def listed(self, items: Sequence[JsonObject]) -> None:
        """See `ResourceEventHandler.listed`."""
        self._replace_all(items)
        self.synced, self.problem = True, ""
        self._answered()

    def changed(self, event: WatchEvent) -> None:
        """See `ResourceEventHandler.changed`."""
        if event.type is EventType.DELETED:
            self._drop(event.document)
        else:
            self._put(event.document)

    def failed(self, error: StoreError) -> None:
        """See `ResourceEventHandler.failed`."""
        self.problem = str(error)
        self.refused = True
        self._answered()


class MemberCache:
    """State of the member according to the watches. Keeps only the relevant part of each object."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.namespaces: dict[str, str] = {}
        """Namespace to the AppliedWork that owns it, or to an empty string."""
        self.answered = asyncio.Event()
        """Set when all three kinds have been listed, or one could not be."""
        usage, note = self.usage, self._note
        self._nodes = _Feed(
            NODE, usage.replace_nodes, usage.put_node, lambda node: usage.drop_node(key_of(node).name), note
        )
        self._pods = _Feed(POD, usage.replace_pods, usage.put_pod, lambda pod: usage.drop_pod(key_of(pod)), note)
        self._spaces = _Feed(NAMESPACE, self._replace_namespaces, self._put_namespace, self._drop_namespace, note)

    def _note(self) -> None:
        feeds = (self._nodes, self._pods, self._spaces)
        if all(feed.synced for feed in feeds) or any(feed.refused for feed in feeds):
            self.answered.set()

    @property
    def listeners(self) -> list[tuple[Kind, ResourceEventHandler]]:
        """The kinds to watch on the member, each with its listener."""
        return [(feed.kind, feed) for feed in (self._nodes, self._pods, self._spaces)]

    @property
    def synced(self) -> bool:
        """Whether nodes and pods have been listed once, so that there are sums."""
        return self._nodes.synced and self._pods.synced

    @property
    def knows_namespaces(self) -> bool:
        """Whether namespaces have been listed once."""
        return self._spaces.synced

    def placed_namespaces(self) -> list[str]:
        """Return the namespaces that Works placed."""
        return [name for name, work in self.namespaces.items() if work]

    @property
    def problem(self) -> str:
        """Reason why some kinds cannot be read now, empty if all can."""
        feeds = (self._nodes, self._pods, self._spaces)
        return "; ".join(f"{feed.kind.plural}: {feed.problem}" for feed in feeds if feed.problem)

    def _replace_namespaces(self, items: Sequence[JsonObject]) -> None:
        self.namespaces = {item["metadata"]["name"]: _maker(item) for item in items}

    def _put_namespace(self, item: JsonObject) -> None:
        self.namespaces[item["metadata"]["name"]] = _maker(item)

    def _drop_namespace(self, item: JsonObject) -> None:
        self.namespaces.pop(item["metadata"]["name"], None)


class Collector:
    """Collects the figures for a heartbeat.

    Args:
        observed: State of the member according to the watches.
        now: The clock.
        version: Reads the version of the member's API server. Raises `StoreError`.
        release: Release of harbormaster.
        prices: Prices of nodes. None: disabled, cost is not reported.
        region: Region of the prices, empty for that of the nodes.
        provider: The command that adds properties. None: disabled.
    """

    def __init__(
        self,
        observed: MemberCache,
        now: Callable[[], datetime],
        *,
        version: Callable[[], Awaitable[str]],
        release: str,
        prices: PriceFile[PriceList] | None = None,
        region: str = "",
        provider: ProviderCommand | None = None,
    ) -> None:
        self._observed = observed
        self._now = now
        self._ask_version = version
        self._release = release
        self._prices = prices
        self._region = region
        self._provider = provider
        self._provided: Provided | None = None
        self._version = ""
        self._version_at: datetime | None = None
        self._cost: tuple[tuple[object, ...], Cost] | None = None

    async def collect(self) -> HeartbeatFigures:
        """Return the figures for one heartbeat, including errors."""
        figures = await self._built_in()
        if self._provider is None:
            return figures
        figures = await self._ask_provider(self._provider, figures)
        if self._provider.started is not None:
            figures = replace(figures, statements=(self._provider.started, *figures.statements))
        return figures

    async def _built_in(self) -> HeartbeatFigures:
        observed, usage = self._observed, self._observed.usage
        properties = {AGENT_VERSION: self._release}
        if observed.synced:
            properties |= {NODE_COUNT: str(usage.node_count), **usage.azure_properties}
        if version := await self._server_version():
            properties[VERSION] = version
        statements: list[Statement] = []
        if self._prices is not None and observed.synced:
            properties |= {VM_SIZES.format(sku): str(count) for sku, count in usage.skus.items()}
            cost, message = self._find_cost(await self._prices.current() or PriceList(), self._prices.problem)
            if cost.cpu is not None and cost.memory is not None:
                properties |= {CPU_COST: cost.cpu, MEMORY_COST: cost.memory}
            statements.append(Statement(COSTS_COLLECTED, cost.status, cost.reason, message))
        return HeartbeatFigures(
            properties=properties,
            capacity=usage.capacity,
            allocatable=usage.allocatable,
            available=usage.available,
            namespaces=dict(observed.namespaces) if observed.knows_namespaces else None,
            problem=observed.problem,
            statements=tuple(statements),
            keeps_others=not observed.synced,
            usage_known=observed.synced,
        )

    async def _server_version(self) -> str:
        now = self._now()
        if self._version_at is None or not timedelta() <= now - self._version_at < VERSION_LASTS:
            try:
                self._version = await self._ask_version()
            except StoreError:
                return self._version
            self._version_at = now
        return self._version

    def _find_cost(self, prices: PriceList, problem: str) -> tuple[Cost, str]:
        """Return the cost, recalculated only if nodes or prices have changed, and a message about it."""
        usage = self._observed.usage
        age = self._now() - prices.updated_at if prices.updated_at else timedelta()
        region = self._region or usage.region
        price_list = prices.of(region)
        basis = (usage.node_revision, prices, region, cluster_cost((), price_list, age).reason)
        if self._cost is None or self._cost[0] != basis:
            self._cost = basis, cluster_cost(usage.priced_nodes(), price_list, age)
        cost = self._cost[1]
        return cost, _about_cost(cost, usage, price_list, region) + (f"; {problem}" if problem else "")

    async def _ask_provider(self, provider: ProviderCommand, figures: HeartbeatFigures) -> HeartbeatFigures:
        if provider.has_failed():
            return figures
        try:
            self._provided = await provider.collect()
        except CollectionError as error:
            if provider.has_failed():
                return figures
            answer = self._provided
            if answer is None:
                return replace(figures, problem=str(error), problem_reason=error.reason, keeps_others=True)
            return replace(_with(figures, answer), problem=str(error), problem_reason=error.reason)
        return replace(_with(figures, self._provided), remark=self._provided.remark)


def _with(figures: HeartbeatFigures, answer: Provided) -> HeartbeatFigures:
    """Return *figures* with the report of a provider, which takes precedence."""
    resources = answer.resources
    return replace(
        figures,
        properties={**figures.properties, **answer.properties},
        capacity={**figures.capacity, **resources.get("capacity", {})},
        allocatable={**figures.allocatable, **resources.get("allocatable", {})},
        available={**figures.available, **resources.get("available", {})},
    )


def _about_cost(cost: Cost, usage: Usage, prices: dict[str, float], region: str) -> str:
    suffix = f"in region {region}" if region else "without a region"
    if cost.status == "True":
        old = ". The price list is more than a day old" if cost.reason == "CostsCalculationDegraded" else ""
        return f"prices found for {format_count(usage.node_count, 'node')} {suffix}{old}"
    unknown = [sku for sku in usage.skus if prices.get("" if sku == UNDEFINED_SKU else sku, NO_PRICE) == NO_PRICE]
    if unknown:
        return f"no price {suffix} for {', '.join(unknown[:10])}"
    return "the nodes have no capacity to divide the cost by"


def _maker(namespace: JsonObject) -> str:
    return next((str(owner["name"]) for owner in owners(namespace) if is_applied_work(owner)), "")
