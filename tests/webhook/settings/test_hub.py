"""Which hub a process works for when no option names one."""

from pathlib import Path

import pytest

from webhook.settings.command_line import HubSettings


@pytest.mark.parametrize(
    ("environment", "kubeconfig"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"KUBECONFIG": ""}, None, id="empty"),
        pytest.param({"KUBECONFIG": "/a:/b"}, Path("/a"), id="the-first"),
        pytest.param({"KUBECONFIG": "/a", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None, id="in-a-pod"),
    ],
)
def test_the_kubeconfig_is_that_of_kubectl_except_in_a_pod(environment, kubeconfig):
    assert HubSettings.read(environment).kubeconfig_of_hub == kubeconfig
