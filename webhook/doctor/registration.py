"""Checks whether the webhook configurations exist and match this release."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.doctor.differences import differences
from webhook.doctor.finding import Finding, judged
from webhook.doctor.installation import Installation
from webhook.settings.secret_files import ROOT

CHECK: Final = "webhooks"
ADVICE: Final = "harbormaster webhook-configuration … | kubectl apply -f -    (with Helm: helm upgrade)"
_SECRET: Final = re.compile(rf"{ROOT}/[^/]+")
_SELECTS_ALL: Final[JsonObject] = {"namespaceSelector": {}, "objectSelector": {}}


def judge_registration(configurations: Mapping[str, JsonObject], name: str, installation: Installation) -> Finding:
    """Compare the configurations with those that this release would register for the installation.

    Address and secret path are read from the configurations themselves: other checks report whether the API server
    reaches the hooks. The secret path is as sensitive as a password.

    Args:
        configurations: The present configurations, by kind.
        name: Name of both configurations.
        installation: The installation.
    """
    endpoint = endpoint_of(configurations, installation)
    desired_configurations = webhook_configurations(endpoint, installation.settings.admission())
    problems = [
        problem
        for desired in desired_configurations
        for problem in _problems_of(configurations.get(desired["kind"]), desired, name, endpoint)
    ]
    problems += _problems_of_endpoint(endpoint, installation, any_hook=bool(configurations))
    count = sum(len(dicts_at(configuration, "webhooks")) for configuration in configurations.values())
    return judged(
        CHECK,
        problems,
        f"{len(desired_configurations)} configurations {name} with {count} hooks, as of this release",
        ADVICE,
    )


def endpoint_of(configurations: Mapping[str, JsonObject], installation: Installation) -> WebhookEndpoint:
    """Return the endpoint that most hooks in the configurations have."""
    hooks = [hook for configuration in configurations.values() for hook in dicts_at(configuration, "webhooks")]
    places = Counter(_place(dict_at(hook, "clientConfig")) for hook in hooks)
    user = installation.loop or installation.settings.username_of_loop
    if not places:
        return WebhookEndpoint(installation.namespace, user=user)
    ((namespace, service, port, url, prefix), _), *_ = places.most_common(1)
    return WebhookEndpoint(namespace or installation.namespace, service, port, url, user=user, secret_path=prefix)


def _place(client: JsonObject) -> tuple[str, str, int, str, str]:
    """Parse a ``clientConfig``: namespace, name and port of the Service, URL, and the prefix of the hook's path."""
    service = dict_at(client, "service")
    path, url = text_at(service, "path"), text_at(client, "url")
    if url:
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        url, path = f"{scheme}://{host}", slash + path
    prefix = "/".join(path.split("/")[:3]) if path.startswith(f"{ROOT}/") else ""
    port = service.get("port")
    return (
        text_at(service, "namespace"),
        text_at(service, "name"),
        port if isinstance(port, int) else 443,
        url,
        prefix,
    )


def _problems_of(
    configuration: JsonObject | None, desired: JsonObject, name: str, endpoint: WebhookEndpoint
) -> Iterator[str]:
    subject = f"{desired['kind']} {name}"
    if configuration is None:
        yield f"{subject} is missing: the API server calls none of its webhooks"
        return
    hooks_by_name = {text_at(hook, "name"): hook for hook in dicts_at(configuration, "webhooks")}
    hooks = {text_at(hook, "name"): _SELECTS_ALL | hook for hook in desired["webhooks"]}
    for hook_name, hook in hooks.items():
        if hook_name not in hooks_by_name:
            yield f"{subject}: {hook_name} is missing"
            continue
        for difference in differences(_masked(hooks_by_name[hook_name], endpoint), _masked(hook, endpoint)):
            yield f"{subject}: {hook_name}: {difference}"
    for hook_name in hooks_by_name.keys() - hooks.keys():
        yield f"{subject}: {hook_name} is not of this release, or belongs to a setting that is off"


def _masked(hook: JsonObject, endpoint: WebhookEndpoint) -> JsonObject:
    """Return a hook with a masked secret in its path. Any secret other than that of *endpoint* has another mask."""

    def masked(text: str) -> str:
        return _SECRET.sub(lambda match: f"{ROOT}/…" if match[0] == endpoint.secret_path else f"{ROOT}/(another)", text)

    client = dict_at(hook, "clientConfig")
    if "url" in client:
        return {**hook, "clientConfig": {**client, "url": masked(text_at(client, "url"))}}
    service = dict_at(client, "service")
    return {**hook, "clientConfig": {**client, "service": {**service, "path": masked(text_at(service, "path"))}}}


def _problems_of_endpoint(endpoint: WebhookEndpoint, installation: Installation, *, any_hook: bool) -> Iterator[str]:
    if not any_hook:
        return
    if not endpoint.url and endpoint.namespace != installation.namespace:
        yield (
            f"the webhooks point to namespace {endpoint.namespace}, but the installation is in {installation.namespace}"
        )
    if installation.has_secret_path is None or installation.requires_certificate:
        return
    if not (installation.has_secret_path and endpoint.secret_path):
        yield f"the server treats any client as the API server: {_gap(installation, endpoint)}"


def _gap(installation: Installation, endpoint: WebhookEndpoint) -> str:
    if installation.has_secret_path:
        return (
            "it has a secret path, but the API server calls the webhooks without it. Run helm upgrade again after "
            "its Pods have been replaced"
        )
    if endpoint.secret_path:
        return (
            "the API server calls the webhooks with a secret path that the server does not have. Set webhook.secrets "
            "of the chart"
        )
    return "it has no secret path. Set webhook.secrets of the chart (openssl rand -hex 32)"
