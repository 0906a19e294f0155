"""Checks whether the API server trusts the certificate of the hooks."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from certs.authority import name_of
from certs.rotation import certificates_in
from scorer.api.meta import format_time
from webhook.doctor.certificate_report import CertificateState
from webhook.doctor.finding import Finding, judged, unchecked
from webhook.kube.webhook_configurations.ca_bundles import Registered

CHECK: Final = "certificates"
_HINT: Final = "see docs/troubleshooting.md, The check ca-bundle"


def judge_authority(state: CertificateState, distrust: str) -> Finding:
    """Check an authority that harbormaster manages.

    Args:
        state: The state as read. Missing configurations are ignored, because another check reports them.
        distrust: Reason why the API server does not trust the certificate, or an empty string.
    """
    lineage = state.stored.lineage
    problems = list(state.problems_of_trust())
    if distrust and not problems:
        problems = [distrust]
    well = ""
    if lineage is not None:
        well = f"{lineage.active.name} signs and is trusted, the next rollover is at {format_time(lineage.due())}"
    return judged(CHECK, problems, well, f"harbormaster certs inspect; {_HINT}")


def judge_bundles(
    configurations: Mapping[str, Registered], distrust: str, now: datetime, *, any_answer: bool = True
) -> Finding:
    """Check whether the API server trusts a certificate that harbormaster does not manage.

    Args:
        configurations: The configurations as read, by kind.
        distrust: Reason why the API server does not trust the certificate. Empty: trusted, or
            unknown.
        now: Time of the hub's clock.
        any_answer: Whether a webhook has denied a dry run, so that the API server trusts the certificate.
    """
    if not configurations:
        return unchecked(CHECK, "there are no webhook configurations (see webhooks)")
    problems = [distrust] if distrust else [*_problems_of(configurations, now)]
    if not problems and not any_answer:
        return unchecked(CHECK, "no webhook answered, so the certificate is unknown (see admission)")
    trusted_names = {
        name_of(certificate) for configuration in configurations.values() for certificate in configuration.trusted()
    }
    authorities = ", ".join(sorted(trusted_names)) or "the authorities of its machine"
    advice = f"put the authority that signed the certificate into caBundle: webhook-configuration --ca FILE; {_HINT}"
    return judged(CHECK, problems, f"the API server trusts {authorities}, and the served certificate", advice)


def _problems_of(configurations: Mapping[str, Registered], now: datetime) -> Iterator[str]:
    bundles = {bundle for configuration in configurations.values() for bundle in configuration.bundles.values()}
    for kind, configuration in configurations.items():
        for name, bundle in configuration.bundles.items():
            certificates = certificates_in(bundle)
            if bundle and not any(now < certificate.not_valid_after_utc for certificate in certificates):
                yield f"{kind}: {name}: its caBundle has no certificate that is valid now"
    if len(bundles) > 1:
        yield "the webhooks trust different authorities: their caBundles differ"
