"""Placements of kinds whose definition is not among the files: a warning, not a verdict about a hub."""

import json

import pytest

from tests.webhook.cli.fleets import placement, write

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Boat", "plural": "boats"},
        "scope": "Cluster",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
DUMPED = {**DEFINITION, "metadata": {"name": "boats.example.com", "uid": "6b1f"}}
ISSUER = {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "internal"}}
TEST = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "fleet": ["placement.yaml"]}


def issuers(group="cert-manager.io", kind="ClusterIssuer"):
    """Return a placement of one object of a kind."""
    document = placement("issuers")
    document["spec"]["resourceSelectors"] = [{"group": group, "version": "v1", "kind": kind, "name": "internal"}]
    return document


COMMANDS = [
    pytest.param(("lint",), id="lint"),
    pytest.param(("validate", "-f"), id="validate"),
    pytest.param(("plan", "-f"), id="plan"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("others", [(), (DEFINITION,)], ids=["alone", "beside-another-definition"])
def test_a_kind_without_a_definition_is_a_warning(cli, tmp_path, command, others):
    result = cli(*command, write(tmp_path / "placement.yaml", issuers(), *others))
    assert result.exit_code == 0, result.output
    assert 'cannot determine whether the hub has "ClusterIssuer": include its CustomResourceDefinition with -f' in (
        result.output
    )


def test_the_object_itself_does_not_settle_it(cli, tmp_path):
    write(tmp_path / "placement.yaml", issuers())
    write(tmp_path / "issuer.yaml", ISSUER)
    result = cli("lint", tmp_path)
    assert (result.exit_code, "warning P-09" in result.stdout) == (0, True), result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_the_definition_settles_it(cli, tmp_path, command):
    result = cli(*command, write(tmp_path / "placement.yaml", issuers("example.com", "Boat"), DEFINITION))
    assert (result.exit_code, "cannot determine" in result.output) == (0, False), result.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("group", "kind", "others"),
    [
        pytest.param("apps", "Deploymnet", (), id="group-of-kubernetes"),
        pytest.param("", "ClusterIssuer", (), id="core-group"),
        pytest.param("cert-manager.io", "ClusterIssuer", (DUMPED,), id="dump-with-definitions"),
    ],
)
def test_a_kind_that_cannot_exist_is_refused(cli, tmp_path, command, group, kind, others):
    result = cli(*command, write(tmp_path / "placement.yaml", issuers(group, kind), *others))
    assert result.exit_code == 1
    assert "the hub has no such kind in" in result.output


def test_a_case_of_admission_gets_the_warning(cli, tmp_path):
    write(tmp_path / "placement.yaml", issuers())
    expect = {"allowed": True, "warnings": [{"rule": "P-09", "message": "cannot determine"}]}
    case = {"name": "c", "admission": {"operation": "create", "object": "crp/issuers"}, "expect": expect}
    (tmp_path / "harbormaster-test.yaml").write_text(json.dumps({**TEST, "cases": [case]}))
    result = cli("test", tmp_path)
    assert result.exit_code == 0, result.output
