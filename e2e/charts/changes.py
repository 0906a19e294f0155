"""What each value of the charts changes: where in which object the new value is found, and as what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SERVE: Final = "Deployment/hb-harbormaster-serve"
LOOP: Final = "Deployment/hb-harbormaster-reconcile"
AGENT: Final = "Deployment/hb-harbormaster-agent"
SCHEDULER: Final = "Deployment/hb-harbormaster-scheduler"
POD: Final = "spec.template.spec"
CONTAINER: Final = f"{POD}.containers.0"
SCHEDULED: Final[Mapping[str, Any]] = {
    "scheduler": {"enabled": True, "image": "kube-scheduler:v1", "clientCertificateSecret": "client"}
}
MONITORED: Final[Mapping[str, Any]] = {
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    }
}
LIMITED: Final[Mapping[str, Any]] = {"networkPolicy": {"enabled": True}}
NEW: Final = {"example.com/new": "yes"}
DIGEST: Final = f"sha256:{'a' * 64}"


@dataclass(frozen=True, slots=True)
class Change:
    """One value, changed.

    Args:
        name: Of the value.
        value: The new one.
        target: Kind and name of the object that changes.
        place: Where in it: keys, numbers of entries, or their names, divided by dots, with ``~`` for the dots in keys;
            empty: the object itself.
        found: What is there then; None: nothing is.
        base: Values without which it would change nothing.
    """

    name: str
    value: Any
    target: str
    place: str
    found: Any
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def renames(self) -> bool:
        """Whether other objects are there then, or under other names."""
        return self.name.rpartition(".")[2] in {"nameOverride", "fullnameOverride", "mode"}

    def values(self) -> dict[str, Any]:
        """Return the value in its groups."""
        made: Any = self.value
        for key in reversed(self.name.split(".")):
            made = {key: made}
        return dict(made)


_ACCOUNT_OF_SERVER: Final = "ServiceAccount/hb-harbormaster-serve"
_ACCOUNT_OF_LOOP: Final = "ServiceAccount/hb-harbormaster-reconcile"
_SERVICE: Final = "Service/hb-harbormaster"
_VALIDATING: Final = "ValidatingWebhookConfiguration/harbormaster-hb-harbormaster"
_LOOP_ROLE: Final = "ClusterRole/harbormaster-hb-harbormaster-reconcile"
_SERVER_ROLE: Final = "ClusterRole/harbormaster-hb-harbormaster-serve"
_MONITOR: Final = "ServiceMonitor/hb-harbormaster-serve"
_ALERTS: Final = "PrometheusRule/hb-harbormaster"
_DASHBOARD: Final = "ConfigMap/hb-harbormaster-dashboard-budgets"
_POLICY: Final = "NetworkPolicy/hb-harbormaster-serve"
_HPA: Final = "HorizontalPodAutoscaler/hb-harbormaster-serve"
_PDB: Final = "PodDisruptionBudget/hb-harbormaster-serve"
_LOOP_PDB: Final = "PodDisruptionBudget/hb-harbormaster-reconcile"
_UNREGISTER: Final = "Job/hb-harbormaster-unregister"
_PRIORITY: Final = "PriorityLevelConfiguration/harbormaster-hb-harbormaster"
_FLOWS: Final = "FlowSchema/harbormaster-hb-harbormaster"
_PREFERRED: Final = {"apiPriority": {"enabled": True}}
_SCALED: Final = {"serve": {"autoscaling": {"enabled": True}}}
_CERTIFICATE: Final = "Certificate/hb-harbormaster"
_MANAGED: Final = {"certs": {"mode": "cert-manager"}}
_FILES: Final = {"certs": {"mode": "files", "files": {"secretName": "tls"}}}
_DEFINITION: Final = "CustomResourceDefinition"
_PLACEMENTS: Final = f"{_DEFINITION}/clusterresourceplacements.placement.kubernetes-fleet.io"
_RUNS: Final = f"{_DEFINITION}/clusterupgraderuns.upgrade.harbormaster.dev"
_POOLS: Final = f"{_DEFINITION}/nodepools.karpenter.sh"
_SCHEDULER_FILE: Final = "ConfigMap/hb-harbormaster-scheduler"
_READ: Final = ["get", "list", "watch"]

HUB_CHANGES: Final = (
    Change("nameOverride", "pier", "Deployment/hb-pier-serve", "metadata.name", "hb-pier-serve"),
    Change("fullnameOverride", "pier", "Deployment/pier-serve", "metadata.name", "pier-serve"),
    Change("commonLabels", NEW, _SERVICE, "metadata.labels.example~com/new", "yes"),
    Change("podAnnotations", NEW, SERVE, "spec.template.metadata.annotations.example~com/new", "yes"),
    Change("podLabels", NEW, LOOP, "spec.template.metadata.labels.example~com/new", "yes"),
    Change(
        "clusterDomain",
        "sea.example.com",
        _CERTIFICATE,
        "spec.dnsNames.3",
        "hb-harbormaster.quay.svc.sea.example.com",
        _MANAGED,
    ),
    Change("image.repository", "example.com/hb", SERVE, f"{CONTAINER}.image", "example.com/hb:0.1.0"),
    Change("image.tag", "9", LOOP, f"{CONTAINER}.image", "harbormaster:9"),
    Change("image.digest", DIGEST, SERVE, f"{CONTAINER}.image", f"harbormaster@{DIGEST}"),
    Change("image.pullPolicy", "Never", SERVE, f"{CONTAINER}.imagePullPolicy", "Never"),
    Change("image.pullSecrets", [{"name": "pull"}], SERVE, f"{POD}.imagePullSecrets", [{"name": "pull"}]),
    Change("crds.harbormaster.install", False, _RUNS, "", None),
    Change("crds.fleet.install", True, _PLACEMENTS, "metadata.annotations.helm~sh/resource-policy", "keep"),
    Change("crds.karpenter.install", True, _POOLS, "spec.names.kind", "NodePool"),
    Change("serve.replicas", 5, SERVE, "spec.replicas", 5),
    Change("serve.resources", {"limits": {"cpu": "1"}}, SERVE, f"{CONTAINER}.resources.limits.cpu", "1"),
    Change("serve.minReadySeconds", 3, SERVE, "spec.minReadySeconds", 3),
    Change("serve.extraEnv", [{"name": "TZ", "value": "UTC"}], SERVE, f"{CONTAINER}.env.TZ.value", "UTC"),
    Change("serve.autoscaling.enabled", True, SERVE, "spec.replicas", None),
    Change("serve.autoscaling.minReplicas", 4, _HPA, "spec.minReplicas", 4, _SCALED),
    Change("serve.autoscaling.maxReplicas", 40, _HPA, "spec.maxReplicas", 40, _SCALED),
    Change(
        "serve.autoscaling.targetCPUUtilizationPercentage",
        55,
        _HPA,
        "spec.metrics.0.resource.target.averageUtilization",
        55,
        _SCALED,
    ),
    Change("serve.podDisruptionBudget.enabled", False, _PDB, "", None),
    Change("serve.podDisruptionBudget.maxUnavailable", "30%", _PDB, "spec.maxUnavailable", "30%"),
    Change("serve.podDisruptionBudget.minAvailable", 1, _PDB, "spec.minAvailable", 1),
    Change("serve.serviceAccount.create", False, _ACCOUNT_OF_SERVER, "", None),
    Change("serve.serviceAccount.name", "sam", SERVE, f"{POD}.serviceAccountName", "sam"),
    Change("serve.serviceAccount.annotations", NEW, _ACCOUNT_OF_SERVER, "metadata.annotations", NEW),
    Change("reconcile.mode", "Server", SERVE, f"{CONTAINER}.args.0", "--reconcile"),
    Change("reconcile.replicas", 3, LOOP, "spec.replicas", 3),
    Change("reconcile.resources", {"limits": {"cpu": "1"}}, LOOP, f"{CONTAINER}.resources.limits.cpu", "1"),
    Change("reconcile.terminationGracePeriodSeconds", 7, LOOP, f"{POD}.terminationGracePeriodSeconds", 7),
    Change("reconcile.extraEnv", [{"name": "TZ", "value": "UTC"}], LOOP, f"{CONTAINER}.env.TZ.value", "UTC"),
    Change("reconcile.select", ["boats.example.com"], _LOOP_ROLE, "rules.-1.resources", ["boats"]),
    Change("reconcile.selectEverything", True, _LOOP_ROLE, "rules.-1.resources", ["*"]),
    Change(
        "reconcile.secrets",
        True,
        _LOOP_ROLE,
        "rules.-1",
        {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": _READ},
        {"reconcile": {"select": ["configmaps"]}},
    ),
    Change(
        "reconcile.backReport",
        True,
        _LOOP_ROLE,
        "rules.-1",
        {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["update"]},
        {"reconcile": {"select": ["configmaps", "deployments.apps"]}},
    ),
    Change("reconcile.analysis.secret", "prom", LOOP, f"{POD}.volumes.analysis.secret.secretName", "prom"),
    Change(
        "reconcile.analysis.authorities",
        "ca.crt",
        LOOP,
        f"{CONTAINER}.env.HARBORMASTER_ANALYSIS_CA.value",
        "/analysis/ca.crt",
        {"reconcile": {"analysis": {"secret": "prom"}}},
    ),
    Change(
        "reconcile.analysis.token",
        "token",
        LOOP,
        f"{CONTAINER}.env.HARBORMASTER_ANALYSIS_TOKEN_FILE.value",
        "/analysis/token",
        {"reconcile": {"analysis": {"secret": "prom"}}},
    ),
    Change(
        "nodeDisruption.pricesConfigMap",
        "types",
        LOOP,
        f"{POD}.volumes.node-prices.configMap.name",
        "types",
    ),
    Change(
        "nodeDisruption.pricesKey",
        "types.csv",
        LOOP,
        f"{CONTAINER}.env.HARBORMASTER_NODE_DISRUPTION_PRICES.value",
        "/node-prices/types.csv",
        {"nodeDisruption": {"pricesConfigMap": "types"}},
    ),
    Change("handOff.secret", "outside", LOOP, f"{POD}.volumes.hand-off.secret.secretName", "outside"),
    Change(
        "handOff.key",
        "keys",
        SERVE,
        f"{CONTAINER}.env.HARBORMASTER_HANDOFF_SECRET_FILE.value",
        "/hand-off/keys",
        {"handOff": {"secret": "outside"}},
    ),
    Change(
        "handOff.authorities",
        "ca.crt",
        LOOP,
        f"{CONTAINER}.env.HARBORMASTER_HANDOFF_CA.value",
        "/hand-off/ca.crt",
        {"handOff": {"secret": "outside"}},
    ),
    Change("notifications.secret", "pager", LOOP, f"{POD}.volumes.notifications.secret.secretName", "pager"),
    Change(
        "notifications.key",
        "keys",
        SERVE,
        f"{CONTAINER}.env.HARBORMASTER_NOTIFICATIONS_SECRET_FILE.value",
        "/notifications/keys",
        {"notifications": {"secret": "pager"}},
    ),
    Change(
        "notifications.authorities",
        "ca.crt",
        LOOP,
        f"{CONTAINER}.env.HARBORMASTER_NOTIFICATIONS_CA.value",
        "/notifications/ca.crt",
        {"notifications": {"secret": "pager"}},
    ),
    Change("signIn.secret", "people", SERVE, f"{POD}.volumes.sign-in.secret.secretName", "people"),
    Change(
        "signIn.clientKey",
        "client",
        SERVE,
        f"{CONTAINER}.env.HARBORMASTER_OIDC_CLIENT_SECRET_FILE.value",
        "/sign-in/client",
        {"signIn": {"secret": "people"}},
    ),
    Change(
        "signIn.sessionKey",
        "sessions",
        SERVE,
        f"{CONTAINER}.env.HARBORMASTER_OIDC_SESSION_SECRET_FILE.value",
        "/sign-in/sessions",
        {"signIn": {"secret": "people"}},
    ),
    Change(
        "signIn.authorities",
        "ca.crt",
        SERVE,
        f"{CONTAINER}.env.HARBORMASTER_OIDC_CA.value",
        "/sign-in/ca.crt",
        {"signIn": {"secret": "people"}},
    ),
    Change("reconcile.podDisruptionBudget.enabled", False, _LOOP_PDB, "", None),
    Change("reconcile.serviceAccount.create", False, _ACCOUNT_OF_LOOP, "", None),
    Change("reconcile.serviceAccount.name", "lou", SERVE, f"{CONTAINER}.env.HARBORMASTER_SERVICE_ACCOUNT.value", "lou"),
    Change("reconcile.serviceAccount.annotations", NEW, _ACCOUNT_OF_LOOP, "metadata.annotations", NEW),
    Change("pod.nodeSelector", NEW, SERVE, f"{POD}.nodeSelector", NEW),
    Change("pod.tolerations", [{"operator": "Exists"}], LOOP, f"{POD}.tolerations", [{"operator": "Exists"}]),
    Change("pod.affinity", {"podAffinity": {}}, SERVE, f"{POD}.affinity", {"podAffinity": {}}),
    Change("pod.spread", False, SERVE, f"{POD}.topologySpreadConstraints", None),
    Change("pod.priorityClassName", "high", SERVE, f"{POD}.priorityClassName", "high"),
    Change("serve.hostNetwork", True, SERVE, f"{POD}.dnsPolicy", "ClusterFirstWithHostNet"),
    Change("pod.listenAddress", "::", SERVE, f"{CONTAINER}.env.HARBORMASTER_HOST.value", "::"),
    Change(
        "priorityQuota",
        True,
        "ResourceQuota/hb-harbormaster-priority",
        "spec.scopeSelector.matchExpressions.0.values",
        ["system-cluster-critical"],
    ),
    Change(
        "apiPriority.enabled", True, _FLOWS, "spec.rules.0.subjects.1.serviceAccount.name", "hb-harbormaster-reconcile"
    ),
    Change("apiPriority.shares", 99, _PRIORITY, "spec.limited.nominalConcurrencyShares", 99, _PREFERRED),
    Change("service.type", "NodePort", _SERVICE, "spec.type", "NodePort"),
    Change("service.port", 8443, _VALIDATING, "webhooks.0.clientConfig.service.port", 8443),
    Change("service.annotations", NEW, _SERVICE, "metadata.annotations", NEW),
    Change("webhook.enabled", False, _VALIDATING, "", None),
    Change("webhook.securePort", 10250, SERVE, f"{CONTAINER}.ports.https.containerPort", 10250),
    Change("webhook.secrets", ["s" * 32], "Secret/hb-harbormaster-hooks", "stringData.secrets", f"{'s' * 32}\n"),
    Change("webhook.removeOnUninstall", False, _UNREGISTER, "", None),
    Change("webhook.annotations", NEW, _VALIDATING, "metadata.annotations", NEW),
    Change("certs.mode", "cert-manager", _CERTIFICATE, "spec.secretName", "hb-harbormaster-tls"),
    Change("certs.extraDNSNames", ["a.example.com"], _CERTIFICATE, "spec.dnsNames.4", "a.example.com", _MANAGED),
    Change("certs.extraIPs", ["192.0.2.7"], SERVE, f"{CONTAINER}.env.HARBORMASTER_IP_ADDRESSES.value", "192.0.2.7"),
    Change(
        "certs.clientAuthorityConfigMap", "clients", SERVE, f"{POD}.volumes.client-authority.configMap.name", "clients"
    ),
    Change(
        "certs.certManager.authorityDuration", "9h", "Certificate/hb-harbormaster-ca", "spec.duration", "9h", _MANAGED
    ),
    Change("certs.certManager.duration", "9h", _CERTIFICATE, "spec.duration", "9h", _MANAGED),
    Change("certs.certManager.renewBefore", "9h", _CERTIFICATE, "spec.renewBefore", "9h", _MANAGED),
    Change("certs.files.secretName", "mine", SERVE, f"{POD}.volumes.certificate.secret.secretName", "mine", _FILES),
    Change("certs.files.caBundle", "Q0E=", _VALIDATING, "webhooks.0.clientConfig.caBundle", "Q0E=", _FILES),
    Change("rbac.create", False, _LOOP_ROLE, "", None),
    Change(
        "rbac.policies",
        False,
        "ValidatingAdmissionPolicy/harbormaster-hb-harbormaster-reconcile-roles",
        "",
        None,
    ),
    Change(
        "rbac.upgradeOrders", False, _SERVER_ROLE, "rules.-3.resources", ["clusterresourceplacementdisruptionbudgets"]
    ),
    Change("rbac.nodePools", False, _SERVER_ROLE, "rules.7.resources", ["tokenreviews"]),
    Change("metrics.port", 9090, SERVE, f"{CONTAINER}.env.HARBORMASTER_HTTP_PORT.value", "9090"),
    Change("metrics.serviceMonitor.enabled", True, _MONITOR, "spec.endpoints.0.port", "http"),
    Change("metrics.serviceMonitor.interval", "5s", _MONITOR, "spec.endpoints.0.interval", "5s", MONITORED),
    Change("metrics.serviceMonitor.labels", NEW, _MONITOR, "metadata.labels.example~com/new", "yes", MONITORED),
    Change("metrics.prometheusRule.enabled", True, _ALERTS, "spec.groups.0.name", "hb-harbormaster"),
    Change("metrics.prometheusRule.labels", NEW, _ALERTS, "metadata.labels.example~com/new", "yes", MONITORED),
    Change(
        "metrics.prometheusRule.runbook",
        "https://example.com/r",
        _ALERTS,
        "spec.groups.0.rules.0.annotations.runbook_url",
        "https://example.com/r#alert-a-certificate-that-is-not-renewed",
        MONITORED,
    ),
    Change("metrics.dashboards.enabled", True, _DASHBOARD, "metadata.labels.grafana_dashboard", "1"),
    Change("metrics.dashboards.labels", NEW, _DASHBOARD, "metadata.labels.example~com/new", "yes", MONITORED),
    Change("metrics.dashboards.annotations", NEW, _DASHBOARD, "metadata.annotations", NEW, MONITORED),
    Change("networkPolicy.enabled", True, _POLICY, "spec.policyTypes", ["Ingress", "Egress"]),
    Change(
        "networkPolicy.webhookFrom",
        [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        _POLICY,
        "spec.ingress.0.from.0.ipBlock.cidr",
        "192.0.2.0/24",
        LIMITED,
    ),
    Change(
        "networkPolicy.metricsFrom",
        [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        _POLICY,
        "spec.ingress.1.from.0.ipBlock.cidr",
        "192.0.2.0/24",
        LIMITED,
    ),
    Change("networkPolicy.apiServerPorts", [8443], _POLICY, "spec.egress.1.ports.0.port", 8443, LIMITED),
    Change(
        "networkPolicy.extraEgress",
        [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
        _POLICY,
        "spec.egress.2.to.0.ipBlock.cidr",
        "192.0.2.0/24",
        LIMITED,
    ),
    Change(
        "scheduler.enabled",
        True,
        SCHEDULER,
        f"{CONTAINER}.command.0",
        "kube-scheduler",
        {"scheduler": {"image": "kube-scheduler:v1", "clientCertificateSecret": "client"}},
    ),
    Change("scheduler.image", "example.com/ks:1", SCHEDULER, f"{CONTAINER}.image", "example.com/ks:1", SCHEDULED),
    Change("scheduler.replicas", 3, SCHEDULER, "spec.replicas", 3, SCHEDULED),
    Change("scheduler.name", "sea", _SCHEDULER_FILE, "data.config~yaml.profiles.0.schedulerName", "sea", SCHEDULED),
    Change("scheduler.weight", 9, _SCHEDULER_FILE, "data.config~yaml.extenders.0.weight", 9, SCHEDULED),
    Change("scheduler.ignorable", True, _SCHEDULER_FILE, "data.config~yaml.extenders.0.ignorable", True, SCHEDULED),
    Change("scheduler.httpTimeout", "9s", _SCHEDULER_FILE, "data.config~yaml.extenders.0.httpTimeout", "9s", SCHEDULED),
    Change(
        "scheduler.optIn",
        True,
        _SCHEDULER_FILE,
        "data.config~yaml.extenders.0.managedResources.0.ignoredByScheduler",
        True,
        SCHEDULED,
    ),
    Change(
        "scheduler.clientCertificateSecret",
        "other",
        SCHEDULER,
        f"{POD}.volumes.client.secret.secretName",
        "other",
        SCHEDULED,
    ),
    Change(
        "scheduler.resources",
        {"limits": {"cpu": "1"}},
        SCHEDULER,
        f"{CONTAINER}.resources.limits.cpu",
        "1",
        SCHEDULED,
    ),
)
"""Of the chart of the hub; those below ``settings`` follow from the settings."""

_AGENT_ROLE: Final = "ClusterRole/harbormaster-hb-harbormaster-agent-agent"
_AGENT_ACCOUNT: Final = "ServiceAccount/hb-harbormaster-agent"
_POD_MONITOR: Final = "PodMonitor/hb-harbormaster-agent"
_AGENT_ALERT: Final = "PrometheusRule/hb-harbormaster-agent"
_WATCHED: Final = {"metrics": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}}

AGENT_CHANGES: Final = (
    Change("cluster", "bonn", AGENT, f"{CONTAINER}.args.0", "--cluster=bonn"),
    Change("hub.kubeconfigSecret", "other", AGENT, f"{POD}.volumes.hub.secret.secretName", "other"),
    Change("hub.kubeconfigKey", "config", AGENT, f"{CONTAINER}.args.1", "--hub-kubeconfig=/hub/config"),
    Change("hub.context", "fleet", AGENT, f"{CONTAINER}.args.2", "--hub-context=fleet"),
    Change("takeOver", True, AGENT, f"{CONTAINER}.args.2", "--take-over"),
    Change("region", "north", AGENT, f"{CONTAINER}.args.2", "--region=north"),
    Change(
        "prices",
        {"prices": {"a": 0.5}},
        "ConfigMap/hb-harbormaster-agent-prices",
        "data.prices~json.prices.a",
        0.5,
    ),
    Change(
        "nodeDisruption.pricesConfigMap",
        "types",
        AGENT,
        f"{POD}.volumes.node-prices.configMap.name",
        "types",
    ),
    Change(
        "nodeDisruption.pricesKey",
        "types.csv",
        AGENT,
        f"{CONTAINER}.env.HARBORMASTER_NODE_DISRUPTION_PRICES.value",
        "/node-prices/types.csv",
        {"nodeDisruption": {"pricesConfigMap": "types"}},
    ),
    Change("providerCommand", "/p --q", AGENT, f"{CONTAINER}.args.2", "--provider-command=/p --q"),
    Change("nameOverride", "pier", "Deployment/hb-pier", "metadata.name", "hb-pier"),
    Change("fullnameOverride", "pier", "Deployment/pier", "metadata.name", "pier"),
    Change("commonLabels", NEW, AGENT, "metadata.labels.example~com/new", "yes"),
    Change("image.repository", "example.com/hb", AGENT, f"{CONTAINER}.image", "example.com/hb:0.1.0"),
    Change("image.tag", "9", AGENT, f"{CONTAINER}.image", "harbormaster:9"),
    Change("image.digest", DIGEST, AGENT, f"{CONTAINER}.image", f"harbormaster@{DIGEST}"),
    Change("image.pullPolicy", "Never", AGENT, f"{CONTAINER}.imagePullPolicy", "Never"),
    Change("image.pullSecrets", [{"name": "pull"}], AGENT, f"{POD}.imagePullSecrets", [{"name": "pull"}]),
    Change("crds.install", False, f"{_DEFINITION}/appliedworks.placement.kubernetes-fleet.io", "", None),
    Change("rbac.create", False, _AGENT_ROLE, "", None),
    Change("rbac.apply", ["boats.example.com"], _AGENT_ROLE, "rules.-1.resources", ["boats"]),
    Change(
        "rbac.applyControlPlane",
        False,
        _AGENT_ROLE,
        "rules.9.apiGroups",
        ["apiextensions.k8s.io"],
        {"settings": {"nodeDisruptionMode": "Off"}},
    ),
    Change(
        "rbac.applyRoles",
        True,
        _AGENT_ROLE,
        "rules.-2.verbs",
        ["bind", "escalate"],
        {"rbac": {"apply": ["configmaps"]}, "settings": {"nodeDisruptionMode": "Off"}},
    ),
    Change("serviceAccount.create", False, _AGENT_ACCOUNT, "", None),
    Change("serviceAccount.name", "ann", AGENT, f"{POD}.serviceAccountName", "ann"),
    Change("serviceAccount.annotations", NEW, _AGENT_ACCOUNT, "metadata.annotations", NEW),
    Change("podAnnotations", NEW, AGENT, "spec.template.metadata.annotations", NEW),
    Change("podLabels", NEW, AGENT, "spec.template.metadata.labels.example~com/new", "yes"),
    Change("resources", {"limits": {"cpu": "1"}}, AGENT, f"{CONTAINER}.resources.limits.cpu", "1"),
    Change("terminationGracePeriodSeconds", 7, AGENT, f"{POD}.terminationGracePeriodSeconds", 7),
    Change("extraEnv", [{"name": "TZ", "value": "UTC"}], AGENT, f"{CONTAINER}.env.TZ.value", "UTC"),
    Change("nodeSelector", NEW, AGENT, f"{POD}.nodeSelector", NEW),
    Change("tolerations", [{"operator": "Exists"}], AGENT, f"{POD}.tolerations", [{"operator": "Exists"}]),
    Change("affinity", {"podAffinity": {}}, AGENT, f"{POD}.affinity", {"podAffinity": {}}),
    Change("priorityClassName", "high", AGENT, f"{POD}.priorityClassName", "high"),
    Change("listenAddress", "::", AGENT, f"{CONTAINER}.env.HARBORMASTER_HTTP_HOST.value", "::"),
    Change("metrics.port", 9090, AGENT, f"{CONTAINER}.ports.http.containerPort", 9090),
    Change("metrics.podMonitor.enabled", True, _POD_MONITOR, "spec.podMetricsEndpoints.0.port", "http"),
    Change("metrics.podMonitor.interval", "5s", _POD_MONITOR, "spec.podMetricsEndpoints.0.interval", "5s", _WATCHED),
    Change("metrics.podMonitor.labels", NEW, _POD_MONITOR, "metadata.labels.example~com/new", "yes", _WATCHED),
    Change("metrics.prometheusRule.enabled", True, _AGENT_ALERT, "spec.groups.0.name", "hb-harbormaster-agent"),
    Change("metrics.prometheusRule.labels", NEW, _AGENT_ALERT, "metadata.labels.example~com/new", "yes", _WATCHED),
    Change(
        "metrics.prometheusRule.runbook",
        "https://example.com/r",
        _AGENT_ALERT,
        "spec.groups.0.rules.0.annotations.runbook_url",
        "https://example.com/r#alert-an-agent-that-is-cut-off",
        _WATCHED,
    ),
)
"""Of the chart of the member; every one on top of `AGENT_VALUES`."""

AGENT_VALUES: Final[Mapping[str, Any]] = {"cluster": "berlin", "hub": {"kubeconfigSecret": "hub"}}
