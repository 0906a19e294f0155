"""The record of orphaned content on MemberClusters."""

from datetime import timedelta

import pytest

from scorer.api.family import placement_ref
from scorer.api.names import ORPHANED_CONTENT
from scorer.rollout.confirmation.orphans import (
    MOST_RECORDED,
    OrphanedContent,
    format_orphaned,
    orphan_record,
    orphaned_content,
)
from scorer.rollout.views.removals import orphaned_removal
from tests.scorer.rollout.confirmation.placed_content import HOUR, NOW

WEB, CART = placement_ref("web", "shop"), placement_ref("cart", "shop")
OLD, NEW = OrphanedContent(NOW - HOUR, 4), OrphanedContent(NOW, 6)


def member(name, record):
    return {"metadata": {"name": name, "annotations": {ORPHANED_CONTENT: record}}}


@pytest.mark.parametrize("content", [{}, {WEB: OLD}, {WEB: OLD, CART: NEW}], ids=len)
def test_a_record_is_read_as_it_was_written(content):
    assert orphan_record(member("fish", format_orphaned(content))) == content


@pytest.mark.parametrize("text", ["", "x", "[]", "1", '{"shop/web": 1}', '{"shop/web": {"since": "x", "objects": 1}}'])
def test_an_unreadable_record_is_empty(text):
    assert orphan_record(member("fish", text)) == {}


def test_the_oldest_entries_of_a_long_record_are_dropped():
    content = {
        placement_ref(f"p{number:03}", "shop"): OrphanedContent(NOW + timedelta(seconds=number), 1)
        for number in range(MOST_RECORDED + 5)
    }
    record = orphan_record(member("fish", format_orphaned(content)))
    assert list(record) == list(content)[5:]


def test_content_is_listed_by_placement():
    members = [
        member("wolf", format_orphaned({WEB: NEW})),
        member("fish", format_orphaned({WEB: OLD, CART: NEW})),
        member("lion", ""),
    ]
    content = orphaned_content(members)
    assert content == {CART: {"fish": NEW}, WEB: {"wolf": NEW, "fish": OLD}}
    entry = orphaned_removal(content[WEB], NOW)
    assert (entry["kind"], entry["digest"], entry["objects"]) == ("Orphaned", "", 6)
    assert (entry["clusters"], entry["clusterCount"], entry["ageSeconds"]) == (["fish", "wolf"], 2, 3600)
