"""Finds the installation to examine, and its settings.

The labels, accounts and environment of a chart's Deployments identify them. For processes without a chart, the settings
are read from the environment of this command, as by ``harbormaster rbac`` and ``webhook-configuration``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import (
    conditions_of,
    dict_at,
    dicts_at,
    label,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
    texts_at,
)
from webhook.processes.rbac_objects import service_account, username_of
from webhook.settings.installation import SERVE_ACCOUNT
from webhook.settings.programs import DoctorSettings

NAME: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
RELEASE: Final = "app.kubernetes.io/instance"
COMPONENT: Final = "app.kubernetes.io/component"
VERSION: Final = "app.kubernetes.io/version"
OURS: Final = "harbormaster"
SERVE, RECONCILE, SCHEDULER = "serve", "reconcile", "scheduler"


class UnclearInstallationError(Exception):
    """The installation is ambiguous, or the named one does not exist. The message names the options that select one."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation.

    Args:
        settings: Settings of its processes, as far as they are known.
        server: User name of ``harbormaster serve`` on the hub.
        loop: User name of the loop. Empty: there is no loop. Equal to *server* for ``serve --reconcile``.
        release: The Helm release. Empty: not installed by a chart.
        deployments: Deployments of the chart, by component. None: unset.
        has_secret_path: Whether the server has a secret for the path of the hooks. None: unknown.
        requires_certificate: Whether the server answers only reviews of callers with a client certificate.
        configuration: Name of the two webhook configurations. Empty: to be found by the labels of the release.
    """

    settings: DoctorSettings
    server: str
    loop: str
    release: str = ""
    deployments: Mapping[str, JsonObject] | None = None
    has_secret_path: bool | None = None
    requires_certificate: bool = False
    configuration: str = ""

    @property
    def namespace(self) -> str:
        """Namespace of the installation."""
        return self.settings.namespace


@dataclass(frozen=True, slots=True)
class InstallationOptions:
    """Options of the command that select the installation.

    Args:
        namespace: Namespace. Empty: any.
        release: The Helm release. Empty: any.
        server: User name of ``harbormaster serve`` without a chart. Empty: the usual ServiceAccount.
        has_loop: Whether a loop is expected without a chart.
    """

    namespace: str = ""
    release: str = ""
    server: str = ""
    has_loop: bool = True


def find_installation(
    deployments: Iterable[JsonObject], options: InstallationOptions, environment: Mapping[str, str]
) -> Installation:
    """Return the selected installation.

    Args:
        deployments: All Deployments on the hub, including unrelated ones.
        options: Options of the command.
        environment: Settings of an installation without a chart.

    Raises:
        SettingsError: A setting has an invalid value.
        UnclearInstallationError: There are several installations, or the named one does not exist.
    """
    charts: dict[tuple[str, str], dict[str, JsonObject]] = {}
    for deployment in deployments:
        component = label(deployment, COMPONENT)
        if component in (SERVE, RECONCILE, SCHEDULER) and OURS in (label(deployment, NAME), label(deployment, PART_OF)):
            charts.setdefault((namespace_of(deployment), label(deployment, RELEASE)), {})[component] = deployment
    installations = {
        key: components
        for key, components in charts.items()
        if SERVE in components and options.namespace in ("", key[0]) and options.release in ("", key[1])
    }
    if len(installations) > 1:
        choices = ", ".join(f"-n {namespace} --release {release}" for namespace, release in sorted(installations))
        raise UnclearInstallationError(f"there are several installations, name one of: {choices}")
    if installations:
        ((namespace, release),) = installations
        return _of_chart(namespace, release, installations[namespace, release])
    if options.release:
        raise UnclearInstallationError(
            f"--release {options.release!r}: there is no Deployment with the labels {COMPONENT}={SERVE} and "
            f"{RELEASE}={options.release}{f' in namespace {options.namespace}' if options.namespace else ''}"
        )
    return _by_hand(options, environment)


def _of_chart(namespace: str, release: str, components: Mapping[str, JsonObject]) -> Installation:
    serve, reconcile = components[SERVE], components.get(RECONCILE)
    # Paths in the environment of a pod refer to files of the pod, which do not exist here.
    variables = _environment(serve)
    environment = {name: value for name, value in variables.items() if not name.endswith("_FILE")}
    settings = DoctorSettings.read(environment | {"HARBORMASTER_NAMESPACE": namespace})
    server, loop = _account(serve), ""
    if "--reconcile" in texts_at(_container(serve), "args"):
        loop = server
    elif reconcile is not None:
        loop = _account(reconcile)
    configuration = settings.webhook_configuration if "HARBORMASTER_WEBHOOK_CONFIGURATION" in variables else ""
    has_secret = "HARBORMASTER_WEBHOOK_SECRET_FILE" in variables
    is_required = variables.get("HARBORMASTER_REQUIRE_CLIENT_CERTIFICATE") == "true"
    return Installation(settings, server, loop, release, components, has_secret, is_required, configuration)


def _by_hand(options: InstallationOptions, environment: Mapping[str, str]) -> Installation:
    settings = DoctorSettings.read(environment, namespace=options.namespace or None)
    server = options.server or username_of(service_account(settings.namespace, SERVE_ACCOUNT))
    loop = settings.username_of_loop if options.has_loop else ""
    has_secret = True if settings.webhook_secret_file else None
    return Installation(
        settings, server, loop, has_secret_path=has_secret, configuration=settings.webhook_configuration
    )


def _container(deployment: JsonObject) -> JsonObject:
    containers = dicts_at(deployment, "spec", "template", "spec", "containers")
    return next((container for container in containers if container.get("name") in (SERVE, RECONCILE)), {})


def _environment(deployment: JsonObject) -> dict[str, str]:
    """Return the environment variables of the container of a Deployment that have literal values."""
    variables = dicts_at(_container(deployment), "env")
    return {
        text_at(variable, "name"): text_at(variable, "value")
        for variable in variables
        if isinstance(variable.get("value"), str)
    }


def _account(deployment: JsonObject) -> str:
    name = text_at(deployment, "spec", "template", "spec", "serviceAccountName") or "default"
    return username_of(service_account(namespace_of(deployment), name))


def problems_of(installation: Installation, version: str) -> list[str]:
    """Return the problems of the Deployments of a chart.

    Args:
        installation: The installation.
        version: Release of this harbormaster.
    """
    problems = []
    for component, deployment in (installation.deployments or {}).items():
        subject = f"Deployment {installation.namespace}/{name_of(deployment)}"
        other = label(deployment, VERSION)
        if other and other != version:
            problems.append(
                f"{subject} is of release {other}, but this command is of release {version}: use the doctor of "
                f"{other}, as other findings may not apply"
            )
        variables = _environment(deployment)
        if variables.get("HARBORMASTER_OIDC_GROUPS_CLAIM") and not variables.get("HARBORMASTER_OIDC_GROUPS_PREFIX"):
            problems.append(
                f"{subject}: groups of the provider have the rights of groups of the hub with the same names: set "
                'settings.oidcGroupsPrefix and bind the prefixed groups, or set "-" if that is intended'
            )
        replicas: Any = spec_of(deployment).get("replicas", 1)
        available: Any = status_of(deployment).get("availableReplicas") or 0
        if replicas and available < replicas:
            problems.append(
                f"{subject}: {available} of {replicas} replicas of {component} are available{_cause(deployment)}"
            )
    return problems


def _cause(deployment: JsonObject) -> str:
    """Return why a Deployment cannot create its pods (such as an exhausted quota), empty if it can."""
    failures = (condition for condition in conditions_of(deployment) if condition.get("type") == "ReplicaFailure")
    return next((f": {text_at(failure, 'message')}" for failure in failures if failure.get("status") == TRUE), "")


def described(installation: Installation) -> str:
    """Return namespace, Helm release and available replicas of the installation as text."""
    location = f"namespace {installation.namespace}"
    if not installation.deployments:
        loop = "" if installation.loop else ", without a loop"
        return f"{location}, by the settings of this environment: not installed by the chart{loop}"
    parts = [
        f"{dict_at(deployment, 'status').get('availableReplicas') or 0} replicas of {component}"
        for component, deployment in installation.deployments.items()
    ]
    return f"{location}, Helm release {installation.release}: {', '.join(parts)}"
