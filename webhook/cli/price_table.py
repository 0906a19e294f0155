"""The table of instance types and prices that ``--prices`` names: CSV, YAML or JSON."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scorer.node_disruption.cluster import Cluster
from scorer.node_disruption.instance_types import (
    Catalog,
    InvalidInstanceTypesError,
    price_list_lines,
    read_instance_types,
    read_price_list,
)
from webhook.cli.failure import UserError
from webhook.cli.yaml_text import YamlError, parse_yaml
from webhook.settings.bounded_file import read_bounded

LARGEST_TABLE: Final = 16 * 1024 * 1024
_INDEX: Final = re.compile(r"^\[(\d+)\]\.?")


def read_prices(path: Path) -> Catalog:
    """Read a table of instance types.

    Raises:
        UserError: It cannot be read, or has mistakes: one line each, with the field and the value.
    """
    try:
        text = read_bounded(path, LARGEST_TABLE).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text: byte {error.start}") from error
    is_list = path.suffix.lower() == ".csv"
    try:
        types = read_instance_types(read_price_list(text) if is_list else _parsed(path, text))
    except InvalidInstanceTypesError as error:
        lines = price_list_lines(text) if is_list and any(each.field for each in error.mistakes) else ()
        raise UserError(
            [f"{path}: {_where(str(each.field), lines)}{each.message}" for each in error.mistakes]
        ) from error
    if not types:
        raise UserError(f"{path}: there is no instance type in it")
    return Catalog(types)


def check_prices(path: Path, catalog: Catalog, cluster: Cluster) -> None:
    """Make sure that a table has what the nodes of pools are: else they would count as no longer offered, and go.

    Raises:
        UserError: It lacks some; one line each.
    """
    missing = Counter(
        (node.instance_type, node.zone, node.capacity_type)
        for node in cluster.nodes.values()
        if node.pool in cluster.pools and node.instance_type and node.zone and node.capacity_type
        if catalog.price_of(node.instance_type, node.zone, node.capacity_type) is None
    )
    if missing:
        raise UserError(
            [
                f"{path}: there is no price of {kind} in zone {zone} as {capacity_type}; nodes of it: {number}"
                for (kind, zone, capacity_type), number in sorted(missing.items())
            ]
        )


def _parsed(path: Path, text: str) -> Any:
    try:
        documents = [each.value for each in parse_yaml(text) if each.value is not None]
    except YamlError as error:
        raise UserError(f"{path}: {error}") from error
    if len(documents) == 1 and isinstance(documents[0], str):
        raise UserError(f"{path}: is neither YAML nor JSON with rows; a price list in CSV has a name that ends in .csv")
    if len(documents) != 1:
        raise UserError(f"{path}: {len(documents)} documents, expected one")
    return documents[0]


def _where(field: str, lines: Sequence[int]) -> str:
    """Return the place of a mistake; in a price list, by its line."""
    found = _INDEX.match(field)
    if lines and found:
        field = f"line {lines[int(found[1])]}: {field[found.end() :]}".removesuffix(": ")
    return f"{field}: " if field else ""
