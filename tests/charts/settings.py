"""The settings of the programs as values of the charts: names, defaults, descriptions and schemas of the same model."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.meta import JsonObject
from tests.charts.templates import HEADER
from webhook.settings.groups import GROUPS
from webhook.settings.reference import schema_of
from webhook.settings.values import format_value

HUB_PROGRAMS: Final = ("serve", "reconcile")
AGENT_PROGRAMS: Final = ("agent",)
OF_THE_CHART: Final = frozenset(
    {
        "analysis_ca",
        "analysis_token_file",
        "certificate_secret",
        "client_ca",
        "commit",
        "dns_names",
        "handoff_ca",
        "handoff_secret_file",
        "host",
        "http_host",
        "http_port",
        "https_port",
        "ip_addresses",
        "kubeconfig",
        "kubernetes_service_host",
        "loop_user",
        "namespace",
        "node_disruption_prices",
        "notifications_ca",
        "notifications_secret_file",
        "oidc_ca",
        "oidc_client_secret_file",
        "oidc_session_secret_file",
        "page_on_http",
        "service_account",
        "tls_ca",
        "tls_cert",
        "tls_key",
        "webhook_configuration",
        "webhook_secret_file",
        "webhooks_expected",
    }
)
"""Settings that the charts decide themselves or make of other values, and one that the image sets."""

BEGIN: Final = "# Made from webhook/settings by `make charts`; a test compares.\nsettings:\n"
_WIDTH: Final = 116
_DESCRIBING: Final = frozenset({"default", "description", "title", "x-variable", "x-unit"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as a value.

    Args:
        name: As the values name it, in camel case.
        variable: Its environment variable.
        default: As decoded JSON.
        description: What it means.
        schema: Which values it takes, in draft-07.
    """

    name: str
    variable: str
    default: Any
    description: str
    schema: JsonObject


def settings_of(programs: Sequence[str]) -> dict[str, Setting]:
    """Return the settings that the values of a chart hold, by name, room by room."""
    found: dict[str, Setting] = {}
    schemas = [schema_of(program) for program in programs]
    names = dict.fromkeys(name for room in GROUPS for name in room.names() if name not in OF_THE_CHART)
    for schema in schemas:
        for name in names:
            if name in schema["properties"]:
                setting = _setting(name, schema["properties"][name], schema.get("$defs", {}))
                found.setdefault(setting.name, setting)
    order = [camel(name) for name in names]
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


def camel(name: str) -> str:
    """Return the name of a setting as the values write it."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _setting(name: str, entry: JsonObject, definitions: Mapping[str, JsonObject]) -> Setting:
    default = entry["default"]
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return Setting(camel(name), entry["x-variable"], default, entry["description"], _plain(entry, definitions))


def _plain(entry: Any, definitions: Mapping[str, JsonObject]) -> Any:
    """Return a schema without references and without what only describes."""
    if isinstance(entry, list):
        return [_plain(each, definitions) for each in entry]
    if not isinstance(entry, dict):
        return entry
    if "$ref" in entry:
        return _plain(definitions[entry["$ref"].rpartition("/")[2]], definitions)
    made: dict[str, Any] = {key: _plain(value, definitions) for key, value in entry.items() if key not in _DESCRIBING}
    if "properties" in entry:
        made["properties"] = {name: _plain(each, definitions) for name, each in entry["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made


def section(programs: Sequence[str]) -> str:
    """Return the part of ``values.yaml`` that holds the settings."""
    text = BEGIN
    for setting in settings_of(programs).values():
        words = f"-- {setting.description} `{setting.variable}`."
        lines = textwrap.wrap(words, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
        text += "".join(f"  # {line}\n" for line in lines)
        text += f"  {setting.name}: {json.dumps(setting.default)}\n"
    return text


def partial(programs: Sequence[str]) -> str:
    """Return the partials that write the environment of each program: what differs from its default."""
    text = HEADER
    for program in programs:
        text += f'{{{{- define "harbormaster.settings.{program}" -}}}}\n'
        text += "".join(_lines(program, settings_of((program,)).values()))
        text += "{{- end }}\n"
    return text


def _lines(program: str, settings: Any) -> Iterator[str]:
    for setting in settings:
        default = json.dumps(format_value(setting.default))
        yield (
            f'{{{{- include "harbormaster.setting" (list "{setting.variable}" .Values.settings.{setting.name} '
            f"{default}) }}}}\n"
        )
