"""Which tests run together in one process, and in which order.

Tests on the same clusters are one group, a lane: in two processes they would start the clusters twice. All others are
distributed file by file. Groups that take long start first, so that all processes end together.
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

FLEET, HUB, OWN_HUB, BED = "the fleet", "the hub", "hubs of one's own", "the bed"

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    FLEET: (
        "e2e/api_server/test_seeds.py",
        "e2e/cli/test_dumps.py",
        "e2e/cli/test_from_karmada.py",
        "e2e/members/test_members.py",
        "e2e/members/test_two_hubs.py",
        "e2e/replicas/test_graceful_life.py",
        "e2e/rollouts/test_*.py",
        "e2e/soak/test_accidents.py",
        "e2e/soak/test_cluster_upgrades.py",
        "e2e/soak/test_mixed_load.py",
        "e2e/soak/test_skew.py",
        "e2e/soak/test_soak.py",
        "e2e/soak/test_staged_updates.py",
        "e2e/staged_updates/test_aborts.py",
        "e2e/staged_updates/test_staged_updates.py",
        "e2e/upgrades/test_cluster_api.py",
        "e2e/upgrades/test_upgrades.py",
    ),
    HUB: (
        "e2e/access/test_optional_rights.py",
        "e2e/access/test_rbac.py",
        "e2e/access/test_rights.py",
        "e2e/access/test_sign_in.py",
        "e2e/admission/test_authorization.py",
        "e2e/admission/test_bad_input.py",
        "e2e/admission/test_clients.py",
        "e2e/admission/test_deletion_guard.py",
        "e2e/admission/test_hook_enforcement.py",
        "e2e/admission/test_impact.py",
        "e2e/admission/test_refused_examples.py",
        "e2e/admission/test_removals.py",
        "e2e/admission/test_samples.py",
        "e2e/admission/test_strangers.py",
        "e2e/admission/test_vectors.py",
        "e2e/api_server/test_evictions_and_back_reports.py",
        "e2e/api_server/test_override_snapshots.py",
        "e2e/api_server/test_server_side_apply.py",
        "e2e/cli/test_command_line.py",
        "e2e/cli/test_own_answers.py",
        "e2e/cli/test_printed.py",
        "e2e/cli/test_tree.py",
        "e2e/harness/test_fault_proxy.py",
        "e2e/members/test_member_gate.py",
        "e2e/nodes/test_reservations.py",
        "e2e/packaging/test_charts_accepted.py",
        "e2e/replicas/test_certificates.py",
        "e2e/replicas/test_outages.py",
        "e2e/replicas/test_slow_hub.py",
        "e2e/replicas/test_workers.py",
        "e2e/soak/test_attacks.py",
        "e2e/upgrades/test_admission.py",
        "e2e/upgrades/test_orders.py",
    ),
    OWN_HUB: (
        "e2e/access/test_credentials.py",
        "e2e/access/test_page_actions.py",
        "e2e/admission/test_hook_secret.py",
        "e2e/api_server/test_hub_store.py",
        "e2e/cli/test_doctor.py",
        "e2e/cli/test_from_kubefleet.py",
        "e2e/members/test_applier.py",
        "e2e/members/test_blocked_removals.py",
        "e2e/members/test_cluster_fields.py",
        "e2e/members/test_dropped_fields.py",
        "e2e/members/test_jobs.py",
        "e2e/members/test_membership.py",
        "e2e/nodes/test_karpenter.py",
        "e2e/nodes/test_node_classes.py",
        "e2e/nodes/test_node_disruption.py",
        "e2e/nodes/test_pod_fitting.py",
        "e2e/nodes/test_scheduler.py",
        "e2e/replicas/test_cache.py",
        "e2e/replicas/test_history.py",
        "e2e/replicas/test_leader.py",
        "e2e/replicas/test_observability.py",
        "e2e/replicas/test_shards.py",
        "e2e/staged_updates/test_commands.py",
    ),
    BED: (
        "e2e/harness/test_kubelet.py",
        "e2e/packaging/test_documented_installation.py",
        "e2e/packaging/test_installation.py",
        "e2e/soak/test_upgrades.py",
    ),
}
"""Files by group."""

STANDS_ON: Final[Mapping[str, str]] = {
    "shared_fleet": FLEET,
    "shared_hub": HUB,
    "shared_twin": HUB,
    "shared_own_hub": OWN_HUB,
    "shared_bed": BED,
}
"""What the tests of a group share, by the name of its fixture."""

LONGEST_FIRST: Final = (
    FLEET,
    OWN_HUB,
    HUB,
    BED,
    "e2e/members/test_join.py",
    "e2e/members/test_agent.py",
    "tests/webhook/page/test_page.py",
    "tests/webhook/page/test_runs.py",
    "tests/webhook/page/test_numbers.py",
    "tests/webhook/page/test_views.py",
    "tests/webhook/page/test_budgets.py",
    "tests/webhook/page/test_access.py",
    "tests/webhook/page/test_sign_in.py",
    "tests/docs/test_typed.py",
    "tests/scorer/upgrade/evaluation/test_every_order.py",
    "tests/webhook/cli/test_program.py",
)
"""What takes ten seconds of CPU or more."""


def group_of(nodeid: str) -> str:
    """Return what a test is run together with, in one process: its group, or its file."""
    return _group_of_file(nodeid.partition("::")[0])


@cache
def _group_of_file(file: str) -> str:
    return next((group for group, files in GROUPS.items() if any(fnmatch(file, each) for each in files)), file)


def turn_of(nodeid: str) -> tuple[bool, int, str]:
    """Return when the group of a test is begun.

    All that need real clusters come before all others, so that the clusters end before those; long groups come first.
    """
    group = group_of(nodeid)
    place = LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)
    return not nodeid.startswith("e2e/"), place, group


def missing() -> list[str]:
    """Return what is named here and not there any more."""
    named = [*(file for files in GROUPS.values() for file in files), *LONGEST_FIRST]
    return [name for name in named if name not in GROUPS and not list(ROOT.glob(name))]
