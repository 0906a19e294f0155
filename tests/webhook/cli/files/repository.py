"""Files of a repository, and the findings in them, for the tests of how repositories are read."""

import json

from tests.webhook.cli.fleets import write


def pool(name="general", **disruption):
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}, "disruption": disruption}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def shut(name="general"):
    """Return a pool with a finding."""
    return pool(name, budgets=[{"nodes": "50%"}, {"nodes": "0"}])


def fill(folder, **files):
    """Write a repository; a double underscore stands for a folder, and the suffix is that of YAML."""
    for name, documents in files.items():
        place = folder / f"{name.replace('__', '/')}.yaml"
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, *documents)


def findings(result):
    return [(item["file"], item["rule"]) for item in json.loads(result.stdout)["items"]]
