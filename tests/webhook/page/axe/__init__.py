"""axe-core, which finds what keeps people with assistive technology from using the page.

The npm package is fetched once, by ``npm ci`` with the lock file beside this module, into the user's cache, in a folder
that is named after the lock file: another version has another folder.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
FILES: Final = ("package.json", "package-lock.json")


class NotInstalledError(Exception):
    """It is not there and cannot be fetched; the message says why."""


FINDINGS = """async (rules) => {
  const only = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...only });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    `${id} ${target}: ${failureSummary}`));
}"""
"""What axe finds, as one line per rule and element; only what is sure. Its argument: rule IDs; null: every rule."""
COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules whose outcome depends on the colour scheme."""


def script() -> Path:
    """Return the file that a browser runs; fetch it where it is missing. Raises `NotInstalledError`."""
    digest = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harbormaster"
    home = cache / f"axe-core-{digest}"
    if not home.exists():
        _install(home)
    return home / "node_modules" / "axe-core" / "axe.min.js"


def _install(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="axe-core-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        for name in FILES:
            shutil.copy(HERE / name, made)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstalledError(f"axe-core cannot be fetched: {error}; it needs npm, and a registry") from error
        if done.returncode:
            raise NotInstalledError(f"axe-core cannot be fetched: {done.stderr.strip()[-500:]}")
        try:
            made.rename(home)
        except OSError:  # another process was quicker
            if not home.exists():
                raise
