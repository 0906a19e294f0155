"""What can be the address of a server, and what is said about what cannot."""

import pytest

from webhook.kube.transport.addresses import check_address, check_remote


@pytest.mark.parametrize(
    "text", ["https://hub", "https://hub:9443/", "http://127.0.0.1:8081", "https://[::1]:9443", "https://a.example:1"]
)
def test_an_address(text):
    assert check_address(text, "no").hostname


@pytest.mark.parametrize(
    "text", ["https://hub/clusters/a", "https://user@hub", "https://hub?x=1", "https://hub#x", "https://hub:0"]
)
def test_what_is_more_than_an_address(text):
    """An API server may be below a path."""
    with pytest.raises(ValueError, match=r"^no$"):
        check_address(text, "no")
    assert check_address(text, "no", bare=False).hostname == "hub"


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize(
    "text", ["", "hub", "hub:9443", "ftp://hub", "https://", "https:///x", "https://a b", "https://hub\n"]
)
def test_what_is_none(text, bare):
    with pytest.raises(ValueError, match=r"^no$"):
        check_address(text, "no", bare=bare)


@pytest.mark.parametrize(("text", "reason"), [("https://hub:x", "Port could not be cast"), ("https://[::1", "IPv6")])
def test_what_cannot_be_read_says_so_itself(text, reason):
    with pytest.raises(ValueError, match=reason):
        check_address(text, "no")


def test_the_scheme_can_be_fixed():
    with pytest.raises(ValueError, match=r"^no$"):
        check_address("http://hub", "no", schemes=("https",))


@pytest.mark.parametrize("text", ["https://hub", "https://127.0.0.1:6443", "https://hub/clusters/a", "https://[::1]:1"])
def test_what_a_token_may_be_sent_to(text):
    check_remote(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://hub", "expected an https URL"),
        ("https://ann:x@hub", "without user"),
        ("https://hub?a=b", "without user"),
        ("https://hub/x#y", "without user"),
        ("https://169.254.169.254", "link-local"),
        ("https://[fe80::1]:6443", "link-local"),
        ("https://[::ffff:a9fe:a9fe]", "link-local"),
    ],
)
def test_what_no_token_may_be_sent_to(text, reason):
    with pytest.raises(ValueError, match=reason) as refused:
        check_remote(text)
    assert "hub" not in str(refused.value)
