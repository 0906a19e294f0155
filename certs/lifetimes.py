"""How long certificates last unless an operator decides otherwise; settings read this without loading cryptography."""

from datetime import timedelta
from typing import Final

AUTHORITY_LIFE: Final = timedelta(days=365)
LEAF_LIFE: Final = timedelta(days=7)
