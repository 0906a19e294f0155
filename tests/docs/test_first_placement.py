"""The files and the commands of ``docs/first-placement.md``, in order, at a hub with the members of the example."""

import json
import re
import shlex

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT, read_page
from tests.docs.shown import commands_of
from tests.docs.typing_in import at_home, run, started, type_at_a_terminal, watch
from tests.waiting import block_until

PAGE = DOCS / "first-placement.md"
MEMBERS = sorted((ROOT / "examples" / "fleet").glob("members-*.yaml"))
FILE = re.compile(r"# (\S+\.yaml)\n")
POLICY, ITEM = "policy:", "- {key: kubernetes-fleet.io/member-name"
"""How the blocks begin that a reader puts into a file."""
PREVIEWS, ENDS = 2, 0


def type_line(text):
    """Return the output of a command, without its warnings."""
    done = run(shlex.split(text))
    assert done.exit_code == (PREVIEWS if " plan " in text else ENDS), f"{text}: {done.output}"
    return done.stdout


def blocks():
    return read_page(PAGE).blocks


def span(start):
    """Return the command within a sentence that starts so."""
    (found,) = (each for each in read_page(PAGE).spans if each.startswith(start))
    return found


def section(name):
    return [command.text for command in commands_of((PAGE, name))]


def placed():
    return yaml.safe_load(type_line("harbormaster get crp hello -o yaml"))


def clusters():
    """Return the clusters of the placement, as its status names them."""
    return {each["clusterName"] for each in placed()["status"]["placementStatuses"]}


def replicas():
    """Return the replicas of the Deployment by the region of the cluster, as the Works of its placement have them."""
    found = {}
    for work in yaml.safe_load(type_line("harbormaster get works -A -o yaml"))["items"]:
        for manifest in work["spec"]["workload"]["manifests"]:
            if manifest["kind"] == "Deployment":
                region = labels(work["metadata"]["namespace"].removeprefix("fleet-member-"))["region"]
                found[region] = manifest["spec"]["replicas"]
    return found


def labels(cluster):
    return yaml.safe_load(type_line(f"harbormaster get membercluster {cluster} -o yaml"))["metadata"]["labels"]


def placement_with(policy, folder):
    """Return the placement of the page with another policy, as text."""
    placement = yaml.safe_load((folder / "placement.yaml").read_text())
    placement["spec"]["policy"] = policy
    return yaml.safe_dump(placement)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a reader who has written the files of the page, while a hub runs."""
    found = tmp_path_factory.mktemp("reader")
    for block in blocks():
        if name := FILE.match(block):
            (found / name[1]).write_text(block)
    with pytest.MonkeyPatch.context() as patch:
        at_home(tmp_path_factory.mktemp("home"), patch)
        patch.chdir(found)
        with started(["up", *(word for path in MEMBERS for word in ("-f", str(path)))]):
            yield found


def test_the_page_from_the_first_line_to_the_last(folder):
    assert {path.name for path in folder.iterdir()} == {"hello.yaml", "placement.yaml", "fewer.yaml"}

    *_, apply = printed = [type_line(text) for text in section("3. Preview and apply")]
    assert "crp/hello" in printed[1]
    assert "created" in apply

    tree, *rest = section("4. Watch the rollout")
    available = "resource snapshot 0  available"
    assert available in watch(shlex.split(tree), available)  # the limit has not cut it off
    assert all(map(type_line, rest))
    first, second = clusters()
    assert {labels(first)["env"], labels(second)["env"]} == {"prod"}
    assert labels(first)["region"] != labels(second)["region"]

    type_line(f'EDITOR="sed -i s/1.29/1.30/" {span("harbormaster edit ")}')
    changed = "resource snapshot 1  available"
    assert changed in watch(shlex.split(tree), changed)
    assert "Warning" not in run(shlex.split(span("harbormaster apply "))).output
    block_until(lambda: replicas() == {"west": 1, "asia": 2})

    (item,) = (block for block in blocks() if block.startswith(ITEM))
    (exclusion,) = yaml.safe_load(item.replace("smartfish", first))
    policy = placed()["spec"]["policy"]
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [exclusion]}}]}
    policy["affinity"]["clusterAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    (folder / "placement.yaml").write_text(placement_with(policy, folder))
    planned = type_line(span("harbormaster plan --hub -f "))
    (row,) = (line for line in planned.splitlines() if line.startswith("crp/hello "))
    assert f"-{first}" in row.split()
    assert second in row.split()

    confirm, delete = section("6. Delete the placement")
    printed, code = type_at_a_terminal(shlex.split(confirm), "y")
    assert code == 0, printed
    assert "deleted" in type_line(delete)
    assert yaml.safe_load(type_line("harbormaster get deployment web -n hello -o yaml"))["metadata"]["name"] == "web"


def test_three_regions_get_a_cluster_each(folder, tmp_path):
    """The policy of the page that is no file of its own."""
    (block,) = (each for each in blocks() if each.startswith(POLICY))
    regions = tmp_path / "regions.yaml"
    regions.write_text(placement_with(yaml.safe_load(block)["policy"], folder))
    plan = json.loads(type_line(f"harbormaster plan --hub -f {regions} -f hello.yaml -o json"))
    (row,) = (each for each in plan["placements"] if each["name"] == "hello")
    assert {labels(each["cluster"])["region"] for each in row["picked"]} == {"east", "west", "europe"}
