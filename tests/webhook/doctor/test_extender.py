"""What the doctor finds about schedulers that are refused."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.webhook.doctor.deployments import deployment
from tests.webhook.doctor.empty_hub import EmptyHub
from webhook.doctor.examination import Examination
from webhook.doctor.extender import CHECK, Scheduling, judge_extender
from webhook.doctor.finding import State
from webhook.doctor.installation import InstallationOptions
from webhook.kube.ports import ForbiddenError

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
STRICT, IGNORABLE = "extenders: [{ignorable: false}]", "extenders: [{ignorable: true}]"
CLEAN = 'harbormaster_extender_refusal_timestamp_seconds{code="401"} 0.0\n'


def refused(ago=timedelta(seconds=30), code="401", worker=""):
    time = (NOW - ago).timestamp()
    return f'harbormaster_extender_refusal_timestamp_seconds{{code="{code}"{worker}}} {time!r}\n'


def scheduling(configuration=STRICT, **status):
    asked = {"name": "ask-extender", **status}
    pod = {"metadata": {"name": "s-1"}, "status": {"initContainerStatuses": [{"name": "another"}, asked]}}
    return Scheduling("quay/s", configuration, (pod,))


def ended(code, message=""):
    return {"terminated": {"exitCode": code, "message": message}}


@pytest.mark.parametrize(
    ("found", "metrics", "state", "said"),
    [
        pytest.param(None, {}, State.OK, "no scheduler", id="none"),
        pytest.param(None, {"a": CLEAN}, State.OK, "no request of a scheduler", id="none-of-the-chart"),
        pytest.param(scheduling(), {"a": CLEAN}, State.OK, "no request of a scheduler", id="well"),
        pytest.param(scheduling(), {}, State.UNCHECKED, "no replica", id="no-replica"),
        pytest.param(scheduling(IGNORABLE), {"a": CLEAN}, State.WRONG, "ignorable is true", id="ignorable"),
        pytest.param(scheduling(IGNORABLE), {}, State.WRONG, "ignorable is true", id="ignorable-without-replicas"),
        pytest.param(scheduling(None), {"a": CLEAN}, State.WRONG, "configuration is missing", id="no-file"),
        pytest.param(scheduling("{"), {"a": CLEAN}, State.OK, "no request of a scheduler", id="broken-file"),
        pytest.param(scheduling("[]"), {"a": CLEAN}, State.OK, "no request of a scheduler", id="another-file"),
        pytest.param(scheduling(state=ended(0)), {"a": CLEAN}, State.OK, "", id="asked-with-success"),
        pytest.param(scheduling(state=ended(1, "401: why")), {"a": CLEAN}, State.WRONG, "s-1: 401: why", id="failed"),
        pytest.param(
            scheduling(state={"waiting": {}}, lastState=ended(1, "401:\nwhy")),
            {"a": CLEAN},
            State.WRONG,
            "s-1: 401: why",
            id="failed-and-waits",
        ),
        pytest.param(
            scheduling(state=ended(0), lastState=ended(1, "401")), {"a": CLEAN}, State.OK, "", id="succeeded-again"
        ),
        pytest.param(None, {"a": CLEAN, "b": refused()}, State.WRONG, "Pod b answered", id="refused"),
        pytest.param(None, {"a": refused(timedelta(hours=1))}, State.OK, "no request", id="refused-long-ago"),
        pytest.param(None, {"a": refused(code="503")}, State.WRONG, "status 503, last 30 s ago", id="another-status"),
        pytest.param(
            None,
            {"a": refused(timedelta(hours=1), worker=',worker="1"') + refused(worker=',worker="2"')},
            State.WRONG,
            "status 401, last 30 s ago",
            id="one-of-two-workers",
        ),
        pytest.param(None, {"a": "garbage\n\x00"}, State.OK, "no request", id="no-metrics"),
        *(
            pytest.param(None, {"a": CLEAN.replace("0.0", value)}, State.OK, "no request", id=f"time-{value}")
            for value in ("", "NaN", "+Inf", "-Inf", "1e300", "soon")
        ),
    ],
)
def test_what_is_found(found, metrics, state, said):
    finding = judge_extender(found, metrics, NOW)
    assert finding.state is state
    assert said in " ".join((finding.found, *finding.problems))


class Hub(EmptyHub):
    """A hub with a release that has a scheduler, and one replica of the server; *text*: its metrics."""

    def __init__(self, text):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        containers = [{"name": "serve", "ports": [{"name": "http", "containerPort": 8081}]}]
        pod = {
            "metadata": {"name": "serve-1", "namespace": "quay"},
            "spec": {"containers": containers},
            "status": ready,
        }

        def listed(*items):
            return {"metadata": {"resourceVersion": "1"}, "items": list(items)}

        super().__init__(
            deployments=listed(deployment(), deployment("scheduler")),
            configmaps={"metadata": {"name": "s", "namespace": "quay"}, "data": {"config.yaml": IGNORABLE}},
            pods=listed(pod),
        )
        self.text = text
        self.read = []

    async def read_text(self, path, _):
        self.read.append(path)
        if isinstance(self.text, Exception):
            raise self.text
        return self.text


async def examine(hub):
    examination = Examination(hub, "1.2.0", lambda: NOW)
    await examination.run(InstallationOptions(), {})
    return next(each.finding for each in examination.results if each.finding.check == CHECK)


async def test_the_metrics_of_each_replica_are_read_through_the_api_server():
    hub = Hub(refused())
    finding = await examine(hub)
    assert hub.read == ["/api/v1/namespaces/quay/pods/serve-1%3A8081/proxy/metrics"]
    assert [each.partition(":")[0] for each in finding.problems] == [
        "Deployment quay/harbor-harbormaster-scheduler",
        "Pod serve-1 answered a scheduler with status 401, last 30 s ago",
    ]


async def test_what_may_not_be_read_hides_no_problem():
    denied = ForbiddenError('User "bob" cannot get resource "pods/proxy" in API group "" in the namespace "quay"')
    hub = Hub(denied)
    assert "ignorable is true" in (await examine(hub)).problems[0]
    hub.answers["configmaps"]["data"]["config.yaml"] = STRICT
    finding = await examine(hub)
    assert (finding.state, finding.found) == (
        State.UNCHECKED,
        "not checked: you may not get pods/proxy in namespace quay",
    )
