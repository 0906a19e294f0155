"""Log lines: one per record, whatever is in it."""

import ast
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.contracts.sources import sources
from webhook.telemetry.logs import LONGEST_VALUE, JsonFormatter, TextFormatter, configure

LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
HOSTILE = 'x\n{"level":"fake"}\x1b[31m\u202e\x85'


@pytest.fixture(params=[JsonFormatter, TextFormatter], ids=["json", "text"])
def log(request):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(request.param())
    logger = logging.Logger("webhook.test")
    logger.addHandler(handler)
    logger.stream = stream
    return logger


def test_hostile_values_stay_on_one_line_of_plain_ascii(log):
    log.info("refused", extra={"user": HOSTILE})
    text = log.stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isascii()
    assert text.rstrip("\n").isprintable()


def test_long_values_are_cut(log):
    log.info("refused", extra={"user": "a" * 10_000, "object": {"spec": "b" * 10_000}})
    assert len(log.stream.getvalue()) < 1000


def test_long_messages_of_libraries_are_cut(log):
    log.warning("cannot read %s", "a" * 10_000)
    assert len(log.stream.getvalue()) < 1000


def test_a_long_traceback_keeps_its_beginning_and_its_end(log):
    try:
        json.loads("{}", object_hook={}["x" * 100_000 + " the last words"])
    except KeyError:
        log.exception("failed")
    text = log.stream.getvalue()
    assert len(text) < 20_000
    assert "Traceback" in text
    assert "the last words" in text


def test_an_error_comes_with_its_traceback_on_the_same_line(log):
    try:
        int("lost\nanchor")
    except ValueError:
        log.exception("failed")
    text = log.stream.getvalue()
    assert text.count("\n") == 1
    assert "anchor" in text
    assert "Traceback" in text


def test_json_lines_have_the_fields_of_the_reference():
    record = logging.makeLogRecord(
        {
            "name": "webhook.server.app",
            "levelno": 30,
            "levelname": "WARNING",
            "msg": "busy",
            "created": 1.5,
            "code": 503,
        }
    )
    assert json.loads(JsonFormatter().format(record)) == {
        "ts": "1970-01-01T00:00:01.500Z",
        "level": "warning",
        "logger": "webhook.server.app",
        "msg": "busy",
        "code": 503,
    }


def test_text_lines_are_for_people():
    record = logging.makeLogRecord(
        {
            "name": "webhook.server.app",
            "levelno": 30,
            "levelname": "WARNING",
            "msg": "busy",
            "created": 1.5,
            "user": "ann",
        }
    )
    assert TextFormatter().format(record) == '00:00:01.500 WARNING webhook.server.app: busy user="ann"'


@contextmanager
def untouched_root():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield root
    finally:
        root.handlers[:], root.level = handlers, level


def test_configure_takes_over_the_whole_process():
    stream = io.StringIO()
    with untouched_root():
        configure("json", "warning", stream)
        logging.getLogger("anything").info("quiet")
        logging.getLogger("anything").warning("loud")
    assert [json.loads(line)["msg"] for line in stream.getvalue().splitlines()] == ["loud"]


def logged() -> Iterator[tuple[str, ast.Call]]:
    """Every call that logs, with the name of its module."""
    for path, source in sources("webhook", "certs"):
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log"), attr=level)) if level in LEVELS:
                    yield path, node


def test_messages_are_constant_and_short_and_what_varies_is_a_field():
    """What was put into a message could not be found by it, and would not be cut."""
    found = list(logged())
    assert len(found) > 50
    for path, call in found:
        message, *more = call.args
        assert isinstance(message, ast.Constant), f"{path}:{call.lineno}"
        assert not more, f"{path}:{call.lineno}"
        assert len(message.value) <= LONGEST_VALUE, f"{path}:{call.lineno}"
