"""The tree for people."""

from io import StringIO

import pytest
from rich.console import Console

from scorer.rollout.views.tree import Sources, placement_tree
from tests.builders.condition import condition
from tests.webhook.placed import entry, make_binding, make_placement, make_snapshot, make_work
from webhook.cli.objects.tree_output import MOST_CLUSTERS, TreeChangeLog, make_nodes, plain_lines, rich_tree

WAITS = condition("RolloutStarted", "False", "RolloutNotStartedYet", "waits: 2 of 3 clusters are ready")
STARTED = [condition("RolloutStarted"), condition("Overridden"), condition("WorkSynchronized")]
NOT_APPLIED = condition("Applied", "False", "NotAllWorkHaveBeenApplied", "not applied: web-work")
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes-fleet.io/work-cleanup"]}


def tree_of(*bindings, works=(), **placement):
    return placement_tree(Sources(make_placement(**placement), bindings, works, [make_snapshot(1)]))


def refused(name="a", message="admission says no", **more):
    return entry(name, condition("Applied", "False", "ManifestApplyFailed", message), **more)


def lines(tree, **how):
    return list(plain_lines(make_nodes(tree, **how)))


def mixed():
    """A rollout in the middle: one cluster fails, one drifted, one waits, one goes, two are well."""
    well = [condition(kind) for kind in ("Overridden", "WorkSynchronized", "Applied", "Available")]
    return tree_of(
        make_binding("azov", *STARTED, NOT_APPLIED),
        make_binding("brest"),
        make_binding("cadiz", WAITS, *well, index=0),
        make_binding("dover", **GONE),
        make_binding("emden"),
        make_binding("faro"),
        works=[
            make_work("azov", refused(), entry("b", ordinal=1), entry("c", ordinal=2)),
            make_work("brest", entry("a", drifts=("/data/x", "/data/y", "/data/z", "/data/w"))),
            make_work("dover", entry("a"), **GONE),
            make_work("emden", entry("a")),
        ],
        missing=["genoa: TaintNotTolerated: taint a=b:NoSchedule not tolerated"],
    )


def test_the_worst_is_shown_and_the_rest_counted():
    assert lines(mixed()) == [
        "crp/web  PickN, wants 2, has 5, resource snapshot 1  failed",
        "├── conditions  Scheduled True",
        "├── azov  failed: ConfigMap shop/a: admission says no",
        "│   ├── binding web-azov  Bound, resource snapshot 1, the latest",
        "│   │   └── Applied False NotAllWorkHaveBeenApplied: not applied: web-work",
        "│   └── Work web-work  Applied, Available True",
        "│       ├── ConfigMap shop/a  failed ManifestApplyFailed: admission says no",
        "│       └── 2 objects available",
        "├── dover  removing: is being removed, 1 Work left, 1 of them being deleted",
        "│   ├── binding web-dover  Bound, resource snapshot 1, the latest",
        "│   │   └── is being deleted, held by kubernetes-fleet.io/work-cleanup",
        "│   └── Work web-work  Applied, Available True",
        "│       ├── is being deleted, held by kubernetes-fleet.io/work-cleanup",
        "│       └── 1 object available",
        "├── brest  available  drifted: 4 fields",
        "│   ├── binding web-brest  Bound, resource snapshot 1, the latest",
        "│   └── Work web-work  Applied, Available True",
        "│       └── ConfigMap shop/a  available  drifted: 4 fields (/data/x, /data/y, /data/z, …)",
        "├── 1 cluster wanted, not found",
        "│   └── genoa: TaintNotTolerated: taint a=b:NoSchedule not tolerated",
        "├── 1 cluster waiting (cadiz): 2 of 3 clusters are ready  resource snapshot 0, the latest is 1",
        "└── 2 clusters available (emden, faro)",
    ]


def test_all_shows_each_cluster_and_object():
    shown = lines(mixed(), everything=True)
    assert next(line for line in shown if "cadiz" in line) == (
        "├── cadiz  waiting: 2 of 3 clusters are ready  resource snapshot 0, the latest is 1"
    )
    assert "│       ├── ConfigMap shop/b  available" in shown
    assert not [line for line in shown if "objects available" in line or "clusters available" in line]


@pytest.mark.parametrize("failing", [0, 1000], ids=["all-well", "all-failing"])
def test_a_thousand_clusters_fit_a_page(failing):
    names = [f"c{number:04}" for number in range(1000)]
    bindings = [
        make_binding(name, *([*STARTED, NOT_APPLIED] if number < failing else ())) for number, name in enumerate(names)
    ]
    works = [make_work(name, refused() if failing else entry("a")) for name in names]
    shown = lines(tree_of(*bindings, works=works))
    assert len(shown) <= 3 + 5 * MOST_CLUSTERS
    first = 20 if failing else 0
    listed = ", ".join(names[first : first + 10])
    count, state = (980, "failed") if failing else (1000, "available")
    assert shown[-1] == f"└── {count} clusters {state} ({listed} and {count - 10} more)"


@pytest.mark.parametrize("width", [80, 140])
def test_on_a_terminal_it_is_wrapped_below_its_branch(width):
    out = StringIO()
    long = refused(message="a very long refusal " * 12)
    tree = tree_of(make_binding("azov", *STARTED, NOT_APPLIED), works=[make_work("azov", long)])
    Console(file=out, width=width, no_color=True, highlight=False).print(rich_tree(make_nodes(tree)))
    shown = out.getvalue().splitlines()
    assert max(map(len, shown)) <= width
    assert all(line[0] in "├│└ " for line in shown[1:])


def test_what_could_steer_a_terminal_is_replaced():
    tree = tree_of(make_binding("azov", *STARTED, NOT_APPLIED), works=[make_work("azov", refused(message="\x1b[2J"))])
    assert "\x1b" not in "".join(lines(tree))
    assert "\ufffd[2J" in "".join(lines(tree))


def test_without_unicode_it_is_drawn_with_plain_letters():
    drawn = list(plain_lines(make_nodes(tree_of(make_binding("a"))), ascii_only=True))
    assert drawn[1:] == ["|-- conditions  Scheduled True", "`-- 1 cluster available (a)"]


class TestChanges:
    """The tree as a log."""

    def test_only_what_is_new_is_told(self):
        changes = TreeChangeLog()
        changes.lines(tree_of(make_binding("a"), make_binding("b")))
        assert changes.lines(tree_of(make_binding("a"), make_binding("b"))) == []
        failing = make_binding("b", *STARTED, NOT_APPLIED)
        assert changes.lines(tree_of(make_binding("a"), failing, works=[make_work("b", refused())])) == [
            "crp/web  PickN, wants 2, has 2, resource snapshot 1  failed: b: ConfigMap shop/a: admission says no",
            "b  failed: ConfigMap shop/a: admission says no",
        ]

    def test_what_is_gone_is_told(self):
        changes = TreeChangeLog()
        changes.lines(tree_of(make_binding("a"), make_binding("b")))
        assert changes.lines(tree_of(make_binding("a"))) == [
            "crp/web  PickN, wants 2, has 1, resource snapshot 1  available",
            "b  binding web-b  gone",
        ]

    def test_an_old_binding_and_a_new_one_of_a_cluster_are_told_apart(self):
        changes = TreeChangeLog()
        left = make_work("a", entry("x"), labels={"kubernetes-fleet.io/parent-resource-binding": "web-before"})
        changes.lines(tree_of(make_binding("a"), works=[left]))
        failing = make_binding("a", *STARTED, condition("Applied", "False", "ApplyInProgress", "on their way"))
        assert changes.lines(tree_of(failing, works=[left])) == [
            "crp/web  PickN, wants 2, has 1, resource snapshot 1  rolling out: a: on their way",
            "a  applying: on their way",
        ]

    def test_objects_are_told_when_everything_is_asked_for(self):
        changes = TreeChangeLog()
        before = tree_of(make_binding("a"), works=[make_work("a", entry("x"))])
        after = tree_of(make_binding("a"), works=[make_work("a", entry("x", drifts=("/data/x",)))])
        changes.lines(before, everything=True)
        assert changes.lines(after, everything=True) == [
            "a  available  drifted: 1 field",
            "a  ConfigMap shop/x  available  drifted: 1 field (/data/x)",
        ]


def test_while_an_edit_is_judged_the_line_says_so_and_what_was_known_last():
    tree = tree_of(make_binding("azov", *STARTED, NOT_APPLIED), generation=2)
    assert lines(tree)[0] == (
        "crp/web  PickN, wants 2, has 1, resource snapshot 1  rolling out: being evaluated again; last known: "
        "azov: not applied: web-work"
    )


def test_a_stalled_rollout_says_since_when_in_the_line():
    stalled = condition(
        "ClusterResourcePlacementStalled", reason="NoProgress", message="no progress since 10:00Z. azov: x"
    )
    scheduled = condition("ClusterResourcePlacementScheduled")
    line = lines(
        placement_tree(
            Sources(make_placement(scheduled, stalled), [make_binding("azov", WAITS)], [], [make_snapshot(1)])
        )
    )[0]
    assert line.endswith("stalled: no progress since 10:00Z. azov: x")


def test_advisories_have_a_line_each():
    advisories = condition("Advisories", reason="WarningsFound", message="X-05 spec.a: one\nX-25 spec.b: two")
    placement = make_placement(condition("ClusterResourcePlacementScheduled"), advisories)
    tree = placement_tree(Sources(placement, [make_binding("azov", WAITS)], [], [make_snapshot(1)]))
    assert lines(tree)[1:5] == [
        "├── advisories",
        "│   ├── X-05 spec.a: one",
        "│   └── X-25 spec.b: two",
        "├── conditions  Scheduled True",
    ]
