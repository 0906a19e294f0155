"""Kustomizations and charts, rendered by the real kubectl and the real helm."""

import json
import os
import subprocess

import pytest

from e2e.controlplane.service import HARBORMASTER

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements: []
  disruption: {budgets: [{nodes: "50%"}]}
"""
PATCH = "- {op: add, path: /spec/weight, value: 500}\n"
OVERLAY = "resources: [../base]\nnamePrefix: prod-\npatches:\n- target: {kind: NodePool}\n  path: patch.yaml\n"
FILES = {
    "base/kustomization.yaml": "resources: [pool.yaml]\n",
    "base/pool.yaml": POOL,
    "prod/kustomization.yaml": OVERLAY,
    "prod/patch.yaml": PATCH,
    "charts/pools/Chart.yaml": "apiVersion: v2\nname: pools\nversion: 1.0.0\n",
    "charts/pools/values.yaml": "weight: 600\n",
    "charts/pools/templates/pool.yaml": POOL.replace("general", "{{ .Release.Name }}")
    + "  weight: {{ .Values.weight }}\n",
}


@pytest.fixture
def repository(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lint_judges_what_is_applied(repository, programs):
    path = os.pathsep.join(str(programs[name].parent) for name in ("kubectl", "helm"))
    done = subprocess.run(
        [HARBORMASTER, "lint", ".", "-o", "json"],
        cwd=repository,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    items = json.loads(done.stdout)["items"]
    assert [(item["file"], item["name"], item["field"]) for item in items] == [
        ("base/pool.yaml", "prod-general", "spec.weight"),
        ("charts/pools/templates/pool.yaml", "release-name", "spec.weight"),
    ]
    notes = done.stderr.splitlines()
    assert "note: rendered by `kubectl kustomize`: prod" in notes
    assert "note: rendered by `helm template`: charts/pools" in notes
    assert done.returncode == 1
