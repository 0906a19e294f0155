"""Affinities that placements of several tests have."""

BY_NODES = {
    "clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"propertySorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}},
            }
        ]
    }
}
PRODUCTION = {
    "clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]
        }
    }
}
