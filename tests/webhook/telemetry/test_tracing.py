"""Traces: spans of reconciles, where they go, and that nothing is done where there are none."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry

from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.spans import Kept
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.machinery.result import DONE
from webhook.kube.ports import InvalidObjectError
from webhook.settings.environment import SettingsError
from webhook.settings.programs import ReconcileSettings
from webhook.telemetry.loop_metrics import LoopMetrics
from webhook.telemetry.tracing import LONGEST_VALUE, tracing_of

WITHOUT_THE_LIBRARY = """
import sys
from webhook.settings.programs import ReconcileSettings
sys.modules["opentelemetry"] = None
from webhook.telemetry.logs import configure
from webhook.telemetry.tracing import tracing_of
configure("text")
print(tracing_of(ReconcileSettings(tracing_endpoint="http://127.0.0.1:1/v1/traces"), "reconcile"))
"""


async def reconcile(kept, *keys):
    """Reconcile each key; one that is called ``broken`` fails, and may be tried again before this ends."""

    async def act(key):
        if key == "broken":
            raise InvalidObjectError("it says no")
        return DONE

    queue = WorkQueue("placement", act, LoopMetrics(CollectorRegistry(), lambda: True, kept and kept.tracing).term())
    for key in keys:
        queue.add(key)
    working = asyncio.create_task(queue.run(workers=1))
    await until(lambda: queue.reconciled >= len(keys) and queue.idle)
    working.cancel()
    await asyncio.wait([working])


async def test_each_reconcile_is_a_span_of_its_own_trace():
    kept = Kept()
    await reconcile(kept, "a", "broken", "k" * 1000)
    good, bad, long = kept.spans[:3]
    assert {span.name for span in kept.spans} == {"reconcile"}
    assert dict(good.attributes) == {"harbormaster.controller": "placement", "harbormaster.key": "a"}
    assert (good.status.status_code, bad.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert len(long.attributes["harbormaster.key"]) == LONGEST_VALUE
    assert len({span.context.trace_id for span in kept.spans}) == len(kept.spans)


async def test_only_a_share_of_what_begins_here_is_traced():
    kept = Kept(share=0)
    await reconcile(kept, "a")
    assert kept.spans == ()


async def test_without_traces_reconciles_go_on_all_the_same():
    await reconcile(None, "a", "broken")


def test_where_no_collector_is_named_the_library_is_not_even_imported():
    code = (
        "import sys; import webhook.processes.serve; from webhook.settings.programs import ReconcileSettings; "
        "from webhook.telemetry.tracing import tracing_of; assert tracing_of(ReconcileSettings(), 'x') is None; "
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_library_that_is_not_there_is_told_and_costs_only_the_traces():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_LIBRARY],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout == "None\n"
    assert "tracing disabled: install requirements-otel.txt" in done.stderr


async def test_a_collector_that_does_not_answer_holds_up_neither_work_nor_end():
    tracing = tracing_of(ReconcileSettings(tracing_endpoint="http://127.0.0.1:1/v1/traces"), "reconcile")
    with tracing.span("reconcile", controller="placement", key="a"):
        pass
    async with asyncio.timeout(PATIENCE_SECONDS):
        await tracing.close()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        pytest.param("collector:4317", "must start with http:// or https:// and a host", id="no-scheme"),
        pytest.param("grpc://collector:4317", "must start with http:// or https:// and a host", id="other-scheme"),
        pytest.param("http:///v1/traces", "must start with http:// or https:// and a host", id="no-host"),
        pytest.param("http://collector:port/", "must be a URL", id="no-port"),
        pytest.param("https://me:secret@collector/", "must not contain credentials", id="credentials"),
    ],
)
def test_an_endpoint_that_cannot_be_one_is_refused(url, complaint):
    with pytest.raises(SettingsError, match=f"HARBORMASTER_TRACING_ENDPOINT.*{complaint}"):
        ReconcileSettings.read({"HARBORMASTER_TRACING_ENDPOINT": url})


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan", "all"])
def test_a_share_is_between_nothing_and_all(share):
    with pytest.raises(SettingsError, match="HARBORMASTER_TRACING_SHARE"):
        ReconcileSettings.read({"HARBORMASTER_TRACING_SHARE": share})
