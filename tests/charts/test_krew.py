"""The manifest of the kubectl plugin, by the rules of krew.

Source: krew ``internal/index/validation``, ``pkg/constants``.
"""

import hashlib
import re

import jsonschema
import pytest
import yaml

from tests.charts.krew import PLATFORMS, manifest

TEXT = {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": {"properties": {"name": {"const": "harbormaster"}}, "additionalProperties": False},
        "spec": {
            "required": ["version", "shortDescription", "description", "platforms", "homepage"],
            "additionalProperties": False,
            "properties": {
                "version": {"pattern": r"^v\d+\.\d+\.\d+$"},
                "homepage": {"pattern": "^https://"},
                "shortDescription": {**TEXT, "maxLength": 80, "pattern": r"[^.\n]$"},
                "description": TEXT,
                "caveats": TEXT,
                "platforms": {
                    "minItems": 1,
                    "items": {
                        "required": ["uri", "sha256", "bin", "selector"],
                        "additionalProperties": False,
                        "properties": {
                            "uri": {"pattern": r"^https://.*\.tar\.gz$"},
                            "sha256": {"pattern": "^[0-9a-f]{64}$"},
                            "bin": {"const": "kubectl-harbormaster"},
                            "selector": {
                                "required": ["matchLabels"],
                                "additionalProperties": False,
                                "properties": {"matchLabels": {"required": ["os", "arch"]}},
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture
def archives(tmp_path):
    for platform in PLATFORMS:
        (tmp_path / f"harbormaster-{platform}.tar.gz").write_bytes(platform.encode())
    return tmp_path


def test_it_is_one_that_krew_accepts(archives):
    text = manifest("v0.1.0", "https://example.org/harbormaster/", archives)
    assert "${" not in text.replace("${VERSION}, such as", "")
    document = yaml.safe_load(text)
    jsonschema.validate(document, SCHEMA)
    for platform, entry in zip(PLATFORMS, document["spec"]["platforms"], strict=True):
        assert entry["uri"].endswith(f"/v0.1.0/harbormaster-{platform}.tar.gz")
        assert entry["sha256"] == hashlib.sha256(platform.encode()).hexdigest()
        assert "-".join(entry["selector"]["matchLabels"][key] for key in ("os", "arch")) == platform


@pytest.mark.parametrize(("version", "host"), [("0.1.0", "https://a"), ("v1", "https://a"), ("v0.1.0", "http://a")])
def test_what_cannot_be_published_is_refused(archives, version, host):
    with pytest.raises(ValueError, match=re.escape(version if host == "https://a" else host)):
        manifest(version, host, archives)


def test_every_platform_has_its_archive(archives):
    (archives / "harbormaster-linux-arm64.tar.gz").unlink()
    with pytest.raises(FileNotFoundError):
        manifest("v0.1.0", "https://a", archives)
