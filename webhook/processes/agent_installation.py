"""Installation of the agent in a member: as a Helm release of the chart, or as the Deployment that the chart renders.

The chart is the only source: ``agent_deployment.json`` is its rendering, and `make charts` writes it. So both ways have
the same selector. An installed agent is upgraded with the tool that installed it. If neither ``join`` nor Helm has
created it, it is left alone.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from scorer.api.meta import JsonObject
from scorer.api.names import MADE_BY
from scorer.api.unstructured.documents import dicts_at, label, spec_of, texts_at
from webhook.kube.ports import StoreError
from webhook.processes.member_objects import AGENT, DEPLOYMENT, JOIN, NAME_LABEL, DesiredObject, is_from_join
from webhook.processes.sides import JoinError, Side, WriteOutcome, release_of

MEMBER_PLACEHOLDER: Final = "placeholder-member"
NAMESPACE_PLACEHOLDER: Final = "placeholder-namespace"
IMAGE_PLACEHOLDER: Final = "placeholder-image"
RENDERING: Final = "agent_deployment.json"
RELEASE_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?", re.ASCII)
"""Names of Helm releases. Any writer of a Deployment can set the annotation that names its release."""

HELM_SECONDS: Final = 360.0
"""Timeout of a helm command. Longer than helm's own default timeout for hooks, which is five minutes."""
_STOP_SECONDS: Final = 5.0
_COMPONENT: Final = "app.kubernetes.io/component"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_CHART: Final = "helm.sh/chart"
_TAKE_OVER: Final = "--take-over"
_TARGET_VARIABLES: Final = "HELM_KUBE"
"""Prefix of the variables that send helm to another cluster or user than its options name."""
_NO_RELEASE: Final = "release: not found"
_IMAGE: Final = re.compile(
    r"(?P<repository>[a-z0-9][a-z0-9._-]*(?::[0-9]{1,5}/[a-z0-9._-]+)?(?:/[a-z0-9._-]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


class InstallMethod(StrEnum):
    """How ``join`` installs the agent."""

    AUTO = "auto"
    HELM = "helm"
    MANIFESTS = "manifests"
    NONE = "none"


class Image(NamedTuple):
    """A container image.

    Args:
        repository: Repository.
        tag: Tag. Empty: unset, *digest* names the image.
        digest: Digest. Empty: unset.
    """

    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> "Image":
        """Parse ``REPOSITORY[:TAG][@DIGEST]``. The default tag is ``latest``, and a digest replaces the tag.

        Raises:
            ValueError: *text* does not have this form.
        """
        match = _IMAGE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:200]!r}: must be REPOSITORY:TAG or REPOSITORY@sha256:DIGEST")
        digest = match["digest"] or ""
        return cls(match["repository"], "" if digest else match["tag"] or "latest", digest)

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


@dataclass(frozen=True, slots=True)
class Helm:
    """The ``helm`` of the caller, for one namespace of a member.

    Args:
        program: Path of the program.
        kubeconfig: Kubeconfig of the member.
        context: Context of the member.
        namespace: Namespace of the agent.
        variables: Environment variables of the caller.
        seconds: Timeout of each command.
    """

    program: str
    kubeconfig: Path
    context: str
    namespace: str
    variables: Mapping[str, str]
    seconds: float = HELM_SECONDS

    @classmethod
    def find(cls, kubeconfig: Path, context: str, namespace: str, variables: Mapping[str, str]) -> "Helm | None":
        """Return the helm on ``PATH``, or None if it is not installed."""
        program = shutil.which("helm", path=variables.get("PATH"))
        return None if program is None else cls(program, kubeconfig, context, namespace, variables)

    def line(self, words: Sequence[str]) -> str:
        """Return a helm command for this cluster, quoted for a shell."""
        return shlex.join(["helm", *words, *self._target()])

    async def obstacle(self, release: str) -> str:
        """Return why a release cannot be installed or upgraded with the agent's chart. Empty: it can.

        ``helm upgrade --install`` would replace all objects of a release of another chart.

        Raises:
            JoinError: The release cannot be read.
        """
        try:
            revisions = json.loads(await self.run(["history", release, "--max=1", "--output=json"]) or "[]")
        except JoinError as error:
            if str(error).endswith(_NO_RELEASE):
                return ""
            raise
        except ValueError as error:
            raise JoinError(f"helm history: {error}") from error
        for revision in revisions:
            chart, status = str(revision.get("chart")), str(revision.get("status"))
            name = f"Helm release {self.namespace}/{release}"
            if not chart.startswith(f"{AGENT}-"):
                return f"{name} is of chart {chart!r}, not of {AGENT}. Choose another namespace: --namespace"
            if status.startswith("pending-") or status == "uninstalling":
                verb = "rollback" if status in ("pending-upgrade", "pending-rollback") else "uninstall"
                return (
                    f"{name} has status {status}: another helm is running, or was interrupted. In the latter case, "
                    f"run {self.line([verb, release])} first"
                )
        return ""

    async def run(self, words: Sequence[str]) -> str:
        """Run a command and return its output. Variables that name another cluster than its options are ignored.

        Raises:
            JoinError: The command failed or timed out.
        """
        environment = {name: value for name, value in self.variables.items() if not name.startswith(_TARGET_VARIABLES)}
        try:
            process = await asyncio.create_subprocess_exec(
                self.program,
                *words,
                *self._target(),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that its children can be stopped, too
            )
        except OSError as error:
            raise JoinError(f"{self.program}: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(self.seconds):
                output, errors = await process.communicate()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        except TimeoutError as error:
            await _stop(process)
            raise JoinError(
                f"helm {words[0]}: timed out after {self.seconds:g} s. Run it yourself to see what it waits for, then "
                f"repeat this command: {self.line(words)}"
            ) from error
        if process.returncode:
            reason = " ".join(errors.decode(errors="replace").split())
            raise JoinError(f"helm {words[0]}: {reason or f'exit code {process.returncode}'}")
        return output.decode(errors="replace")

    def _target(self) -> list[str]:
        return [f"--kubeconfig={self.kubeconfig}", f"--kube-context={self.context}", f"--namespace={self.namespace}"]


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop a command and its children with SIGTERM, so that helm marks its release as failed, then with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.communicate()
                return


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Options of the agent's installation.

    Args:
        member: Name of the MemberCluster.
        namespace: Namespace of the agent.
        image: Image of the agent. None: unknown.
        method: How it is installed.
        take_over: Make the cluster this member, even if it was another member before.
    """

    member: str
    namespace: str
    image: Image | None
    method: InstallMethod
    take_over: bool


@dataclass(frozen=True, slots=True)
class AgentInstall:
    """The next step of an installation.

    Args:
        outcome: Its outcome.
        release: Name of the Helm release. Empty: not installed with Helm.
        helm: Arguments for helm. Empty: not installed with Helm.
        deployment: The Deployment. None: unset, not installed with manifests.
        obsolete: Whether the installed Deployment must be deleted first, because its immutable selector differs.
        remark: Why nothing is installed. Empty: unset.
    """

    outcome: WriteOutcome
    release: str = ""
    helm: Sequence[str] = ()
    deployment: DesiredObject | None = None
    obsolete: bool = False
    remark: str = ""


async def find_agent(cluster: Side, namespace: str) -> JsonObject | None:
    """Return the agent's Deployment, under any name. None: unset, no agent is installed.

    Raises:
        JoinError: There are several, or they cannot be listed.
    """
    agents = [
        deployment
        for deployment in await _deployments(cluster, namespace)
        if label(deployment, NAME_LABEL) == AGENT or deployment["metadata"]["name"] == AGENT
    ]
    if len(agents) > 1:
        names = ", ".join(deployment["metadata"]["name"] for deployment in agents)
        raise JoinError(f"{cluster}: has several agents in namespace {namespace!r}: {names}. Delete all but one")
    return agents[0] if agents else None


async def find_image(hub: Side, namespace: str) -> Image | None:
    """Return the image that ``serve`` runs on the hub. None: unset, no Deployment runs it.

    Raises:
        JoinError: Several Deployments run it with different images, its image is invalid, or they cannot be listed.
    """
    images = {
        str(container.get("image"))
        for deployment in await _deployments(hub, namespace)
        if label(deployment, _COMPONENT) == "serve"
        for container in dicts_at(deployment, "spec", "template", "spec", "containers")
        if container.get("name") == "serve"
    }
    if len(images) > 1:
        names = ", ".join(sorted(images))
        raise JoinError(
            f"{hub}: `serve` runs different images in namespace {namespace!r}: {names}. Select one: --image"
        )
    try:
        return Image.parse(images.pop()) if images else None
    except ValueError as error:
        raise JoinError(f"{hub}: image of `serve` {error}") from error


def plan_installation(options: AgentRequest, agent: JsonObject | None, *, has_helm: bool) -> AgentInstall:
    """Return how to install or upgrade the agent.

    Args:
        options: Options of the installation.
        agent: The installed Deployment. None: unset, no agent is installed.
        has_helm: Whether helm is installed on this machine.

    Raises:
        JoinError: The installation is impossible.
    """
    if options.method is InstallMethod.NONE:
        return AgentInstall(WriteOutcome.UNCHANGED)
    if options.method is InstallMethod.HELM and not has_helm:
        raise JoinError("--agent helm: no helm on PATH")
    if agent is None:
        return _new_installation(options, with_helm=has_helm and options.method is not InstallMethod.MANIFESTS)
    place, release = f"Deployment {options.namespace}/{agent['metadata']['name']}", release_of(agent)
    if not release and not is_from_join(agent):
        remark = f"{place} was created neither by join nor by Helm, and is left alone"
        return AgentInstall(WriteOutcome.UNCHANGED, remark=remark)
    if release:
        return _upgrade(options, agent, release, place, has_helm=has_helm)
    if options.method is InstallMethod.HELM:
        raise JoinError(f"{place} was created by join without Helm. Delete it first to install it with Helm")
    image = options.image or _image_of(agent)
    if image is None:
        return AgentInstall(WriteOutcome.UNCHANGED, remark=f"{place}: its image is unknown, specify it with --image")
    desired = agent_deployment(options, image)
    is_obsolete = spec_of(agent).get("selector") != spec_of(desired.document)["selector"]
    return AgentInstall(WriteOutcome.CHANGED, deployment=desired, obsolete=is_obsolete)


def _upgrade(options: AgentRequest, agent: JsonObject, release: str, place: str, *, has_helm: bool) -> AgentInstall:
    """Return how to upgrade a release. Its other values are kept.

    Raises:
        JoinError: The release has no valid name, or helm is not available or not to be used.
    """
    if not RELEASE_NAME.fullmatch(release):
        raise JoinError(f"{place}: {release[:64]!r} is not the name of a Helm release")
    if options.image is None or _is_current(options, options.image, agent):
        return AgentInstall(WriteOutcome.UNCHANGED, release)
    if not has_helm or options.method is InstallMethod.MANIFESTS:
        raise JoinError(
            f"{place} belongs to Helm release {release}, which only helm can upgrade. Install helm and omit "
            f"--agent manifests, or first run helm uninstall {release} --namespace {options.namespace}"
        )
    words = ["upgrade", release, str(agent_chart()), "--reset-then-reuse-values"]
    return AgentInstall(WriteOutcome.CHANGED, release, [*words, *_settings(_shared_values(options, options.image))])


def agent_deployment(options: AgentRequest, image: Image) -> DesiredObject:
    """Return the Deployment that the chart renders for a member, as an object of ``join``."""
    text = (files("webhook.processes") / RENDERING).read_text(encoding="utf-8")
    values = {
        MEMBER_PLACEHOLDER: options.member,
        NAMESPACE_PLACEHOLDER: options.namespace,
        IMAGE_PLACEHOLDER: str(image),
    }
    document: JsonObject = _filled(json.loads(text), values)
    document["metadata"]["labels"][MADE_BY] = JOIN
    for metadata in (document["metadata"], document["spec"]["template"]["metadata"]):
        metadata["labels"][_MANAGED_BY] = "harbormaster"
    if options.take_over:
        document["spec"]["template"]["spec"]["containers"][0]["args"].append(_TAKE_OVER)
    return DesiredObject(DEPLOYMENT, document)


def release_values(member: str) -> dict[str, str | bool]:
    """Return the values of a release whose account, roles and definition ``join`` creates."""
    return {
        "cluster": member,
        "serviceAccount.create": False,
        "serviceAccount.name": AGENT,
        "rbac.create": False,
        "crds.install": False,
    }


def agent_chart() -> Path:
    """Return the folder of the agent's chart."""
    package = Path(str(files("webhook")))
    package_data = package / "charts" / AGENT  # only the wheel has it
    return package_data if package_data.is_dir() else package.parent / "charts" / AGENT


def _new_installation(options: AgentRequest, *, with_helm: bool) -> AgentInstall:
    if options.image is None:
        raise JoinError("no Deployment of the hub runs `serve`, so the image is unknown: specify it with --image IMAGE")
    if not with_helm:
        return AgentInstall(WriteOutcome.CREATED, deployment=agent_deployment(options, options.image))
    own_label = {f"commonLabels.{MADE_BY}": JOIN}
    values = {**release_values(options.member), **own_label, **_shared_values(options, options.image)}
    words = ["upgrade", "--install", AGENT, str(agent_chart())]
    return AgentInstall(WriteOutcome.CREATED, AGENT, [*words, *_settings(values)])


def _shared_values(options: AgentRequest, image: Image) -> dict[str, str | bool]:
    return {
        "cluster": options.member,
        "image.repository": image.repository,
        "image.tag": image.tag,
        "image.digest": image.digest,
        "takeOver": options.take_over,
    }


def _settings(values: Mapping[str, str | bool]) -> list[str]:
    """Return the options of helm that set *values*. Text remains text, even if it is a number."""
    words: list[str] = []
    for name, value in values.items():
        path = name.replace(MADE_BY, MADE_BY.replace(".", "\\."))
        if isinstance(value, bool):
            words += ["--set", f"{path}={str(value).lower()}"]
        else:
            words += ["--set-string", f"{path}={value}"]
    return words


def _is_current(options: AgentRequest, image: Image, agent: JsonObject) -> bool:
    desired = agent_deployment(options, image).document
    containers = dicts_at(agent, "spec", "template", "spec", "containers")
    words = texts_at(containers[0], "args") if containers else ()
    return (
        bool(containers)
        and containers[0].get("image") == str(image)
        and f"--cluster={options.member}" in words
        and (_TAKE_OVER in words) is options.take_over
        and label(agent, _CHART) == label(desired, _CHART)
    )


def _image_of(agent: JsonObject) -> Image | None:
    containers = dicts_at(agent, "spec", "template", "spec", "containers")
    try:
        return Image.parse(str(containers[0].get("image"))) if containers else None
    except ValueError:
        return None


def _filled(node: Any, values: Mapping[str, str]) -> Any:
    """Replace placeholders in all texts of a document."""
    match node:
        case dict():
            return {key: _filled(value, values) for key, value in node.items()}
        case list():
            return [_filled(value, values) for value in node]
        case str():
            for placeholder, value in values.items():
                if placeholder in node:
                    return node.replace(placeholder, value)
    return node


async def _deployments(side: Side, namespace: str) -> Sequence[JsonObject]:
    try:
        return (await side.store.list(DEPLOYMENT, namespace)).items
    except StoreError as error:
        raise side.error(f"list Deployments in namespace {namespace}", error) from error
