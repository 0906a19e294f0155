"""Every line of the vectors through the real engine, one test per line.

``HARBORMASTER_VECTORS`` names another folder with files of the same names and format. The lines of
``admission_protocol`` are raw HTTP requests: they run in tests/webhook/endpoints/admission/test_admission_protocol.py.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.vector_families.admission import check_admission
from tests.vector_families.disruption import check_budget, check_cron, check_decision, check_drift, check_opening
from tests.vector_families.extender import check_extender
from tests.vector_families.line import Line
from tests.vector_families.resource_hash import check_resource_hash
from tests.vector_families.rollout import check_rollout
from tests.vector_families.scheduling import check_schedule, check_schedule_aux, check_schedule_rules
from tests.vector_families.staged import check_staged
from tests.vector_families.upgrade_admission import check_upgrade_admission
from tests.vector_families.upgrade_runs import check_upgrade_run

FOLDER = Path(os.environ.get("HARBORMASTER_VECTORS") or Path(__file__).parent / "vectors")


def _check_upgrades(line: Line) -> None:
    check = check_upgrade_admission if line["kind"] == "admission" else check_upgrade_run
    check(line)


FAMILIES: dict[str, Callable[[Line], None]] = {
    "admission": check_admission,
    "admission-extra": check_admission,
    "admission-stateful": check_admission,
    "budgets": check_budget,
    "cron": check_cron,
    "disruption_decisions": check_decision,
    "drift_requirements": check_drift,
    "extender": check_extender,
    "gate_next": check_opening,
    "nodepool_admission": check_admission,
    "resource_hash": check_resource_hash,
    "rollout": check_rollout,
    "scheduling": check_schedule,
    "scheduling_aux": check_schedule_aux,
    "scheduling_rules": check_schedule_rules,
    "staged": check_staged,
    "upgrade_runs": _check_upgrades,
}

ELSEWHERE = {"admission_protocol"}


def _lines() -> list[Any]:
    rows = []
    if not (paths := sorted(FOLDER.glob("*.jsonl"))):
        raise FileNotFoundError(f"HARBORMASTER_VECTORS: there are no *.jsonl files in {str(FOLDER)!r}")
    for path in paths:
        if path.stem in ELSEWHERE:
            continue
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            line = json.loads(text)
            rows.append(pytest.param(path.stem, line, id=f"{path.stem}:{line.get('id', number)}"))
    return rows


@pytest.mark.parametrize(("family", "line"), _lines())
def test_vector(family: str, line: Line) -> None:
    """The engine says what the line wants."""
    assert family in FAMILIES, f"{FOLDER / family}.jsonl is of no known family"
    FAMILIES[family](line)
