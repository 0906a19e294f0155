"""Objects in Kubernetes' protobuf encoding, which the ``kubectl create`` commands send for built-in kinds.

An API server accepts this encoding for its built-in kinds, and kubectl does not fall back to JSON when it is refused.
Answers are JSON, which all clients accept. An object with a field that the table of messages lacks is refused, so that
no content is lost.

Zero values are kept or omitted as in the JSON of Kubernetes: a zero number, an empty text or ``false`` is omitted,
unless the field is a pointer or is always written in Go (``!`` in the table).

Source: k8s.io/api and k8s.io/apimachinery, ``generated.proto`` and ``types.go``.
"""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from scorer.api.meta import JsonObject, format_time

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_VARINT, _BYTES = 0, 2
_LONGEST_VARINT: Final = 10

_OBJECTS: Final = {
    "v1": ("ConfigMap", "Namespace", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("Deployment",),
    "batch/v1": ("CronJob", "Job"),
    "networking.k8s.io/v1": ("Ingress",),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
}
_OPTIONS: Final = "DeleteOptions"
"""Accepted with every apiVersion, because clients send it with that of the deleted object."""

_MESSAGES: Final = {
    "AggregationRule": "1 clusterRoleSelectors []LabelSelector",
    "ClusterRole": "1 metadata ObjectMeta, 2 rules []PolicyRule, 3 aggregationRule AggregationRule",
    "ClusterRoleBinding": "1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef",
    "ConfigMap": "1 metadata ObjectMeta, 4 immutable bool!, 2 data {}, 3 binaryData {}bytes",
    "Container": (
        "1 name !, 2 image, 3 command [], 4 args [], 5 workingDir, 6 ports []ContainerPort, 7 env []EnvVar, 8 "
        "resources ResourceRequirements, 24 restartPolicy !, 13 terminationMessagePath, 20 "
        "terminationMessagePolicy, 14 imagePullPolicy, 16 stdin bool, 17 stdinOnce bool, 18 tty bool"
    ),
    "ContainerPort": "1 name, 2 hostPort int, 3 containerPort int!, 4 protocol, 5 hostIP",
    "CronJob": "1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus",
    "CronJobSpec": (
        "1 schedule !, 8 timeZone !, 2 startingDeadlineSeconds int!, 3 concurrencyPolicy, 4 suspend bool!, 5 "
        "jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit int!, 7 failedJobsHistoryLimit int!"
    ),
    "CronJobStatus": "",
    "DeleteOptions": (
        "1 gracePeriodSeconds int!, 2 preconditions Preconditions, 3 orphanDependents bool!, 4 "
        "propagationPolicy !, 5 dryRun []"
    ),
    "Deployment": "1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus",
    "DeploymentSpec": (
        "1 replicas int!, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy "
        "DeploymentStrategy, 5 minReadySeconds int, 6 revisionHistoryLimit int!, 7 paused bool, 9 "
        "progressDeadlineSeconds int!"
    ),
    "DeploymentStatus": (
        "1 observedGeneration int, 2 replicas int, 3 updatedReplicas int, 7 readyReplicas int, 4 "
        "availableReplicas int, 5 unavailableReplicas int, 9 terminatingReplicas int!, 8 collisionCount int!"
    ),
    "DeploymentStrategy": "1 type",
    "Empty": "",
    "EnvVar": "1 name !, 2 value",
    "HTTPIngressPath": "1 path, 3 pathType !, 2 backend IngressBackend",
    "HTTPIngressRuleValue": "1 paths []HTTPIngressPath",
    "Ingress": "1 metadata ObjectMeta, 2 spec IngressSpec, 3 status IngressStatus",
    "IngressBackend": "4 service IngressServiceBackend",
    "IngressRule": "1 host, 2 * IngressRuleValue",
    "IngressRuleValue": "1 http HTTPIngressRuleValue",
    "IngressServiceBackend": "1 name !, 2 port ServiceBackendPort",
    "IngressSpec": ("4 ingressClassName !, 1 defaultBackend IngressBackend, 2 tls []IngressTLS, 3 rules []IngressRule"),
    "IngressStatus": "1 loadBalancer Empty",
    "IngressTLS": "1 hosts [], 2 secretName",
    "Job": "1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus",
    "JobSpec": (
        "1 parallelism int!, 2 completions int!, 3 activeDeadlineSeconds int!, 7 backoffLimit int!, 12 "
        "backoffLimitPerIndex int!, 13 maxFailedIndexes int!, 4 selector LabelSelector, 5 manualSelector "
        "bool!, 6 template PodTemplateSpec, 8 ttlSecondsAfterFinished int!, 9 completionMode !, 10 suspend "
        "bool!, 14 podReplacementPolicy !, 15 managedBy !"
    ),
    "JobStatus": "4 active int, 5 succeeded int, 6 failed int, 7 completedIndexes",
    "JobTemplateSpec": "1 metadata ObjectMeta, 2 spec JobSpec",
    "LabelSelector": "1 matchLabels {}, 2 matchExpressions []LabelSelectorRequirement",
    "LabelSelectorRequirement": "1 key !, 2 operator !, 3 values []",
    "LocalObjectReference": "1 name",
    "Namespace": "1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus",
    "NamespaceSpec": "1 finalizers []",
    "NamespaceStatus": "1 phase",
    "ObjectMeta": (
        "1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 generation int, 8 "
        "creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds int!, 11 labels {}, "
        "12 annotations {}, 13 ownerReferences []OwnerReference, 14 finalizers []"
    ),
    "ObjectReference": "1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath",
    "OwnerReference": ("5 apiVersion !, 1 kind !, 3 name !, 4 uid !, 6 controller bool!, 7 blockOwnerDeletion bool!"),
    "PodDisruptionBudget": (
        "1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus"
    ),
    "PodDisruptionBudgetSpec": (
        "1 minAvailable IntOrString!, 2 selector LabelSelector, 3 maxUnavailable IntOrString!, 4 "
        "unhealthyPodEvictionPolicy !"
    ),
    "PodDisruptionBudgetStatus": (
        "1 observedGeneration int, 3 disruptionsAllowed int!, 4 currentHealthy int!, 5 desiredHealthy int!, 6 "
        "expectedPods int!"
    ),
    "PodSpec": (
        "20 initContainers []Container, 2 containers []Container, 3 restartPolicy, 4 "
        "terminationGracePeriodSeconds int!, 5 activeDeadlineSeconds int!, 6 dnsPolicy, 7 nodeSelector {}, 8 "
        "serviceAccountName, 9 serviceAccount, 21 automountServiceAccountToken bool!, 10 nodeName, 11 "
        "hostNetwork bool, 12 hostPID bool, 13 hostIPC bool, 27 shareProcessNamespace bool!, 15 "
        "imagePullSecrets []LocalObjectReference, 16 hostname, 17 subdomain, 19 schedulerName, 24 "
        "priorityClassName, 25 priority int!, 29 runtimeClassName !, 30 enableServiceLinks bool!, 31 "
        "preemptionPolicy !, 32 overhead {}Quantity, 35 setHostnameAsFQDN bool!, 37 hostUsers bool!, 40 "
        "resources ResourceRequirements, 41 hostnameOverride !"
    ),
    "PodTemplateSpec": "1 metadata ObjectMeta, 2 spec PodSpec",
    "PolicyRule": "1 verbs [], 2 apiGroups [], 3 resources [], 4 resourceNames [], 5 nonResourceURLs []",
    "Preconditions": "1 uid !, 2 resourceVersion !",
    "PriorityClass": ("1 metadata ObjectMeta, 2 value int!, 3 globalDefault bool, 4 description, 5 preemptionPolicy !"),
    "ResourceQuota": "1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus",
    "ResourceQuotaSpec": "1 hard {}Quantity, 2 scopes []",
    "ResourceQuotaStatus": "1 hard {}Quantity, 2 used {}Quantity",
    "ResourceRequirements": "1 limits {}Quantity, 2 requests {}Quantity",
    "Role": "1 metadata ObjectMeta, 2 rules []PolicyRule",
    "RoleBinding": "1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef",
    "RoleRef": "1 apiGroup !, 2 kind !, 3 name !",
    "Secret": "1 metadata ObjectMeta, 5 immutable bool!, 2 data {}bytes, 4 stringData {}, 3 type",
    "Service": "1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus",
    "ServiceAccount": (
        "1 metadata ObjectMeta, 2 secrets []ObjectReference, 3 imagePullSecrets []LocalObjectReference, 4 "
        "automountServiceAccountToken bool!"
    ),
    "ServiceBackendPort": "1 name, 2 number int",
    "ServicePort": ("1 name, 2 protocol, 6 appProtocol !, 3 port int!, 4 targetPort IntOrString!, 5 nodePort int"),
    "ServiceSpec": (
        "1 ports []ServicePort, 2 selector {}, 3 clusterIP, 18 clusterIPs [], 4 type, 5 externalIPs [], 7 "
        "sessionAffinity, 8 loadBalancerIP, 9 loadBalancerSourceRanges [], 10 externalName, 11 "
        "externalTrafficPolicy, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool, 19 ipFamilies "
        "[], 17 ipFamilyPolicy !, 20 allocateLoadBalancerNodePorts bool!, 21 loadBalancerClass !, 22 "
        "internalTrafficPolicy !, 23 trafficDistribution !"
    ),
    "ServiceStatus": "1 loadBalancer Empty",
    "Subject": "1 kind !, 2 apiGroup, 3 name !, 4 namespace",
}
"""Fields of each message: number, JSON name and type. The default type is text.

``[]`` is a list, ``{}`` a map with texts as keys, ``*`` an inlined message, ``!`` a field whose zero value is kept.
"""


class UnsupportedMessageError(ValueError):
    """The body has a kind or a field that is not in the table."""


class _Field(NamedTuple):
    """One field of a message. *container* is empty, ``[]`` or ``{}``."""

    name: str
    container: str
    type: str
    keeps_zero: bool


def _parse_field(text: str) -> tuple[int, _Field]:
    number, name, *rest = text.split()
    kind = rest[0] if rest else ""
    container = kind[:2] if kind[:2] in ("[]", "{}") else ""
    return int(number), _Field(name, container, kind[len(container) :].rstrip("!"), kind.endswith("!"))


_FIELDS: Final = {
    message: dict(map(_parse_field, filter(None, texts.split(", ")))) for message, texts in _MESSAGES.items()
}


def decode_object(body: bytes) -> JsonObject:
    """Return an object, or the options of a deletion, in its JSON form.

    Raises:
        UnsupportedMessageError: The kind or a field is not supported.
        ValueError: The body is malformed.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("the body is not an object in Kubernetes' protobuf encoding")
    envelope = dict(_wire_fields(body[len(_MAGIC) :]))
    type_meta = dict(_wire_fields(_as_bytes(envelope.get(1, b""))))
    api_version, kind = (_as_text(type_meta.get(number, b"")) for number in (1, 2))
    if kind != _OPTIONS and kind not in _OBJECTS.get(api_version, ()):
        raise UnsupportedMessageError(f"kind {kind} of {api_version}")
    return {"apiVersion": api_version, "kind": kind, **_decode_message(kind, _as_bytes(envelope.get(2, b"")))}


def _decode_message(message: str, data: bytes) -> JsonObject:
    document: JsonObject = {}
    for number, wire_value in _wire_fields(data):
        field = _FIELDS[message].get(number)
        if field is None:
            raise UnsupportedMessageError(f"field {number} of {message}")
        if field.container == "{}":
            entry = dict(_wire_fields(_as_bytes(wire_value)))
            value = _decode_value(field.type, entry.get(2, b""))
            document.setdefault(field.name, {})[_as_text(entry.get(1, b""))] = value
            continue
        value = _decode_value(field.type, wire_value)
        if field.container:
            document.setdefault(field.name, []).append(value)
        elif field.name == "*":
            document |= value
        elif value or field.keeps_zero or isinstance(value, dict):
            document[field.name] = value
    return document


def _decode_value(kind: str, value: int | bytes) -> Any:
    match kind:
        case "":
            return _as_text(value)
        case "int":
            return _as_int(value)
        case "bool":
            return bool(_as_int(value))
        case "bytes":
            return b64encode(_as_bytes(value)).decode("ascii")
        case "Quantity":
            return _as_text(dict(_wire_fields(_as_bytes(value))).get(1, b""))
        case "Time":
            seconds = dict(_wire_fields(_as_bytes(value))).get(1)
            return None if seconds is None else _format_seconds(_as_int(seconds))
        case "IntOrString":
            parts = dict(_wire_fields(_as_bytes(value)))
            return _as_text(parts.get(3, b"")) if parts.get(1) else _as_int(parts.get(2, 0))
        case _:
            return _decode_message(kind, _as_bytes(value))


def _format_seconds(seconds: int) -> str:
    try:
        return format_time(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} is not a time") from error


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("found a number, expected text or a message")  # noqa: TRY004 -- like all malformed bodies
    return value


def _as_text(value: int | bytes) -> str:
    return _as_bytes(value).decode("utf-8")


def _as_int(value: int | bytes) -> int:
    """Return a number, which is encoded as an unsigned 64-bit integer. Raises `ValueError` for text or a message."""
    if isinstance(value, bytes):
        raise ValueError("found text or a message, expected a number")  # noqa: TRY004 -- like all malformed bodies
    return value - 2**64 if value >= 2**63 else value


def _wire_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field. Raises `ValueError` for truncated data or an unsupported wire type."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        value, position = _read_varint(data, position)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        elif tag & 7 == _BYTES:
            if value > len(data) - position:
                raise ValueError("the body is cut off")
            yield tag >> 3, data[position : position + value]
            position += value
        else:
            raise ValueError(f"wire type {tag & 7} is not supported")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & (2**64 - 1), position + i + 1
    raise ValueError("the body is cut off")
