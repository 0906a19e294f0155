"""Rejections: the category comes first."""

from scorer.framework.status import Category, FilterRejection


def test_a_rejection_reads_category_first():
    assert (
        str(FilterRejection("TaintToleration", Category.TAINT_NOT_TOLERATED, "taint x")) == "TaintNotTolerated: taint x"
    )


def test_categories_are_spelled_as_recorded():
    assert {str(category) for category in Category} == {
        *("AffinityMismatch", "ClusterLeaving", "AgentNotReporting", "HeartbeatStale", "AgentNotJoined"),
        *("HealthUnknown", "ClusterUnhealthy", "NamespaceDataMissing", "NamespaceMissing", "TaintNotTolerated"),
        *("TopologySpreadViolated", "ScoreTooLow", "TargetNotFound"),
    }
