"""What commands print, run in this process: a process of their own takes longer to begin than to print."""

import functools
import threading
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from webhook.cli.root import root

_ONE_AT_A_TIME = threading.Lock()
"""A command prints to the standard output and reads the environment of the process."""


@functools.cache
def printed(*words: str | Path) -> str:
    """What a command prints with the environment of the tests, each time the same."""
    return printed_with({}, *words)


def printed_with(environment: Mapping[str, str], *words: str | Path) -> str:
    """What a command prints.

    Args:
        environment: Added to that of the tests.
        words: Of the command line, after the program.

    Raises:
        AssertionError: It failed; the message is what it said.
    """
    done = called_with(environment, *words)
    assert done.exit_code == 0, done.output
    return done.stdout


def called_with(environment: Mapping[str, str], *words: str | Path) -> Result:
    """What a command prints, and the code that it ends with; arguments as `printed_with`."""
    with _ONE_AT_A_TIME:
        return CliRunner().invoke(root, [str(word) for word in words], env=environment, prog_name="harbormaster")
