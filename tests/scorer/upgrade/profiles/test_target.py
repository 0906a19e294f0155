"""What profiles upgrade to, and the runs they make."""

import pytest

from scorer.api.upgrade.profile import ClusterUpgradeProfile
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.profiles.target import NoTargetError, run_name, run_of, target_of
from scorer.upgrade.versions.catalog import ReleaseCatalog

RELEASED = ("1.28.9", "1.29.9", "1.30.4", "1.30.7", "1.31.1", "v1.31.2")


def catalog(*released, preview=(), lts=(), images=()):
    versions = [{"version": each, "lts": each in lts} for each in released]
    versions += [{"version": each, "phase": "Preview"} for each in preview]
    families = [{"family": "linux", "versions": [{"version": each} for each in images]}] if images else []
    half = len(versions) // 2
    return ReleaseCatalog.of(
        [
            VersionCatalogSpec.read({"regions": [{"name": "eu", "kubernetesVersions": versions[:half]}]}),
            VersionCatalogSpec.read(
                {"regions": [{"name": "us", "kubernetesVersions": versions[half:], "nodeImages": families}]}
            ),
        ]
    )


def profile(channel, name="p", **spec):
    document = {"metadata": {"name": name}, "spec": {"channel": channel, **spec}}
    return ClusterUpgradeProfile.read(document)


def target(channel, published, **spec):
    return target_of(profile(channel, **spec).spec, published)


@pytest.mark.parametrize(
    ("channel", "spec", "version"),
    [
        pytest.param("Rapid", {}, "1.31.2", id="rapid"),
        pytest.param("Stable", {}, "1.30.7", id="stable-is-one-minor-behind"),
        pytest.param("TargetKubernetesVersion", {"targetKubernetesVersion": "1.29"}, "1.29.9", id="two-minors-behind"),
        pytest.param(
            "TargetKubernetesVersion",
            {"targetKubernetesVersion": "1.28", "longTermSupport": True},
            "1.28.9",
            id="long-term-support",
        ),
    ],
)
def test_a_channel_follows_the_newest_patch_of_its_minor_version(channel, spec, version):
    found = target(channel, catalog(*RELEASED, preview=["1.32.0"], lts=["1.28.9"]), **spec)
    assert (found.type, found.kubernetes_version, found.selection) == ("Full", version, "Latest")


@pytest.mark.parametrize(
    ("channel", "spec", "released", "code"),
    [
        pytest.param("Rapid", {}, (), "TargetVersionNotReleased", id="nothing-is-released"),
        pytest.param("Stable", {}, ("1.31.2",), "TargetVersionNotReleased", id="no-minor-behind"),
        pytest.param(
            *("TargetKubernetesVersion", {"targetKubernetesVersion": "1.32"}, RELEASED, "TargetVersionNotReleased"),
            id="preview-only",
        ),
        pytest.param(
            *("TargetKubernetesVersion", {"targetKubernetesVersion": "1.28"}, RELEASED, "LongTermSupportRequired"),
            id="too-old",
        ),
        pytest.param(
            "TargetKubernetesVersion",
            {"targetKubernetesVersion": "1.28", "longTermSupport": True},
            ("1.28.0", *RELEASED[1:]),
            "LongTermSupportRequired",
            id="too-old-and-not-marked",
        ),
    ],
)
def test_a_channel_without_a_target_says_why(channel, spec, released, code):
    with pytest.raises(NoTargetError) as raised:
        target(channel, catalog(*released, preview=["1.32.0"], lts=["1.28.9"]), **spec)
    assert raised.value.code == code


def test_the_image_channel_always_selects_consistent_images():
    found = target("NodeImage", catalog(images=["100", "110"]), nodeImage={"selection": "Consistent"})
    assert (found.type, found.kubernetes_version, found.selection) == ("NodeImageOnly", "", "Consistent")


def patched(**regions):
    """Return a catalog. Each argument is a region with the versions by family. One that ends with ``!`` is a patch."""

    def family(name, versions):
        images = [{"version": each.rstrip("!"), "securityPatch": each.endswith("!")} for each in versions]
        return {"family": name, "os": "Windows" if name == "windows" else "Linux", "versions": images}

    listed = [
        {"name": region, "nodeImages": [family(*item) for item in families.items()]}
        for region, families in regions.items()
    ]
    return ReleaseCatalog.of([VersionCatalogSpec.read({"regions": listed})])


@pytest.mark.parametrize(
    ("regions", "images"),
    [
        pytest.param({"eu": {"linux": ["100!", "110!", "120"]}}, {"linux": "110"}, id="newest-patch"),
        pytest.param({"eu": {"linux": ["100"]}}, {}, id="no-patches"),
        pytest.param({"eu": {"windows": ["9!"], "linux": ["100!"]}}, {"linux": "100"}, id="windows-is-skipped"),
        pytest.param(
            {"eu": {"linux": ["100!", "110!"]}, "us": {"linux": ["100!"]}}, {"linux": "100"}, id="in-all-regions"
        ),
        pytest.param({"eu": {"linux": ["110!"]}, "us": {"linux": ["100!"]}}, {}, id="none-in-all-regions"),
        pytest.param(
            {"eu": {"linux": ["110!"]}, "us": {"arm": ["7!"]}}, {"arm": "7", "linux": "110"}, id="family-of-one-region"
        ),
        pytest.param({"eu": {"linux": ["110!"]}, "us": {"linux": ["110"]}}, {"linux": "110"}, id="marked-once"),
    ],
)
def test_the_security_patch_channel_upgrades_linux_alone(regions, images):
    known = profile("SecurityPatch")
    found = target_of(known.spec, patched(**regions))
    assert (found.type, found.kubernetes_version, dict(found.images)) == ("NodeImageOnly", "", images)
    run = ClusterUpgradeRun.read(run_of(known, found, start=True))
    assert run.spec.upgrade.node_image.selection == "Custom"
    assert {each.family: each.version for each in run.spec.upgrade.node_image.custom_versions} == images


def test_a_run_is_named_after_its_target():
    published = catalog(*RELEASED)
    known = profile("Rapid", "fleet")
    name = run_name("fleet", known.spec.channel, target_of(known.spec, published))
    assert name.startswith("auto-fleet-rapid-1-31-2-")
    assert name == run_name("fleet", known.spec.channel, target_of(known.spec, published))
    other = profile("Rapid", "fleet", nodeImage={"selection": "Consistent"})
    assert name != run_name("fleet", other.spec.channel, target_of(other.spec, published))


def test_a_newer_image_makes_another_run_and_has_no_version_in_its_name():
    channel = profile("NodeImage").spec.channel
    names = {
        run_name("p", channel, target("NodeImage", catalog(images=images))) for images in (["100"], ["100", "110"])
    }
    assert len(names) == 2
    assert all(name.startswith("auto-p-nodeimage-") for name in names)


def test_the_name_of_a_run_is_cut_before_its_hash():
    known = profile("Rapid", "p" * 50)
    name = run_name("p" * 50, known.spec.channel, target_of(known.spec, catalog(*RELEASED)))
    assert len(name) == 50
    assert name[-9] == "-"


def test_profiles_whose_names_begin_in_the_same_way_have_runs_of_their_own():
    known = profile("Rapid")
    names = [f"team-payments-production-europe-west-{each}" for each in "ab"]
    first, second = (run_name(each, known.spec.channel, target_of(known.spec, catalog(*RELEASED))) for each in names)
    assert first[:41] == second[:41]
    assert first != second


def test_a_name_that_is_not_cut_has_the_target_and_the_choice_of_images_alone_in_its_hash():
    known = profile("Rapid")
    chosen = target_of(known.spec, catalog(*RELEASED))
    hashes = {run_name(each, known.spec.channel, chosen).rpartition("-")[2] for each in ("a", "another")}
    assert len(hashes) == 1


@pytest.mark.parametrize(("start", "state"), [(True, "Run"), (False, "Initialize")])
def test_a_run_of_a_profile_skips_clusters_that_are_too_far_behind(start, state):
    known = profile("Rapid", strategyRef={"name": "rings"}, memberSelector={"matchLabels": {"env": "prod"}})
    run = ClusterUpgradeRun.read(run_of(known, target_of(known.spec, catalog(*RELEASED)), start=start))
    assert (run.spec.state, run.spec.version_policy.on_unsupported_jump) == (state, "Skip")
    assert (run.spec.strategy_ref.name, run.spec.member_selector.match_labels) == ("rings", {"env": "prod"})
    assert (run.spec.upgrade.kubernetes_version, run.spec.upgrade.node_image.selection) == ("1.31.2", "Latest")
