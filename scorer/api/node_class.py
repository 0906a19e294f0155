"""Node classes: the provider's part of a NodePool, which its template names. They are read, and never owned.

A provider hashes most fields of a class into an annotation of the class and of each NodeClaim. A node whose NodeClaim
has another hash has drifted. `HASHED_FIELDS` has the fields that the hash covers, as the Go modules of the providers
define them. EKS Auto Mode publishes no source.

Source: docs/specifications/nodepool-disruption.md 3.6; karpenter-provider-azure v1.14.2
``pkg/apis/v1beta1/aksnodeclass.go``, karpenter-provider-aws v1.15.2 ``pkg/apis/v1/ec2nodeclass.go``,
karpenter-provider-gcp v0.5.0 ``pkg/apis/v1alpha1/gcenodeclass.go``.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import conditions_of, spec_of
from scorer.api.unstructured.json_object import JsonObject

AKS_NODE_CLASS: Final = Kind("karpenter.azure.com", ("v1beta1", "v1alpha2"), "AKSNodeClass", "aksnodeclasses", False)
EC2_NODE_CLASS: Final = Kind("karpenter.k8s.aws", ("v1",), "EC2NodeClass", "ec2nodeclasses", False)
GCE_NODE_CLASS: Final = Kind("karpenter.k8s.gcp", ("v1alpha1",), "GCENodeClass", "gcenodeclasses", False)
EKS_NODE_CLASS: Final = Kind("eks.amazonaws.com", ("v1",), "NodeClass", "nodeclasses", False)
NODE_CLASSES: Final = (AKS_NODE_CLASS, EC2_NODE_CLASS, GCE_NODE_CLASS, EKS_NODE_CLASS)
NODE_OVERLAY: Final = Kind("karpenter.sh", ("v1alpha1",), "NodeOverlay", "nodeoverlays", False)
SUBNET: Final = "vnetSubnetID"
_SUBNET_ID: Final = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.network/virtualnetworks/[^/]+/subnets/[^/]+"
)
"""Identifier of a subnet in lower case."""


@dataclass(frozen=True, slots=True)
class HashedFields:
    """The fields of ``spec`` of a node class, by their part in drift.

    Args:
        hashed: Every change drifts all nodes of the class.
        resolved: The provider resolves them to images, subnets and the like. Nodes that use a value which is no longer
            among the results drift.
        ignored: A change does not drift nodes.
        family: A field for the family of images, and the selector terms whose alias stands for it. None: unset.
        defaults: Defaults of the CRD, which a file may leave out, by path. One with a dot applies if its parent is set.
    """

    hashed: frozenset[str]
    resolved: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    family: tuple[str, str] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


HASHED_FIELDS: Final[Mapping[tuple[str, str], HashedFields]] = {
    AKS_NODE_CLASS.group_kind: HashedFields(
        hashed=frozenset(
            {
                "vnetSubnetID",
                "osDiskSizeGB",
                "imageFamily",
                "fipsMode",
                "kubelet",
                "maxPods",
                "security",
                "localDNS",
                "gpu",
                "artifactStreaming",
                "linuxOSConfig",
            }
        ),
        ignored=frozenset({"tags"}),
        defaults={
            "imageFamily": "Ubuntu",
            "osDiskSizeGB": 128,
            "gpu.mode": "Driver",
            "kubelet.containerLogMaxFiles": 5,
            "kubelet.containerLogMaxSize": "50Mi",
            "kubelet.cpuCFSQuota": True,
            "kubelet.cpuCFSQuotaPeriod": "100ms",
            "kubelet.cpuManagerPolicy": "none",
            "kubelet.topologyManagerPolicy": "none",
        },
    ),
    EC2_NODE_CLASS.group_kind: HashedFields(
        hashed=frozenset(
            {
                "placementGroupSelector",
                "associatePublicIPAddress",
                "userData",
                "role",
                "instanceProfile",
                "tags",
                "blockDeviceMappings",
                "instanceStorePolicy",
                "networkInterfaces",
                "detailedMonitoring",
                "metadataOptions",
                "enclaveOptions",
                "connectionTracking",
                "context",
                "cpuOptions",
                "kubelet",
            }
        ),
        resolved=frozenset(
            {
                "subnetSelectorTerms",
                "securityGroupSelectorTerms",
                "capacityReservationSelectorTerms",
                "amiSelectorTerms",
            }
        ),
        ignored=frozenset({"ipPrefixCount"}),
        family=("amiFamily", "amiSelectorTerms"),
        defaults={
            "metadataOptions": {},
            "metadataOptions.httpEndpoint": "enabled",
            "metadataOptions.httpProtocolIPv6": "disabled",
            "metadataOptions.httpPutResponseHopLimit": 1,
            "metadataOptions.httpTokens": "required",
        },
    ),
    GCE_NODE_CLASS.group_kind: HashedFields(
        hashed=frozenset(
            {
                "serviceAccount",
                "disks",
                "imageFamily",
                "subnetRangeName",
                "kubeletConfiguration",
                "labels",
                "metadata",
                "networkTags",
                "shieldedInstanceConfig",
                "confidentialInstanceType",
                "networkConfig",
                "autoGPUTaint",
                "gpuDriverVersion",
            }
        ),
        resolved=frozenset({"imageSelectorTerms"}),
        family=("imageFamily", "imageSelectorTerms"),
        defaults={"gpuDriverVersion": "default"},
    ),
}
"""By group and kind of the class. A class that is missing here has unknown fields."""


def is_read(kind: tuple[str, str]) -> bool:
    """Return whether a kind is a node class or NodeOverlay: read alongside NodePools, but validated elsewhere.

    The name of every provider's class ends in ``NodeClass``. The groups differ even between forks of one provider.
    """
    return kind[1].endswith("NodeClass") or kind == NODE_OVERLAY.group_kind


def hash_annotation(group: str, kind: str) -> str:
    """Return the annotation with the hash of a class. That of its version has the suffix ``-version``."""
    return f"{group}/{kind.lower()}-hash"


@dataclass(frozen=True, slots=True)
class ChangedFields:
    """The changed fields of ``spec`` of a node class, sorted.

    Args:
        hashed: Fields whose change drifts all nodes.
        resolved: Fields whose change drifts the nodes that no longer match.
        unknown: Fields whose effect is not known.
    """

    hashed: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def changed_fields(kind: tuple[str, str], old: JsonObject, new: JsonObject) -> ChangedFields:
    """Compare ``spec`` of two versions of a class. The order of lists does not matter, and null equals absent."""
    fields = HASHED_FIELDS.get(kind)
    old, new = (_with_defaults(spec, fields.defaults if fields else {}) for spec in (old, new))
    changed = {key for key in old.keys() | new.keys() if _canonical(old.get(key)) != _canonical(new.get(key))}
    if fields is None:
        return ChangedFields(unknown=tuple(sorted(changed)))
    hashed = changed & fields.hashed
    if fields.family is not None and _family(old, fields.family) != _family(new, fields.family):
        hashed = hashed | {fields.family[0]}
    changed -= {fields.family[0]} if fields.family else set()
    return ChangedFields(
        tuple(sorted(hashed)),
        tuple(sorted(changed & fields.resolved)),
        tuple(sorted(changed - fields.hashed - fields.resolved - fields.ignored)),
    )


def migrates_subnet(old: JsonObject, new: JsonObject) -> bool:
    """Return whether an update moves an AKSNodeClass from one valid subnet to another, which AKS does not support.

    An absent field is the subnet of the cluster, which is valid. A subnet that the provider has found invalid may be
    corrected.

    Source: seed 002, "VNet subnet ID drift".
    """
    subnets = [spec_of(document).get(SUBNET) for document in (old, new)]
    if subnets[0] == subnets[1] or not all(subnet is None or _is_subnet(subnet) for subnet in subnets):
        return False
    conditions = {condition.get("type"): condition.get("status") for condition in conditions_of(old)}
    return conditions.get("SubnetsReady") != "False"


def _is_subnet(value: Any) -> bool:
    return isinstance(value, str) and _SUBNET_ID.fullmatch(value.lower()) is not None


def _with_defaults(spec: JsonObject, defaults: Mapping[str, Any]) -> JsonObject:
    filled = {key: value for key, value in spec.items() if value is not None}
    for path, value in defaults.items():
        parent, _, member = path.partition(".")
        if not member:
            filled.setdefault(parent, value)
        elif isinstance(filled.get(parent), dict):
            filled[parent] = {member: value, **filled[parent]}
    return filled


def _canonical(value: Any) -> Hashable:
    """Return a value that is equal for lists of any order. Its size is linear in that of *value*."""
    if isinstance(value, dict):
        members = ((key, _canonical(member)) for key, member in value.items() if member is not None)
        return dict, frozenset(members)
    if isinstance(value, list):
        return list, frozenset(map(_canonical, value))
    return type(value), value


def _family(spec: Mapping[str, Any], fields: tuple[str, str]) -> str:
    """Return the family of images, in lower case: as given, or that of an alias such as ``al2023@latest``."""
    family, terms = spec.get(fields[0]), spec.get(fields[1])
    if isinstance(family, str):
        return family.lower()
    return next(_aliases(terms), "")


def _aliases(terms: Any) -> Iterator[str]:
    for term in terms if isinstance(terms, list) else ():
        alias = term.get("alias") if isinstance(term, dict) else None
        if isinstance(alias, str):
            yield alias.partition("@")[0].lower()
