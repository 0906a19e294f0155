"""Whom the API server trusts, and whether that is right."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import Authority
from certs.rotation import Lineage, pem_of
from webhook.doctor.certificate_report import CertificateState
from webhook.doctor.certificates import judge_authority, judge_bundles
from webhook.doctor.finding import State
from webhook.kube.certificates.authority_secret import StoredLineage
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, Registered

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
LINEAGE, OTHER = Lineage.begin(NOW), Authority.new(NOW, life=timedelta(days=1))
KINDS = [kind.kind for kind in CONFIGURATIONS]


def registered(*bundles, kinds=KINDS):
    return {kind: Registered({}, {f"{n}.x": bundle for n, bundle in enumerate(bundles)}) for kind in kinds}


def authority(trusted, distrust="", lineage=LINEAGE, kinds=KINDS):
    found = CertificateState("quay/ca", StoredLineage({}, lineage), "hooks", registered(trusted, kinds=kinds), NOW)
    return judge_authority(found, distrust)


def test_an_authority_that_is_trusted():
    finding = authority(LINEAGE.active.pem)
    assert finding.state is State.OK
    assert finding.found.startswith(f"{LINEAGE.active.name} signs and is trusted, the next rollover is at 2026-")


def test_configurations_that_are_missing_are_another_check():
    assert authority(LINEAGE.active.pem, kinds=KINDS[:1]).state is State.OK


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (authority(OTHER.pem), f"does not trust {LINEAGE.active.name}"),
        (authority(b"", lineage=None), "no certificate authority: it does not exist"),
        (authority(LINEAGE.active.pem, "x509: not valid for this name"), "x509: not valid for this name"),
    ],
    ids=["other-bundle", "no-authority", "distrusted-all-the-same"],
)
def test_an_authority_that_is_not(finding, said):
    assert finding.state is State.WRONG
    assert said in finding.problems[0]


def test_bundles_from_elsewhere():
    finding = judge_bundles(registered(OTHER.pem, OTHER.pem), "", NOW)
    assert (finding.state, finding.found) == (
        State.OK,
        f"the API server trusts {OTHER.name}, and the served certificate",
    )
    assert "the authorities of its machine" in judge_bundles(registered(b""), "", NOW).found
    assert judge_bundles({}, "", NOW).state is State.UNCHECKED


def test_without_an_answer_nothing_was_shown():
    assert judge_bundles(registered(OTHER.pem), "", NOW, any_answer=False).state is State.UNCHECKED
    assert judge_bundles(registered(b"garbage"), "", NOW, any_answer=False).state is State.WRONG


@pytest.mark.parametrize(
    ("bundles", "distrust", "now", "said"),
    [
        ((OTHER.pem,), "x509: unknown authority", NOW, ["x509: unknown authority"]),
        (
            (OTHER.pem, LINEAGE.active.pem),
            "",
            NOW,
            ["the webhooks trust different authorities: their caBundles differ"],
        ),
        (
            (OTHER.pem,),
            "",
            NOW + timedelta(days=2),
            [f"{kind}: 0.x: its caBundle has no certificate that is valid now" for kind in KINDS],
        ),
        (
            (b"garbage",),
            "",
            NOW,
            [f"{kind}: 0.x: its caBundle has no certificate that is valid now" for kind in KINDS],
        ),
    ],
    ids=["distrusted", "unequal", "expired", "garbage"],
)
def test_bundles_that_are_wrong(bundles, distrust, now, said):
    assert list(judge_bundles(registered(*bundles), distrust, now).problems) == said


def test_an_old_authority_beside_the_new_one_is_no_problem():
    both = pem_of((OTHER.certificate, LINEAGE.active.certificate))
    assert judge_bundles(registered(both), "", NOW + timedelta(days=2)).state is State.OK
