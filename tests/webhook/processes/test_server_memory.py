"""A server, and the loop, hold and do at their start what they need then."""

import subprocess
import sys

import pytest

SERVE, RECONCILE = "webhook.cli.serve, webhook.processes.serve", "webhook.cli.reconcile, webhook.processes.reconcile"


def told(modules: str, expression: str) -> set[str]:
    """Load modules in a process of its own, and return the words that an expression prints there."""
    code = f"import gc, sys, pydantic, {modules}; print(*{expression})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(ran.stdout.decode().split())


@pytest.mark.parametrize("modules", [SERVE, RECONCILE], ids=["serve", "reconcile"])
def test_what_only_schedules_of_budgets_need_is_not_loaded(modules):
    """To load croniter runs another program."""
    assert not told(modules, "sys.modules") & {"croniter", "dateutil", "kubernetes_asyncio", "rich"}


def test_a_server_that_does_not_reconcile_loads_no_controllers():
    loaded = told(SERVE, "sys.modules")
    assert not {name for name in loaded if name.startswith("webhook.controllers")}
    assert "webhook.processes.reconcile" not in loaded


@pytest.mark.parametrize("modules", [SERVE, RECONCILE], ids=["serve", "reconcile"])
def test_few_models_are_made_ready_before_they_are_needed(modules):
    """Of some 300, most processes read few; of a few, constants are made."""
    models = (
        "(each.__name__ for each in gc.get_objects() if isinstance(each, type) and issubclass(each, pydantic.BaseModel)"
        " and each.__module__.split('.')[0] in ('scorer', 'webhook') and each.__pydantic_complete__)"
    )
    assert len(told(modules, models)) < 20
