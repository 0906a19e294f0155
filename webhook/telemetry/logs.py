"""One line per record on a stream: JSON for machines, ``key=value`` for people.

Messages are constant texts. Values are in ``extra``. Values, messages of libraries and tracebacks are JSON-encoded in
ASCII and truncated, so user input cannot break a line, control a terminal or flood the log.

Source: docs/specifications/serving.md 6.2.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

LONGEST_VALUE: Final = 256
"""Maximum length of a text field or message, in characters. The rest is truncated."""
LONGEST_TRACEBACK: Final = 16_384
"""Maximum length of a traceback, in characters. Its start and its end, which has the error, are kept."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(log_format: Literal["json", "text"], level: str = "info", stream: TextIO | None = None) -> None:
    """Send every record of the process at or above *level* to *stream* (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class JsonFormatter(logging.Formatter):
    """``{"ts", "level", "logger", "msg", …}``. A traceback becomes the field ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object."""
        line: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _cut(record.getMessage()),
        }
        line |= _fields(record)
        if record.exc_info:
            line["error"] = _shortened(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """``12:00:00.000 INFO  logger  message key="value"``. A traceback remains on the line, escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        fields = _fields(record)
        if record.exc_info:
            fields["error"] = _shortened(self.formatException(record.exc_info))
        extra_text = "".join(
            f" {name}={json.dumps(value, ensure_ascii=True, default=str)}" for name, value in fields.items()
        )
        message = json.dumps(_cut(record.getMessage()), ensure_ascii=True)[1:-1]
        return f"{_timestamp(record)[11:-1]} {record.levelname:<7} {record.name}: {message}{extra_text}"


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: _cut(value) for name, value in vars(record).items() if name not in _STANDARD}


def _cut(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _shortened(traceback: str) -> str:
    half = LONGEST_TRACEBACK // 2
    return traceback if len(traceback) <= LONGEST_TRACEBACK else f"{traceback[:half]}…{traceback[-half:]}"
