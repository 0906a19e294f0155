"""The kubeconfig that ``up`` leaves for its clients."""

from pathlib import Path

import pytest

from webhook.kube.login.kubeconfig import read_context
from webhook.processes.hub_kubeconfig import hub_kubeconfig, is_hub_of_up


def test_its_current_context_leads_to_the_hub(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(hub_kubeconfig("https://127.0.0.1:9443", "t", Path("/data/ca.crt"), "http://p"))
    cluster = read_context(file, None).cluster
    assert (cluster["server"], cluster["certificate-authority"]) == ("https://127.0.0.1:9443", "/data/ca.crt")
    assert is_hub_of_up(cluster)


@pytest.mark.parametrize(
    "extensions", [None, [], {}, "harbormaster.dev/up", [None], [{"name": "minikube.sigs.k8s.io"}]]
)
def test_another_hub_is_none_of_up(extensions):
    assert not is_hub_of_up({"server": "https://hub", "extensions": extensions})
