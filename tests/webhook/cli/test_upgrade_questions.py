"""What files say of an upgrade, as the question of ``harbormaster upgrade plan -f``."""

import pytest
import yaml
from click.testing import CliRunner

from tests.webhook.controllers.upgrade_world import make_upgrade_run, make_upgrade_strategy, make_upgraded, make_window
from webhook.cli.documents import load
from webhook.cli.failure import UserError
from webhook.cli.root import root
from webhook.cli.upgrade_questions import plan_question


@pytest.fixture
def written(tmp_path):
    def write(*documents):
        path = tmp_path / "given.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        return [str(path)]

    return write


def test_everything_has_its_place(written):
    run, strategy = make_upgrade_run("imagined"), make_upgrade_strategy()
    windows, members = [make_window("w", "10:00"), make_window("v", "11:00")], [make_upgraded("a")]
    found = plan_question("", load(written(run, strategy, *windows, *members)))
    assert found["run"]["metadata"]["name"] == "imagined"
    assert found["strategy"]["metadata"]["name"] == "rings"
    assert [each["metadata"]["name"] for each in found["windows"]] == ["w", "v"]
    assert [each["metadata"]["name"] for each in found["members"]] == ["a"]
    assert "catalogs" not in found


def test_a_run_of_the_hub_with_windows_of_the_files(written):
    found = plan_question("kubernetes-1-31", load(written(make_window("w", "10:00"))))
    assert (found["run"], len(found["windows"])) == ("kubernetes-1-31", 1)


@pytest.mark.parametrize(
    ("name", "documents", "says"),
    [
        ("", [make_window("w", "10:00")], "there are 0 upgrade runs"),
        ("r", [make_upgrade_run("s")], "there are 2 upgrade runs"),
        ("", [make_upgrade_run("r"), make_upgrade_run("s")], "there are 2 upgrade runs"),
        ("r", [make_upgrade_strategy(name="a"), make_upgrade_strategy(name="b")], "there are 2 strategies"),
        (
            "r",
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}],
            "a plan of an upgrade has no use for a Namespace",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(written, name, documents, says):
    with pytest.raises(UserError, match=says):
        plan_question(name, load(written(*documents)))


def test_a_plan_is_of_something():
    result = CliRunner().invoke(root, ["upgrade", "plan"])
    assert (result.exit_code, "name a run, or give files with -f" in result.stderr) == (1, True)
