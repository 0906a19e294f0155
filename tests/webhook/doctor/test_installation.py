"""Which installation is meant, and how it is set up."""

import pytest

from tests.webhook.doctor.deployments import by_hand, deployment
from webhook.doctor.installation import (
    InstallationOptions,
    UnclearInstallationError,
    described,
    find_installation,
    problems_of,
)
from webhook.settings.environment import SettingsError

BOTH = (deployment(), deployment("reconcile"))
ACCOUNT = "system:serviceaccount:quay:harbor-harbormaster"


def find(*deployments, environment=None, **wanted):
    return find_installation(deployments, InstallationOptions(**wanted), environment or {})


def test_a_chart_says_itself_how_it_is_set_up():
    given = {
        "SERVICE_ACCOUNT": "harbor-harbormaster-reconcile",
        "CERTIFICATE_SECRET": "ca",
        "WEBHOOK_CONFIGURATION": "harbormaster-harbor",
        "GUARD_RAIL": "true",
        "WEBHOOK_SECRET_FILE": "/hooks/secrets",
        "HTTPS_PORT": "9443",
    }
    found = find(
        deployment(environment=given), BOTH[1], deployment("agent"), environment={"HARBORMASTER_GUARD_RAIL": "no way"}
    )
    assert (found.namespace, found.release) == ("quay", "harbor")
    assert (found.server, found.loop) == (f"{ACCOUNT}-serve", f"{ACCOUNT}-reconcile")
    assert found.settings.username_of_loop == found.loop
    assert (found.settings.guard_rail, found.settings.certificate_secret) == (True, "ca")
    assert (found.configuration, found.has_secret_path) == ("harbormaster-harbor", True)


def test_the_loop_of_a_chart_is_where_the_chart_says():
    assert find(deployment()).loop == ""
    inside = find(deployment(args=["--reconcile", "--identity", "$(POD_NAME)"]))
    assert inside.loop == inside.server


def test_a_renamed_chart_is_known_by_what_it_is_part_of():
    renamed = deployment()
    renamed["metadata"]["labels"]["app.kubernetes.io/name"] = "dock"
    assert find(renamed).release == "harbor"
    renamed["metadata"]["labels"]["app.kubernetes.io/part-of"] = "dock"
    assert find(renamed).release == ""


def test_configurations_that_the_server_does_not_write_are_found_by_their_labels():
    assert find(*BOTH).configuration == ""


@pytest.mark.parametrize("wanted", [{"namespace": "pier"}, {"release": "second"}])
def test_several_installations_have_to_be_told_apart(wanted):
    second = deployment(namespace="pier", release="second")
    with pytest.raises(UnclearInstallationError, match="-n pier --release second, -n quay --release harbor"):
        find(*BOTH, second)
    assert find(*BOTH, second, **wanted).namespace == "pier"


def test_a_release_that_is_not_there_is_told():
    with pytest.raises(
        UnclearInstallationError, match=r"--release 'dock': there is no Deployment .* in namespace quay"
    ):
        find(*BOTH, release="dock", namespace="quay")


def test_without_a_chart_the_environment_counts():
    found = by_hand({"HARBORMASTER_LOOP_USER": "hub-loop", "HARBORMASTER_NAMESPACE": "dock"}, server="hub-serve")
    assert (found.namespace, found.server, found.loop) == ("dock", "hub-serve", "hub-loop")
    assert (found.configuration, found.has_secret_path) == ("harbormaster", None)
    assert by_hand().server == "system:serviceaccount:harbormaster-system:harbormaster-serve"
    assert by_hand(has_loop=False).loop == ""
    assert by_hand(namespace="pier").server == "system:serviceaccount:pier:harbormaster-serve"
    with pytest.raises(SettingsError, match="HARBORMASTER_GUARD_RAIL"):
        by_hand({"HARBORMASTER_GUARD_RAIL": "perhaps"})


def test_deployments_that_are_well():
    assert problems_of(find(*BOTH), "1.2.0") == []
    assert described(find(*BOTH)) == "namespace quay, Helm release harbor: 2 replicas of serve, 2 replicas of reconcile"
    assert problems_of(by_hand(), "1.2.0") == []
    assert described(by_hand(has_loop=False)).endswith("not installed by the chart, without a loop")


@pytest.mark.parametrize(
    ("given", "is_wrong"),
    [
        pytest.param({}, False, id="nobody-signs-in"),
        pytest.param({"OIDC_GROUPS_CLAIM": "groups"}, True, id="no-prefix"),
        pytest.param({"OIDC_GROUPS_CLAIM": "groups", "OIDC_GROUPS_PREFIX": "oidc:"}, False, id="prefix"),
        pytest.param({"OIDC_GROUPS_CLAIM": "groups", "OIDC_GROUPS_PREFIX": "-"}, False, id="on-purpose"),
    ],
)
def test_groups_of_a_provider_without_a_prefix_are_reported(given, is_wrong):
    problems = problems_of(find(deployment(environment=given)), "1.2.0")
    assert ["settings.oidcGroupsPrefix" in problem for problem in problems] == [True] * is_wrong


def test_deployments_that_are_not():
    short = find(deployment(availableReplicas=1), BOTH[1])
    what = "Deployment quay/harbor-harbormaster"
    assert problems_of(short, "1.2.0") == [f"{what}-serve: 1 of 2 replicas of serve are available"]
    old = problems_of(find(deployment()), "1.3.0")
    assert old == [
        f"{what}-serve is of release 1.2.0, but this command is of release 1.3.0: use the doctor of 1.2.0, as other "
        "findings may not apply"
    ]


def test_a_deployment_that_may_not_create_its_pods_names_the_cause():
    """As under a quota; while the pods are there, the condition of an earlier attempt does not matter."""
    quota = 'pods "serve-1" is forbidden: exceeded quota: none, requested: pods=1, used: pods=1, limited: pods=0'
    conditions = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota}]
    what = "Deployment quay/harbor-harbormaster-serve: 1 of 2 replicas of serve are available"
    assert problems_of(find(deployment(availableReplicas=1, conditions=conditions)), "1.2.0") == [f"{what}: {quota}"]
    assert problems_of(find(deployment(conditions=conditions)), "1.2.0") == []
