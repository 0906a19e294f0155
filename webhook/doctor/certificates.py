"""Whether the API server trusts the certificate that it is shown."""

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


def judge_authority(found: CertificateState, distrust: str) -> Finding:
    """Judge an authority that we keep ourselves.

    Args:
        found: What was read of it; configurations that are not there are another check.
        distrust: Why the API server does not trust what it is shown; empty: it does.
    """
    lineage = found.stored.lineage
    problems = list(found.problems_of_trust())
    if distrust and not problems:
        problems = [distrust]
    well = ""
    if lineage is not None:
        well = f"{lineage.active.name} signs and is trusted; the next rollover is at {format_time(lineage.due())}"
    return judged(CHECK, problems, well, f"harbormaster certs inspect; {_HINT}")


def judge_bundles(
    registered: Mapping[str, Registered], distrust: str, now: datetime, *, answered: bool = True
) -> Finding:
    """Judge what the API server trusts, where the certificate comes from elsewhere.

    Args:
        registered: What the configurations trust.
        distrust: Why the API server does not trust what it is shown; empty: it does, or is shown nothing.
        now: By the hub's clock.
        answered: Whether it was shown anything.
    """
    if not registered:
        return unchecked(CHECK, "there are no webhook configurations; see webhooks")
    problems = [distrust] if distrust else [*_problems_of(registered, now)]
    if not problems and not answered:
        return unchecked(CHECK, "no hook has answered, so nothing was shown; see admission")
    trusted = {name_of(one) for each in registered.values() for one in each.trusted()}
    whom = ", ".join(sorted(trusted)) or "the authorities of its machine"
    advice = f"put the authority that signed the certificate into caBundle: webhook-configuration --ca FILE; {_HINT}"
    return judged(CHECK, problems, f"the API server trusts {whom}, and what it is shown", advice)


def _problems_of(registered: Mapping[str, Registered], now: datetime) -> Iterator[str]:
    bundles = {bundle for each in registered.values() for bundle in each.bundles.values()}
    for kind, each in registered.items():
        for name, bundle in each.bundles.items():
            certificates = certificates_in(bundle)
            if bundle and not any(now < one.not_valid_after_utc for one in certificates):
                yield f"{kind}: {name}: its caBundle holds no certificate that is valid now"
    if len(bundles) > 1:
        yield "the hooks do not all trust the same: some caBundle differs"
