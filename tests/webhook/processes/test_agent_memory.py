"""An agent holds in memory what it uses: there is one in every member."""

import subprocess
import sys

UNUSED = {
    "numpy",
    "croniter",
    "cryptography",
    "kubernetes_asyncio",
    "scorer.api.binding",
    "scorer.api.member_cluster",
    "scorer.api.placement",
    "scorer.api.work",
    "scorer.fleet",
    "scorer.node_disruption",
    "scorer.rollout.placement_status",
    "scorer.rollout.planner",
    "scorer.upgrade",
    "scorer.staged_update",
    "webhook.controllers",
    "webhook.settings.programs",
}
LOADED = "print(*sys.modules)"


def loaded(modules: str) -> set[str]:
    ran = subprocess.run([sys.executable, "-c", f"import sys, {modules}; {LOADED}"], capture_output=True, check=True)
    return set(ran.stdout.decode().split())


def test_an_agent_loads_no_fleet_no_planner_and_no_settings_of_others():
    assert loaded("webhook.cli.agent, webhook.processes.agent") & UNUSED == set()


def test_where_there_are_node_pools_the_planner_is_loaded():
    assert loaded("webhook.processes.node_loop") >= {"numpy", "scorer.node_disruption", "webhook.controllers"}
