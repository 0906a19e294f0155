"""Admission of member clusters."""

from typing import Final

from scorer.api import kinds
from webhook.admission.admitted import ALL, Admitted
from webhook.validation import member_cluster
from webhook.validation.guard_rails import writes as guard_rail
from webhook.validation.live import member_cluster as live_member_cluster

ENTRIES: Final = (
    Admitted(
        kinds.MEMBER_CLUSTER,
        member_cluster.validate,
        operations=ALL,
        refuse_deletion=member_cluster.refuse_deletion,
        guards=(guard_rail.guard_member_cluster, guard_rail.guard_identity),
        live=live_member_cluster.CHECKS,
        live_on_deletion=live_member_cluster.DELETION_CHECKS,
    ),
)
