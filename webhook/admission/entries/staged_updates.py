"""Admission of staged updates: strategies, runs, approval requests."""

from typing import Final

from scorer.api.family import FAMILIES
from webhook.admission.admitted import ALL, CREATE, Admitted
from webhook.defaulting import approval_request as approval_defaults
from webhook.validation.guard_rails import writes as guard_rail
from webhook.validation.live import staged_update as live_staged_update
from webhook.validation.staged_update import approval_request
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy

ENTRIES: Final = (
    *(
        Admitted(
            family.strategy,
            staged_strategy.validate,
            operations=ALL,
            live=live_staged_update.STRATEGY_CHECKS,
            live_on_deletion=live_staged_update.STRATEGY_DELETION_CHECKS,
        )
        for family in FAMILIES
    ),
    *(
        Admitted(
            family.run,
            staged_run.validate,
            operations=ALL,
            warn_about_deletion=staged_run.warn_about_deletion,
            live=live_staged_update.RUN_CHECKS,
        )
        for family in FAMILIES
    ),
    *(
        Admitted(
            family.approval_request,
            approval_request.validate,
            default_status=approval_defaults.default_status,
            operations=CREATE,
            warn_about_status=approval_request.warn_about_status,
            guards=(guard_rail.guard_approval,),
        )
        for family in FAMILIES
    ),
)
