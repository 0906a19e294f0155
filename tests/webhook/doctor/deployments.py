"""Deployments and installations of the tests."""

from webhook.doctor.installation import Installation, InstallationOptions, find_installation


def deployment(component="serve", *, namespace="quay", release="harbor", environment=(), args=(), **status):
    """A Deployment as the chart makes it, with all of its two replicas available."""
    name = f"{release}-harbormaster-{component}"
    labels = {
        "app.kubernetes.io/name": "harbormaster",
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "harbormaster",
        "app.kubernetes.io/version": "1.2.0",
    }
    variables = [{"name": f"HARBORMASTER_{key}", "value": value} for key, value in dict(environment).items()]
    source = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {"name": component, "args": list(args), "env": [source, *variables]}
    pod = {"serviceAccountName": name, "containers": [{"name": "sidecar"}, container]}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": 2, "template": {"spec": pod}},
        "status": {"availableReplicas": 2, **status},
    }


def by_hand(environment=None, **wanted) -> Installation:
    """An installation that no chart has made."""
    return find_installation((), InstallationOptions(**wanted), environment or {})
