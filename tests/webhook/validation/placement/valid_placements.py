"""Random placements whose every part is valid: with all types and strategies, and with much that rules warn about."""

from hypothesis import strategies as st

from scorer.api.kinds import PLACEMENT
from scorer.api.names import CONFIRM_REMOVAL, REMOVAL_CONFIRMATION


def optional(needed, /, **members):
    """Draw an object with the needed members and any of the others."""
    return st.fixed_dictionaries(needed, optional=members)


WORDS = st.sampled_from(["a", "prod", "eu-west", "a.b", "A_1"])
KEYS = st.sampled_from(["env", "shop.io/tier", "zone", "fleet.azure.com/location"])
PROPERTIES = st.sampled_from(
    [
        "kubernetes-fleet.io/node-count",
        "kubernetes.azure.com/node-count",
        "resources.kubernetes-fleet.io/total-cpu",
        "kubernetes.azure.com/per-cpu-core-cost",
        "score.kubernetes-fleet.io/carbon",
        "k8s.io/k8s-version",
    ]
)
LABEL_SELECTORS = optional(
    {},
    matchLabels=st.dictionaries(KEYS, WORDS, max_size=3),
    matchExpressions=st.lists(
        st.one_of(
            st.fixed_dictionaries(
                {
                    "key": KEYS,
                    "operator": st.sampled_from(["In", "NotIn"]),
                    "values": st.lists(WORDS, min_size=1, max_size=3),
                }
            ),
            st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
        ),
        max_size=3,
    ),
)
SORTERS = st.fixed_dictionaries({"name": PROPERTIES, "sortOrder": st.sampled_from(["Ascending", "Descending"])})
REQUIREMENTS = st.fixed_dictionaries(
    {
        "name": PROPERTIES,
        "operator": st.sampled_from(["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]),
        "values": st.lists(st.sampled_from(["5", "2.5", "10Gi", "0", "250m"]), min_size=1, max_size=1),
    }
)
REQUIRED = st.fixed_dictionaries(
    {
        "clusterSelectorTerms": st.lists(
            optional(
                {},
                labelSelector=LABEL_SELECTORS,
                propertySelector=st.fixed_dictionaries(
                    {"matchExpressions": st.lists(REQUIREMENTS, max_size=3, unique_by=lambda each: each["name"])}
                ),
            ),
            max_size=3,
        )
    }
)
PREFERRED = st.lists(
    st.fixed_dictionaries(
        {
            "weight": st.integers(-100, 100),
            "preference": st.one_of(
                optional({}, labelSelector=LABEL_SELECTORS, propertySorter=SORTERS),
                optional({"metricSorter": SORTERS}, labelSelector=LABEL_SELECTORS),
            ),
        }
    ),
    max_size=3,
)
TOLERATIONS = st.lists(
    st.one_of(
        optional({"operator": st.just("Exists")}, key=KEYS, effect=st.just("NoSchedule")),
        optional({"key": KEYS}, operator=st.just("Equal"), value=WORDS, effect=st.just("NoSchedule")),
    ),
    max_size=3,
    unique_by=lambda each: (each.get("key"), each.get("operator", "Equal"), each.get("value"), each.get("effect")),
)
SPREAD = st.lists(
    optional(
        {"topologyKey": KEYS},
        maxSkew=st.integers(1, 5),
        whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    ),
    max_size=3,
    unique_by=lambda each: (each["topologyKey"], each.get("whenUnsatisfiable", "DoNotSchedule")),
)
POLICIES = st.one_of(
    st.fixed_dictionaries(
        {
            "placementType": st.just("PickFixed"),
            "clusterNames": st.lists(st.sampled_from(["oslo", "bergen", "a.b"]), max_size=3, unique=True),
        }
    ),
    optional(
        {"placementType": st.just("PickAll")},
        affinity=optional({}, clusterAffinity=optional({}, requiredDuringSchedulingIgnoredDuringExecution=REQUIRED)),
        tolerations=TOLERATIONS,
    ),
    optional(
        {"placementType": st.just("PickN"), "numberOfClusters": st.integers(0, 5)},
        affinity=optional(
            {},
            clusterAffinity=optional(
                {},
                requiredDuringSchedulingIgnoredDuringExecution=REQUIRED,
                preferredDuringSchedulingIgnoredDuringExecution=PREFERRED,
            ),
        ),
        tolerations=TOLERATIONS,
        topologySpreadConstraints=SPREAD,
    ),
)
APPLY = optional(
    {},
    comparisonOption=st.sampled_from(["PartialComparison", "FullComparison"]),
    whenToApply=st.sampled_from(["Always", "IfNotDrifted"]),
    whenToTakeOver=st.sampled_from(["Always", "IfNoDiff", "Never"]),
    allowCoOwnership=st.booleans(),
)
STRATEGY_PARTS = {
    "applyStrategy": st.one_of(
        st.tuples(optional({}, type=st.sampled_from(["ClientSideApply", "ReportDiff"])), APPLY),
        st.tuples(
            optional({"type": st.just("ServerSideApply")}, serverSideApplyConfig=optional({}, force=st.booleans())),
            APPLY,
        ),
    ).map(lambda parts: parts[0] | parts[1]),
    "deleteStrategy": optional({}, propagationPolicy=st.sampled_from(["Delete", "Abandon"])),
    "reportBackStrategy": st.one_of(
        optional({}, type=st.just("Disabled")),
        st.fixed_dictionaries(
            {"type": st.just("Mirror"), "destination": st.sampled_from(["OriginalResource", "WorkAPI"])}
        ),
    ),
}
STRATEGIES = st.one_of(
    optional({"type": st.just("External")}, **STRATEGY_PARTS),
    optional(
        {},
        type=st.just("RollingUpdate"),
        rollingUpdate=optional(
            {},
            maxUnavailable=st.sampled_from([1, "25%", "100%"]),
            maxSurge=st.sampled_from([0, 1, "0%", "50%"]),
            unavailablePeriodSeconds=st.sampled_from([0, 60, 3601]),
        ),
        **STRATEGY_PARTS,
    ),
)
SELECTORS = st.sampled_from(
    [
        [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        [{"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "a"}}}],
        [{"group": "", "version": "v1", "kind": "Namespace"}],
        [
            {
                "group": "", "version": "v1", "kind": "Namespace", "name": "shop",
                "selectionScope": "NamespaceWithResourceSelectors",
            },
            {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"},
        ],
    ]
)  # fmt: skip
METADATA = optional(
    {"name": st.sampled_from(["web", "a.b"])},
    labels=st.dictionaries(KEYS, WORDS, max_size=3),
    annotations=st.dictionaries(
        st.sampled_from(["a", "Shop.io/Note", "kubernetes-fleet.io/note", CONFIRM_REMOVAL, REMOVAL_CONFIRMATION]),
        st.text(max_size=9),
    ),
    finalizers=st.just(["shop.io/hold"]),
    generation=st.just(1),
)
VALID = st.fixed_dictionaries(
    {
        "apiVersion": st.just(PLACEMENT.api_version),
        "kind": st.just(PLACEMENT.kind),
        "metadata": METADATA,
        "spec": optional(
            {"resourceSelectors": SELECTORS},
            policy=POLICIES,
            strategy=STRATEGIES,
            revisionHistoryLimit=st.integers(1, 20),
            statusReportingScope=st.sampled_from(["ClusterScopeOnly", "NamespaceAccessible"]),
        ),
    }
)
