"""What a container finds in its environment: its Services, its ConfigMaps and Secrets, its own fields."""

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.kubelet.node import RESOURCES
from scorer.api.values.quantity import parse_quantity

Read = Callable[[str, str], Awaitable[JsonObject]]
"""Reads a ``configmaps`` or ``secrets`` object of the Pod's namespace by its plural and its name."""

REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")


class ConfigurationError(Exception):
    """A Pod cannot be run as it is written; the text names what is missing."""


@dataclass(frozen=True)
class Fields:
    """What the fields of a Pod say, in the paths of the downward API.

    Args:
        pod: The Pod as it is now.
        address: Of the Pod.
        node_address: Of its Node.
    """

    pod: JsonObject
    address: str
    node_address: str

    def value(self, path: str) -> str:
        """The value of a field.

        Raises:
            ConfigurationError: There is no such field.
        """
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
            return str((metadata.get(found[1]) or {}).get(found[2], ""))
        if path in {"metadata.labels", "metadata.annotations"}:
            pairs = metadata.get(path.partition(".")[2]) or {}
            return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(pairs.items()))
        known = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "metadata.uid": metadata["uid"],
            "spec.nodeName": spec["nodeName"],
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": self.node_address,
            "status.hostIPs": self.node_address,
        }
        if path not in known:
            raise ConfigurationError(f"fieldPath {path!r} is not known")
        return str(known[path])

    def resource(self, reference: JsonObject, container: JsonObject) -> str:
        """What a ``resourceFieldRef`` says: requests and limits, rounded up to whole divisors."""
        chosen = reference.get("containerName") or container["name"]
        found = next(each for each in self.pod["spec"]["containers"] if each["name"] == chosen)
        which, _, resource = reference["resource"].partition(".")
        default = RESOURCES[resource] if which == "limits" else "0"
        amount = ((found.get("resources") or {}).get(which) or {}).get(resource, default)
        divisor = reference.get("divisor") or "1"
        return str(-(-parse_quantity(amount).nano // parse_quantity("1" if divisor == "0" else divisor).nano))


async def environment_of(container: JsonObject, fields: Fields, read: Read, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container.

    Args:
        container: As in the Pod.
        fields: Of the Pod.
        read: Reads what is referred to.
        base: What is there before ``envFrom`` and ``env``.

    Raises:
        ConfigurationError: A reference leads nowhere and is not optional.
    """
    found = dict(base)
    for source in container.get("envFrom") or ():
        data = await _source(source.get("configMapRef"), "configmaps", read)
        data |= await _source(source.get("secretRef"), "secrets", read)
        found |= {source.get("prefix", "") + key: value.decode() for key, value in data.items()}
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = await _value(variable["valueFrom"], container, fields, read)
        else:
            value = expand(variable.get("value", ""), found)
        if value is not None:
            found[variable["name"]] = value
    return found


def expand(text: str, known: Mapping[str, str]) -> str:
    """Put values in the place of ``$(NAME)``; ``$$`` is one ``$``, and what is not known stays as it is."""
    return REFERENCE.sub(lambda found: known.get(found[1], found[0]) if found[1] else "$", text)


def service_links(services: Iterable[JsonObject], namespace: str, *, all_of_namespace: bool) -> dict[str, str]:
    """The variables that tell of Services: of ``kubernetes`` always, of those of the namespace if wanted."""
    found: dict[str, str] = {}
    for service in services:
        metadata, address = service["metadata"], service["spec"].get("clusterIP")
        own = all_of_namespace and metadata["namespace"] == namespace
        if address in {None, "", "None"} or not (own or (metadata["namespace"], metadata["name"]) == MASTER):
            continue
        name = metadata["name"].upper().replace("-", "_")
        ports = service["spec"].get("ports") or []
        if not ports:
            continue
        first = ports[0]
        found |= {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(first["port"])}
        found[f"{name}_PORT"] = f"{first['protocol'].lower()}://{address}:{first['port']}"
        for port in ports:
            protocol, number = port["protocol"], str(port["port"])
            if port.get("name"):
                found[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
            stem = f"{name}_PORT_{number}_{protocol}"
            found |= {
                stem: f"{protocol.lower()}://{address}:{number}",
                f"{stem}_PROTO": protocol.lower(),
                f"{stem}_PORT": number,
                f"{stem}_ADDR": address,
            }
    return found


MASTER = ("default", "kubernetes")


async def data_of(plural: str, name: str, read: Read, *, optional: bool) -> dict[str, bytes]:
    """The content of a ConfigMap or Secret; nothing when it may be missing and is.

    Raises:
        ConfigurationError: It is missing.
    """
    try:
        found = await read(plural, name)
    except ApiError as error:
        if error.code != 404:
            raise
        if optional:
            return {}
        raise ConfigurationError(f"{plural} {name!r} not found") from error
    encoded = {**(found.get("binaryData") or {}), **((found.get("data") or {}) if plural == "secrets" else {})}
    plain = {} if plural == "secrets" else found.get("data") or {}
    return {
        **{key: value.encode() for key, value in plain.items()},
        **{key: base64.b64decode(value) for key, value in encoded.items()},
    }


async def _source(reference: JsonObject | None, plural: str, read: Read) -> dict[str, bytes]:
    if reference is None:
        return {}
    return await data_of(plural, reference["name"], read, optional=reference.get("optional", False))


async def _value(source: JsonObject, container: JsonObject, fields: Fields, read: Read) -> str | None:
    if "fieldRef" in source:
        return fields.value(source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return fields.resource(source["resourceFieldRef"], container)
    plural, word = ("configmaps", "configMapKeyRef") if "configMapKeyRef" in source else ("secrets", "secretKeyRef")
    reference = source[word]
    optional = reference.get("optional", False)
    data = await data_of(plural, reference["name"], read, optional=optional)
    if reference["key"] in data:
        return data[reference["key"]].decode()
    if optional:
        return None
    raise ConfigurationError(f"{plural} {reference['name']!r} has no key {reference['key']!r}")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
