"""``harbormaster agent``: the agent in a member cluster.

It connects to two API servers: the hub, where it sees one namespace, and the member. It reads its membership and the
Works from the hub, and reports their progress and the health of the member. Only probes connect to it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from scorer.api.names import member_namespace
from scorer.prices import read_price_list
from scorer.rollout.selection.exclusions import MemberLimits, parse_kind_rules
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import Key, StoreError
from webhook.member.membership.controller import Membership, Rhythm
from webhook.member.membership.heartbeat import HeartbeatFigures
from webhook.member.membership.hub_secret import HUB_SECRET
from webhook.member.membership.hub_token import HubToken, read_access
from webhook.member.membership.registration import Registration, agent_namespace
from webhook.member.metrics import AgentMetrics
from webhook.member.properties.collector import Collector, MemberCache
from webhook.member.properties.namespace_contents import NamespaceCounter
from webhook.member.properties.provider import ProviderCommand
from webhook.member.store.api_server import RemoteMember, ailment
from webhook.member.store.reflector import follow
from webhook.member.works.controller import Applying, Time
from webhook.processes.garbage import freeze_heap
from webhook.processes.member_nodes import MemberNodes
from webhook.runtime.clock import utc_now
from webhook.runtime.distribution import installed_version
from webhook.runtime.price_files import PriceFile
from webhook.server.probe_server import ProbeServer
from webhook.settings.agent import AgentSettings
from webhook.telemetry.health import Health
from webhook.telemetry.node_disruption_metrics import NodeDisruptionMetrics
from webhook.telemetry.process_metrics import ProcessMetrics

FIRST_FIGURES_SECONDS: Final = 10.0
"""Maximum delay of the first heartbeat, until nodes and pods have been listed."""
CONNECTIONS: Final = 6
"""Maximum number of concurrent requests to each of the two API servers.

More requests would not be faster, and every connection needs memory for its buffers.
"""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of an agent.

    Args:
        cluster: Name of the MemberCluster of this cluster.
        hub_kubeconfig: Kubeconfig of the hub. None means the login in the Secret
            `webhook.member.membership.hub_secret.HUB_SECRET` in the agent's own namespace on the member.
        hub_context: Context in *hub_kubeconfig*. None means its current context.
        kubeconfig: Kubeconfig of the member. None means the cluster of this pod.
        context: Context in *kubeconfig*. None means its current context.
        prices: Price list. None: disabled, cost is not reported.
        provider: Command that reports further properties. Empty: none.
        region: Region of the prices. Empty: the region of the nodes.
        take_over: Take over the cluster, even if it belongs to another hub or is another member.
    """

    cluster: str
    hub_kubeconfig: Path | None = None
    hub_context: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    prices: Path | None = None
    provider: Sequence[str] = ()
    region: str = ""
    take_over: bool = False


class Agent:
    """The agent of one member.

    Args:
        options: Member, and the properties to report.
        settings: Settings of the process.
        now: The clock, for reports.

    Raises (on entering):
        webhook.kube.login.connection.ConfigurationError: A kubeconfig, the Secret or the instance types are invalid.
        webhook.runtime.price_files.PriceFileError: The price list is invalid.
    """

    def __init__(
        self, options: AgentOptions, settings: AgentSettings, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.options = options
        self.settings = settings
        self.health = Health()
        self._now = now
        self._stack = AsyncExitStack()
        self._applying: Applying | None = None
        self._own_namespace = ""
        self._token: HubToken | None = None

    async def __aenter__(self) -> Self:
        options = self.options
        prices = None if options.prices is None else PriceFile(options.prices, read_price_list)
        if prices is not None:
            await prices.open()
        if (table := self.settings.node_disruption_prices) is not None:
            from webhook.gate.instance_types import check_instance_types  # loads the planner

            await check_instance_types(table)
        async with AsyncExitStack() as stack:
            self._member_server = await stack.enter_async_context(
                await ApiServer.connect(options.kubeconfig, options.context, connections=CONNECTIONS)
            )
            self._member = RemoteMember(self._member_server)
            self._hub_server = await stack.enter_async_context(await self._connect_hub())
            self._hub = HubStore(self._hub_server)
            self._observed = MemberCache()
            self._collector = Collector(
                self._observed,
                self._now,
                version=self._version,
                release=installed_version(),
                prices=prices,
                region=options.region,
                provider=ProviderCommand(options.provider) if options.provider else None,
            )
            self._contents = NamespaceCounter(self._member_server, self._observed.placed_namespaces, self._now)
            metrics = ProcessMetrics(commit=self.settings.commit)
            counts = AgentMetrics(metrics.registry, is_joined=lambda: self.membership.joined, works=self._works)
            self._counts = counts
            registration = Registration(options.cluster, self._member, self._home, take_over=options.take_over)
            self._registration = registration
            self._nodes = MemberNodes(
                self._member_server,
                self._home,
                self.settings.node_disruption(),
                NodeDisruptionMetrics(metrics.registry),
                self._now,
                self._is_ours,
            )
            self.membership = Membership(
                options.cluster,
                self._hub,
                self._figures,
                self._apply,
                registration,
                rhythm=Rhythm(self._now),
                beaten=counts.count_heartbeat,
            )
            self.health.require("hub", lambda: self.membership.problem or self.membership.undelivered)
            if (token := self._token) is not None:
                self.health.require("hub-token", lambda: token.problem)
            self.health.require("identity", lambda: self.membership.refused)
            self.health.require("member", lambda: self._observed.problem)
            self.health.live_by("hub-login", self._hub_server.contact.refusal)
            self.health.live_by("member-login", self._member_server.contact.refusal)
            self.server = ProbeServer(self.settings, self.health, metrics, self.run)
            self._stack = stack.pop_all()
        freeze_heap()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Run the agent until cancelled. Called by ``server``, which `webhook.server.listening.serve` runs."""
        observer = HubStore(self._member_server)
        async with asyncio.TaskGroup() as group:
            for kind, listener in self._observed.listeners:
                group.create_task(follow(observer, kind, listener))
            if self._token is not None:
                group.create_task(self._token.keep_valid(self._hub_server))
            group.create_task(self.membership.run())
            group.create_task(self._nodes.run())
            group.create_task(self._contents.run())
            group.create_task(self._hub_server.probe())
            group.create_task(self._member_server.probe())

    async def _connect_hub(self) -> ApiServer:
        """Return the hub, with the login in a kubeconfig or in the member's Secret. The Secret's token is renewed.

        Raises:
            ConfigurationError: The kubeconfig or the Secret is invalid, or the agent's namespace is unknown.
        """
        options = self.options
        if options.hub_kubeconfig is not None:
            return await ApiServer.connect(options.hub_kubeconfig, options.hub_context, connections=CONNECTIONS)
        try:
            home = await self._home()
        except StoreError as error:
            raise ConfigurationError(f"cannot determine the namespace of the agent: {error}") from error
        key = Key(HUB_SECRET, home)
        self._token = HubToken(
            self._member,
            key,
            await read_access(self._member, key, options.cluster),
            life_seconds=self.settings.hub_token_seconds,
            renewal_seconds=self.settings.hub_token_renewal_seconds,
        )
        return ApiServer(self._token.login(), connections=CONNECTIONS, reread=self._token.reread)

    def _works(self) -> int:
        return 0 if self._applying is None or not self.membership.joined else self._applying.works

    async def _home(self) -> str:
        """Return the agent's own namespace on the member."""
        if not self._own_namespace:
            self._own_namespace = await agent_namespace(self._member_server, self.settings.namespace)
        return self._own_namespace

    async def _is_ours(self) -> bool:
        """Return whether the cluster belongs to this member. Does not need the hub."""
        return not self.membership.refused and await self._registration.is_recorded()

    async def _apply(self, hub_uid: str) -> None:
        """Apply Works while this is a member. Each call starts without the state of the previous one."""
        start = asyncio.get_running_loop().time()
        self._applying = Applying(
            member_namespace(self.options.cluster),
            self._hub,
            self._member,
            time=Time(self._now, lambda: _EPOCH + timedelta(seconds=asyncio.get_running_loop().time() - start)),
            read_hub_state=self.membership.hub_state,
            count=self._counts.passed,
            hub_uid=hub_uid,
            limits=MemberLimits(
                await self._home(), self.settings.blocked_namespaces, parse_kind_rules(self.settings.allowed_kinds)
            ),
        )
        await self._applying.run()

    async def _figures(self) -> HeartbeatFigures:
        """Return the figures of the next heartbeat."""
        if not self._observed.synced:
            await self._wait_for_figures()
        figures, problem = await asyncio.gather(self._collector.collect(), ailment(self._member_server))
        applying = self._applying if self.membership.joined else None
        without_work = None if applying is None else applying.without_work()
        return replace(
            figures,
            healthy=not problem,
            ailment=problem,
            without_work=without_work,
            namespace_contents=self._contents.contents,
        )

    async def _wait_for_figures(self) -> None:
        """Wait up to `FIRST_FIGURES_SECONDS` for the first lists, so that the first heartbeat has figures."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_FIGURES_SECONDS):
                await self._observed.answered.wait()

    async def _version(self) -> str:
        answer = await self._member_server.request("GET", ApiPath("version"))
        version = answer.get("gitVersion")
        if not isinstance(version, str):
            raise StoreError("/version: must have a gitVersion")
        return version
