"""Admission of node pools and their node classes."""

from typing import Final

from scorer.api import kinds
from scorer.api.node_class import NODE_CLASSES
from webhook.admission.admitted import ALL, MOST_VALUES_OF_MANIFESTS, UPDATE, Admitted
from webhook.defaulting import node_pool as node_pool_defaults
from webhook.validation import node_pool
from webhook.validation.live import node_pool as live_node_pool

ENTRIES: Final = (
    Admitted(
        kinds.NODE_POOL,
        node_pool.validate,
        node_pool_defaults.default,
        ALL,
        judged_whole=True,
        live=live_node_pool.UPDATE_CHECKS,
        live_on_deletion=live_node_pool.DELETION_CHECKS,
    ),
    *(
        Admitted(
            kind,
            node_pool.accept_node_class,
            operations=UPDATE,
            judged_whole=True,
            live=live_node_pool.CLASS_CHECKS,
            most_values=MOST_VALUES_OF_MANIFESTS,
        )
        for kind in NODE_CLASSES
    ),
)
