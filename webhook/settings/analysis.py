"""Automatic approval of stages of staged update runs: the permitted query endpoints and kinds. None by default."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from scorer.api.values.name_grammar import dns_label_error
from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import SecondsWithin, Words

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_KIND: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SECRETS: Final = "secrets"
EVERY_NAMESPACE: Final = "*"


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """Permitted queries for the analysis of stages.

    Args:
        endpoints: Addresses of query endpoints, by the names that users refer to.
        namespaces: Namespaces whose runs may query an endpoint, by its name. Cluster-scoped runs may query all.
        kinds: Kinds of objects that may be read, as ``PLURAL.GROUP``.
        ca: CA file of the endpoints. None means that the authorities of the system apply.
        token_file: File with the token for endpoints. None: disabled, no token is sent.
        seconds: Timeout of a query.
    """

    endpoints: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    namespaces: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    kinds: frozenset[str] = frozenset()
    ca: Path | None = None
    token_file: Path | None = None
    seconds: float = 10.0

    @property
    def is_on(self) -> bool:
        """Whether any endpoint or kind is permitted."""
        return bool(self.endpoints or self.kinds)

    def may_query(self, endpoint: str, namespace: str) -> bool:
        """Return whether a run may query an endpoint. *namespace* is empty for a cluster-scoped run."""
        return not namespace or bool(self.namespaces.get(endpoint, frozenset()) & {namespace, EVERY_NAMESPACE})


class AnalysisSettings(Settings):
    """Query endpoints, and kinds of objects that may be read. The loop needs rights for those.

    Users refer to endpoints by name. Only the operator sets their addresses.
    """

    analysis_kinds: Words = Field(
        default=(),
        description="Kinds of objects on the hub whose conditions may approve a stage, as `PLURAL.GROUP`, such as "
        "`jobs.batch`. Empty: none.",
    )
    analysis_endpoints: Words = Field(
        default=(),
        description="Endpoints with the query API of Prometheus whose results may approve a stage, as `NAME=URL`, "
        "without `/api/v1/query`. Empty: none.",
    )
    analysis_endpoint_namespaces: Words = Field(
        default=(),
        description="Namespaces whose runs may query an endpoint, as `NAME=NAMESPACE`, one entry per namespace, or "
        "`NAME=*` for all namespaces. Queries are not restricted. Empty: only cluster-scoped runs may query.",
    )
    analysis_ca: Path | None = Field(
        default=None,
        description="Certificate authorities of the endpoints in `HARBORMASTER_ANALYSIS_ENDPOINTS`, in PEM, read for "
        "every query. Unset: those of the system.",
    )
    analysis_token_file: Path | None = Field(
        default=None,
        description="File with a bearer token for all these endpoints, read for every query. Requires https.",
    )
    analysis_seconds: SecondsWithin = Field(default=10, ge=1, le=60, description="Timeout of a query.")

    @field_validator("analysis_kinds")
    @classmethod
    def _check_kinds(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if not _KIND.fullmatch(word):
                raise ValueError(f"{word[:64]!r}: must be PLURAL.GROUP")
            if word == _SECRETS:
                raise ValueError(
                    "secrets must not be listed: they have no conditions, and the loop would need the right to "
                    "read all of them"
                )
        return words

    @field_validator("analysis_endpoints")
    @classmethod
    def _check_endpoints(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        read_endpoints(words)
        return words

    @field_validator("analysis_endpoint_namespaces")
    @classmethod
    def _check_namespaces(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        read_namespaces(words)
        return words

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a token for an endpoint without TLS, and namespaces of an unknown endpoint."""
        yield from super().contradictions()
        plain = [name for name, url in self._addresses.items() if url.startswith("http:")]
        if self.analysis_token_file is not None and plain:
            yield Contradiction(
                frozenset({"analysis_endpoints", "analysis_token_file"}),
                "analysis_token_file: must not be set when an endpoint in analysis_endpoints is not https: "
                f"{plain[0]!r}",
            )
        unknown = [name for name in read_namespaces(self.analysis_endpoint_namespaces) if name not in self._addresses]
        if unknown:
            yield Contradiction(
                frozenset({"analysis_endpoints", "analysis_endpoint_namespaces"}),
                f"analysis_endpoint_namespaces: {unknown[0]!r}: must be the name of an endpoint in analysis_endpoints",
            )

    @property
    def _addresses(self) -> dict[str, str]:
        return read_endpoints(self.analysis_endpoints)

    def analysis(self) -> AnalysisOptions:
        """Return the permitted kinds and queries."""
        return AnalysisOptions(
            MappingProxyType(self._addresses),
            MappingProxyType(read_namespaces(self.analysis_endpoint_namespaces)),
            frozenset(self.analysis_kinds),
            self.analysis_ca,
            self.analysis_token_file,
            self.analysis_seconds,
        )


def read_endpoints(words: tuple[str, ...]) -> dict[str, str]:
    """Return the addresses of endpoints by their names, from texts of the form ``NAME=URL``.

    Raises:
        ValueError: A text is not of that form, or a name occurs twice.
    """
    endpoints: dict[str, str] = {}
    for word in words:
        name, equals, url = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r}: must be NAME=URL")
        if name in endpoints:
            raise ValueError(f"{name!r} is listed twice")
        endpoints[name] = _address(name, url)
    return endpoints


def read_namespaces(words: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """Return the namespaces of endpoints by their names, from texts of the form ``NAME=NAMESPACE``.

    Raises:
        ValueError: A text is not of that form.
    """
    namespaces: dict[str, frozenset[str]] = {}
    for word in words:
        name, equals, namespace = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(f"{word[:64]!r}: must be NAME=NAMESPACE, with the name of an endpoint")
        if namespace != EVERY_NAMESPACE and (error := dns_label_error(namespace)):
            raise ValueError(f"{name!r}: {namespace[:64]!r}: must be a namespace: {error}")
        namespaces[name] = namespaces.get(name, frozenset()) | {namespace}
    return namespaces


def _address(name: str, url: str) -> str:
    """Return an address with its scheme in lower case, so that ``HTTPS`` counts as https, and without a final slash.

    Raises:
        ValueError: *url* is not a URL of an http or https endpoint, or has credentials, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is not a number
    except ValueError as error:
        raise ValueError(f"{name!r}: must be a URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{name!r}: the URL must start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name!r}: the URL must not contain credentials. Set analysis_token_file instead")
    if parts.query or parts.fragment:
        raise ValueError(f"{name!r}: the URL must not have a query or a fragment, and must end before /api/v1/query")
    return parts.geturl().rstrip("/")
