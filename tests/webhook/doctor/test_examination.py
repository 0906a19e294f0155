"""What becomes of answers that a healthy hub does not give; `e2e/cli/test_doctor.py` examines real ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.webhook.doctor.empty_hub import DATE, EmptyHub
from webhook.doctor.agent_account import CHECK as MEMBER_RIGHTS
from webhook.doctor.examination import CHECKS, INSTALL, Examination, document_of
from webhook.doctor.finding import State
from webhook.doctor.installation import InstallationOptions, UnclearInstallationError
from webhook.kube.ports import ForbiddenError, NotServedError, UnavailableError

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)


async def examine(hub, now=NOW, **wanted):
    examination = Examination(hub, "1.2.0", lambda: now)
    await examination.run(InstallationOptions(**wanted), {})
    assert [each.finding.check for each in examination.results] == list(CHECKS)
    return {each.finding.check: each.finding for each in examination.results}


async def test_a_hub_without_harbormaster_gets_one_line_with_the_command_that_installs_it():
    nothing = {"metadata": {"resourceVersion": "1"}, "items": []}
    examination = Examination(EmptyHub(customresourcedefinitions=nothing), "1.2.0", lambda: NOW)
    await examination.run(InstallationOptions(), {})
    (result,) = examination.results
    (problem,) = result.finding.problems
    assert problem == f"harbormaster is not installed on this hub. To install it: {INSTALL}"
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert " ".join(INSTALL.split()) in " ".join(readme.replace("\\\n", " ").split())
    assert document_of(examination, "1.2.0", NOW)["well"] is False


async def test_a_caller_who_may_not_read_definitions_gets_all_checks():
    found = await examine(EmptyHub(customresourcedefinitions=ForbiddenError("no")))
    assert found["definitions"].state is State.UNCHECKED


async def test_a_hub_with_one_of_the_definitions():
    found = await examine(EmptyHub())
    wrong = {name for name, finding in found.items() if finding.state is State.WRONG}
    assert wrong == {"definitions", "webhooks", "server-rights", "loop-rights", "policies", "leader"}
    assert "is missing" in found["definitions"].problems[0]
    assert found["admission"].found == "not checked: there are no webhook configurations (see webhooks)"
    assert found["installation"].found.endswith("not installed by the chart")


async def test_without_a_loop_nothing_is_said_of_its_account():
    found = await examine(EmptyHub(), has_loop=False)
    assert found["loop-rights"].found == found["leader"].found == "no loop is installed"
    assert not any("reconcile" in each for each in found["policies"].problems)


@pytest.mark.parametrize(
    ("date", "seconds", "said"),
    [
        (DATE, 0, "Kubernetes v1.36.3. The clock of this machine and the clock of the hub agree"),
        (DATE, 12, "The clock of this machine is 12 s ahead of the clock of the hub"),
        (DATE, -3600, "The clock of this machine is 60 min behind the clock of the hub"),
        ("", 0, "Kubernetes v1.36.3, which does not report its time"),
        ("yesterday", 0, "Kubernetes v1.36.3, which does not report its time"),
    ],
)
async def test_the_clock_here_is_compared_with_the_hubs(date, seconds, said):
    finding = (await examine(EmptyHub(date), NOW + timedelta(seconds=seconds + 0.5)))["hub"]
    assert (finding.found, *finding.problems)[-1] == said


async def test_an_old_hub_has_no_policies_to_check():
    found = await examine(EmptyHub(validatingadmissionpolicies=NotServedError("404")))
    assert found["policies"].state is State.OK
    assert "Kubernetes 1.30" in found["policies"].found


async def test_what_may_not_be_read_is_not_checked():
    denied = ForbiddenError('User "bob" cannot list resource "deployments" in API group "apps" at the cluster scope')
    finding = (await examine(EmptyHub(deployments=denied)))["installation"]
    assert finding.state is State.UNCHECKED
    assert finding.found.endswith("you may not list deployments; using the settings of this environment")


async def test_what_the_api_server_denies_is_missing():
    found = await examine(EmptyHub(subjectaccessreviews={"status": {"allowed": False}}))
    assert found["server-rights"].state is State.WRONG


async def test_a_member_comes_after_all_else_and_only_where_it_is_asked_for():
    examination = Examination(EmptyHub(), "1.2.0", lambda: NOW)
    await examination.run(InstallationOptions(), {})
    await examination.examine_member(EmptyHub())
    assert [each.finding.check for each in examination.results] == [*CHECKS, MEMBER_RIGHTS]


async def test_distrust_is_told_although_nobody_may_read_the_configurations():
    distrust = UnavailableError("failed calling webhook: x509: unknown authority")
    hub = EmptyHub(webhookconfigurations=ForbiddenError("no"), clusterresourceplacements=distrust)
    found = await examine(hub)
    assert found["webhooks"].state is State.UNCHECKED
    assert found["certificates"].problems == (str(distrust),)


async def test_a_hub_that_does_not_let_the_caller_in_is_an_error():
    with pytest.raises(ForbiddenError):
        await examine(EmptyHub(version=ForbiddenError("the token or certificate is not accepted")))


async def test_a_release_that_is_not_there_is_an_error():
    with pytest.raises(UnclearInstallationError):
        await examine(EmptyHub(), release="dock")


async def test_the_document_says_what_was_examined():
    examination = Examination(EmptyHub(), "1.2.0", lambda: NOW)
    await examination.run(InstallationOptions(namespace="quay"), {})
    document = document_of(examination, "1.2.0", NOW)
    assert {key: value for key, value in document.items() if key != "checks"} == {
        "version": "1.2.0",
        "time": "2026-03-01T10:00:00Z",
        "namespace": "quay",
        "release": "",
        "well": False,
    }
    assert list(document["checks"][0]) == ["check", "state", "found", "problems", "advice", "milliseconds"]
