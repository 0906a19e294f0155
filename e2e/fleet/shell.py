"""Commands of documents, typed in a shell."""

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, Program
from e2e.controlplane.service import HARBORMASTER

SECONDS = 5 * PATIENCE
"""Limit of a block. The first one on a slow machine may have to install something."""


class Shell:
    """A shell with kubectl, our program and a kubeconfig.

    Args:
        folder: Its home, where it is.
        clusters: By the names of their contexts, the current one first.
        programs: On its path besides kubectl and those of our virtual environment.
        variables: Of its environment.
    """

    def __init__(
        self,
        folder: Path,
        clusters: Mapping[str, Cluster],
        programs: Mapping[str, Path] = MappingProxyType({}),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self._exports: list[str] = []
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
        for name, target in {"kubectl": first.kubectl_program, **programs}.items():
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec "{target}" "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        path_of_programs = f"{folder}:{Path(HARBORMASTER).parent}:{os.defpath}"
        self._environment = {"PATH": path_of_programs, "KUBECONFIG": str(path), "HOME": str(folder), **variables}

    def run(self, block: str, given: str = "", answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run a block until its first command that fails. Later blocks see the variables that it exports.

        Args:
            block: The commands.
            given: Standard input.
            answer: Typed at a terminal instead.
        """
        exported = [line for line in block.splitlines() if line.startswith("export ")]
        done = self._run_at_a_terminal(block, answer) if answer else self._run(block, input=given)
        if done.returncode == 0:
            self._exports += exported
        return done

    def _run_at_a_terminal(self, block: str, answer: str) -> subprocess.CompletedProcess[str]:
        ours, theirs = pty.openpty()
        try:
            os.write(ours, answer.encode())
            return self._run(block, stdin=theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    def _run(self, block: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-ec", self._script(block)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            **options,
        )

    def _script(self, block: str) -> str:
        return "\n".join([*self._exports, block])

    def type_in(self, block: str, given: str = "", code: int = 0, answer: str = "") -> str:
        """Return what a block prints; it must end with *code*."""
        done = self.run(block, given, answer)
        assert done.returncode == code, f"{done.returncode}: {block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def program(self, command: str, log: str) -> Program:
        """Return a command that runs until it is stopped, as a program whose output goes to the file *log* here."""
        cleared = [
            "env",
            "-i",
            f"--chdir={self.folder}",
            *(f"{name}={text}" for name, text in self._environment.items()),
        ]
        return Program([*cleared, "sh", "-ec", self._script(f"exec {command}")], self.folder / log)

    def rows(self, block: str) -> list[dict[str, str]]:
        """Return the rows that a block of ``custom-columns`` prints, by their columns."""
        head, *rows = (line.split() for line in self.type_in(block).splitlines())
        return [dict(zip(head, row, strict=True)) for row in rows]
