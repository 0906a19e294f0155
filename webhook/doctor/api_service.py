"""Checks whether the API for teams is available: its APIService, and the front proxy that the hub publishes.

While an APIService is unavailable, discovery of the hub is incomplete, and the hub deletes no namespace. So an
APIService without a server behind it is a problem, too.

Source: docs/specifications/serving.md 3.6.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from certs.context import usable_proxy_authorities
from certs.rotation import Lineage, certificates_in, pem_of
from scorer.api.conditions import TRUE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import conditions_of, dict_at, spec_of, text_at
from webhook.access.front_proxy import API_SERVICE, GROUP, VERSION
from webhook.doctor.finding import Finding, State, judged, refused
from webhook.doctor.installation import Installation
from webhook.doctor.registration import endpoint_of
from webhook.doctor.reviews import denied
from webhook.doctor.rights import Right
from webhook.kube.access.authentication import CONFIG_MAP, LOCATION, PUBLISHED
from webhook.kube.access.authentication import KEY as USERS_KEY
from webhook.kube.access.front_proxy import KEY as PROXIES_KEY
from webhook.kube.access.front_proxy import parse_front_proxy
from webhook.kube.certificates.authority_secret import AuthoritySecret
from webhook.kube.client.api_server import ApiServer
from webhook.kube.ports import NotFoundError, StoreError
from webhook.kube.webhook_configurations.ca_bundles import Registered, read_api_service

CHECK: Final = "team-answers"
SUBJECT: Final = f"APIService {API_SERVICE}"
_INSTALL: Final = "apply charts/harbormaster/templates/apiservice.yaml    (with Helm: helm upgrade)"
_LAYER: Final = "enable the aggregation layer of the hub, with an authority of its own for the front proxy"
_BUNDLE: Final = "harbormaster certs inspect"
_RIGHTS: Final = "harbormaster rbac serve | kubectl apply -f -    (with Helm: helm upgrade)"
_HINT: Final = "see docs/troubleshooting.md, The check team-answers"
_SERVICE_REASONS: Final = frozenset({"ServiceNotFound", "ServicePortError", "ServiceAccessError"})
_ENDPOINT_REASONS: Final = frozenset({"EndpointsNotFound", "EndpointsAccessError", "MissingEndpoints"})


@dataclass(frozen=True, slots=True)
class TeamAnswersState:
    """The API for teams as read.

    Args:
        service: Its APIService. None: unset, it does not exist.
        configurations: Existing webhook configurations, by kind. They lead to the same Service.
        now: Time of the hub's clock.
        lineage: The authority that harbormaster manages. None: unknown, or the certificate comes from another source.
        front_proxy: ConfigMap with the settings of the front proxy. None: unset, it does not exist.
        unread: Reason why the authority or that ConfigMap was not read. Empty: both were.
        is_denied: Whether the server may not read that ConfigMap.
    """

    service: Registered | None
    configurations: Mapping[str, Registered]
    now: datetime
    lineage: Lineage | None = None
    front_proxy: JsonObject | None = None
    unread: str = ""
    is_denied: bool = False


async def examine_team_answers(
    server: ApiServer, installation: Installation, hooks: Mapping[str, Registered], now: datetime
) -> Finding:
    """Read the APIService and all that it depends on, and check it. If it is disabled, nothing else is read.

    Args:
        server: The hub.
        installation: The installation.
        hooks: Existing webhook configurations, by kind.
        now: Time of the hub's clock.

    Raises:
        StoreError: The APIService cannot be read.
    """
    try:
        service = await read_api_service(server, API_SERVICE)
    except NotFoundError:
        service = None
    state = TeamAnswersState(service, hooks, now)
    if not installation.settings.team_answers:
        return judge_team_answers(state, installation)
    lineage, front_proxy, unread = None, None, ""
    try:
        front_proxy = await server.request("GET", PUBLISHED)
    except NotFoundError:
        pass
    except StoreError as error:
        unread = refused(CHECK, error).found
    if secret := installation.settings.certificate_secret:
        try:
            lineage = (await AuthoritySecret(server, installation.namespace, secret).read()).lineage
        except StoreError as error:
            unread = unread or refused(CHECK, error).found
    right = Right("kube-system", "get", "", "configmaps", CONFIG_MAP)
    is_denied = bool(await denied(server, installation.server, (right,)))
    state = replace(state, lineage=lineage, front_proxy=front_proxy, unread=unread, is_denied=is_denied)
    return judge_team_answers(state, installation)


def judge_team_answers(state: TeamAnswersState, installation: Installation) -> Finding:
    """Check the APIService against the setting of the installation. Each problem has its own fix."""
    if not installation.settings.team_answers:
        return _judge_disabled(state.service, installation.namespace)
    found = [*_problems_of_service(state, installation), *_problems_of_front_proxy(state, installation.server)]
    if state.unread and not found:
        return Finding(CHECK, State.UNCHECKED, state.unread)
    advice = "; ".join(dict.fromkeys([*(fix for _, fix in found), _HINT]))
    return judged(CHECK, [problem for problem, _ in found], f"{SUBJECT} is available", advice)


def _judge_disabled(service: Registered | None, namespace: str) -> Finding:
    owner = "" if service is None else text_at(service.document, "spec", "service", "namespace")
    if owner != namespace:
        elsewhere = f" here: {SUBJECT} points to namespace {owner}" if owner else " (settings.teamAnswers)"
        return Finding(CHECK, State.OK, f"the API for teams is disabled{elsewhere}")
    problem = (
        f"{SUBJECT} exists, but settings.teamAnswers (HARBORMASTER_TEAM_ANSWERS) is off: the server does not answer "
        "it, so the hub deletes no namespace"
    )
    return judged(CHECK, [problem], "", f"kubectl delete apiservice {API_SERVICE}; {_HINT}")


def _problems_of_service(state: TeamAnswersState, installation: Installation) -> Iterator[tuple[str, str]]:
    """Yield each problem of the APIService, with its fix."""
    if state.service is None:
        yield f"{SUBJECT} is missing: teams get no answers", _INSTALL
        return
    document = state.service.document
    for problem in _misdirections(spec_of(document), state.configurations, installation):
        yield problem, _INSTALL
    if state.lineage is None:
        bundles = [configuration.trusted() for configuration in state.configurations.values()]
        is_managed = bool(installation.settings.certificate_secret)
        fix = _BUNDLE if is_managed else "set spec.caBundle of the APIService    (with Helm: certs.files.caBundle)"
        yield from ((problem, fix) for problem in _problems_of_files(state.service, bundles, state.now))
    else:
        for problem in problems_of_bundles(SUBJECT, state.service, state.lineage, state.now):
            yield problem, _BUNDLE
    if problem := unavailability(document):
        yield problem, _fix_of(text_at(_available(document), "reason"), installation.namespace)


def _misdirections(
    spec: JsonObject, configurations: Mapping[str, Registered], installation: Installation
) -> Iterator[str]:
    documents = {kind: configuration.document for kind, configuration in configurations.items()}
    endpoint = endpoint_of(documents, installation)
    service = dict_at(spec, "service")
    desired = {"namespace": installation.namespace}
    if endpoint.service and not endpoint.url and documents:
        desired = {"namespace": endpoint.namespace, "name": endpoint.service, "port": str(endpoint.port)}
    actual = {key: str(service.get(key) or (443 if key == "port" else "")) for key in desired}
    if actual != desired:
        wanted, present = ("/".join(value.values()) for value in (desired, actual))
        yield f"{SUBJECT} points to Service {present or 'none'}, but the server is {wanted}"
    if (text_at(spec, "group"), text_at(spec, "version")) != (GROUP, VERSION):
        yield f"{SUBJECT} is of group {text_at(spec, 'group')}/{text_at(spec, 'version')}, not {GROUP}/{VERSION}"
    if spec.get("insecureSkipTLSVerify") is True:
        yield f"{SUBJECT} has insecureSkipTLSVerify: the API server accepts any certificate in place of the server's"


def problems_of_bundles(subject: str, registered: Registered, lineage: Lineage, now: datetime) -> Iterator[str]:
    """Yield the problem of the trust in a managed authority, if there is one.

    Args:
        subject: Kind and name of the object with the bundles.
        registered: The object as read.
        lineage: The authority.
        now: Time of the read.
    """
    if registered.bundles and not lineage.is_accepted_by(registered.trusted(), now):
        yield f"{subject} does not trust {lineage.active.name}: the API server refuses its server certificates"
    elif not registered.is_in_sync(pem_of(lineage.trusted())):
        yield f"{subject} does not trust exactly the authorities in the Secret: is `harbormaster serve` running?"


def _problems_of_files(service: Registered, bundles: Iterable[frozenset[object]], now: datetime) -> Iterator[str]:
    """Yield the problem of the caBundle if the certificate comes from files: one listener, so one authority."""
    trusted = service.trusted()
    if not any(now < certificate.not_valid_after_utc for certificate in trusted):
        yield f"{SUBJECT}: its caBundle has no certificate that is valid now"
    elif any(bundle and not bundle & trusted for bundle in bundles):
        yield f"{SUBJECT} and the webhooks trust different authorities: their caBundles differ"


def unavailability(service: JsonObject) -> str:
    """Return why an APIService is unavailable, as the API server reports it. Empty if it is available."""
    available = _available(service)
    if available.get("status") == TRUE:
        return ""
    reason, message = text_at(available, "reason"), " ".join(text_at(available, "message").split())
    detail = ": ".join(filter(None, (reason, message))) or "the API server has not checked it yet"
    return f"{SUBJECT} is unavailable, so the hub deletes no namespace: {detail}"


def _available(service: JsonObject) -> JsonObject:
    return next((condition for condition in conditions_of(service) if condition.get("type") == "Available"), {})


def _fix_of(reason: str, namespace: str) -> str:
    if reason in _SERVICE_REASONS:
        return _INSTALL
    if reason in _ENDPOINT_REASONS:
        return f"kubectl get pods -n {namespace}"
    return "admit the API server to the port of serve, with the client certificate of its front proxy"


def _problems_of_front_proxy(state: TeamAnswersState, server: str) -> Iterator[tuple[str, str]]:
    """Yield each problem of the published settings of the front proxy, with its fix."""
    if state.is_denied:
        yield f"{server} may not get {LOCATION}: it recognizes no front proxy", _RIGHTS
    if state.front_proxy is None and state.unread:
        return
    document = state.front_proxy or {}
    proxies = text_at(document, "data", PROXIES_KEY).encode()
    if not proxies.strip():
        yield f"{LOCATION}: has no {PROXIES_KEY}", f"{_LAYER} (--{PROXIES_KEY})"
        return
    if not (authorities := certificates_in(proxies)):
        yield f"{LOCATION}: {PROXIES_KEY}: contains no certificate", _LAYER
    elif not usable_proxy_authorities(text_at(document, "data", USERS_KEY).encode(), proxies):
        yield (
            f"{LOCATION}: {PROXIES_KEY} also signs client certificates of users ({USERS_KEY}): the server refuses it",
            _LAYER,
        )
    elif not any(state.now < authority.not_valid_after_utc for authority in authorities):
        yield f"{LOCATION}: {PROXIES_KEY}: has expired", "renew the authority of the front proxy of the hub"
    try:
        parse_front_proxy(document)
    except ValueError as error:
        yield f"{LOCATION}: {error}", "correct the flag of kube-apiserver with this name"
