"""Reports for CI: ``--report FORMAT=FILE``, and findings as annotations of GitHub Actions.

Source: GitHub Actions, "Workflow commands"; actions/toolkit, packages/core/src/command.ts for what is escaped.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from scorer.api.values.quoting import LONGEST_NAME, shortened
from webhook.cli.errors import UserError
from webhook.cli.linting.sarif import SarifResult, relative_path, sarif_log
from webhook.cli.text.output import print_document

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SARIF = "sarif"


class Report(NamedTuple):
    """A format and the file that gets it."""

    format: str
    file: Path


class _ReportType(click.ParamType[Report]):
    name = "FORMAT=FILE"

    def __init__(self, formats: Sequence[str]) -> None:
        self._formats = formats

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Report:
        if isinstance(value, Report):
            return value
        word, sign, file = str(value).partition("=")
        if word not in self._formats or not sign or not file:
            self.fail(f"{str(value)[:64]!r} must be FORMAT=FILE; formats: {', '.join(self._formats)}", param, ctx)
        return Report(word, Path(file))


def report_option(*formats: str) -> Callable[[_Command], _Command]:
    """Return the option ``--report``, which passes a sequence of `Report` as argument ``reports``."""
    return click.option(
        "--report",
        "reports",
        multiple=True,
        type=_ReportType(formats),
        metavar="FORMAT=FILE",
        help="Also write the result to a file, in any format of -o. Repeatable.",
    )


def write(reports: Sequence[Report], show: Callable[[str], None]) -> None:
    """Write each report. *show* prints the findings in a format."""
    for report in reports:
        with report.file.open("w", encoding="utf-8", errors="backslashreplace") as stream, redirect_stdout(stream):
            show(report.format)


@contextmanager
def report_failures(output: str, reports: Sequence[Report] = ()) -> Iterator[None]:
    """Write each requested SARIF log, without results, if files cannot be used: an upload would fail without a log.

    Raises:
        UserError: The error of the block.
    """
    try:
        yield
    except UserError as error:
        log = sarif_log([], {}, Path.cwd(), failures=error.lines)
        if output == _SARIF:
            print_document(log, "json")
        write([report for report in reports if report.format == _SARIF], lambda _: print_document(log, "json"))
        raise


_LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}
_OF_MESSAGES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def annotations(results: Sequence[SarifResult], folder: Path) -> Iterator[str]:
    """Yield one line per finding, with values of bounded length: GitHub drops what is too long.

    Args:
        results: The findings.
        folder: Folder of the checkout, where the job runs. Names of files inside are relative to it.
    """
    for result in results:
        properties = {
            "file": shortened(relative_path(result.file, folder)),
            "line": str(result.place.line),
            "col": str(result.place.column),
            "title": f"harbormaster {shortened(result.rule, LONGEST_NAME)}",
        }
        property_list = ",".join(f"{name}={value.translate(_OF_PROPERTIES)}" for name, value in properties.items())
        yield f"::{_LEVELS[result.level]} {property_list}::{shortened(result.message).translate(_OF_MESSAGES)}"
