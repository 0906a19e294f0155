"""Commands of documents, typed in a shell."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER


class Shell:
    """A shell with kubectl, our program and a kubeconfig.

    Args:
        folder: Its home, where it is.
        clusters: By the names of their contexts, the current one first.
    """

    def __init__(self, folder: Path, clusters: Mapping[str, Cluster]) -> None:
        self.folder = folder
        first = next(iter(clusters.values()))
        config: JsonObject = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
        for name, cluster in clusters.items():
            found = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
            config["clusters"].append({**found["clusters"][0], "name": name})
            config["users"].append({**found["users"][0], "name": name})
            config["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        config["current-context"] = next(iter(clusters))
        path = folder / ".kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        program = folder / "kubectl"
        program.write_text(f'#!/bin/sh\nexec "{first.kubectl_program}" "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        path_of_programs = f"{folder}:{Path(HARBORMASTER).parent}:{os.defpath}"
        self._environment = {"PATH": path_of_programs, "KUBECONFIG": str(path), "HOME": str(folder)}

    def run(self, block: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a block until its first command that fails."""
        return subprocess.run(
            ["sh", "-ec", block],
            cwd=self.folder,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def type_in(self, block: str, given: str = "", code: int = 0) -> str:
        """Return what a block prints; it must end with *code*."""
        done = self.run(block, given)
        assert done.returncode == code, f"{done.returncode}: {block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def rows(self, block: str) -> list[dict[str, str]]:
        """Return the rows that a block of ``custom-columns`` prints, by their columns."""
        head, *rows = (line.split() for line in self.type_in(block).splitlines())
        return [dict(zip(head, row, strict=True)) for row in rows]
