"""Replicas of one installation, of any release, behind one address that a hub asks."""

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.door import Door
from e2e.controlplane.process import kill
from e2e.controlplane.service import HARBORMASTER, REGISTRATIONS, Answer, Service
from e2e.controlplane.steady_writers import write
from e2e.fleet.waiting import wait_until

CONFIGURATIONS = [f"{REGISTRATIONS}/{kind}webhookconfigurations/harbormaster" for kind in ("validating", "mutating")]
THIS_RELEASE = HARBORMASTER.parent


class Replicas:
    """The replicas; they run, unregistered, for as long as a ``with`` block.

    They have certificates of one authority, and one secret of the hooks, as replicas that mount the same Secrets do.

    Args:
        cluster: Their hub.
        folder: For what is theirs.
        releases: The folder of programs of each.
        settings: Given to all as ``HARBORMASTER_<NAME>``.

    Attributes:
        services: The replicas.
    """

    def __init__(self, cluster: Cluster, folder: Path, releases: Sequence[Path], **settings: Any) -> None:
        self.cluster = cluster
        first = Service(cluster, folder / "replica-0", settings)
        shared = first.settings
        others = [Service(cluster, folder / f"replica-{number}", shared) for number in range(1, len(releases))]
        self.services = [first, *others]
        for service, release in zip(self.services, releases, strict=True):
            service.program.of_release(release)
            service.replace_certificate(first.authority)
        self._first = first
        self._door = Door(self.services)

    def __enter__(self) -> Self:
        for service in self.services:
            service.program.start()
        for service in self.services:
            service.program.wait_ready(service.ready)
        self._door.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in CONFIGURATIONS:
            with contextlib.suppress(ApiError):
                self.cluster.request("DELETE", path)
        self._door.__exit__(kind, error, trace)
        kill(*(service.program for service in self.services))

    def register(self, release: Path = THIS_RELEASE) -> None:
        """Have the hub ask them as a release registers its hooks, and wait until it does."""
        environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in self._first.settings.items()}
        words = ("webhook-configuration", "-o", "json", f"--url={self._door.url}", f"--ca={self._first.ca_file}")
        printed = subprocess.run(
            [release / HARBORMASTER.name, *words], capture_output=True, check=True, env={**os.environ, **environment}
        )
        for configuration in json.loads(printed.stdout)["items"]:
            path = f"{REGISTRATIONS}/{configuration['kind'].lower()}s/{configuration['metadata']['name']}"
            query = "?fieldManager=operator&force=true"
            self.cluster.request("PATCH", path + query, configuration, content_type="application/apply-patch+yaml")

        def problem() -> str:
            result, said = write(self.cluster, "is-somebody-asked", is_wrong=True)
            return "" if result == "refused" else f"{result}: {said}"

        wait_until("the hub asks the replicas", problem)

    def answers(
        self, method: str, path: str, body: object = None, *, client: ClientCertificate | None = None
    ) -> list[Answer]:
        """What each replica answers to one request."""
        return [service.ask(method, path, body, client=client) for service in self.services]

    def last_words(self) -> str:
        """What they have said last."""
        return "\n\n".join(f"{each.checks()}\n{each.program.last_words()}" for each in self.services)
