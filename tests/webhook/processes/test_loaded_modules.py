"""A program loads what it uses: an agent runs in every member, and a server answers sooner after its start."""

import json
import subprocess
import sys
from functools import cache

import pytest

NEVER_IN_AN_AGENT = {
    "numpy",
    "croniter",
    "cryptography",
    "kubernetes_asyncio",
    "scorer.api.placement.binding",
    "scorer.api.cluster.member_cluster",
    "scorer.api.placement.placement",
    "scorer.api.placement.work",
    "scorer.fleet",
    "scorer.node_disruption",
    "scorer.rollout.status.placement",
    "scorer.rollout.planner",
    "scorer.upgrade",
    "scorer.staged_update",
    "webhook.controllers",
    "webhook.settings.programs",
}
OF_HOOKS = {"webhook.server.app", "webhook.endpoints.http.api", "webhook.admission.judge", "webhook.answers"}
CODE = """
import gc, json, sys, {modules}
loaded, complete = list(sys.modules), []
if "pydantic" in loaded:
    import pydantic
    complete = [
        each.__name__
        for each in gc.get_objects()
        if isinstance(each, type) and issubclass(each, pydantic.BaseModel)
        and each.__module__.split(".")[0] in ("scorer", "webhook") and each.__pydantic_complete__
    ]
{more}
print(json.dumps({{"loaded": loaded, "complete": complete, "later": list(sys.modules)}}))
"""


@cache
def program(name: str, more: str = "") -> dict[str, set[str]]:
    """Load a program in a process of its own; return its modules, its models that are ready, and all modules later."""
    code = CODE.format(modules=f"webhook.cli.operating.{name}, webhook.processes.{name}", more=more)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return {word: set(names) for word, names in json.loads(ran.stdout).items()}


def agent() -> dict[str, set[str]]:
    return program("agent", "import webhook.processes.node_loop")


def test_an_agent_loads_no_fleet_no_planner_and_no_settings_of_others():
    assert agent()["loaded"] & NEVER_IN_AN_AGENT == set()


def test_where_there_are_node_pools_the_planner_is_loaded():
    assert agent()["later"] >= {"numpy", "scorer.node_disruption", "webhook.controllers"}


def test_a_process_without_hooks_does_not_import_what_answers_them():
    """It starts in two thirds of the time."""
    for loaded in (agent()["loaded"], program("reconcile")["loaded"]):
        assert "webhook.server.probe_server" in loaded
        assert not loaded & OF_HOOKS


@pytest.mark.parametrize("name", ["serve", "reconcile"])
def test_what_only_schedules_of_budgets_need_is_not_loaded(name):
    """To load croniter runs another program."""
    assert not program(name)["loaded"] & {"croniter", "dateutil", "kubernetes_asyncio", "rich"}


def test_a_server_that_does_not_reconcile_loads_no_controllers():
    loaded = program("serve")["loaded"]
    assert not {name for name in loaded if name.startswith("webhook.controllers")}
    assert "webhook.processes.reconcile" not in loaded


@pytest.mark.parametrize("name", ["serve", "reconcile"])
def test_few_models_are_made_ready_before_they_are_needed(name):
    """Of some 300, most processes read few; of a few, constants are made."""
    assert len(program(name)["complete"]) < 20
