"""The operator's decision about removals: a mode per effect, the window, kinds that hold data, exempt namespaces.

Source: docs/specifications/removal.md 2 and 3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from scorer.api.names import REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import annotation, labels_of


class ConfirmationMode(StrEnum):
    """Consequence of an effect: nothing, a warning, or a wait for confirmation."""

    OFF = "Off"
    WARN = "Warn"
    CONFIRM = "Confirm"

    @property
    def rank(self) -> int:
        """Position from the most lenient to the strictest mode."""
        return _RANKS[self]


_RANKS: Final[Mapping[ConfirmationMode, int]] = {mode: rank for rank, mode in enumerate(ConfirmationMode)}


def strictest(modes: Iterable[ConfirmationMode]) -> ConfirmationMode:
    """Return the strictest of *modes*. Without any, it is Off."""
    return max(modes, key=lambda mode: mode.rank, default=ConfirmationMode.OFF)


@dataclass(frozen=True, slots=True)
class KindPattern:
    """Kinds that the operator names: ``Kind.group``; ``*`` as kind, or at the start of the group, matches any."""

    kind: str
    group: str

    @classmethod
    def parse(cls, text: str) -> "KindPattern":
        """Read ``StatefulSet.apps``, ``Secret``, ``*.cluster.x-k8s.io`` or ``*.*.upbound.io``.

        Raises:
            ValueError: *text* has another form. The message quotes it.
        """
        kind, _, group = text.strip().partition(".")
        is_kind = kind == "*" or (kind.isascii() and kind.isalnum())
        suffix = group.removeprefix("*.")
        is_group = all(part and part.isascii() and part.replace("-", "").isalnum() for part in suffix.split("."))
        if not is_kind or (not is_group if group else kind == "*" or "." in text):
            raise ValueError(f"{text!r} is not one of Kind, Kind.group, *.group, Kind.*.suffix, *.*.suffix")
        return cls(kind, group)

    def covers(self, group: str, kind: str) -> bool:
        """Return whether the pattern names a kind."""
        if self.kind not in ("*", kind):
            return False
        return group.endswith(self.group[1:]) if self.group.startswith("*.") else group == self.group

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


DATA_KINDS: Final = (
    "Namespace",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "CustomResourceDefinition.apiextensions.k8s.io",
    "StatefulSet.apps",
)
"""Kinds whose removal loses data or deletes other objects. No setting removes a kind from this list."""

DEFAULT_KINDS: Final = (
    # Databases.
    "Cluster.postgresql.cnpg.io",
    "Database.postgresql.cnpg.io",
    "postgresql.acid.zalan.do",
    "PostgresCluster.postgres-operator.crunchydata.com",
    "*.pgv2.percona.com",
    "*.pxc.percona.com",
    "*.ps.percona.com",
    "*.psmdb.percona.com",
    "InnoDBCluster.mysql.oracle.com",
    "VitessCluster.planetscale.com",
    "*.k8s.mariadb.com",
    "MongoDBCommunity.mongodbcommunity.mongodb.com",
    "*.mongodb.com",
    "*.redis.redis.opstreelabs.in",
    "*.app.redislabs.com",
    "*.databases.spotahome.com",
    "Elasticsearch.elasticsearch.k8s.elastic.co",
    "OpenSearchCluster.opensearch.opster.io",
    "CassandraDatacenter.cassandra.datastax.com",
    "K8ssandraCluster.k8ssandra.io",
    "ScyllaCluster.scylla.scylladb.com",
    "TidbCluster.pingcap.com",
    "CrdbCluster.crdb.cockroachlabs.com",
    "ClickHouseInstallation.clickhouse.altinity.com",
    "Dragonfly.dragonflydb.io",
    # Queues and streams.
    "Kafka.kafka.strimzi.io",
    "KafkaNodePool.kafka.strimzi.io",
    "KafkaTopic.kafka.strimzi.io",
    "RabbitmqCluster.rabbitmq.com",
    "Queue.rabbitmq.com",
    "Stream.jetstream.nats.io",
    "PulsarCluster.pulsar.streamnative.io",
    "Redpanda.cluster.redpanda.com",
    "Topic.cluster.redpanda.com",
    # Storage and virtual machines.
    "*.ceph.rook.io",
    "Tenant.minio.min.io",
    "Volume.longhorn.io",
    "VolumeSnapshot.snapshot.storage.k8s.io",
    "VolumeSnapshotContent.snapshot.storage.k8s.io",
    "VirtualMachine.kubevirt.io",
    "DataVolume.cdi.kubevirt.io",
    # Infrastructure: Crossplane, cloud controllers, Terraform, Cluster API, node pools and node classes.
    "*.*.crossplane.io",
    "*.*.upbound.io",
    "*.*.services.k8s.aws",
    "*.*.cnrm.cloud.google.com",
    "ResourceGroup.resources.azure.com",
    "StorageAccount.storage.azure.com",
    "ManagedCluster.containerservice.azure.com",
    "*.dbforpostgresql.azure.com",
    "*.dbformysql.azure.com",
    "*.documentdb.azure.com",
    "Terraform.infra.contrib.fluxcd.io",
    "Workspace.app.terraform.io",
    "Stack.pulumi.com",
    "*.cluster.x-k8s.io",
    "*.*.cluster.x-k8s.io",
    "NodePool.karpenter.sh",
    "NodeClaim.karpenter.sh",
    "*.karpenter.k8s.aws",
    "*.karpenter.azure.com",
    "*.karpenter.k8s.gcp",
)
"""Custom resources that own data or infrastructure: their controllers delete it with them."""

DEFAULT_WINDOW: Final = timedelta(hours=1)
DEFAULT_EXEMPT: Final = ("harbormaster.dev/ephemeral", "true")
_CONFIRM, _WARN, _OFF = ConfirmationMode.CONFIRM, ConfirmationMode.WARN, ConfirmationMode.OFF


def parse_kind_patterns(texts: Iterable[str]) -> tuple[KindPattern, ...]:
    """Read patterns of kinds.

    Raises:
        ValueError: A pattern has another form. The message quotes the pattern.
    """
    return tuple(map(KindPattern.parse, texts))


@dataclass(frozen=True, slots=True)
class RemovalPolicy:
    """The mode of each effect, and how effects are measured.

    Args:
        data: A kind that holds data leaves a placement.
        many_objects: All objects of a placement leave it, or many within the window.
        objects: Any other object leaves a placement.
        many_clusters: A placement is left without any cluster, or loses many within the window.
        clusters: A placement loses clusters, but not many, and keeps at least one.
        placement: A placement with content is deleted, and it is or was on several clusters within the window.
        node_pool: A NodePool with nodes is deleted. Admission alone judges it.
        window: How far back selections and sets of clusters are compared.
        kinds: Kinds that hold data, besides those of Kubernetes.
        exempt: Label of namespaces whose content needs no confirmation. None: disabled.
    """

    data: ConfirmationMode = _CONFIRM
    many_objects: ConfirmationMode = _CONFIRM
    objects: ConfirmationMode = _WARN
    many_clusters: ConfirmationMode = _CONFIRM
    clusters: ConfirmationMode = _OFF
    placement: ConfirmationMode = _CONFIRM
    node_pool: ConfirmationMode = _CONFIRM
    window: timedelta = DEFAULT_WINDOW
    kinds: tuple[KindPattern, ...] = parse_kind_patterns(DEFAULT_KINDS)
    exempt: tuple[str, str] | None = DEFAULT_EXEMPT

    @property
    def modes(self) -> Mapping[str, ConfirmationMode]:
        """The mode of each effect, by the name of the effect's field."""
        return {name: getattr(self, name) for name in EFFECTS}

    @property
    def is_off(self) -> bool:
        """Whether no effect has a consequence."""
        return all(mode is ConfirmationMode.OFF for mode in self.modes.values())

    def with_every_mode(self, mode: ConfirmationMode) -> "RemovalPolicy":
        """Return the policy with the same mode for every effect."""
        return RemovalPolicy(mode, mode, mode, mode, mode, mode, mode, self.window, self.kinds, self.exempt)

    def of(self, placement: Mapping[str, Any]) -> "RemovalPolicy":
        """Return the policy for a placement. Its annotation overrides every mode, unless the value is invalid.

        While the operator has switched every mode off, any user may set the label of exempt namespaces. The annotation
        then disables exemptions.
        """
        text = annotation(placement, REMOVAL_CONFIRMATION)
        if text not in _MODES:
            return self
        policy = self.with_every_mode(ConfirmationMode(text))
        return replace(policy, exempt=None) if self.is_off else policy

    def holds_data(self, group: str, kind: str) -> bool:
        """Return whether the removal of an object of a kind loses data or infrastructure."""
        return any(pattern.covers(group, kind) for pattern in (*_BUILT_IN, *self.kinds))

    def exempts(self, namespace: Mapping[str, Any]) -> bool:
        """Return whether a Namespace has the label that exempts its content. False if exemptions are disabled."""
        return self.exempt is not None and labels_of(namespace).get(self.exempt[0]) == self.exempt[1]


EFFECTS: Final = ("data", "many_objects", "objects", "many_clusters", "clusters", "placement", "node_pool")
"""The fields of a policy that have a mode."""
_MODES: Final = frozenset(ConfirmationMode)
_BUILT_IN: Final = parse_kind_patterns(DATA_KINDS)
DEFAULT_POLICY: Final = RemovalPolicy()
"""The policy of an operator who sets nothing (DV-R1)."""
NO_CONFIRMATION: Final = RemovalPolicy().with_every_mode(ConfirmationMode.OFF)
"""The behavior of the reference."""
CONFIRM_VERB: Final = "confirmremoval"
"""The verb on a placement that a caller needs to confirm a removal, or to exempt a namespace."""
