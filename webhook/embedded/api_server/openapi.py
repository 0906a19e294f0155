"""The OpenAPI v3 documents of the embedded API server, for ``kubectl explain`` and for capability checks of kubectl.

A document describes one group and version: ``components`` has the schema of each kind, ``paths`` has its requests.
kubectl leaves the check for unknown fields to the server only if the PATCH of a kind has the parameter
``fieldValidation``. Built-in kinds of Kubernetes have no definition here and accept any content.

Source: Kubernetes ``/openapi/v3``; KEP-2896; kubectl ``pkg/explain/v2``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scorer.api.crd.compatibility import schema_of
from scorer.api.crd.definitions import metadata_schema, structural_schema
from scorer.api.crd.models import MODELS
from scorer.api.kinds import Kind, api_version
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at
from webhook.embedded.api_server.status import ApiError

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ACTIONS: Final = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
_OF_COLLECTIONS: Final = {"get": "list", "post": "post"}
_WRITES: Final = ("post", "put", "patch")
_ANYTHING: Final = {
    "type": "object",
    "description": "Not described here: this hub accepts any content of this kind without validating it.",
    "x-kubernetes-preserve-unknown-fields": True,
}


def index(kinds: Iterable[Kind]) -> JsonObject:
    """Return ``/openapi/v3``: the paths of the documents of each group and version."""
    versions = dict.fromkeys((kind.group, version) for kind in kinds for version in kind.versions)
    paths = [_root(group, version) for group, version in versions]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def document(
    kinds: Iterable[Kind], group: str, version: str, definitions: Mapping[tuple[str, str], JsonObject]
) -> JsonObject:
    """Return the document of one group and version.

    Args:
        kinds: The served kinds.
        group: API group, empty for the core group.
        version: One of its versions.
        definitions: The CustomResourceDefinitions of other kinds, by group and kind.

    Raises:
        ApiError: 404, the group and version do not exist.
    """
    served_kinds = [kind for kind in kinds if kind.group == group and version in kind.versions]
    if not served_kinds:
        raise ApiError(404, f"no API version {api_version(group, version)[:253]!r}")
    schemas = {_name(kind, version): _schema(kind, version, definitions) for kind in served_kinds}
    return {
        "openapi": "3.0.0",
        "info": {"title": "harbormaster", "version": version},
        "paths": {path: item for kind in served_kinds for path, item in _paths(kind, version)},
        "components": {"schemas": {_METADATA: metadata_schema(), **schemas}},
    }


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _name(kind: Kind, version: str) -> str:
    return ".".join((*reversed((kind.group or "core").split(".")), version, kind.kind))


def _identity(kind: Kind, version: str) -> JsonObject:
    return {"group": kind.group, "version": version, "kind": kind.kind}


def content_schema(kind: Kind, version: str, definition: JsonObject | None) -> JsonObject:
    """Return the schema of a kind, without that of ``metadata``.

    Args:
        kind: The kind.
        version: One of its versions.
        definition: CustomResourceDefinition of the kind, unless the kind is built in.
    """
    return structural_schema(kind) if kind.group_kind in MODELS else _defined(definition, version)


def _schema(kind: Kind, version: str, definitions: Mapping[tuple[str, str], JsonObject]) -> JsonObject:
    content = content_schema(kind, version, definitions.get(kind.group_kind))
    properties = content.get("properties")
    schema = {**content, "x-kubernetes-group-version-kind": [_identity(kind, version)]}
    if isinstance(properties, dict):
        reference = {"allOf": [{"$ref": f"#/components/schemas/{_METADATA}"}]}
        schema["properties"] = {**properties, "metadata": reference}
    return schema


def _defined(definition: JsonObject | None, version: str) -> JsonObject:
    """Return the schema of a version in a definition, which may be malformed. Without one, any content is valid."""
    versions = dicts_at(definition or {}, "spec", "versions")
    schema = next(
        (schema_of(version_schema) for version_schema in versions if version_schema.get("name") == version), {}
    )
    return schema or _ANYTHING


def _paths(kind: Kind, version: str) -> Iterator[tuple[str, JsonObject]]:
    place = f"/{_root(kind.group, version)}"
    collection = f"{place}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{place}/{kind.plural}"
    if kind.namespaced:
        yield f"{place}/{kind.plural}", {"get": _operation(kind, version, "get", "list")}
    for path, actions in ((collection, _OF_COLLECTIONS), (f"{collection}/{{name}}", _ACTIONS)):
        parts = [
            {**_parameter(part, "path"), "required": True} for part in ("namespace", "name") if f"{{{part}}}" in path
        ]
        operations = {verb: _operation(kind, version, verb, action) for verb, action in actions.items()}
        yield path, {"parameters": parts, **operations}


def _operation(kind: Kind, version: str, verb: str, action: str) -> JsonObject:
    words = [*(["dryRun"] if verb != "get" else []), *(["fieldValidation"] if verb in _WRITES else [])]
    answer: dict[str, Any] = {"$ref": f"#/components/schemas/{_name(kind, version)}"}
    return {
        "parameters": [_parameter(word, "query") for word in words],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _identity(kind, version),
    }


def _parameter(name: str, place: str) -> JsonObject:
    return {"name": name, "in": place, "schema": {"type": "string"}}
