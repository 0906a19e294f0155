"""Which installation is examined, and how it is set up.

A chart's Deployments say it themselves: their labels, accounts and environment. Processes that run otherwise are known
by the settings of this environment, as ``harbormaster rbac`` and ``webhook-configuration`` know them.
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
    """It is not clear which installation is meant; the message says what there is, and how to name one."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation.

    Args:
        settings: As its processes have them, as far as that is known.
        server: User name of ``harbormaster serve`` on the hub.
        loop: User name of the loop; empty: there is none. Equal to *server* for ``serve --reconcile``.
        release: The Helm release; empty: it was not installed by a chart.
        deployments: Of the chart, by component.
        has_secret_path: Whether the server holds a secret for the path of the hooks; None: unknown.
        requires_certificate: Whether it answers reviews only of callers with a client certificate.
        configuration: Name of the two webhook configurations; empty: to be found by the labels of the release.
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
        """Where it is."""
        return self.settings.namespace


@dataclass(frozen=True, slots=True)
class InstallationOptions:
    """What the user says about the installation.

    Args:
        namespace: Where it is; empty: wherever one is found.
        release: The Helm release; empty: any.
        server: User name of ``harbormaster serve``, where no chart says it; empty: the usual ServiceAccount.
        has_loop: Whether a loop is to be there, where no chart says it.
    """

    namespace: str = ""
    release: str = ""
    server: str = ""
    has_loop: bool = True


def find_installation(
    deployments: Iterable[JsonObject], options: InstallationOptions, environment: Mapping[str, str]
) -> Installation:
    """Return the installation that is meant.

    Args:
        deployments: All that there are on the hub, of others too.
        options: Options of the command.
        environment: For an installation that no chart has made.

    Raises:
        SettingsError: A setting has a wrong value.
        UnclearInstallationError: There are several, or not the one that is named.
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
        raise UnclearInstallationError(f"there are several installations; name one of: {choices}")
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
    # The environment of a pod names files of that pod, which are not here.
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
    """Return what a container is given in so many words."""
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
    """Return what is wrong with the Deployments of a chart.

    Args:
        installation: The installation.
        version: The release that this is.
    """
    problems = []
    for component, deployment in (installation.deployments or {}).items():
        subject = f"Deployment {installation.namespace}/{name_of(deployment)}"
        other = label(deployment, VERSION)
        if other and other != version:
            problems.append(
                f"{subject} is of release {other}, this is {version}: use the doctor of {other}, what else is said"
                " here may not fit"
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
    """Return why a Deployment cannot create its pods, such as a quota that is used up (empty: unknown)."""
    failures = (condition for condition in conditions_of(deployment) if condition.get("type") == "ReplicaFailure")
    return next((f": {text_at(failure, 'message')}" for failure in failures if failure.get("status") == TRUE), "")


def described(installation: Installation) -> str:
    """Say which installation it is."""
    location = f"namespace {installation.namespace}"
    if not installation.deployments:
        loop = "" if installation.loop else ", without a loop"
        return f"{location}, by the settings of this environment: no chart has made it{loop}"
    parts = [
        f"{dict_at(deployment, 'status').get('availableReplicas') or 0} replicas of {component}"
        for component, deployment in installation.deployments.items()
    ]
    return f"{location}, Helm release {installation.release}: {', '.join(parts)}"
