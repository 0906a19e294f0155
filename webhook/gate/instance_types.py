"""Instance types and prices from a file of the operator.

Source: docs/specifications/nodepool-disruption.md 5.1.
"""

import asyncio
from pathlib import Path
from typing import Any

from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.runtime.price_files import PriceFileError, load_prices


def read_catalog(document: Any) -> InstanceTypeCatalog:
    """Parse a table of instance types. Raises `scorer.prices.InvalidPricesError`."""
    return InstanceTypeCatalog(read_instance_types(document))


async def check_instance_types(path: Path | None) -> None:
    """Load the file, so that a process does not start with an invalid one. None: disabled.

    Raises:
        ConfigurationError: The file is invalid. The message names the file, the field and the value.
    """
    if path is not None:
        try:
            await asyncio.to_thread(load_prices, path, read_catalog)
        except PriceFileError as error:
            raise ConfigurationError(str(error)) from error
