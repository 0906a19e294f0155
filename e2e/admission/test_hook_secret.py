"""The secret path of the hooks on a real hub, as helm installs, upgrades, rolls back and removes the chart.

No Pod runs: what the Deployment says of its Pods is written by the tests.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.fleet.objects import MERGE, Objects
from scorer.api.kinds import KINDS, NAMESPACE
from tests.charts.made import HUB

HOME = "pier"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
SERVE = f"/apis/apps/v1/namespaces/{HOME}/deployments/harbormaster-serve"
SECRET = f"/api/v1/namespaces/{HOME}/secrets/harbormaster-hooks"
GIVEN, ANOTHER = "g" * 32, "a" * 32
MADE = re.compile(r"[a-z0-9]{48}")
_HELPER = re.compile(r'(\{\{- define "harbormaster\.hooks" -\}\}\n).*?(\n\{\{- end \}\})', re.DOTALL)
_SECRETLESS = '{{- $_ := set .Values.webhook "prefix" "" -}}'


class Release:
    """A release of the chart, and of the chart as it was before there was a secret path by default."""

    def __init__(self, hub: Cluster, helm: Path, folder: Path) -> None:
        self.hub, self._helm, self._folder = hub, helm, folder
        self.earlier = folder / "harbormaster"
        shutil.copytree(HUB, self.earlier)
        helpers = self.earlier / "templates/_helpers.tpl"
        text, count = _HELPER.subn(rf"\g<1>{_SECRETLESS}\g<2>", helpers.read_text(encoding="utf-8"))
        assert count == 1
        helpers.write_text(text, encoding="utf-8")

    def helm(self, *words: str | Path) -> str:
        """Run helm; returns what it has written."""
        homes = {f"HELM_{each}_HOME": str(self._folder / "helm") for each in ("CACHE", "CONFIG", "DATA")}
        where = (f"--kubeconfig={self.hub.kubeconfig}", f"--namespace={HOME}")
        done = subprocess.run(
            [self._helm, *words, *where],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            env={**os.environ, **homes},
        )
        assert done.returncode == 0, done.stderr[:2000]
        return done.stdout

    def put(self, verb: str, chart: Path = HUB, secrets: tuple[str, ...] = (), **settings: str) -> str:
        """Install or upgrade the release; returns what helm has written."""
        values: Mapping[str, Any] = {
            "crds": {"harbormaster": {"install": False}},
            "webhook": {"secrets": list(secrets), "removeOnUninstall": False},
            "podAnnotations": settings,
        }
        path = self._folder / "values.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        return self.helm(verb, "harbormaster", chart, f"--values={path}")

    def roll_out(self) -> None:
        """Have all Pods be those of the Deployment as it is now."""
        generation = self.hub.request("GET", SERVE)[0]["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 2}
        self.hub.request("PATCH", f"{SERVE}/status", {"status": status}, content_type=MERGE)

    def prefixes(self) -> set[str]:
        """What is before the path of each hook."""
        found = set()
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            document = self.hub.request("GET", f"{CONFIGURATIONS}/{plural}/harbormaster")[0]
            found |= {each["clientConfig"]["service"]["path"] for each in document["webhooks"]}
        return {re.split("/(?:validate|mutate)", path)[0] for path in found}

    def secrets(self) -> list[str]:
        """The secrets in the Secret that Pods read."""
        data: JsonObject = self.hub.request("GET", SECRET)[0]["data"]
        return base64.b64decode(data["secrets"]).decode().split()

    def reads_secrets(self) -> bool:
        """Whether the Pods of the Deployment read the Secret."""
        return "HARBORMASTER_WEBHOOK_SECRET_FILE" in json.dumps(self.hub.request("GET", SERVE)[0]["spec"])

    def remove(self) -> None:
        """Uninstall the release, and delete what it keeps."""
        self.helm("uninstall", "harbormaster", "--ignore-not-found")
        Objects(self.hub).delete(KINDS["", "Secret"], "harbormaster-hooks", HOME)


@pytest.fixture(scope="module")
def place(
    own_hub: Cluster, programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """Where releases are installed."""
    Objects(own_hub).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    yield Release(own_hub, programs["helm"], tmp_path_factory.mktemp("hooks"))
    Objects(own_hub).delete(NAMESPACE, HOME)


@pytest.fixture
def release(place: Release) -> Iterator[Release]:
    """A release that is not installed yet; what a test leaves of it is removed."""
    yield place
    place.remove()


def test_an_installation_has_a_secret_path_that_stays(release: Release) -> None:
    """Across upgrades, a rollback, and an uninstall with another installation behind it."""
    said = release.put("install")
    (secret,) = release.secrets()
    assert MADE.fullmatch(secret)
    assert release.prefixes() == {f"/hooks/{secret}"}
    assert release.reads_secrets()
    assert "is treated as the API server" not in said
    assert secret not in said
    for settled in (False, True):  # also while the first rollout is under way
        if settled:
            release.roll_out()
        release.put("upgrade", changed=str(settled))
        assert (release.secrets(), release.prefixes()) == ([secret], {f"/hooks/{secret}"})
    release.helm("upgrade", "harbormaster", HUB, "--reuse-values")
    assert secret not in release.helm("get", "values", "harbormaster", "--all")
    release.helm("rollback", "harbormaster", "1")
    assert (release.secrets(), release.prefixes()) == ([secret], {f"/hooks/{secret}"})
    release.helm("uninstall", "harbormaster")
    assert release.secrets() == [secret]
    release.put("install")
    assert (release.secrets(), release.prefixes()) == ([secret], {f"/hooks/{secret}"})


def test_two_installations_have_two_secrets(release: Release) -> None:
    release.put("install")
    first = release.secrets()
    release.remove()
    release.put("install")
    assert release.secrets() != first


@pytest.mark.parametrize("given", [(), (GIVEN,)], ids=["random", "of-the-values"])
def test_an_earlier_release_is_called_by_its_path_until_all_pods_hold_the_secret(
    release: Release, given: tuple[str, ...]
) -> None:
    release.put("install", release.earlier)
    release.roll_out()
    assert release.prefixes() == {""}
    said = release.put("upgrade", secrets=given)
    secrets = release.secrets()
    assert release.reads_secrets()
    assert release.prefixes() == {""}
    assert "Run helm upgrade again" in said
    release.put("upgrade", secrets=given)  # Pods of the earlier release still run
    assert release.prefixes() == {""}
    release.roll_out()
    said = release.put("upgrade", secrets=given)
    assert (release.secrets(), release.prefixes()) == (secrets, {f"/hooks/{secrets[0]}"})
    assert "is treated as the API server" not in said


@pytest.mark.parametrize("upgrades", [1, 2])
def test_a_rollback_to_an_earlier_release_is_called_as_that_was_and_the_next_upgrade_goes_on(
    release: Release, upgrades: int
) -> None:
    release.put("install", release.earlier)
    for number in range(upgrades):
        release.roll_out()
        release.put("upgrade", number=str(number))
    secrets = release.secrets()
    release.helm("rollback", "harbormaster", "1")
    assert release.prefixes() == {""}
    assert not release.reads_secrets()
    assert release.secrets() == secrets  # Pods that are about to end still read it
    release.roll_out()
    release.put("upgrade")
    assert (release.secrets(), release.prefixes()) == (secrets, {""})
    release.roll_out()
    release.put("upgrade", once="more")
    assert (release.secrets(), release.prefixes()) == (secrets, {f"/hooks/{secrets[0]}"})


def test_a_secret_is_changed_without_a_moment_in_which_pods_do_not_hold_it(release: Release) -> None:
    release.put("install", secrets=(GIVEN,))
    release.roll_out()
    release.put("upgrade", secrets=(ANOTHER, GIVEN))
    assert (release.secrets(), release.prefixes()) == ([ANOTHER, GIVEN], {f"/hooks/{GIVEN}"})
    release.roll_out()
    release.put("upgrade", secrets=(ANOTHER, GIVEN), once="more")
    assert release.prefixes() == {f"/hooks/{ANOTHER}"}
    release.put("upgrade")  # values that no longer name it leave it as it is
    assert release.secrets() == [ANOTHER, GIVEN]


def test_a_secret_that_somebody_has_spoilt_is_made_anew(release: Release) -> None:
    release.put("install")
    release.roll_out()
    (before,) = release.secrets()
    spoilt = {"data": {"secrets": base64.b64encode(b"short").decode()}}
    release.hub.request("PATCH", SECRET, spoilt, content_type=MERGE)
    release.put("upgrade")
    (secret,) = release.secrets()
    assert MADE.fullmatch(secret)
    assert secret != before
    assert release.prefixes() == {f"/hooks/{before}"}  # by which the Pods are called until they hold the other one


def test_a_release_that_registers_no_hooks_has_no_secret_and_says_what_that_means(release: Release) -> None:
    """Who registers them by another name would be called a stranger."""
    said = release.helm(
        "install", "harbormaster", HUB, "--set=webhook.enabled=false", "--set=crds.harbormaster.install=false"
    )
    assert "Any client that reaches the HTTPS port is treated as the API server" in said
    assert Objects(release.hub).find(KINDS["", "Secret"], "harbormaster-hooks", HOME) is None


def test_where_no_cluster_is_asked_there_is_no_secret_unless_the_values_have_one(release: Release) -> None:
    """Each rendering would have another one, and Pods would be called by one that they do not hold."""
    rendered = release.helm("template", "harbormaster", HUB)
    assert rendered == release.helm("template", "harbormaster", HUB)
    assert "/hooks/" not in rendered
    given = release.helm("template", "harbormaster", HUB, f"--set=webhook.secrets={{{GIVEN}}}")
    assert f"path: '/hooks/{GIVEN}/validate" in given
