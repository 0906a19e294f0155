"""What a Pod asks that this kubelet does not do: said, and not passed over, so that no test rests on it."""

from collections.abc import Iterator

from e2e.controlplane.cluster import JsonObject
from e2e.kubelet.volumes import KINDS

_POD = ("hostNetwork", "hostPID", "hostIPC", "ephemeralContainers", "activeDeadlineSeconds", "shareProcessNamespace")
_CONTAINER = ("stdin", "tty", "volumeDevices")
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_CONTEXT = ("privileged", "procMount")


def unsupported(pod: JsonObject) -> list[str]:
    """The fields of a Pod that would have to be passed over, as paths."""
    return [*_of_pod(pod["spec"]), *_of_containers(pod["spec"])]


def _of_pod(spec: JsonObject) -> Iterator[str]:
    yield from (f"spec.{name}" for name in _POD if spec.get(name))
    for number, volume in enumerate(spec.get("volumes") or ()):
        if not any(kind in volume for kind in KINDS):
            kind = next(key for key in volume if key != "name")
            yield f"spec.volumes[{number}].{kind}"
        for source in (volume.get("projected") or {}).get("sources") or ():
            known = {"serviceAccountToken", *KINDS}
            yield from (f"spec.volumes[{number}].projected.sources.{key}" for key in source if key not in known)


def _of_containers(spec: JsonObject) -> Iterator[str]:
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group) or ()):
            at = f"spec.{group}[{number}]"
            yield from (f"{at}.{name}" for name in _CONTAINER if container.get(name))
            yield from (f"{at}.{name}.grpc" for name in _PROBES if "grpc" in (container.get(name) or {}))
            context = container.get("securityContext") or {}
            yield from (f"{at}.securityContext.{name}" for name in _CONTEXT if context.get(name))
            if "postStart" in (container.get("lifecycle") or {}):
                yield f"{at}.lifecycle.postStart"
            if "restartPolicy" in container:
                yield f"{at}.restartPolicy"
            for mount in container.get("volumeMounts") or ():
                if "subPathExpr" in mount or "mountPropagation" in mount:
                    yield f"{at}.volumeMounts of {mount['name']}: subPathExpr, mountPropagation"
