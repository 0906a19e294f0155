"""Runs all checks on a hub: one `Finding` for each check, with the time that its requests took.

The hub is not changed. If a read is forbidden or times out, its check is unchecked and the others continue.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

import aiohttp

from scorer.api.family import FAMILIES
from scorer.api.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    LEASE,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    POD,
    Kind,
)
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import label, name_of, namespace_of, text_at
from webhook.doctor.accounts import (
    AGENTS,
    LOOP,
    POLICIES,
    SERVER,
    Account,
    accounts_of,
    judge_account,
    judge_agents,
    judge_policies,
    no_policies,
)
from webhook.doctor.agent_account import examine_member
from webhook.doctor.api_service import CHECK as TEAM_ANSWERS
from webhook.doctor.api_service import examine_team_answers
from webhook.doctor.certificate_report import CertificateState
from webhook.doctor.certificates import CHECK as CERTIFICATES
from webhook.doctor.certificates import judge_authority, judge_bundles
from webhook.doctor.definitions import CHECK as DEFINITIONS
from webhook.doctor.definitions import has_definitions, judge_definitions
from webhook.doctor.dry_runs import CHECK as ADMISSION
from webhook.doctor.dry_runs import RIGHT_NAMESPACE, WRONG_NAMESPACE, DryRuns, judge_dry_runs, placement
from webhook.doctor.extender import CHECK as EXTENDER
from webhook.doctor.extender import Scheduling, judge_extender, port_of, ready_pods
from webhook.doctor.finding import Finding, State, judged, refused, unchecked
from webhook.doctor.installation import (
    COMPONENT,
    OURS,
    PART_OF,
    RELEASE,
    SCHEDULER,
    SERVE,
    Installation,
    InstallationOptions,
    described,
    find_installation,
    problems_of,
)
from webhook.doctor.leadership import CHECK as LEADER
from webhook.doctor.leadership import judge_leader
from webhook.doctor.members import (
    APPLIED_WORKS,
    CLOCKS,
    CONFIRMATION,
    MEMBERS,
    REMOVALS,
    VERSIONS,
    judge_applied_works,
    judge_clocks,
    judge_confirmation,
    judge_members,
    judge_removals,
    judge_versions,
    seconds,
)
from webhook.doctor.registration import CHECK as WEBHOOKS
from webhook.doctor.registration import judge_registration
from webhook.doctor.reviews import denied, read_roles
from webhook.doctor.rights import Roles
from webhook.kube.certificates.authority_secret import AuthoritySecret, ForeignSecretError
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import ApiPath, path_of
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, NotServedError, StoreError
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, CaBundles, Registered

HUB, INSTALLATION = "hub", "installation"
CHECKS: Final = (
    HUB,
    INSTALLATION,
    DEFINITIONS,
    WEBHOOKS,
    CERTIFICATES,
    ADMISSION,
    TEAM_ANSWERS,
    SERVER,
    LOOP,
    AGENTS,
    POLICIES,
    EXTENDER,
    LEADER,
    MEMBERS,
    VERSIONS,
    CLOCKS,
    APPLIED_WORKS,
    CONFIRMATION,
    REMOVALS,
)
"""All checks on the hub, in the order of the output."""

INSTALL: Final = (
    "helm install harbormaster charts/harbormaster -n harbormaster-system --create-namespace --wait "
    "-f charts/harbormaster/new-installation.yaml --set crds.fleet.install=true "
    "--set image.repository=REGISTRY/harbormaster"
)
LARGEST_OFFSET: Final = timedelta(seconds=10)
ANSWER_SECONDS: Final = 10.0
_DEPLOYMENT: Final = KINDS["apps", "Deployment"]
_POLICY: Final = KINDS["admissionregistration.k8s.io", "ValidatingAdmissionPolicy"]
_POLICY_BINDING: Final = KINDS["admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"]
_VERSION: Final = ApiPath("version")


@dataclass(frozen=True, slots=True)
class Timed:
    """A finding and its duration.

    Args:
        finding: The finding.
        milliseconds: Time that the hub took to answer the requests of the check.
    """

    finding: Finding
    milliseconds: int

    def document(self) -> JsonObject:
        """Return the finding and its duration as JSON."""
        return self.finding.document() | {"milliseconds": self.milliseconds}


class Examination:
    """One examination of one installation.

    Args:
        server: The hub.
        release: Release of this harbormaster.
        now: The local clock.

    Attributes:
        results: Findings so far: those of `run` in the order of `CHECKS`, then those of a member.
        installation: The examined installation. None: unknown yet.
    """

    def __init__(self, server: ApiServer, release: str, now: Callable[[], datetime]) -> None:
        self._server = server
        self._store = HubStore(server, keep_managers=True)
        self._release = release
        self._now = now
        self._offset = timedelta()
        self.installation: Installation | None = None
        self.results: list[Timed] = []

    async def run(self, options: InstallationOptions, environment: Mapping[str, str]) -> None:
        """Run all checks. On a hub without harbormaster, the only finding is how to install it.

        Args:
            options: Options that select the installation.
            environment: Settings of the processes, if no chart has them.

        Raises:
            StoreError: The hub does not respond, or denies the caller access.
            SettingsError: A setting has an invalid value.
            UnclearInstallationError: There are several installations, or the named one does not exist.
        """
        start = time.monotonic()
        self._add(await self._look_at_hub(), start)
        start = time.monotonic()
        installation, finding = await self._find(options, environment)
        self.installation = installation
        if not installation.deployments and await self._is_bare():
            problem = f"harbormaster is not installed on this hub. To install it: {INSTALL}"
            self.results.clear()
            self._add(judged(INSTALLATION, [problem], ""), start)
            return
        self._add(finding, start)
        await self._check(DEFINITIONS, self._definitions)
        hooks = await self._check_admission(installation)
        await self._check(TEAM_ANSWERS, lambda: examine_team_answers(self._server, installation, hooks, self._hub_now))
        await self._check_accounts(installation)
        await self._check(EXTENDER, lambda: self._extender(installation))
        await self._check(LEADER, lambda: self._leader(installation))
        await self._check_members()
        self._add(judge_confirmation(installation.settings.removal()), time.monotonic())
        await self._check(REMOVALS, self._removals)
        self.results.sort(key=lambda timed: CHECKS.index(timed.finding.check))

    async def examine_member(self, member: ApiServer) -> None:
        """Check the rights of the agents on a member, with one finding per agent. Call it after `run`."""
        start = time.monotonic()
        for finding in await examine_member(member):
            self._add(finding, start)
            start = time.monotonic()

    async def _check(self, check: str, judge: Callable[[], Awaitable[Finding]]) -> None:
        start = time.monotonic()
        try:
            finding = await judge()
        except StoreError as error:
            finding = refused(check, error)
        self._add(finding, start)

    def _add(self, finding: Finding, start: float) -> None:
        self.results.append(Timed(finding, round((time.monotonic() - start) * 1000)))

    @property
    def _hub_now(self) -> datetime:
        return self._now() + self._offset

    async def _look_at_hub(self) -> Finding:
        """Return the finding about the hub: its version, and whether its clock and that of this machine agree.

        Raises:
            StoreError: The hub does not respond, or denies the caller access.
        """
        before = self._now()
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with self._server.send("GET", _VERSION, None, None, "application/json", patience) as response:
            date = response.headers.get("Date", "")
        took = self._now() - before
        version = (await self._server.request("GET", _VERSION)).get("gitVersion")
        try:
            self._offset = parsedate_to_datetime(date) + timedelta(seconds=0.5) - (before + took / 2)
        except ValueError:
            return Finding(HUB, State.OK, f"Kubernetes {version}, which does not report its time")
        off, machine = self._offset, "The clock of this machine"
        problems = []
        if abs(off) > LARGEST_OFFSET + took:
            problems.append(
                f"{machine} is {seconds(off)} {'behind' if off > timedelta() else 'ahead of'} the clock of the hub"
            )
        well = f"Kubernetes {version}. {machine} and the clock of the hub agree"
        return judged(HUB, problems, well, "correct the wrong clock: all other checks use the clock of the hub")

    async def _find(self, options: InstallationOptions, environment: Mapping[str, str]) -> tuple[Installation, Finding]:
        """Find the installation by its Deployments, if the caller has the right to read them."""
        try:
            deployments = (await self._store.list(_DEPLOYMENT, options.namespace or None)).items
        except (ForbiddenError, NotFoundError) as error:
            installation = find_installation((), options, environment)
            reason = refused(INSTALLATION, error).found.removeprefix("not checked: ")
            return installation, unchecked(INSTALLATION, f"{reason}; using the settings of this environment")
        installation = find_installation(deployments, options, environment)
        problems = problems_of(installation, self._release)
        advice = f"kubectl get pods -n {installation.namespace}"
        return installation, judged(INSTALLATION, problems, described(installation), advice)

    async def _is_bare(self) -> bool:
        """Return whether the hub has none of the definitions. False: unknown, the caller may not read them."""
        try:
            return not has_definitions((await self._store.list(CUSTOM_RESOURCE_DEFINITION)).items)
        except StoreError:
            return False

    async def _definitions(self) -> Finding:
        return judge_definitions((await self._store.list(CUSTOM_RESOURCE_DEFINITION)).items)

    async def _check_admission(self, installation: Installation) -> Mapping[str, Registered]:
        """Check the registration of the hooks, the trust of the API server, and the dry runs.

        Returns:
            The existing webhook configurations by kind. Empty: unknown, the caller may not read them.
        """
        start = time.monotonic()
        runs = DryRuns(await self._try(RIGHT_NAMESPACE), await self._try(WRONG_NAMESPACE))
        elapsed = time.monotonic() - start
        try:
            name, configurations = await self._registered(installation)
        except StoreError as error:
            self._add(refused(WEBHOOKS, error), start + elapsed)
            unread = refused(CERTIFICATES, error)
            self._add(judged(CERTIFICATES, [runs.distrust], "") if runs.distrust else unread, time.monotonic())
            self._add(judge_dry_runs(runs, installation.namespace, is_registered=True), time.monotonic() - elapsed)
            return {}
        documents = {kind: configuration.document for kind, configuration in configurations.items()}
        self._add(judge_registration(documents, name, installation), start + elapsed)
        judgement = judge_dry_runs(runs, installation.namespace, is_registered=bool(configurations))
        self._add(judgement, time.monotonic() - elapsed)
        await self._check(CERTIFICATES, lambda: self._certificates(installation, name, configurations, runs))
        return configurations

    async def _try(self, namespace: str) -> StoreError | None:
        """Create a placement as a dry run. Return the error of the API server. None if it was accepted."""
        try:
            await self._server.request("POST", path_of(PLACEMENT), placement(namespace), query={"dryRun": "All"})
        except StoreError as error:
            return error
        return None

    async def _registered(self, installation: Installation) -> tuple[str, dict[str, Registered]]:
        """Return the name of the webhook configurations, and the existing ones."""
        name = installation.configuration
        if not name:
            documents = (await self._store.list(CONFIGURATIONS[0], labels={RELEASE: installation.release})).items
            ours = [name_of(document) for document in documents if label(document, PART_OF) == OURS]
            name = ours[0] if ours else installation.settings.webhook_configuration
        return name, await CaBundles(self._server, name).read()

    async def _certificates(
        self, installation: Installation, name: str, configurations: Mapping[str, Registered], runs: DryRuns
    ) -> Finding:
        secret = installation.settings.certificate_secret
        if not secret:
            return judge_bundles(configurations, runs.distrust, self._hub_now, any_answer=runs.answered)
        authority = AuthoritySecret(self._server, installation.namespace, secret)
        try:
            lineage = await authority.read()
        except ForeignSecretError as error:
            return judged(CERTIFICATES, [str(error)], "", "name another Secret, or remove this one")
        return judge_authority(
            CertificateState(authority.key, lineage, name, configurations, self._hub_now), runs.distrust
        )

    async def _check_accounts(self, installation: Installation) -> None:
        """Check the rights of all accounts. The roles of the hub are read once."""
        start = time.monotonic()
        try:
            roles = await read_roles(self._store)
        except StoreError as error:
            for check in (SERVER, LOOP, AGENTS):
                self._add(refused(check, error), start)
                start = time.monotonic()
        else:
            for account in accounts_of(installation, roles):
                await self._check(account.check, partial(self._account, account))
            if installation.loop in ("", installation.server):
                reason = "the loop uses the account of the server" if installation.loop else "no loop is installed"
                self._add(Finding(LOOP, State.OK, reason), time.monotonic())
            await self._check(AGENTS, lambda: self._agents(roles, installation.namespace))
        await self._check(POLICIES, lambda: self._policies(installation))

    async def _account(self, account: Account) -> Finding:
        return judge_account(account, await denied(self._server, account.username, account.wanted))

    async def _agents(self, roles: Roles, home: str) -> Finding:
        members = (await self._store.list(MEMBER_CLUSTER)).items
        namespaces = {name_of(namespace) for namespace in (await self._store.list(NAMESPACE)).items}
        return judge_agents(members, namespaces, roles, home)

    async def _policies(self, installation: Installation) -> Finding:
        try:
            policies = (await self._store.list(_POLICY)).items
        except NotServedError:
            return no_policies()
        return judge_policies(installation, policies, (await self._store.list(_POLICY_BINDING)).items)

    async def _extender(self, installation: Installation) -> Finding:
        """Read the configuration of the chart's scheduler, and the metrics of the replicas that answer schedulers."""
        home = installation.namespace
        deployment = (installation.deployments or {}).get(SCHEDULER)
        scheduler = None
        if deployment is not None:
            name = name_of(deployment)
            try:
                config = await self._store.get(CONFIG_MAP, Key(name, home))
            except NotFoundError:
                config = None
            text = None if config is None else text_at(config, "data", "config.yaml")
            scheduler = Scheduling(f"{home}/{name}", text, await self._pods(installation, SCHEDULER))
        pods = ready_pods(await self._pods(installation, SERVE))
        metrics, unread = {}, None
        for pod in pods:
            try:
                metrics[name_of(pod)] = await self._metrics(pod)
            except StoreError as error:
                unread = error
        finding = judge_extender(scheduler, metrics, self._hub_now)
        return finding if unread is None or finding.problems else refused(EXTENDER, unread)

    async def _pods(self, installation: Installation, component: str) -> tuple[JsonObject, ...]:
        labels = {PART_OF: OURS, COMPONENT: component}
        if installation.release:
            labels[RELEASE] = installation.release
        return (await self._store.list(POD, installation.namespace, labels)).items

    async def _metrics(self, pod: JsonObject) -> str:
        """Return the metrics of a Pod through the API server's proxy. Raises `StoreError`."""
        address = f"{name_of(pod)}:{port_of(pod)}"
        path = ApiPath("api", "v1", "namespaces", namespace_of(pod), "pods", address, "proxy", "metrics")
        return await self._server.read_text(path, ANSWER_SECONDS)

    async def _leader(self, installation: Installation) -> Finding:
        if not installation.loop:
            return Finding(LEADER, State.OK, "no loop is installed")
        key = Key(installation.settings.lease_name, installation.namespace)
        try:
            lease = await self._store.get(LEASE, key)
        except NotFoundError:
            lease = None
        return judge_leader(lease, str(key), self._hub_now)

    async def _removals(self) -> Finding:
        bindings = [binding for family in FAMILIES for binding in (await self._store.list(family.binding)).items]
        return judge_removals(bindings)

    async def _check_members(self) -> None:
        """Check the agents. The members are read once."""

        async def read(kind: Kind) -> tuple[JsonObject, ...]:
            return (await self._store.list(kind)).items

        start = time.monotonic()
        try:
            members = await read(MEMBER_CLUSTER)
            internal = await read(INTERNAL_MEMBER_CLUSTER)
        except StoreError as error:
            for check in (MEMBERS, VERSIONS, CLOCKS, APPLIED_WORKS):
                self._add(refused(check, error), start)
                start = time.monotonic()
            return
        by_name = {name_of(internal_member): internal_member for internal_member in internal}
        self._add(judge_members(members, by_name, self._hub_now), start)
        self._add(judge_versions(members, self._release), time.monotonic())
        self._add(judge_clocks(internal), time.monotonic())
        self._add(judge_applied_works(members), time.monotonic())


def document_of(examination: Examination, release: str, now: datetime) -> JsonObject:
    """Return all findings as JSON.

    Args:
        examination: A finished examination.
        release: Release of this harbormaster.
        now: Time of the examination.
    """
    installation = examination.installation
    states = {result.finding.state for result in examination.results}
    return {
        "version": release,
        "time": format_time(now),
        "namespace": installation.namespace if installation else "",
        "release": installation.release if installation else "",
        "well": states <= {State.OK},
        "checks": [result.document() for result in examination.results],
    }
