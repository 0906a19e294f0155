"""When profiles make runs."""

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.profile import ClusterUpgradeProfile
from scorer.api.upgrade.run import ClusterUpgradeRun, UpgradeRunStatus
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.profiles.triggers import PROFILE_LABEL, name_conflict_status, trigger
from scorer.upgrade.versions.catalog import ReleaseCatalog

NOW = parse_time("2026-01-05T00:00:00Z")


def catalog(*versions, images=()):
    region = {"name": "r1", "kubernetesVersions": [{"version": each} for each in versions]}
    if images:
        region["nodeImages"] = [{"family": "linux", "versions": [{"version": each} for each in images]}]
    return ReleaseCatalog.of([VersionCatalogSpec.read({"regions": [region]})])


def profile(current="", channel="Rapid", **spec):
    status = {"currentRun": current} if current else {}
    return ClusterUpgradeProfile.read(
        {"kind": "ClusterUpgradeProfile", "metadata": {"name": "p", "generation": 3}}
        | {"spec": {"channel": channel, **spec}, "status": status}
    )


def run(name, state, *, started=True, ended="2026-01-01T00:00:00Z"):
    status = {"state": state}
    if started:
        status["startTime"] = "2026-01-01T00:00:00Z"
    if state in ("Completed", "Skipped", "Failed"):
        status["completionTime"] = ended
    spec = {"upgrade": {"type": "Full", "kubernetesVersion": "1.30.1"}}
    return ClusterUpgradeRun.read(
        {"kind": "ClusterUpgradeRun", "metadata": {"name": name}, "spec": spec, "status": status}
    )


def name_of(found):
    return found.create["metadata"]["name"]


def test_a_version_that_is_published_makes_a_run():
    found = trigger(profile(), catalog("1.30.4", "1.31.2"), [], NOW)
    assert name_of(found).startswith("auto-p-rapid-1-31-2-")
    assert found.create["metadata"]["labels"] == {PROFILE_LABEL: "p"}
    assert found.create["spec"]["state"] == "Run"
    assert (found.status.current_run, found.status.observed_generation) == (name_of(found), 3)
    assert (found.status.last_triggered_at, found.status.last_trigger_upgrade_versions) == (NOW, ("1.31.2",))


@pytest.mark.parametrize("channel", ["NodeImage", "SecurityPatch"])
def test_a_channel_of_images_makes_no_run_without_images(channel):
    found = trigger(profile(channel=channel), catalog("1.31.2"), [], NOW)
    assert (found.create, found.status.last_trigger_status) == (None, None)


def test_the_same_target_triggers_once():
    first = trigger(profile(), catalog("1.31.2"), [], NOW)
    again = trigger(profile(first.status.current_run), catalog("1.31.2", "1.30.9"), [], NOW)
    assert (again.create, again.status.current_run) == (None, first.status.current_run)


def test_a_profile_that_does_not_start_its_runs():
    assert trigger(profile(autoStart=False), catalog("1.31.2"), [], NOW).create["spec"]["state"] == "Initialize"


def test_a_profile_that_is_disabled_makes_nothing():
    found = trigger(profile(disabled=True), catalog("1.31.2"), [], NOW)
    assert (found.create, found.status.current_run) == (None, "")


@pytest.mark.parametrize("state", ["NotStarted", "Running", "Pending", "Stopping"])
def test_a_new_target_waits_in_line_for_a_run_that_goes_on(state):
    found = trigger(profile("old"), catalog("1.31.2"), [run("old", state)], NOW)
    assert (found.create, found.stop, found.delete, found.status.current_run) == (None, (), (), "old")
    assert found.status.next_candidate.startswith("auto-p-rapid-1-31-2-")


@pytest.mark.parametrize("state", ["Completed", "Skipped", "Failed", "Stopped"])
def test_a_run_that_does_not_go_on_holds_nothing_up(state):
    assert trigger(profile("old"), catalog("1.31.2"), [run("old", state)], NOW).create is not None


def test_a_run_that_is_replaced_is_stopped_first_and_one_that_never_began_goes():
    runs = [run("old", "Running"), run("never", "NotStarted", started=False)]
    found = trigger(profile("old", concurrencyPolicy="Replace"), catalog("1.31.2"), runs, NOW)
    assert (found.create, found.stop, found.delete) == (None, ("old",), ("never",))
    drained = trigger(profile("old", concurrencyPolicy="Replace"), catalog("1.31.2"), [run("old", "Stopped")], NOW)
    assert drained.create is not None


def test_runs_may_go_on_beside_each_other():
    found = trigger(profile("old", concurrencyPolicy="Allow"), catalog("1.31.2"), [run("old", "Running")], NOW)
    assert (found.create is not None, found.stop) == (True, ())


def test_a_target_that_is_not_there_is_said_once():
    wanted = {"channel": "TargetKubernetesVersion", "targetKubernetesVersion": "1.33"}
    found = trigger(profile(**wanted), catalog("1.31.2"), [], NOW)
    assert (found.create, found.status.last_trigger_status) == (None, "Failed")
    assert found.status.last_trigger_error.code == "TargetVersionNotReleased"
    later = profile(**wanted).model_copy(update={"status": found.status})
    assert trigger(later, catalog("1.31.2"), [], parse_time("2026-01-06T00:00:00Z")).status == found.status


def test_a_run_of_another_profile_with_the_same_name_is_said_once_and_does_not_count():
    wanted = profile("old")
    taken = name_conflict_status(wanted, "auto-p", "q", NOW)
    assert (taken.last_trigger_status, taken.last_trigger_error.code) == ("Failed", "RunNameTaken")
    assert (taken.current_run, taken.observed_generation) == ("old", 3)
    assert "run auto-p already exists, created by profile q" in taken.last_trigger_message
    later = wanted.model_copy(update={"status": taken})
    assert name_conflict_status(later, "auto-p", "q", parse_time("2026-01-06T00:00:00Z")) == taken
    assert trigger(later, catalog("1.31.2"), [], NOW).create is not None


def test_an_error_is_forgotten_when_the_target_is_back():
    made = trigger(profile(), catalog("1.31.2"), [], NOW)
    failed = profile().model_copy(update={"status": made.status})
    broken = trigger(failed, catalog(), [], NOW)
    assert broken.status.last_trigger_status == "Failed"
    healed = trigger(profile().model_copy(update={"status": broken.status}), catalog("1.31.2"), [], NOW)
    assert (healed.status.last_trigger_status, healed.status.last_trigger_error) == ("Succeeded", None)


def test_node_images_make_a_run_when_a_newer_one_is_published():
    first = trigger(profile(channel="NodeImage"), catalog("1.31.2", images=["100"]), [], NOW)
    later = profile(first.status.current_run, channel="NodeImage")
    second = trigger(later, catalog("1.31.2", images=["100", "110"]), [], NOW)
    assert name_of(first) != name_of(second)
    assert second.status.last_trigger_upgrade_versions == ("110",)


def test_no_images_are_no_target():
    assert trigger(profile(channel="NodeImage"), catalog("1.31.2"), [], NOW).create is None


def test_old_runs_go_the_oldest_first_and_never_the_latest():
    runs = [run(f"r{day}", "Completed", ended=f"2026-01-0{day}T00:00:00Z") for day in (1, 2, 3)]
    found = trigger(profile("r1", runHistoryLimit=1, disabled=True), catalog(), [*runs, run("on", "Running")], NOW)
    assert found.delete == ("r2",)


def test_a_run_that_has_given_up_an_upgrade_stays_until_its_end_is_reported():
    entry = {"name": "a", "state": "Failed", "operationID": "uid/a/1", "operationOpen": True}
    stages = [{"name": "s", "state": "Completed", "groups": [{"name": "g", "state": "Completed", "members": [entry]}]}]
    old = run("r1", "Completed")
    status = UpgradeRunStatus.read({"state": "Completed", "stages": stages})
    waiting = old.model_copy(update={"status": status})
    wanted = profile("r9", runHistoryLimit=0, disabled=True)
    assert trigger(wanted, catalog(), [waiting], NOW).delete == ()
    assert trigger(wanted, catalog(), [old], NOW).delete == ("r1",)
