"""``harbormaster up``: everything in one process, on the embedded store, with simulated members.

All state is in one folder: ``hub.db``, one file per member below ``members/``, the token of the API, the CA certificate
that was created at this start, and ``kubeconfig``, with which clients find the server. After a kill at any point, the
next start continues from that state.
"""

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from certs.client_authorities import AuthorityFile
from scorer.api.family import FAMILIES
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, KINDS, MEMBER_CLUSTER, NAMESPACE, UPGRADE_GATE, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.rollout.selection.exclusions import DEFAULT_SETTINGS as DEFAULT_SELECTION
from scorer.rollout.snapshots.resources import SnapshotSettings
from scorer.staged_update.phase import RunPhase, RunSituation, RunWaitKind, situation_of
from scorer.upgrade.views.situation import UpgradeSituation, approved_gates, is_moving
from scorer.upgrade.views.situation import situation_of as upgrade_situation
from webhook.actions.page_actions import PageActions
from webhook.actions.viewer_hub import ForwardingHubs
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.placements import Placement, placement_view
from webhook.controllers.assembly import make_loop
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.api_server.owner_token import OWNER, OwnerToken
from webhook.embedded.simulation.members import SimulatedMembers
from webhook.embedded.simulation.nodes import SimulatedNodes
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.embedded.storage.store import EmbeddedStore
from webhook.endpoints.http.services import Admittance, PageFacts
from webhook.history.record import RecordSource
from webhook.history.service import EventSinks, history_of
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.events import EventRecorder
from webhook.kube.listers.upgrades import readable_runs
from webhook.kube.login.connection import ApiServerEndpoint
from webhook.kube.ports import AlreadyExistsError
from webhook.notifications.notifier import notifier_of
from webhook.processes import hub_kubeconfig
from webhook.processes.data_folder import ELSEWHERE, DataFolderError, check_file, check_folder
from webhook.processes.garbage import freeze_heap
from webhook.processes.services import answers_of, services_of
from webhook.runtime.clock import utc_now
from webhook.runtime.files import read_bounded
from webhook.server.certificates import Certificates, own_leaves
from webhook.server.server import Server
from webhook.settings.programs import UpSettings
from webhook.telemetry.metrics import Metrics

FIRST_NAMESPACES: Final = ("default", "kube-system")
SETTLED_STATES: Final = frozenset({"available", "empty", "removal pending", "short", "invalid", "external", "failed"})
_FORMER_FILE: Final = "client.json"
"""Former token file for clients, before the kubeconfig. A killed hub may have left it."""
QUIET_SECONDS: Final = 0.6
"""Time without changes after which the fleet counts as settled."""
THROTTLE: Final = SnapshotSettings(interval=timedelta(), collection=timedelta(seconds=1))
"""Shorter than the defaults: a user who edits an example waits for a second instead of half a minute."""

SOON: Final = timedelta(seconds=30)
"""Runs that wait no longer than this count as moving."""

_TIMES_OF_REPORTS: Final = frozenset({"resourceVersion", "lastReceivedHeartbeat", "observationTime"})

_SELECTABLE = tuple(
    kind for kind in KINDS.values() if DEFAULT_SELECTION.is_selectable(kind.group, kind.versions[0], kind.kind)
)
"""Kinds that the loop watches because placements may select them."""


class Up:
    """One whole harbormaster: store, loop, members, server.

    Args:
        settings: Settings of the process.
        data: Folder of all state. Created if missing.
        now: The clock.
        page: Facts about the server for its page. None means the hub in the default data folder.

    Raises (on entering):
        DataFolderError: The folder is unusable.
        webhook.kube.ports.StoreError: The database of the store is unusable.
        webhook.server.listening.ListenError: A port is in use.
    """

    def __init__(
        self, settings: UpSettings, data: Path, *, now: Callable[[], datetime] = utc_now, page: PageFacts | None = None
    ) -> None:
        self.settings = settings
        self.data = data
        self.token_file = data / "token"
        self.hook_secret_file = settings.webhook_secret_file or data / "hook-secret"
        self.ca_file = data / "ca.crt"
        self.kubeconfig = data / hub_kubeconfig.FILE
        self._now = now
        self._page = page or PageFacts("harbormaster", simulated=True)
        self._stack = AsyncExitStack()
        self._running: asyncio.Task[None] | None = None
        self._reports = 0

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._make_folder()
            self.store = EmbeddedStore.open(self.data / "hub.db", now=self._now)
            stack.callback(self.store.close)
            token = self._secret_in(self.token_file)
            if self.settings.webhook_secret_file is None:  # without it every local process could act as an API server
                self._secret_in(self.hook_secret_file)
            self.cache = Cache(self.store)
            context = CachedContext(self.cache, self.settings.admission(), self._now, selectable=_SELECTABLE)
            self.hub = Hub(self.store, self.cache)
            settings = replace(self.settings.loop(), snapshots=THROTTLE)
            selectables = Selectables(self.cache, EmbeddedKinds(self.store.kinds), settings.selection)
            history = history_of(self.store, self.settings.namespace, self.settings, RecordSource.LOOP, "up", self._now)
            owner, metrics = OwnerToken(token), Metrics(commit=self.settings.commit)
            self.notifier = await notifier_of(self.settings, self.settings.namespace, "up", metrics.registry, self._now)
            events = EventRecorder(self.store, self._now, "up", history.note_event, self.notifier.note_event)
            self.loop = make_loop(self.hub, self._now, selectables, settings, events=events)
            self.members = SimulatedMembers(self.store, self.data, now=self._now)
            self.nodes = SimulatedNodes(self.store)
            for kind in (MEMBER_CLUSTER, INTERNAL_MEMBER_CLUSTER):
                self.cache.subscribe(kind, self._count_report)
            await self._make_namespaces()
            answers = answers_of(self.cache, self.store, context, UndisputedRights(), self._now)
            sinks = EventSinks(events.record, history)
            services = services_of(
                answers, Admittance(owner, owner), self.cache, self.store, self.settings, metrics, sinks
            )
            actions = PageActions(ForwardingHubs(self._endpoint), self._now) if self.settings.page_actions else None
            self.services = replace(services, page=self._page, actions=actions)

            def extend(app: web.Application) -> None:
                add_routes(app, self.store, lambda: context().with_user(OWNER), token, history=history)

            client_ca = self.settings.client_ca
            authorities = AuthorityFile(client_ca, self.settings.certificate_check_seconds) if client_ca else None
            leaves = own_leaves(self.settings, self._now)
            certificates = Certificates(
                leaves, authorities, metrics, self._now, self.settings.certificate_check_seconds
            )
            hook_settings = self.settings.model_copy(update={"webhook_secret_file": self.hook_secret_file})
            server = Server(self.services, hook_settings, certificates, metrics, extend=extend)
            self._running = asyncio.create_task(self._run(), name="up")
            stack.push_async_callback(self._stop_running)
            await stack.enter_async_context(server)
            self.server = server
            self._tell_clients(token)
            stack.callback(self.kubeconfig.unlink, missing_ok=True)
            self._stack = stack.pop_all()
        freeze_heap()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def https_url(self) -> str:
        """URL of the HTTPS listener."""
        return self.server.addresses.https_url

    @property
    def http_url(self) -> str:
        """URL of the page on this machine, which needs no certificate."""
        return self.server.addresses.http_url

    async def wait(self) -> None:
        """Wait until the loop or the server stops by itself, which is a bug. Raises its error."""
        assert self._running is not None
        server_task = asyncio.create_task(self.server.wait(), name="serving")
        done, _ = await asyncio.wait([self._running, server_task], return_when="FIRST_COMPLETED")
        for task in done:
            if not task.cancelled():  # cancelled when the server stops
                task.result()

    def placements(self) -> list[Placement]:
        """Return all placements as in ``GET /v1/placements``."""
        views = (
            placement_view(self.cache, family, document)
            for family in FAMILIES
            for document in self.cache.list(family.placement)
        )
        return sorted(views, key=lambda item: item["ref"])

    def runs(self) -> list[tuple[JsonObject, RunSituation]]:
        """Return the unfinished staged update runs with their situations."""
        runs = []
        for family in FAMILIES:
            requests = self.cache.list(family.approval_request)
            runs += [(run, situation_of(run, requests, self._now())) for run in self.cache.list(family.run)]
        return [(run, situation) for run, situation in runs if not situation.is_over]

    def upgrades(self) -> list[tuple[ClusterUpgradeRun, UpgradeSituation]]:
        """Return the unfinished upgrade runs with their situations."""
        runs = readable_runs(self.cache.list(UPGRADE_RUN))
        approved = approved_gates(self.cache.list(UPGRADE_GATE))
        situations = [(run, upgrade_situation(run, approved)) for run in runs]
        return [(run, situation) for run, situation in situations if not situation.is_over]

    @property
    def moving_runs(self) -> list[str]:
        """Names of the runs that will make progress within `SOON` without user action."""
        soon = self._now() + SOON
        upgrades = [run.metadata.name for run, situation in self.upgrades() if is_moving(run, situation, soon)]
        return [*upgrades, *(name_of(run) for run, situation in self.runs() if _is_moving(situation, soon))]

    @property
    def unsettled(self) -> list[Placement]:
        """Placements that have not settled."""
        return [item for item in self.placements() if item["state"] not in SETTLED_STATES]

    async def settled(self, timeout_seconds: float) -> bool:
        """Wait until every placement and run has settled and nothing changes. Return False on timeout."""
        loop = asyncio.get_running_loop()
        end, quiet_since, news = loop.time() + timeout_seconds, loop.time(), -1
        was_idle = False
        while loop.time() < end:
            at_rest = (
                self.cache.synced
                and self.loop.idle_but_for_reports
                and not self.nodes.busy
                and not self.unsettled
                and not self.moving_runs
            )
            if not at_rest or self._news != news:
                quiet_since, news, was_idle = loop.time(), self._news, False
            # In a large fleet some member always reports, so the whole loop is rarely idle for long. It suffices that
            # it was idle once, without other changes since.
            was_idle = was_idle or (at_rest and self.loop.idle and not self.members.busy)
            if was_idle and loop.time() - quiet_since >= QUIET_SECONDS:
                return True
            await asyncio.sleep(0.05)
        return False

    @property
    def _news(self) -> int:
        """Number of changes of all objects, except member reports without news."""
        return self.cache.revision - self._reports

    def _count_report(self, change: ObjectDelta) -> None:
        self._reports += not change.touches(_without_times)

    async def _endpoint(self) -> ApiServerEndpoint:
        """Return the API server of this process, for requests with the token of a viewer."""
        authorities = self.server.certificates.trust_pem.decode("ascii")
        return ApiServerEndpoint(self.server.addresses.dialled_url, authorities)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cache.run())
            tasks.create_task(self.loop.run())
            tasks.create_task(self.members.run())
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.services.disruption.run())
            tasks.create_task(self.services.history.run())
            tasks.create_task(self.notifier.run())

    async def _stop_running(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])

    def _make_folder(self) -> None:
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DataFolderError(f"data folder {self.data}: {error.strerror}. {ELSEWHERE}") from error
        check_folder(self.data)
        try:
            (self.data / _FORMER_FILE).unlink(missing_ok=True)
        except OSError as error:
            raise DataFolderError(f"{self.data / _FORMER_FILE}: {error.strerror}. Remove it") from error
        for file in (self.token_file, self.data / "hook-secret", self.kubeconfig):
            check_file(file)

    def _secret_in(self, file: Path) -> str:
        """Return the secret in a file of the data folder. Create a missing or empty file, readable only by its owner.

        Raises:
            DataFolderError: The file cannot be read or written.
        """
        try:
            if file.exists() and (secret := read_bounded(file).decode("ascii").strip()):
                return secret
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"its {file.name} is not readable text"
            raise DataFolderError(f"data folder {self.data}: {reason}. {ELSEWHERE}") from error
        secret = secrets.token_urlsafe(32)
        _write_private(file, secret.encode())
        return secret

    def _tell_clients(self, token: str) -> None:
        _write_private(self.ca_file, self.server.certificates.trust_pem)
        # The kubeconfig last: a client that finds it uses the server immediately, and needs the authority for that.
        text = hub_kubeconfig.hub_kubeconfig(self.server.addresses.dialled_url, token, self.ca_file, self.http_url)
        _write_private(self.kubeconfig, text.encode())

    async def _make_namespaces(self) -> None:
        for name in dict.fromkeys((*FIRST_NAMESPACES, self.settings.namespace)):
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await self.store.create(NAMESPACE, document)
            except AlreadyExistsError:
                continue


def _is_moving(situation: RunSituation, soon: datetime) -> bool:
    """Return whether a run will make progress before *soon* without user action."""
    if situation.phase in (RunPhase.INITIALIZING, RunPhase.STOPPING) or not situation.waits:
        return True
    if situation.needs_person or situation.phase is RunPhase.STUCK:
        return False
    return any(
        wait.kind is RunWaitKind.CLUSTER or wait.answered or (wait.until is not None and wait.until < soon)
        for wait in situation.waits
    )


def _without_times(value: Any) -> Any:
    """Return a document without the fields that differ in every report of a member."""
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in _TIMES_OF_REPORTS}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _write_private(path: Path, content: bytes) -> None:
    """Write a file atomically, readable only by its owner. Neither a reader nor a crash leaves a partial file.

    Raises:
        DataFolderError: The file could not be written, for example on a full disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:  # an error of a write names no file
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise DataFolderError(
            f"data folder {path.parent}: cannot write {path}: {error.strerror}. {ELSEWHERE}"
        ) from error
