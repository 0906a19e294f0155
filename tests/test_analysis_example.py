"""The approver in ``examples/analysis``, as a process of its own, against the REST interface of a whole hub."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import APPROVAL_REQUEST, STAGED_RUN
from scorer.api.placement.staged_update import UpdateStrategySpec
from scorer.api.unstructured.documents import current_condition, name_of, with_metadata
from scorer.staged_update.approval.analysis import ObjectCheck, QueryCheck, read_analysis, stage_problems
from tests.loopback import on_loopback
from tests.webhook.controllers.staged_world import make_run, said, set_state, staged
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.kube.ports import Key
from webhook.runtime.clock import utc_now
from webhook.validation.framework.context import Context
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy

FOLDER = Path(__file__).parents[1] / "examples" / "analysis"
TOKEN = "of-the-approver"
WAITS = "False UpdateRunWaiting"


@asynccontextmanager
async def approving(folder):
    """Run a world with a run that waits for its approval, and yield it with what starts the approver."""
    authority = Authority.new(utc_now())
    listener = ServerContext(authority.issue(("localhost",), ("127.0.0.1",), utc_now())).listener
    (folder / "ca.crt").write_bytes(authority.pem)
    (folder / "token").write_text(TOKEN)
    async with staged() as world:
        app = web.Application()
        add_routes(app, world.store, lambda: Context.of_objects([]).with_user(UserInfo("approver")), TOKEN)
        files = ("--token-file", folder / "token", "--ca-file", folder / "ca.crt")
        async with on_loopback(app, tls=listener) as address:
            await world.add(make_run("r"))
            await world.until(lambda: said(world, "Progressing") == WAITS)
            yield world, (FOLDER / "approver.py", "--server", address, *files, "--once")


async def run(start, *words):
    """Run the approver once, and return its exit code and what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *map(str, start), "--", *words, stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    return process.returncode, text.decode()


async def test_a_check_that_passes_approves_and_the_run_goes_on(tmp_path):
    seen = tmp_path / "seen"
    async with approving(tmp_path) as (world, start):
        code, text = await run(start, "sh", "-c", f'echo "$RUN $STAGE" >> {seen}')
        assert (code, "approved r-after-test" in text) == (0, True)
        await world.until(lambda: said(world, "Succeeded") == "True UpdateRunSucceeded")
        request = await world.store.get(APPROVAL_REQUEST, Key("r-after-test"))
        assert current_condition(request, "Approved")["reason"] == "CheckPassed"
        assert await run(start, "sh", "-c", f"echo again >> {seen}") == (0, "")
        assert seen.read_text() == "r test\n"


@pytest.mark.parametrize("check", [("false",), ("sleep", "60"), ("/no/such/program",)])
async def test_a_check_that_does_not_pass_approves_nothing(tmp_path, check):
    async with approving(tmp_path) as (world, start):
        code, text = await run((*start, "--timeout", "0.2"), *check)
        await world.until(lambda: True)
        assert (code, "r-after-test" in text, said(world, "Progressing")) == (0, True, WAITS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--server", "http://127.0.0.1:1"), "argument --server: 'http://127.0.0.1:1' does not begin with https://"),
        (("--every", "nan"), "argument --every: 'nan' is not a number of seconds above 0"),
        (("--timeout", "-1"), "argument --timeout: '-1' is not a number of seconds above 0"),
    ],
)
async def test_nothing_is_sent_without_tls_and_a_time_that_is_none_is_named(words, told):
    code, text = await run((FOLDER / "approver.py", *words, "--once"), "true")
    assert (code, told in text) == (2, True)


async def test_a_run_that_is_stopped_is_not_checked(tmp_path):
    async with approving(tmp_path) as (world, start):
        await set_state(world, "Stop")
        await world.until(lambda: said(world, "Progressing") == "False UpdateRunStopped")
        assert await run(start, "true") == (0, "")


async def test_what_a_person_has_rejected_is_not_checked(tmp_path):
    async with approving(tmp_path) as (world, start):
        stored = await world.store.get(STAGED_RUN, Key("r"))
        rejected = with_metadata(stored, annotations={"harbormaster.dev/rejected": "r-after-test: too slow"})
        await world.store.replace(STAGED_RUN, rejected)
        assert await run(start, "true") == (0, "")


async def test_a_request_without_its_run_keeps_no_other_waiting(tmp_path):
    async with approving(tmp_path) as (world, start):
        lost = await world.store.get(APPROVAL_REQUEST, Key("r-after-test"))
        meta = {"name": "a-lost-one", "labels": lost["metadata"]["labels"]}
        spec = {"parentStageRollout": "gone", "targetStage": "test"}
        await world.store.create(APPROVAL_REQUEST, {**lost, "metadata": meta, "spec": spec})
        code, text = await run(start, "true")
        assert (code, "cannot look at a-lost-one" in text, "approved r-after-test" in text) == (1, True, True)


async def test_a_wrong_token_is_told(tmp_path):
    async with approving(tmp_path) as (_, start):
        (tmp_path / "token").write_text("wrong")
        code, text = await run(start, "true")
        assert (code, "401" in text) == (1, True)


def documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_the_annotation_of_the_example_has_a_query_and_an_object():
    strategy, made = documents("analyzed.yaml")
    checks = read_analysis(strategy["metadata"]["annotations"]["harbormaster.dev/analysis"], "")
    assert {name: type(check) for name, check in checks.items()} == {"canary": QueryCheck, "early": ObjectCheck}
    assert list(stage_problems(checks, UpdateStrategySpec.read(strategy["spec"]).stages)) == []
    assert (
        list(staged_strategy.validate(strategy, None, Context()))
        == list(staged_run.validate(made, None, Context()))
        == []
    )
    assert made["spec"]["stagedRolloutStrategyName"] == name_of(strategy)
    assert checks["early"].of_run(name_of(made), "").name == "smoke-flags-2"


def test_the_rights_of_the_approver_are_what_it_asks_for():
    role = next(each for each in documents("approver.yaml") if each["kind"] == "ClusterRole")
    found = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert found == {
        ("clusterapprovalrequests", "list"),
        ("clusterstagedupdateruns", "get"),
        ("clusterapprovalrequests/status", "update"),
    }


def test_the_script_stands_alone():
    """It is copied into other places; only the standard library is there."""
    text = (FOLDER / "approver.py").read_text()
    imported = {
        line.split()[1].partition(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names


def test_everything_in_the_folder_is_explained():
    page = (FOLDER / "README.md").read_text()
    assert [path.name for path in FOLDER.iterdir() if path.is_file() and f"`{path.name}`" not in page] == ["README.md"]
