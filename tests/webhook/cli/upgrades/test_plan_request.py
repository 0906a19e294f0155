"""What files say of an upgrade, as the question of ``harbormaster upgrade plan -f``."""

import pytest
import yaml
from click.testing import CliRunner

from tests.webhook.controllers.upgrade_world import make_upgrade_run, make_upgrade_strategy, make_upgraded, make_window
from webhook.cli.errors import UserError
from webhook.cli.files.documents import load
from webhook.cli.files.search import Files
from webhook.cli.root import root
from webhook.cli.upgrades.plan_request import plan_question


@pytest.fixture
def written(tmp_path):
    def write(*documents):
        path = tmp_path / "given.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        return [str(path)]

    return write


def asked(name, files, follows=""):
    return plan_question(name, load(Files(files)), follows)


def test_everything_has_its_place(written):
    run, strategy = make_upgrade_run("imagined"), make_upgrade_strategy()
    windows, members = [make_window("w", "10:00"), make_window("v", "11:00")], [make_upgraded("a")]
    found, notes = asked("", written(run, strategy, *windows, *members))
    assert found["run"]["metadata"]["name"] == "imagined"
    assert found["strategy"]["metadata"]["name"] == "rings"
    assert [each["metadata"]["name"] for each in found["windows"]] == ["w", "v"]
    assert [each["metadata"]["name"] for each in found["members"]] == ["a"]
    assert ("catalogs" in found, notes) == (False, [])


def test_a_run_of_the_hub_with_windows_of_the_files(written):
    found, _ = asked("kubernetes-1-31", written(make_window("w", "10:00")))
    assert (found["run"], len(found["windows"])) == ("kubernetes-1-31", 1)


def test_a_name_chooses_among_the_runs_of_the_files(written):
    found, notes = asked("r", written(make_upgrade_run("r"), make_upgrade_run("s")))
    assert (found["run"]["metadata"]["name"], notes) == ("r", ["not used for this plan: ClusterUpgradeRun (1)"])
    found, notes = asked("r", written(make_upgrade_run("s")))
    assert (found["run"], notes) == ("r", ["not used for this plan: ClusterUpgradeRun (1)"])


def test_what_a_plan_has_no_use_for_is_left_out_with_a_note(written):
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("one", "two")]
    other = make_upgrade_strategy(name="other")
    found, notes = asked("", written(*namespaces, make_upgrade_run(), other, make_upgrade_strategy()))
    assert found["strategy"]["metadata"]["name"] == "rings"
    assert notes == ["not used for this plan: ClusterUpgradeStrategy (1), Namespace (2)"]


def test_a_strategy_takes_the_place_of_that_of_a_run_on_the_hub(written):
    other, rings = make_upgrade_strategy(name="other"), make_upgrade_strategy()
    found, notes = asked("r", written(other), "rings")
    assert found["strategy"]["metadata"]["name"] == "other"
    assert notes == ["the run follows strategy other of the files, in place of rings"]
    found, _ = asked("r", written(other, rings), "rings")
    assert found["strategy"]["metadata"]["name"] == "rings"
    assert "strategy" not in asked("", written(make_upgrade_run(), other))[0], "its own is on the hub"


@pytest.mark.parametrize(
    ("name", "documents", "says"),
    [
        ("", [make_window("w", "10:00")], "no ClusterUpgradeRun in the files. To plan a run of the hub"),
        ("", [make_upgrade_run("r"), make_upgrade_run("s")], "2 upgrade runs in the files: name one of r, s"),
        ("r", [make_upgrade_strategy(name="a"), make_upgrade_strategy(name="b")], "2 strategies"),
    ],
)
def test_what_cannot_be_planned_is_named(written, name, documents, says):
    with pytest.raises(UserError, match=says):
        asked(name, written(*documents))


def test_files_are_checked_first_and_every_mistake_is_named(written):
    run = make_upgrade_run(state="Stop", upgrade={"type": "NodeImageOnly", "kubernetesVersion": "1.31.2"})
    (file,) = written(make_window("w", "10:00"), run)
    result = CliRunner().invoke(root, ["upgrade", "plan", "-f", file])
    assert (result.exit_code, result.stdout) == (1, "")
    state, version = result.stderr.splitlines()
    assert state.startswith(f"error: {file}: document 2: spec.state: Invalid value")
    assert version.startswith(f"error: {file}: document 2: spec.upgrade.kubernetesVersion: Forbidden")


def test_a_bad_name_is_one_mistake(written):
    result = CliRunner().invoke(root, ["lint", "-f", *written(make_upgrade_run("A_b"))])
    assert "must be 1 to 50 lowercase letters" in result.stdout
    assert result.stdout.endswith("1 object: 1 error, 0 warnings\n")


def test_a_plan_is_of_something():
    result = CliRunner().invoke(root, ["upgrade", "plan"])
    assert (result.exit_code, "specify a run, or files with -f" in result.stderr) == (1, True)
