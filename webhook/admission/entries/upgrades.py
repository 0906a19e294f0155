"""Admission of cluster upgrades."""

from typing import Final

from scorer.api import kinds
from webhook.admission.admitted import ALL, MOST_VALUES_OF_MANY, Admitted
from webhook.defaulting import upgrade as upgrade_defaults
from webhook.validation.live import upgrade as live_upgrade
from webhook.validation.upgrade import catalog as upgrade_catalog
from webhook.validation.upgrade import gate as upgrade_gate
from webhook.validation.upgrade import profile as upgrade_profile
from webhook.validation.upgrade import request as upgrade_request
from webhook.validation.upgrade import run as upgrade_run
from webhook.validation.upgrade import strategy as upgrade_strategy
from webhook.validation.upgrade import window as upgrade_window

ENTRIES: Final = (
    Admitted(
        kinds.UPGRADE_STRATEGY,
        upgrade_strategy.validate,
        judged_whole=True,
        live=live_upgrade.STRATEGY_CHECKS,
        most_values=MOST_VALUES_OF_MANY,
    ),
    Admitted(
        kinds.UPGRADE_RUN,
        upgrade_run.validate,
        upgrade_defaults.default_run,
        judged_whole=True,
        stamp=upgrade_defaults.stamp_run,
        live=live_upgrade.RUN_CHECKS,
        most_values=MOST_VALUES_OF_MANY,
    ),
    Admitted(
        kinds.UPGRADE_GATE,
        upgrade_gate.validate,
        operations=ALL,
        judged_whole=True,
        validate_status=upgrade_gate.validate_status,
        guards=(upgrade_gate.guard,),
    ),
    Admitted(kinds.UPGRADE_PROFILE, upgrade_profile.validate, judged_whole=True),
    Admitted(
        kinds.MAINTENANCE_WINDOW,
        upgrade_window.validate,
        upgrade_defaults.default_window,
        judged_whole=True,
        stamp=upgrade_defaults.stamp_window,
    ),
    Admitted(kinds.VERSION_CATALOG, upgrade_catalog.validate, judged_whole=True, most_values=MOST_VALUES_OF_MANY),
    Admitted(
        kinds.UPGRADE_REQUEST,
        upgrade_request.validate,
        judged_whole=True,
        validate_status=upgrade_request.validate_status,
    ),
)
