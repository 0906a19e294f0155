"""What ``harbormaster certs`` says of what it has read."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import Authority
from certs.rotation import Lineage, pem_of
from scorer.api.meta import format_time
from webhook.doctor.certificate_report import CertificateState, configuration_rows, rows, untrusting_clients
from webhook.kube.certificates.authority_secret import StoredLineage
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS, Registered

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
DUE = NOW + timedelta(days=244)
FIRST = Lineage.begin(NOW)
SECOND = FIRST.rolled_over(DUE)
KINDS = [kind.kind for kind in CONFIGURATIONS]


def registered(trusted, *, kinds=KINDS):
    bundles = dict.fromkeys(("a.example.com", "b.example.com"), pem_of(trusted))
    return {kind: Registered({}, bundles) for kind in kinds}


def found(lineage, now=NOW, trusted=None, **how):
    known = registered(lineage.trusted() if trusted is None else trusted, **how)
    return CertificateState("quay/ca", StoredLineage({}, lineage), "hooks", known, now)


def test_everything_is_shown():
    document = found(SECOND, DUE).document()
    assert (document["secret"], document["generation"]) == ("quay/ca", 2)
    assert document["active"]["name"] == SECOND.active.name
    assert [each["name"] for each in document["trusted"]] == [SECOND.active.name, FIRST.active.name]
    assert document["cross"]["issuer"] == FIRST.active.name
    assert document["nextRollover"] == format_time(SECOND.due())
    assert [each["kind"] for each in document["webhookConfigurations"]] == KINDS
    assert all(each["inSync"] and each["acceptsActive"] for each in document["webhookConfigurations"])
    assert document["problems"] == []
    assert "KEY" not in str(document)


def test_certificates_are_rows_of_a_table():
    forced = SECOND.rolled_over(DUE, distrust=True)
    assert [(name, role) for name, role, *_ in rows(found(SECOND, DUE).document())] == [
        (SECOND.active.name, "active"),
        (FIRST.active.name, "trusted"),
        (f"{SECOND.active.name} by {FIRST.active.name}", "cross"),
    ]
    assert [role for _, role, *_ in rows(found(forced, DUE).document())] == ["active", "distrusted", "distrusted"]


def test_entries_that_trust_the_same_are_one_row():
    document = found(SECOND, DUE).document()
    names = f"{SECOND.active.name}, {FIRST.active.name}"
    assert list(configuration_rows(document)) == [(f"{kind}/hooks", "2", names) for kind in KINDS]
    assert [row[2] for row in configuration_rows(found(FIRST, trusted=()).document())] == ["none"] * 2


@pytest.mark.parametrize(
    ("looked", "problem"),
    [
        pytest.param(found(FIRST), "", id="none"),
        pytest.param(found(FIRST, FIRST.due(0.04)), "", id="due-for-some-replicas"),
        pytest.param(found(FIRST, FIRST.due(0.06)), "a rollover was due at 2026-10-30T17:40:00Z", id="overdue"),
        pytest.param(found(FIRST, FIRST.active.not_after), "expired at 2027-03-01T10:00:00Z", id="expired"),
        pytest.param(found(FIRST, NOW - timedelta(days=30)), "a clock is wrong", id="of-the-future"),
        pytest.param(found(FIRST, kinds=KINDS[:1]), f"{KINDS[1]} hooks is missing", id="not-registered"),
        pytest.param(found(FIRST, trusted=()), "does not trust harbormaster-ca-1", id="wiped"),
        pytest.param(found(FIRST, trusted=[Authority.new(NOW).certificate]), "does not trust", id="another"),
        pytest.param(found(SECOND, DUE, FIRST.trusted()), "does not trust exactly", id="not-told-yet"),
        pytest.param(
            CertificateState("quay/ca", StoredLineage(None, None), "hooks", {}, NOW),
            "Secret quay/ca: no certificate authority: it does not exist",
            id="no-secret",
        ),
        pytest.param(
            CertificateState("quay/ca", StoredLineage({}, None, "tls.key is missing"), "hooks", {}, NOW),
            "no certificate authority: tls.key is missing",
            id="damaged",
        ),
    ],
)
def test_what_is_wrong_is_said(looked, problem):
    problems = list(looked.problems())
    assert problem in "\n".join(problems)
    assert bool(problems) is bool(problem)
    assert looked.document()["problems"] == problems


def test_who_is_cut_off_by_another_rollover_is_said_while_there_may_be_somebody():
    assert untrusting_clients(FIRST, NOW) == ""
    assert FIRST.active.name in untrusting_clients(SECOND, DUE)
    assert untrusting_clients(SECOND, FIRST.active.not_after) == ""
