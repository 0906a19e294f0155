"""How versions compare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.upgrade.versions.comparison import image_order, is_alias, parse_version


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        pytest.param("1.30.4", "1.31.0", id="minor-before-patch"),
        pytest.param("1.9.9", "1.10.0", id="numbers-not-letters"),
        pytest.param("v1.31.1", "1.31.2", id="with-v"),
        pytest.param("1.31.2-rc.1", "1.31.2", id="candidate-before-release"),
        pytest.param("1.31.2-rc.2", "1.31.2-rc.10", id="candidates-by-number"),
        pytest.param("1.31.2", "1.31.2+k3s1", id="build-of-a-distribution"),
        pytest.param("1.31.2+k3s1", "1.31.2+k3s2", id="builds-in-order"),
        pytest.param("1.31", "1.31.1", id="no-patch-is-0"),
    ],
)
def test_kubernetes_versions_are_in_the_order_of_releases(lower, higher):
    assert parse_version(lower) < parse_version(higher)


@pytest.mark.parametrize("text", ["", "1", "1.31.", "1.31.2.3", "one.two", "1.31.2-", "1.3\u0661.2", "1.31.2 "])
def test_what_is_no_version_is_refused_with_the_text(text):
    with pytest.raises(ValueError, match="is not a Kubernetes version") as raised:
        parse_version(text)
    assert repr(text) in str(raised.value)


def test_an_alias_names_a_minor_version_alone():
    assert [is_alias(each) for each in ("1.31", "1.31.0")] == [True, False]


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        pytest.param("100", "110", id="numbers"),
        pytest.param("99", "100", id="by-value"),
        pytest.param("202503.7.0", "202503.21.0", id="part-by-part"),
        pytest.param("2022-containerd-1.9", "2022-containerd-1.10", id="dashes-part-too"),
        pytest.param("1.2", "1.2.0", id="more-parts-are-later"),
        pytest.param("1.2", "1.beta", id="numbers-before-words"),
    ],
)
def test_images_compare_part_by_part(lower, higher):
    assert image_order(lower) < image_order(higher)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_versions_of_numbers_compare_as_lists_of_numbers(one, other):
    texts = [".".join(map(str, each)) for each in (one, other)]
    assert (image_order(texts[0]) < image_order(texts[1])) == (one < other)
