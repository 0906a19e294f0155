"""Admission of placements."""

from typing import Final

from scorer.api.family import CLUSTER, NAMESPACED
from webhook.admission import impact, taking_over
from webhook.admission.admitted import ALL, Admitted
from webhook.defaulting import placement as placement_defaults
from webhook.validation import removal_annotations
from webhook.validation.live import placement as live_placement
from webhook.validation.live import selected_objects
from webhook.validation.placement import placement

ENTRIES: Final = (
    *(
        Admitted(
            family.placement,
            validate,
            placement_defaults.default,
            ALL,
            warn_about_deletion=placement.warn_about_deletion,
            validate_deleted=removal_annotations.validate_removal_annotations,
            live=(*impact.CHECKS, *live_placement.CHECKS, *selected_objects.CHECKS, *taking_over.CHECKS),
            lasting=(*live_placement.CHECKS, *selected_objects.CHECKS),
        )
        for family, validate in (
            (CLUSTER, placement.validate_cluster_placement),
            (NAMESPACED, placement.validate_resource_placement),
        )
    ),
)
