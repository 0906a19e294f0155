"""The webhook configurations of the chart, from `webhook.admission.registration`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scorer.api.meta import JsonObject
from scorer.rollout.confirmation.policy import NO_CONFIRMATION, RemovalPolicy
from tests.charts.templates import HEADER, entries, fill, metadata
from tests.charts.variants import merge
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.runtime.yaml import format_yaml
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization

SWITCHES: Final[Mapping[str, str]] = {
    "protect_deletions": ".Values.settings.protectDeletions",
    "protect_works": ".Values.settings.protectWorks",
    "guard_rail": ".Values.settings.guardRail",
    "block_workloads": ".Values.settings.blockWorkloads",
    "block_pod_disruption_budgets": ".Values.settings.blockPodDisruptionBudgets",
    "enforce_budgets": ".Values.settings.enforceBudgets",
    "removals": '(ne .Values.settings.removalConfirmation "Off")',
    "enforce_rights": '(eq .Values.settings.placementAuthorization "Enforce")',
}
"""What decides which hooks there are."""

_ENDPOINT: Final = WebhookEndpoint(
    namespace="@NAMESPACE@",
    service="@FULLNAME@",
    user="system:serviceaccount:@NAMESPACE@:@LOOP@",
    secret_path="@HOOKS@",
)
_BUNDLE: Final = "    caBundle: '@BUNDLE@'\n"
_GIVEN_BUNDLE: Final = '{{- with include "harbormaster.givenBundle" $ }}\n    caBundle: {{ . }}\n{{- end }}\n'


def configuration(place: int) -> str:
    """Return the template of a configuration: 0 the validating one, 1 the mutating one."""

    def hooks(on: frozenset[str]) -> Iterable[JsonObject]:
        made: list[JsonObject] = webhook_configurations(_ENDPOINT, _settings(on))[place]["webhooks"]
        return map(_with_placeholders, made)

    found = webhook_configurations(_ENDPOINT, AdmissionSettings())[place]
    head = {**found, "metadata": metadata("@CLUSTER@") | {"annotations": "@ANNOTATIONS@"}}
    del head["webhooks"]
    text = fill(format_yaml(head)) + "webhooks:\n" + entries(merge(SWITCHES, hooks), _write)
    return f"{HEADER}{{{{- if .Values.webhook.enabled }}}}\n{text}{{{{- end }}}}\n"


def _settings(on: frozenset[str]) -> AdmissionSettings:
    authorization = PlacementAuthorization.ENFORCE if "enforce_rights" in on else PlacementAuthorization.WARN
    derived = {"enforce_rights", "removals"}
    switched: dict[str, Any] = {name: name in on for name in SWITCHES if name not in derived}
    exempt = frozenset({"@EXEMPT@"})
    labelled = RemovalPolicy(exempt=("@EXEMPT_KEY@", "@EXEMPT_VALUE@"))  # without a label, no namespace has the key ""
    removal = labelled if "removals" in on else NO_CONFIRMATION
    return AdmissionSettings(
        placement_authorization=authorization, enforcement_exempt_users=exempt, removal=removal, **switched
    )


def _with_placeholders(hook: JsonObject) -> JsonObject:
    client = hook["clientConfig"]
    service = {**client["service"], "port": "@PORT@"}
    return {**hook, "clientConfig": {"service": service, "caBundle": "@BUNDLE@"}}


def _write(hook: Any) -> str:
    return format_yaml([hook]).replace(_BUNDLE, _GIVEN_BUNDLE).replace('["@EXEMPT@"]', "@EXEMPT@")
