"""Default lifetimes of certificates. A module of its own, so that settings need not load the cryptography package."""

from datetime import timedelta
from typing import Final

AUTHORITY_LIFE: Final = timedelta(days=365)
LEAF_LIFE: Final = timedelta(days=7)
