"""Documents of the code as Helm templates: placeholders stand where a release puts something of its own."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.charts.variants import Part
from webhook.runtime.yaml import format_yaml

HEADER: Final = "{{- /* Made from the code by `make charts`; a test compares. */}}\n"

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "@CLUSTER@": '{{ include "harbormaster.clusterName" . }}',
    "@FULLNAME@": '{{ include "harbormaster.fullname" . }}',
    "@NAMESPACE@": "{{ .Release.Namespace }}",
    "@LOOP@": '{{ include "harbormaster.loopAccount" . }}',
    "@SERVER@": '{{ include "harbormaster.serveAccount" . }}',
    "@AGENT@": '{{ include "harbormaster.agentAccount" . }}',
    "@LEASE@": "{{ .Values.settings.leaseName }}",
    "@KARPENTER@": '{{ splitList "/" .Values.settings.nodeDisruptionKarpenterLease | last }}',
    "@EXEMPT@": '{{ include "harbormaster.exemptUsers" . }}',
    "@EXEMPT_KEY@": '{{ (splitn "=" 2 .Values.settings.removalConfirmationExempt)._0 }}',
    "@EXEMPT_VALUE@": '{{ (splitn "=" 2 .Values.settings.removalConfirmationExempt)._1 }}',
    "@HOOKS@": '{{ include "harbormaster.hooksPath" . }}',
}
"""What stands in a document for the code, to what stands there in the template.

None of it needs quotes: names of objects, paths of letters and digits; users are escaped where they are written.
"""
_LABELS: Final = re.compile(r"^( *)labels: '@LABELS@'$", re.MULTILINE)
_MORE_USERS: Final = re.compile(r',\s+"@ALLOWED@"')
"""The end of a list of users in CEL: the setting may name none."""
_WHOLE_LINES: Final[Mapping[str, str]] = {
    "port: '@PORT@'": "port: {{ .Values.service.port }}",
    "annotations: '@ANNOTATIONS@'": '{{- include "harbormaster.hookAnnotations" . | nindent 2 }}',
}


def metadata(name: str, namespace: str = "") -> dict[str, Any]:
    """Return the metadata of an object of a release."""
    return {"name": name} | ({"namespace": namespace} if namespace else {}) | {"labels": "@LABELS@"}


def fill(text: str) -> str:
    """Put what Helm understands where the placeholders stand."""
    for placeholder, expression in PLACEHOLDERS.items():
        text = text.replace(placeholder, expression)
    for line, expression in _WHOLE_LINES.items():
        text = text.replace(line, expression)
    text = _MORE_USERS.sub('{{ include "harbormaster.allowedUsers" . }}', text)
    return _LABELS.sub(_labels, text)


def _labels(found: re.Match[str]) -> str:
    indent = len(found[1])
    return f'{found[1]}labels:\n{found[1]}  {{{{- include "harbormaster.labels" . | nindent {indent + 2} }}}}'


def document(content: Any, condition: str = "") -> str:
    """Write one object, which is there when *condition* holds; empty: always."""
    text = f"---\n{fill(format_yaml(content))}"
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def entries(parts: Iterable[Part], write: Any) -> str:
    """Write the entries of a list, one after the other; those of one condition share its ``if``."""
    text, open_condition = "", ""
    for part in parts:
        if part.condition != open_condition:
            text += "{{- end }}\n" if open_condition else ""
            text += f"{{{{- if {part.condition} }}}}\n" if part.condition else ""
            open_condition = part.condition
        text += fill(write(part.content))
    return text + ("{{- end }}\n" if open_condition else "")
