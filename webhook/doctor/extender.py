"""Checks whether schedulers get answers from the extender, and how the chart's scheduler behaves without one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import yaml

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, text_at
from webhook.doctor.finding import Finding, State, judged, unchecked
from webhook.doctor.members import seconds

CHECK: Final = "extender"
ASKING: Final = "ask-extender"
"""Init container of the chart's scheduler that calls the extender once."""
RECENT: Final = timedelta(minutes=10)
"""Maximum age of a refusal that counts. kube-scheduler retries a pending pod after five minutes."""
ADVICE: Final = (
    "see docs/troubleshooting.md, Alert: an extender that refuses. To keep pods pending instead: helm upgrade --set "
    "scheduler.ignorable=false"
)
LONGEST_LINE: Final = 256
_REFUSED_AT: Final = "harbormaster_extender_refusal_timestamp_seconds"
_CODE: Final = re.compile(r'code="([0-9]{3})"')


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The scheduler of a chart.

    Args:
        name: Namespace and name of its Deployment.
        configuration: Text of its KubeSchedulerConfiguration. None if it is missing.
        pods: Pods.
    """

    name: str
    configuration: str | None
    pods: tuple[JsonObject, ...]


def judge_extender(scheduler: Scheduling | None, metrics: Mapping[str, str], now: datetime) -> Finding:
    """Check the scheduler of the chart, and the requests that replicas of the server have refused.

    Args:
        scheduler: The scheduler. None if the chart has installed none.
        metrics: Metrics of each replica, by Pod name.
        now: Time of the hub's clock.
    """
    problems = [*_problems_of(scheduler)] if scheduler is not None else []
    for pod, text in metrics.items():
        problems += _refusals(pod, text, now)
    if not problems and not metrics:
        if scheduler is None:
            return Finding(CHECK, State.OK, "no scheduler is installed by the chart")
        return unchecked(CHECK, "no replica of serve is running, so refused schedulers are unknown")
    minutes = RECENT // timedelta(minutes=1)
    return judged(CHECK, problems, f"no request of a scheduler was refused in the last {minutes} minutes", ADVICE)


def _problems_of(scheduler: Scheduling) -> Iterator[str]:
    subject = f"Deployment {scheduler.name}"
    if scheduler.configuration is None:
        yield f"{subject}: its configuration is missing"
    elif _is_ignorable(scheduler.configuration):
        yield f"{subject}: ignorable is true: pods run on any node while the extender refuses or does not answer"
    for pod in scheduler.pods:
        for status in dicts_at(pod, "status", "initContainerStatuses"):
            if status.get("name") == ASKING and (last_words := _last_words(status)):
                yield f"Pod {name_of(pod)}: {last_words}"


def _is_ignorable(text: str) -> bool:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False  # kube-scheduler does not start, and the check of the installation reports that
    extenders = dicts_at(document, "extenders") if isinstance(document, dict) else []
    return any(extender.get("ignorable") is True for extender in extenders)


def _last_words(status: JsonObject) -> str:
    """Return the termination message of a failed container. Empty: it has succeeded, or has not terminated."""
    for state in (dict_at(status, "state"), dict_at(status, "lastState")):
        termination = dict_at(state, "terminated")
        if termination:
            return " ".join(text_at(termination, "message").split()) if termination.get("exitCode") else ""
    return ""


def _refusals(pod: str, text: str, now: datetime) -> Iterator[str]:
    ages: dict[str, float] = {}
    for line in text.splitlines():
        code = _CODE.search(line, 0, LONGEST_LINE)
        if line.startswith(_REFUSED_AT) and code is not None:
            try:
                age = now.timestamp() - float(line.rpartition(" ")[2])
            except ValueError:
                continue
            ages[code[1]] = min(age, ages.get(code[1], age))  # one sample per worker
    for status, age in sorted(ages.items()):
        if abs(age) <= RECENT.total_seconds():
            yield f"Pod {pod} answered a scheduler with status {status}, last {seconds(timedelta(seconds=age))} ago"


def ready_pods(pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the Pods that are ready."""
    return [
        pod
        for pod in pods
        if any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in dicts_at(pod, "status", "conditions")
        )
    ]


def port_of(pod: JsonObject) -> int:
    """Return the number of the port ``http`` of a Pod, 0 if it has none."""
    ports = (port for container in dicts_at(pod, "spec", "containers") for port in dicts_at(container, "ports"))
    port = next((port.get("containerPort") for port in ports if port.get("name") == "http"), 0)
    return port if isinstance(port, int) else 0
