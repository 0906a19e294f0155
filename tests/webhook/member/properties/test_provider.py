"""A property provider that is a command."""

import shlex
import sys

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from webhook.member.properties.provider import (
    LONGEST_ANSWER,
    MOST_HANGING,
    CollectionError,
    ProviderCommand,
    parse_answer,
)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


async def ended(provider: ProviderCommand) -> None:
    """Wait until all that was killed has really ended."""
    await until(lambda: not (provider._hanging))


async def failure(provider: ProviderCommand) -> tuple[str, str]:
    with pytest.raises(CollectionError) as error:
        await provider.collect()
    return error.value.reason, str(error.value)


async def test_what_it_prints_is_taken():
    answer = '{"properties": {"a/b": "8", "c": 2}, "resources": {"capacity": {"gpu": "8"}}}'
    provider = ProviderCommand(python(f"import sys; print('''{answer}'''); print('slow', file=sys.stderr)"))
    found = await provider.collect()
    assert found.properties == {"a/b": "8", "c": "2"}
    assert found.resources == {"capacity": {"gpu": "8"}}
    assert found.remark == "slow"
    assert (provider.started.status, provider.started.reason) == ("True", "Started")


async def test_a_command_that_is_not_there_is_given_up():
    provider = ProviderCommand(["/no/such/command"])
    assert await failure(provider) == ("Failed", "/no/such/command: No such file or directory")
    assert (provider.started.status, provider.started.reason) == ("False", "FailedToStart")
    assert provider.has_failed()


async def test_a_command_that_does_not_answer_the_first_time_is_given_up():
    provider = ProviderCommand(python("import time; time.sleep(60)"), seconds=0.3)
    assert await failure(provider) == ("TimedOut", "no response within 0.3 s")
    assert (provider.started.status, provider.started.reason) == ("False", "TimedOut")
    assert provider.has_failed()
    await ended(provider)


async def test_one_that_fails_later_stays(tmp_path):
    flag = tmp_path / "flag"
    code = f"import pathlib, sys, time; p = pathlib.Path({str(flag)!r}); print('{{}}'); p.exists() and time.sleep(60)"
    provider = ProviderCommand(python(code), seconds=PATIENCE_SECONDS)
    await provider.collect()
    flag.touch()
    provider._seconds = 0.3
    assert (await failure(provider))[0] == "TimedOut"
    assert not provider.has_failed()
    await ended(provider)
    flag.unlink()
    provider._seconds = PATIENCE_SECONDS
    await provider.collect()


async def test_exit_code_and_standard_error_are_told():
    provider = ProviderCommand(python("import sys; sys.exit('no access')"))
    assert await failure(provider) == ("Failed", "ended with exit code 1: no access")
    assert not provider.has_failed()


async def test_no_more_than_three_hang_at_once(tmp_path):
    """Whoever keeps the pipe open after the command was killed keeps us from knowing the end.

    A shell, for it has begun the other one long before its time is up, on a busy machine too.
    """
    stop = tmp_path / "stop"
    child = f"until test -e {shlex.quote(str(stop))}; do sleep 0.05; done"
    start = ("sh", "-c", f"setsid sh -c {shlex.quote(child)} &")
    answering = ProviderCommand(python("print('{}')"), seconds=5)
    await answering.collect()
    answering._command, answering._seconds = start, 0.5
    try:
        for _ in range(MOST_HANGING):
            assert (await failure(answering))[0] == "TimedOut"
        assert await failure(answering) == ("TooManyCalls", "3 earlier runs of the provider are still running")
    finally:
        stop.touch()
    await ended(answering)
    answering._command, answering._seconds = python("print('{}')"), 5
    await answering.collect()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(b"hello", "standard output is not JSON", id="no-json"),
        pytest.param(b"[]", r"standard output: \[\] must be an object", id="a-list"),
        pytest.param(b'{"props": {}}', "props: unknown field: must be one of properties, resources", id="field"),
        pytest.param(b'{"properties": {"a": true}}', "properties.a: True must be text or a number", id="value"),
        pytest.param(b'{"properties": {"": "1"}}', "without empty names", id="name"),
        pytest.param(b'{"resources": {"total": {}}}', "resources.total: unknown field", id="part"),
        pytest.param(
            b'{"resources": {"capacity": {"cpu": "many"}}}',
            "resources.capacity.cpu: 'many' must be a quantity",
            id="quantity",
        ),
        pytest.param(b" " * (LONGEST_ANSWER + 1), "longer than 1048576 bytes", id="too-long"),
    ],
)
def test_mistakes_are_named(answer, message):
    with pytest.raises(ValueError, match=message):
        parse_answer(answer)
