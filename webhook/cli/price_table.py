"""The table of instance types and prices that ``--prices`` names: CSV, YAML or JSON."""

from pathlib import Path
from typing import Any

from scorer.node_disruption.cluster import Cluster
from scorer.node_disruption.coverage import missing
from scorer.node_disruption.instance_types import Catalog
from webhook.cli.failure import UserError
from webhook.cli.yaml_text import parse_yaml
from webhook.settings.instance_type_table import InstanceTypeTableError, read_table


def read_prices(path: Path) -> Catalog:
    """Read a table of instance types.

    Raises:
        UserError: It cannot be read, or has mistakes: one line each, with the field and the value.
    """
    try:
        found = read_table(path, _only_document)
    except InstanceTypeTableError as error:
        raise UserError(error.lines) from error
    if not found.types:
        raise UserError(f"{path}: there is no instance type in it")
    return found


def check_prices(path: Path, catalog: Catalog, cluster: Cluster) -> None:
    """Make sure that a table has what the nodes of pools are: else they would count as no longer offered, and go.

    Raises:
        UserError: It lacks some; one line each.
    """
    if lines := [
        f"{path}: there is no price of {kind} in zone {zone} as {capacity_type}; nodes of it: {number}"
        for (kind, zone, capacity_type), number in missing(catalog, cluster).items()
    ]:
        raise UserError(lines)


def _only_document(text: str) -> Any:
    documents = [each.value for each in parse_yaml(text) if each.value is not None]
    if len(documents) == 1 and isinstance(documents[0], str):
        raise ValueError("is neither YAML nor JSON with rows; a price list in CSV has a name that ends in .csv")
    if len(documents) != 1:
        raise ValueError(f"{len(documents)} documents, expected one")
    return documents[0]
