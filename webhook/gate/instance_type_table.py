"""A table of instance types and prices that a file holds: CSV by its name, else YAML or JSON.

Source: nodepool-disruption.md 5.1.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import (
    MOST_MISTAKES,
    InvalidInstanceTypesError,
    TableMistake,
    price_list_lines,
    read_instance_types,
    read_price_list,
)
from webhook.runtime.files import read_bounded

LARGEST_BYTES: Final = 32 * 1024 * 1024
"""A provider has some thousand offerings of a thousand types."""

_INDEX: Final = re.compile(r"^\[(\d+)\]\.?")


class InstanceTypeTableError(ValueError):
    """The file cannot be used.

    Args:
        path: The file.
        mistakes: One each, with the field and the value.
    """

    def __init__(self, path: Path, mistakes: Sequence[str]) -> None:
        more = len(mistakes) - MOST_MISTAKES
        messages = [*mistakes[:MOST_MISTAKES], *([f"and {more} more mistakes"] if more > 0 else ())]
        super().__init__(f"{path}: {'; '.join(messages)}")
        self.lines = tuple(f"{path}: {mistake}" for mistake in mistakes)
        """A line for each mistake, with the file."""


def read_table(path: Path, parse: Callable[[str], Any]) -> InstanceTypeCatalog:
    """Read a file of instance types and prices.

    Args:
        path: The file.
        parse: Reads YAML and JSON; raises ValueError when it cannot.

    Raises:
        InstanceTypeTableError: It cannot be used.
    """
    try:
        text = read_bounded(path, LARGEST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise InstanceTypeTableError(path, [(error.strerror or str(error)).lower()]) from error
    except UnicodeDecodeError as error:
        raise InstanceTypeTableError(path, [f"is not UTF-8 text: byte {error.start}"]) from error
    is_list = path.suffix.lower() == ".csv"
    try:
        return InstanceTypeCatalog(read_instance_types(read_price_list(text) if is_list else parse(text)))
    except InvalidInstanceTypesError as error:
        lines = price_list_lines(text) if is_list and any(mistake.field for mistake in error.mistakes) else ()
        raise InstanceTypeTableError(path, [_told(mistake, lines) for mistake in error.mistakes]) from error
    except ValueError as error:
        raise InstanceTypeTableError(path, [str(error)]) from error


def _told(mistake: TableMistake, lines: Sequence[int]) -> str:
    """Return a mistake with its place; in a price list that is a line."""
    field = str(mistake.field)
    if lines and (found := _INDEX.match(field)):
        field = f"line {lines[int(found[1])]}: {field[found.end() :]}".removesuffix(": ")
    return f"{field}: {mistake.message}" if field else mistake.message
