"""Where the example fleet is: within the installed package, or in the repository."""

from importlib.resources import files
from pathlib import Path


def example_fleet() -> Path:
    """Return the folder of its files."""
    package = Path(str(files("webhook")))
    installed = package / "example_fleet"  # only the wheel has it
    return installed if installed.is_dir() else package.parent / "examples" / "fleet"
