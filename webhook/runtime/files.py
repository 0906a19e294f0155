"""Bounded reads of files that an operator names: a wrong path may lead to a huge or endless file.

Source: docs/specifications/serving.md 8.
"""

import errno
from pathlib import Path
from typing import Final

LARGEST_FILE_BYTES: Final = 1024 * 1024


def read_bounded(path: Path, most: int = LARGEST_FILE_BYTES) -> bytes:
    """Return the content of a file of at most *most* bytes, reading at most one byte more.

    Raises:
        OSError: The file cannot be read, or is larger. In the second case, ``strerror`` contains the limit.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content
