"""Which images pools are to run, and what is published where."""

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import NodeImageVersion
from scorer.api.upgrade.run import Upgrade
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.back_ends.interface import Inventory, Pool
from scorer.upgrade.members.member import Member
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.upgrade.versions.images import UNLISTED, ImageTargets, chosen_images, outdated_pools


def catalog(**regions):
    """Families with their versions, by region; None: the region has no list."""
    listed = [
        {"name": name}
        | (
            {}
            if families is None
            else {
                "nodeImages": [
                    {"family": family, "versions": [{"version": each} for each in versions]}
                    for family, versions in families.items()
                ]
            }
        )
        for name, families in regions.items()
    ]
    return ReleaseCatalog.of([VersionCatalogSpec.read({"regions": listed})])


def member(region, **images):
    pools = tuple(Pool(family, "1.30.4", family, image) for family, image in images.items())
    return Member(region, region=region, inventory=Inventory("1.30.4", pools))


def goal(selection, **custom):
    image = {"selection": selection}
    if custom:
        image["customVersions"] = [{"family": family, "version": version} for family, version in custom.items()]
    return Upgrade.read({"type": "NodeImageOnly", "nodeImage": image})


def chosen(upgrade, members, published):
    return {each.family: each.version for each in chosen_images(upgrade, members, published)}


def test_latest_is_the_newest_of_the_members_own_region():
    published = catalog(eu={"linux": ["100", "120"]}, us={"linux": ["110"]})
    targets = ImageTargets(goal("Latest"), (), published)
    assert targets.of(member("eu", linux="100")) == {"linux": "120"}
    assert targets.of(member("us", linux="100")) == {"linux": "110"}
    assert targets.of(member("us", windows="1")) == {}


def test_the_common_image_is_the_newest_that_all_regions_with_such_a_pool_have():
    published = catalog(eu={"linux": ["100", "110", "120"]}, us={"linux": ["100", "110"]}, asia={"linux": ["1"]})
    members = [member("eu", linux="100"), member("us", linux="100"), member("asia", windows="1")]
    assert chosen(goal("Consistent"), members, published) == {"linux": "110"}


def test_a_region_without_a_list_does_not_limit_the_common_image():
    published = catalog(eu={"linux": ["100", "110"]}, us=None)
    members = [member("eu", linux="100"), member("us", linux="100")]
    assert chosen(goal("Consistent"), members, published) == {"linux": "110"}


def test_a_family_that_no_region_lists_counts_as_at_target():
    upgrade, members = goal("Consistent"), [member("eu", linux="100")]
    kept = chosen_images(upgrade, members, catalog())
    assert kept == (NodeImageVersion(family="linux", version=UNLISTED),)
    targets = ImageTargets(upgrade, kept, catalog(eu={"linux": ["200"]}))
    assert targets.unfindable(members[0]) is None
    assert targets.of(members[0]) == {}


def test_a_family_without_a_common_image_or_that_appears_later_cannot_be_found():
    upgrade = goal("Consistent")
    published = catalog(eu={"windows": ["11"]}, us={"windows": ["12"]})
    members = [member("eu", windows="10"), member("us", windows="10")]
    targets = ImageTargets(upgrade, chosen_images(upgrade, members, published), published)
    assert targets.unfindable(members[0]).family == "windows"
    assert targets.unfindable(member("eu", gpu="1")).family == "gpu"


def test_custom_leaves_the_pools_of_other_families_alone():
    upgrade = goal("Custom", linux="105")
    cluster = member("eu", linux="100", windows="1")
    kept = chosen_images(upgrade, [cluster], catalog(eu={"linux": ["120"]}))
    targets = ImageTargets(upgrade, kept, catalog(eu={"linux": ["120"]})).of(cluster)
    assert targets == {"linux": "105"}
    assert [pool.name for pool in outdated_pools(cluster.inventory, targets)] == ["linux"]
    assert list(outdated_pools(member("eu", linux="105").inventory, targets)) == []


def test_a_back_end_is_asked_for_the_images_of_families_that_are_behind():
    published = catalog(eu={"linux": ["200"], "gpu": ["7"], "windows": ["9"], "arm": ["3"]})
    pools = [Pool("new", "", "linux", "300"), Pool("gpu", "", "gpu", "7"), Pool("w1", "", "windows", "8")]
    pools += [Pool("w2", "", "windows", "10"), Pool("arm", "", "arm")]
    targets = ImageTargets(goal("Latest"), (), published)
    cluster = Member("eu", region="eu", inventory=Inventory("1.30.4", tuple(pools)))
    assert targets.of(cluster) == {"linux": "200", "gpu": "7", "windows": "9", "arm": "3"}
    assert targets.outdated_targets(cluster) == {"windows": "9", "arm": "3"}
    assert targets.outdated_targets(Member("eu", region="eu")) == {}


def test_the_newest_image_of_an_instant_was_published_by_then_as_far_as_that_is_known():
    versions = [{"version": "1"}, {"version": "2", "publishedAt": "2026-01-05T00:00:00Z"}]
    versions.append({"version": "3", "publishedAt": "2026-01-05T00:00:01Z"})
    region = {"name": "eu", "nodeImages": [{"family": "linux", "versions": versions}]}
    published = ReleaseCatalog.of([VersionCatalogSpec.read({"regions": [region]})])
    targets = ImageTargets(goal("Latest"), (), published)
    assert targets.of(member("eu", linux="1")) == {"linux": "3"}
    assert targets.of(member("eu", linux="1"), parse_time("2026-01-05T00:00:00Z")) == {"linux": "2"}
    assert targets.of(member("eu", linux="1"), parse_time("2026-01-04T00:00:00Z")) == {"linux": "1"}


@pytest.mark.parametrize(
    ("region", "version", "offered"),
    [
        pytest.param("eu", "1.31.2", True, id="listed"),
        pytest.param("eu", "v1.31.2", True, id="with-v"),
        pytest.param("eu", "1.31.3", False, id="not-listed"),
        pytest.param("asia", "1.30.4", True, id="the-default-in-place-of-a-region"),
        pytest.param("asia", "1.31.2", False, id="not-in-the-default"),
        pytest.param("us", "9.9.9", True, id="unchecked-without-a-list"),
    ],
)
def test_a_region_offers_what_it_lists(region, version, offered):
    one = {"name": "eu", "kubernetesVersions": [{"version": "1.30.4"}]}
    other = {"name": "eu", "kubernetesVersions": [{"version": "1.31.2"}]}
    default = {"name": "default", "kubernetesVersions": [{"version": "1.30.4"}]}
    unchecked = {"name": "us"}
    known = ReleaseCatalog.of(
        [
            VersionCatalogSpec.read({"regions": [one, default, unchecked]}),
            VersionCatalogSpec.read({"regions": [other]}),
        ]
    )
    assert known.region(region).offers(version) is offered
