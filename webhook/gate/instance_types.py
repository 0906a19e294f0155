"""Instance types and prices from a file that an operator names, read again when it changes.

Source: nodepool-disruption.md 5.1.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import yaml

from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from webhook.gate.instance_type_table import InstanceTypeTableError, read_table
from webhook.kube.login.connection import ConfigurationError

log = logging.getLogger(__name__)


class InstanceTypesFileError(ConfigurationError):
    """The file cannot be used; the message names it, the field and the value."""


def load_instance_types(path: Path) -> InstanceTypeCatalog:
    """Read a file of instance types and prices.

    Raises:
        InstanceTypesFileError: It cannot be used.
    """
    try:
        return read_table(path, _parsed)
    except InstanceTypeTableError as error:
        raise InstanceTypesFileError(str(error)) from error


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"is neither YAML nor JSON: {error}") from error


async def check_instance_types(path: Path | None) -> None:
    """Read the file once, so that a program does not start with one that cannot be used; None: there is none.

    Raises:
        InstanceTypesFileError: It cannot be used.
    """
    if path is not None:
        await asyncio.to_thread(load_instance_types, path)


class InstanceTypesFile:
    """The instance types of a file as it is now, or as it last could be used.

    Args:
        path: The file; None: there is none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._mark: tuple[int, ...] = ()
        self._catalog: InstanceTypeCatalog | None = None
        self.problem = ""
        """Why the present content is not used; empty when it is."""

    async def current(self) -> InstanceTypeCatalog | None:
        """Return the instance types; None: there are none. The same object as before while nothing has changed."""
        if self._path is None:
            return None
        try:
            await asyncio.to_thread(self._read, self._path)
        except InstanceTypesFileError as error:
            if str(error) != self.problem:
                log.warning("cannot use the instance types", extra={"error": str(error)})
            self.problem = str(error)
        return self._catalog

    def _read(self, path: Path) -> None:
        try:
            stat = path.stat()
        except OSError as error:
            raise InstanceTypesFileError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if mark == self._mark:
            return
        self._mark = mark  # taken before it is read: a file that is replaced meanwhile is read again next time
        self._catalog = load_instance_types(path)
        self.problem = ""
