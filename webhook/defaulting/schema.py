"""Defaults that the schema alone fills in, listed for the catalog of rules.

The API server adds these defaults before it calls any webhook. `scorer.api.crd.pruning` adds them to objects that do
not pass through an API server.

Source: docs/specifications/placement-api.md 6 (D1).
"""

from dataclasses import replace
from typing import Final

from scorer.api.family import FAMILIES
from webhook.validation.framework.rule import CRD, default

RULES: Final = (
    default(
        "F-05",
        "selectionScope is NamespaceWithResources.",
        CRD,
        "spec.resourceSelectors.*.selectionScope",
        "spec.clusterResourceSelectors.*.selectionScope",
    ),
    default("F-07", "statusReportingScope is ClusterScopeOnly.", CRD, "spec.statusReportingScope"),
    default("F-13", "maxConcurrency is 1.", CRD, "spec.stages.*.maxConcurrency"),
    replace(
        default(
            "F-14",
            "The state of a staged run is Initialize, or HARBORMASTER_STAGED_RUNS_DEFAULT_STATE.",
            CRD,
            "spec.state",
        ),
        only=tuple(family.run for family in FAMILIES),
    ),
    default(
        "F-15",
        "The scope of an override's placement is Cluster, and overrideType JSONPatch.",
        CRD,
        "spec.placement.scope",
        "spec.policy.overrideRules.*.overrideType",
    ),
    default("F-16", "heartbeatPeriodSeconds is 60.", CRD, "spec.heartbeatPeriodSeconds"),
    default("F-17", "The validationMode of deleteOptions is Strict.", CRD, "spec.deleteOptions.validationMode"),
)
