"""Report on a certificate authority and its clients, as one document. See `webhook.cli.operating.certs`.

All functions here are pure functions of the state that was read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from certs.authority import name_of
from certs.rotation import Lineage, certificates_in, fingerprint, pem_of
from scorer.api.meta import JsonObject, format_time
from webhook.access.front_proxy import API_SERVICE
from webhook.doctor.api_service import SUBJECT, problems_of_bundles, unavailability
from webhook.kube.certificates.authority_secret import StoredLineage
from webhook.kube.certificates.shared_authority import LARGEST_JITTER
from webhook.kube.webhook_configurations.ca_bundles import API_SERVICE_KIND, CONFIGURATIONS, Registered


@dataclass(frozen=True, slots=True)
class CertificateState:
    """Certificates of a hub as read.

    Args:
        secret: Namespace and name of the Secret.
        stored: Content of the Secret.
        configuration: Name of both webhook configurations.
        registered: Existing webhook configurations, by kind.
        now: Time of the read.
        api_service: The APIService of the API for teams. None: unset, or unknown.
        is_api_service_required: Whether the APIService must exist.
    """

    secret: str
    stored: StoredLineage
    configuration: str
    registered: Mapping[str, Registered]
    now: datetime
    api_service: Registered | None = None
    is_api_service_required: bool = False

    def document(self) -> JsonObject:
        """Return the whole state as JSON."""
        document: JsonObject = {"secret": self.secret}
        if self.stored.lineage is not None:
            document |= _of_lineage(self.stored.lineage)
        configurations = [
            self._of_configuration(kind, configuration, self.configuration)
            for kind, configuration in self.registered.items()
        ]
        document["webhookConfigurations"] = configurations
        if self.api_service is not None:
            service = self._of_configuration(API_SERVICE_KIND.kind, self.api_service, API_SERVICE)
            document["apiService"] = service | {"available": not unavailability(self.api_service.document)}
        return document | {"problems": list(self.problems())}

    def _of_configuration(self, kind: str, configuration: Registered, name: str) -> JsonObject:
        document: JsonObject = {
            "kind": kind,
            "name": name,
            "entries": [
                {"name": name, "trusts": [name_of(certificate) for certificate in certificates_in(bundle)]}
                for name, bundle in configuration.bundles.items()
            ],
        }
        if self.stored.lineage is None:
            return document
        in_sync = configuration.is_in_sync(pem_of(self.stored.lineage.trusted()))
        return document | {"inSync": in_sync, "acceptsActive": self._is_accepted_by(self.stored.lineage, configuration)}

    def _is_accepted_by(self, lineage: Lineage, configuration: Registered) -> bool:
        return not configuration.bundles or lineage.is_accepted_by(configuration.trusted(), self.now)

    def problems(self) -> Iterator[str]:
        """Yield all problems that need action."""
        yield from self.problems_of_trust()
        if self.stored.lineage is not None:
            for kind in CONFIGURATIONS:
                if kind.kind not in self.registered:
                    subject = f"{kind.kind} {self.configuration}"
                    yield f"{subject} is missing: print it with `harbormaster webhook-configuration --no-ca`"
        yield from self._problems_of_api_service()

    def _problems_of_api_service(self) -> Iterator[str]:
        if self.api_service is None:
            if self.is_api_service_required:
                yield f"{SUBJECT} is missing: create it as charts/harbormaster/templates/apiservice.yaml does"
            return
        if self.stored.lineage is not None:
            yield from problems_of_bundles(SUBJECT, self.api_service, self.stored.lineage, self.now)
        if problem := unavailability(self.api_service.document):
            yield f"{problem}. The check team-answers of `harbormaster doctor` has the fix"

    def problems_of_trust(self) -> Iterator[str]:
        """Yield problems of the authority, and of the CA bundles in existing configurations."""
        lineage = self.stored.lineage
        if lineage is None:
            reason = self.stored.damage or "it does not exist"
            yield f"Secret {self.secret}: no certificate authority: {reason}. A running `serve` creates one"
            return
        name, now = lineage.active.name, self.now
        if now >= lineage.active.not_after:
            yield f"{name} expired at {format_time(lineage.active.not_after)}. Is `harbormaster serve` running?"
        elif now < lineage.active.not_before:
            yield f"{name} is not valid before {format_time(lineage.active.not_before)}: a clock is wrong"
        elif lineage.is_due(now, LARGEST_JITTER):
            yield f"a rollover was due at {format_time(lineage.due())}. Is `harbormaster serve` running?"
        for kind, configuration in self.registered.items():
            yield from self._problems_of(kind, configuration, lineage)

    def _problems_of(self, kind: str, configuration: Registered, lineage: Lineage) -> Iterator[str]:
        yield from problems_of_bundles(f"{kind} {self.configuration}", configuration, lineage, self.now)


def untrusting_clients(lineage: Lineage, now: datetime) -> str:
    """Describe the clients that a rollover would cut off because they do not trust the active authority yet.

    Empty: there are no such clients.
    """
    cross = next(iter(lineage.above(now)), None)
    if cross is None:
        return ""
    earlier = next(
        (name_of(authority) for authority in lineage.earlier if authority.subject == cross.issuer),
        "the authority before it",
    )
    return (
        f"clients that trust {earlier} but not yet {lineage.active.name} would lose access (there are no such clients "
        f"after {format_time(cross.not_valid_after_utc)})"
    )


def rows(document: JsonObject) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each relevant certificate, the active one first."""
    for certificate in document.get("trusted", ()):
        role = "active" if certificate["sha256"] == document["active"]["sha256"] else "trusted"
        yield certificate["name"], role, certificate["notBefore"], certificate["notAfter"]
    if cross := document.get("cross"):
        yield f"{cross['name']} by {cross['issuer']}", "cross", cross["notBefore"], cross["notAfter"]
    for digest in document.get("distrusted", ()):
        yield f"sha256 {digest[:16]}", "distrusted", "", ""


def configuration_rows(document: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Yield name, number of entries and trusted certificates for each distinct set of certificates.

    The webhook configurations come first, and the APIService follows.
    """
    api_service = document.get("apiService")
    for configuration in (*document["webhookConfigurations"], *([api_service] if api_service else ())):
        bundles: dict[tuple[str, ...], int] = {}
        for entry in configuration["entries"]:
            trusts = tuple(entry["trusts"])
            bundles[trusts] = bundles.get(trusts, 0) + 1
        for trusts, count in bundles.items():
            yield f"{configuration['kind']}/{configuration['name']}", str(count), ", ".join(trusts) or "none"


def _of_lineage(lineage: Lineage) -> JsonObject:
    document: JsonObject = {
        "generation": lineage.generation,
        "active": _of_certificate(lineage.active.certificate),
        "trusted": _of_all(lineage.trusted()),
        "nextRollover": format_time(lineage.due()),
    }
    if lineage.cross is not None:
        document["cross"] = _of_certificate(lineage.cross) | {"issuer": _issuer(lineage)}
    return document | ({"distrusted": sorted(lineage.distrusted)} if lineage.distrusted else {})


def _issuer(lineage: Lineage) -> str:
    assert lineage.cross is not None
    issuer = lineage.cross.issuer
    return next(
        (name_of(authority) for authority in lineage.earlier if authority.subject == issuer), issuer.rfc4514_string()
    )


def _of_all(certificates: Iterable[x509.Certificate]) -> list[JsonObject]:
    return [_of_certificate(certificate) for certificate in certificates]


def _of_certificate(certificate: x509.Certificate) -> JsonObject:
    return {
        "name": name_of(certificate),
        "sha256": fingerprint(certificate),
        "notBefore": format_time(certificate.not_valid_before_utc),
        "notAfter": format_time(certificate.not_valid_after_utc),
    }
