"""Reader of kubeconfigs: files, contexts, and the fields of a cluster and a user.

Shared by every program. kubernetes-asyncio, which `webhook.kube.login.credentials` uses for some credentials, has three
flaws. It does not validate fields and fails where it uses them. It silently merges files with clusters of the same
name. Its import takes longer than most commands. Messages here name the file, the context and the field, and show no
secret.

Source: client-go ``tools/clientcmd/loader.go`` and ``tools/clientcmd/api/v1/types.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml

from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from scorer.api.values.quoting import printable
from webhook.kube.transport.addresses import check_address
from webhook.runtime.files import read_bounded

Section = Literal["contexts", "clusters", "users"]

_PARTS: Final[tuple[tuple[Section, str], ...]] = (("clusters", "cluster"), ("users", "user"))
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"),
    "user": (
        "token",
        "tokenFile",
        "username",
        "password",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
    ),
}
_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
_SECRET: Final = frozenset({"token", "password", "client-key-data"})
_SHOWN: Final = 128
"""Maximum number of characters of a value in a message."""
_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NESTING: Final = (b"[", b"{", b"-", b"?")
_DEEPEST: Final = 1000
"""Maximum count of `_NESTING` characters for the parser in C. It has no nesting limit and would crash the process."""


class ConfigurationError(Exception):
    """The login for an API server is missing or unusable. The message names the kubeconfig, if any, and the reason."""


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """A context of a kubeconfig, with its cluster and its user.

    Args:
        file: The kubeconfig.
        name: Name of the context.
        namespace: Empty if unset.
        cluster_name: Name of the cluster.
        cluster: Fields, unchecked until `check`.
        user_name: Name of the user, empty if unset.
        user: Fields, unchecked until `check`.
    """

    file: Path
    name: str
    namespace: str
    cluster_name: str
    cluster: Mapping[str, Any]
    user_name: str
    user: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the prefix of messages about the context."""
        return f"kubeconfig {self.file}: context {_quoted(self.name)}"

    def check(self) -> None:
        """Check the fields of the cluster and the user. Raises `ConfigurationError`."""
        for member, fields in (("cluster", self.cluster), ("user", self.user)):
            for field in _TEXTS[member]:
                value = fields.get(field)
                if value is not None and not isinstance(value, str):
                    excerpt = "" if field in _SECRET else f" {str(value)[:_SHOWN]!r}:"
                    raise self.error(member, field, f"{excerpt} must be text: put it in quotes")
        # Ignoring these would send requests with the rights of the impersonating user, which are usually broader.
        for impersonation in filter(self.user.get, _IMPERSONATION):
            reason = " must not be set: impersonation is not supported. Use credentials of the impersonated user"
            raise self.error("user", impersonation, reason)
        server = self.cluster.get("server")
        if not server:
            raise self.error("cluster", "server", " must be set: the address of the API server")
        try:
            # With an optional path: several API servers may share a host.
            check_address(server, "expected a URL such as https://10.0.0.7:6443", bare=False)
        except ValueError as error:
            raise self.error("cluster", "server", f" {server[:_SHOWN]!r}: {error}") from error
        if (token := self.user.get("token")) and not (token.isascii() and token.isprintable()):
            raise self.error(
                "user", "token", " must not contain line breaks or other characters that are invalid in a token"
            )

    def error(self, member: str, field: str, reason: str) -> ConfigurationError:
        """Return the error of a field.

        Args:
            member: ``cluster`` or ``user``.
            field: Field of the cluster or user.
            reason: Text after the colon that follows the field.
        """
        name = self.cluster_name if member == "cluster" else self.user_name
        return ConfigurationError(f"{self}: {member} {_quoted(name)}: {field}:{reason}")

    def path(self, member: str, field: str) -> Path | None:
        """Return the path in a field, or None if unset. A relative path starts at the directory of the kubeconfig."""
        text = text_at(self.cluster if member == "cluster" else self.user, field)
        return self.file.parent / text if text else None


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One kubeconfig file.

    Args:
        file: Path.
        document: Content.
    """

    file: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a file. An empty one has no contexts.

        Raises:
            ConfigurationError: *file* cannot be read, or is not a kubeconfig.
        """
        try:
            content = read_bounded(file)
            document = _parse(content)
        except OSError as error:
            raise ConfigurationError(f"kubeconfig {file}: {(error.strerror or str(error)).lower()}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigurationError(f"kubeconfig {file}: is not YAML: {reason}") from error
        if document is None and not content.strip():
            document = {}
        if not isinstance(document, dict):
            raise ConfigurationError(f"kubeconfig {file}: must be an object with clusters, users and contexts")
        return cls(file, document)

    @property
    def current_context(self) -> str:
        """Name of the current context, empty when unset."""
        return text_at(self.document, "current-context")

    def context_names(self) -> list[str]:
        """Return the names of all contexts, in order."""
        return [str(entry["name"]) for entry in self._entries("contexts")]

    def has_context(self, name: str) -> bool:
        """Return whether a context of that name exists."""
        return bool(self._entries_named("contexts", name))

    def context(self, name: str) -> KubeconfigContext:
        """Return a context with all of its parts, which must be in this file.

        Raises:
            ConfigurationError: The context or a part of it is missing or no object, or two entries have the same name.
        """
        context = dict_at(self._one("contexts", name, name) or {}, "context")
        parts: dict[str, Mapping[str, Any]] = {}
        for section, member in _PARTS:
            part_name = context.get(member)
            entry = self._one(section, part_name, name)
            if entry is None and (member == "cluster" or part_name):
                raise ConfigurationError(
                    f"kubeconfig {self.file}: the {member} {_quoted(str(part_name))} of context {_quoted(name)} is not "
                    "in this file. Merge the files into one (kubectl config view --flatten --minify > FILE), and use "
                    "--kubeconfig FILE"
                )
            fields = (entry or {}).get(member)
            if not isinstance(fields, dict) and not (member == "user" and not fields):
                location = f"kubeconfig {self.file}: context {_quoted(name)}: {member} {_quoted(str(part_name))}"
                raise ConfigurationError(f"{location}: must be an object")
            parts[member] = fields or {}
        return KubeconfigContext(
            self.file,
            name,
            text_at(context, "namespace"),
            text_at(context, "cluster"),
            parts["cluster"],
            text_at(context, "user"),
            parts["user"],
        )

    def part(self, section: Section, member: str, name: object) -> Mapping[str, Any] | None:
        """Return the fields of the first cluster or user of that name, None if there is no such entry."""
        return next((dict_at(entry, member) for entry in self._entries_named(section, name)), None)

    def _one(self, section: Section, name: object, context: str) -> Mapping[str, Any] | None:
        entries = self._entries_named(section, name)
        if len(entries) > 1:
            location = f"kubeconfig {self.file}: context {_quoted(context)}"
            raise ConfigurationError(f"{location}: {section}: {_quoted(str(name))} occurs {len(entries)} times")
        return entries[0] if entries else None

    def _entries_named(self, section: Section, name: object) -> Sequence[Mapping[str, Any]]:
        return [entry for entry in self._entries(section) if name and entry["name"] == name]

    def _entries(self, section: Section) -> Sequence[Mapping[str, Any]]:
        return [entry for entry in dicts_at(self.document, section) if "name" in entry]


def read_context(file: Path, name: str | None) -> KubeconfigContext:
    """Return a context of a file, by default its current one, with checked fields. Raises `ConfigurationError`."""
    context = find_context([Kubeconfig.read(file)], name)
    context.check()
    return context


def find_context(kubeconfigs: Sequence[Kubeconfig], name: str | None) -> KubeconfigContext:
    """Return the context that kubectl would use.

    The first file with a current context determines its name, and the first file with a context of that name is used.

    Args:
        kubeconfigs: Kubeconfigs in order of precedence.
        name: The context. None means the current one.

    Raises:
        ConfigurationError: The context is missing or unusable, or kubectl would take its cluster or its user from
            another file.
    """
    files = ", ".join(str(kubeconfig.file) for kubeconfig in kubeconfigs)
    context_name = name or next(filter(None, (kubeconfig.current_context for kubeconfig in kubeconfigs)), "")
    if not context_name:
        raise ConfigurationError(f"kubeconfig {files}: has no current context. Specify one with --context NAME")
    for position, kubeconfig in enumerate(kubeconfigs):
        if kubeconfig.has_context(context_name):
            context = kubeconfig.context(context_name)
            _check_unambiguous(kubeconfigs[:position], kubeconfig, context)
            return context
    names = [context_name for kubeconfig in kubeconfigs for context_name in kubeconfig.context_names()]
    names_text = ", ".join(map(printable, names[:20])) or "none"
    raise ConfigurationError(f"kubeconfig {files}: has no context {_quoted(context_name)}, available: {names_text}")


def _check_unambiguous(earlier: Sequence[Kubeconfig], own: Kubeconfig, context: KubeconfigContext) -> None:
    """Raise `ConfigurationError` if kubectl would take the cluster or user of a context from another file.

    kubectl uses the first of several entries with the same name, so a context may lead to another hub than its own file
    names.
    """
    names = {"cluster": context.cluster_name, "user": context.user_name}
    for section, member in _PARTS:
        for other in earlier:
            first = other.part(section, member, names[member])
            if first is not None and first != own.part(section, member, names[member]):
                raise ConfigurationError(
                    f"kubeconfig {own.file}: the {member} {_quoted(names[member])} of context {_quoted(context.name)} "
                    f"is also in {other.file} with different content, and kubectl uses that one. Select a file with "
                    "--kubeconfig FILE"
                )


def _parse(content: bytes) -> Any:
    """Parse YAML, with the parser in C if available: certificates are long."""
    deep = sum(map(content.count, _NESTING)) > _DEEPEST
    return yaml.load(content, Loader=yaml.SafeLoader if deep else _FAST)  # noqa: S506 - both are safe


def _quoted(name: str) -> str:
    return repr(printable(name[:_SHOWN]))
