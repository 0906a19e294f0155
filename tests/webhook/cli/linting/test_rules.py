"""The catalogue of rules as people and machines read it."""

import json

import pytest
import yaml

from webhook.admission.catalogue import catalogue


def shown(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.split()[0] for line in result.stdout.splitlines()[1:]]


def test_without_words_every_rule_is_shown(cli):
    assert shown(cli("rules")) == [entry.rule.id for entry in catalogue()]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(["X-14"], ["X-14"], id="rule"),
        pytest.param(["x-14", "U-01"], ["U-01", "X-14"], id="rules"),
        pytest.param(["q"], ["Q-01", "Q-02"], id="group"),
        pytest.param(["Q,V-05"], ["Q-01", "Q-02", "V-05"], id="group-and-rule"),
        pytest.param(["P-07", "P-08", "rp"], ["P-08"], id="rules-of-a-kind"),
        pytest.param(
            ["resourceplacements.placement.kubernetes-fleet.io", "crp", "P-07,P-08"], ["P-07", "P-08"], id="two"
        ),
        pytest.param(["V", "crpe"], ["V-01", "V-02", "V-03", "V-04", "V-05"], id="short-name"),
    ],
)
def test_words_choose(cli, words, wanted):
    assert shown(cli("rules", *words)) == wanted


def test_a_rule_for_machines(cli):
    """With the layers that enforce it, for each kind."""
    result = cli("rules", "V-02", "O-02", "-o", "json")
    overriding, evicting = json.loads(result.stdout)["items"]
    assert evicting == {
        "id": "V-02",
        "severity": ["deny"],
        "demands": "placementName and clusterName are immutable.",
        "source": "KubeFleet CRD (CEL)",
        "kinds": [
            {
                "group": "placement.kubernetes-fleet.io",
                "kind": "ClusterResourcePlacementEviction",
                "operations": ["UPDATE"],
                "layers": ["CEL"],
            }
        ],
    }
    assert [(each["kind"], each["layers"]) for each in overriding["kinds"]] == [
        ("ClusterResourceOverride", ["CEL", "webhook"]),
        ("ClusterResourceOverrideSnapshot", ["CEL"]),
    ]
    assert yaml.safe_load(cli("rules", "V-02", "O-02", "-o", "yaml").stdout) == json.loads(result.stdout)


def test_a_kind_shows_its_own_part_of_a_rule(cli):
    item = json.loads(cli("rules", "F-02", "csps", "-o", "json").stdout)["items"][0]
    assert [(each["kind"], each["layers"]) for each in item["kinds"]] == [
        ("ClusterSchedulingPolicySnapshot", ["schema"])
    ]


def test_tables(cli):
    """Many kinds are counted, unless the table may be wide; then it has layers, source and URL, too."""
    narrow = cli("rules", "A-01", "X-51").stdout.splitlines()
    assert narrow[0].split() == ["RULE", "SEVERITY", "ON", "KINDS", "DEMANDS"]
    assert narrow[1].split()[:5] == ["A-01", "deny", "create,update", "33", "kinds"]
    assert narrow[2].split()[:5] == ["X-51", "warn", "update", "status", "careq,areq"]
    wide = cli("rules", "X-14", "X-62", "-o", "wide").stdout.splitlines()
    assert wide[0].split() == ["RULE", "SEVERITY", "ON", "KINDS", "LAYERS", "DEMANDS", "SOURCE", "DOCS"]
    assert wide[1].split()[:5] == ["X-14", "deny,warn", "create,update", "crp,rp", "webhook"]
    assert wide[2].split()[4] == "webhook,live"
    assert wide[2].split()[-4:-1] == ["KubeFleet", "issue", "846"]
    assert wide[2].endswith("https://harbormaster.dev/docs/reference/rules.html#x-62")


def test_a_rule_that_is_left_to_others(cli):
    item = json.loads(cli("rules", "G-12", "-o", "json").stdout)["items"][0]
    assert (item["severity"], item["kinds"]) == (["none"], [])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        pytest.param("X-99", "'X-99' is not a rule such as X-14, a group of rules (A, B, C, D, ", id="rule"),
        pytest.param("Z", "'Z' is not a rule such as X-14, a group of rules (", id="group"),
        pytest.param("nodepol", "or a kind. Did you mean nodepool?", id="kind"),
        pytest.param("deploy", "'deploy': there are no rules for Deployment.apps", id="kind-without-rules"),
        pytest.param("X-14/x", "'X-14/x' is not a rule", id="slash"),
    ],
)
def test_unknown_words_are_errors(cli, word, message):
    result = cli("rules", word)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_nothing_that_fits_is_no_error(cli):
    result = cli("rules", "X-40", "crp")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No rules found\n")
    assert json.loads(cli("rules", "X-40", "crp", "-o", "json").stdout) == {"items": []}
