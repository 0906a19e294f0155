"""Every command that documents show to install harbormaster is run in ``e2e/packaging``, or has a reason why not."""

import pytest

from tests.docs.pages import ROOT, read_page
from tests.docs.shown import INSTALL, INSTALLATION, NOT_RUN, WITH_HELM, Shown, commands_in, commands_of

UNTESTED = {
    "make image TAG=REGISTRY/harbormaster:0.1.0": "needs docker",
    "docker push REGISTRY/harbormaster:0.1.0": "needs a registry",
    "make image ENGINE=podman": "needs podman",
    "make image BUILD=IMAGE:TAG BASE=IMAGE@sha256:DIGEST": "needs docker",
    "make image PLATFORM=linux/arm64": "needs docker",
    "make sbom": "needs docker",
    "docker load -i dist/harbormaster.oci.tar": "needs docker",
    "podman load -i dist/harbormaster.oci.tar": "needs podman",
    "ctr -n k8s.io images import dist/harbormaster.oci.tar": "needs containerd",
    "kind load image-archive dist/harbormaster.oci.tar": "needs kind",
    "k3d image import dist/harbormaster.oci.tar": "needs k3d",
    "k3s ctr images import dist/harbormaster.oci.tar": "needs k3s",
    "podman push harbormaster:0.1.0 REGISTRY/harbormaster:0.1.0": "needs a registry",
    "make dist": "changes .venv",
}
"""Commands that no test runs, with the reason that stands behind them in the documents."""


def test_commands_that_are_not_run_have_their_reason_in_the_documents():
    shown = {
        command.text: command.reason for section in INSTALLATION for command in commands_of(section) if command.reason
    }
    assert shown == UNTESTED


def test_a_command_has_the_same_remark_wherever_it_is_shown():
    """Tests run every command without a reason, also where it is repeated."""
    without = {command.text for section in INSTALLATION for command in commands_of(section) if not command.reason}
    assert without & UNTESTED.keys() == set()


def test_every_section_of_the_page_with_commands_is_run():
    assert {(INSTALL, heading) for heading in read_page(INSTALL).sections} == {
        section for section in INSTALLATION if section[0] == INSTALL
    }


def test_the_readme_of_the_chart_repeats_commands_that_are_run():
    chart = commands_of((ROOT / "charts" / "harbormaster" / "README.md", "harbormaster"))
    assert {command.text for command in chart} <= {command.text for command in commands_of(WITH_HELM)}


@pytest.mark.parametrize(
    ("block", "commands"),
    [
        pytest.param("a b\n", [Shown("a b")], id="one"),
        pytest.param("a \\\n  -b \\\n  c  # why\n\n", [Shown("a -b c", "why")], id="several-lines"),
        pytest.param("# first\na; (b > c)\n", [Shown("a; (b > c)")], id="comment-of-its-own"),
        pytest.param("a '#b' c#d\n", [Shown("a '#b' c#d")], id="no-comment"),
    ],
)
def test_commands_of_a_block(block, commands):
    assert commands_in(block) == commands


@pytest.mark.parametrize(
    ("remark", "reason"),
    [
        pytest.param("as a file", "", id="none"),
        pytest.param(f"{NOT_RUN}needs kind", "needs kind", id="alone"),
        pytest.param(f"as a file ({NOT_RUN}needs kind)", "needs kind", id="in-brackets"),
    ],
)
def test_the_reason_of_a_remark(remark, reason):
    assert Shown("a", remark).reason == reason
