"""helm, run on the charts of this project, and what it renders."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

RELEASE: Final = "hb"
NAMESPACE: Final = "quay"
_SECONDS: Final = 600
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Document = dict[str, Any]


class HelmError(Exception):
    """helm refused; the text is what it said."""


class Helm:
    """One helm program.

    Args:
        program: Its path.
    """

    def __init__(self, program: Path) -> None:
        self._program = program
        self._rendered: dict[str, str] = {}

    def lint(self, chart: Path, values: Path | None = None) -> str:
        """Check a chart strictly. Raises `HelmError`."""
        return self._run("lint", "--strict", chart, *(("--values", values) if values else ()))

    def render(
        self,
        chart: Path,
        *values: Mapping[str, Any],
        release: str = RELEASE,
        namespace: str = NAMESPACE,
        kubernetes: str = "1.36.3",
    ) -> list[Document]:
        """Return all objects of a release, hooks included; not to be changed, since renderings share equal ones.

        Args:
            chart: Its folder.
            values: Each wins over those before it.
            release: Name of the release.
            namespace: Where it is installed.
            kubernetes: Version of the cluster.

        Raises:
            HelmError: The values are refused.
        """
        text = self.render_text(chart, *values, release=release, namespace=namespace, kubernetes=kubernetes)
        return [document for each in f"\n{text}".split("\n---\n") if (document := _read(each))]

    def render_text(
        self,
        chart: Path,
        *values: Mapping[str, Any],
        release: str = RELEASE,
        namespace: str = NAMESPACE,
        kubernetes: str = "1.36.3",
    ) -> str:
        """Return the same as YAML; equal questions are asked once."""
        key = json.dumps([str(chart), values, release, namespace, kubernetes])
        if key not in self._rendered:
            self._rendered[key] = self._template(chart, values, release, namespace, kubernetes)
        return self._rendered[key]

    def _template(
        self, chart: Path, values: Iterable[Mapping[str, Any]], release: str, namespace: str, kubernetes: str
    ) -> str:
        with tempfile.TemporaryDirectory() as folder:
            words: list[str | Path] = []
            for number, each in enumerate(values):
                path = Path(folder, f"{number}.json")
                path.write_text(json.dumps(each), encoding="utf-8")
                words += ["--values", path]
            return self._run("template", release, chart, "--namespace", namespace, "--kube-version", kubernetes, *words)

    def _run(self, *words: str | Path) -> str:
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}
            done = subprocess.run(
                [self._program, *words],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                env=environment,
            )
        if done.returncode:
            raise HelmError(f"{done.stdout}{done.stderr}")
        return done.stdout


@cache
def _read(text: str) -> Document | None:
    """Read one document; most of a rendering is the same as in the one before."""
    document: Document | None = yaml.load(text, Loader=_Loader)
    return document


def read_case(path: Path) -> Document:
    """Return the values of a file."""
    values: Document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader) or {}
    return values


def name_of(document: Document) -> str:
    """Return the kind and the name of an object."""
    return f"{document['kind']}/{document['metadata']['name']}"


def place_of(document: Document) -> tuple[str, str, str, str]:
    """Return what no two objects of a cluster have in common."""
    metadata = document["metadata"]
    return document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"]
