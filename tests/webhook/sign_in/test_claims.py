"""Who somebody is by the claims of an ID token: as kube-apiserver has it, and no one that it keeps for itself."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scorer.builders import modest
from webhook.settings.sign_in import SignInSettings
from webhook.sign_in.claims import user_of
from webhook.sign_in.trouble import SignInError, SignInFailure

ISSUER = "https://accounts.example.com"
GIVEN = {
    "oidc_issuer_url": ISSUER,
    "oidc_client_id": "harbormaster",
    "oidc_client_secret_file": Path("client"),
    "oidc_session_secret_file": Path("sealing"),
    "oidc_page_url": "https://fleet.example.com",
}


def who(claims, **settings):
    user = user_of(claims, SignInSettings.read({}, **GIVEN, **settings).sign_in())
    return user.username, user.groups - {"system:authenticated"}


MAIL = {"oidc_username_claim": "email"}
GROUPS = {"oidc_groups_claim": "groups"}


@pytest.mark.parametrize(
    ("claims", "settings", "username"),
    [
        pytest.param({"sub": "7"}, {}, f"{ISSUER}#7", id="the-issuer-stands-before-it"),
        pytest.param({"sub": "7"}, {"oidc_username_prefix": "-"}, "7", id="nothing-does"),
        pytest.param({"sub": "7"}, {"oidc_username_prefix": "oidc:"}, "oidc:7", id="a-prefix-does"),
        pytest.param({"name": "ann"}, {"oidc_username_claim": "name"}, f"{ISSUER}#ann", id="another-claim"),
        pytest.param({"email": "a@b"}, MAIL, "a@b", id="nothing-stands-before-an-address"),
        pytest.param({"email": "a@b", "email_verified": True}, MAIL, "a@b", id="verified"),
        pytest.param({"email": "a@b"}, MAIL | {"oidc_username_prefix": "x:"}, "x:a@b", id="unless-it-is-asked-for"),
    ],
)
def test_what_a_user_is_called(claims, settings, username):
    assert who(claims, **settings) == (username, frozenset())


@pytest.mark.parametrize(
    ("groups", "settings", "found"),
    [
        pytest.param(["a", "b"], GROUPS, {"a", "b"}, id="list"),
        pytest.param("a", GROUPS, {"a"}, id="one"),
        pytest.param([], GROUPS, set(), id="none"),
        pytest.param([""], GROUPS, set(), id="without-a-name"),
        pytest.param(["a"], {}, set(), id="nobody-asks"),
        pytest.param(["a"], GROUPS | {"oidc_groups_prefix": "oidc:"}, {"oidc:a"}, id="prefix"),
        pytest.param(["system:masters"], GROUPS | {"oidc_groups_prefix": "x:"}, {"x:system:masters"}, id="harmless"),
        pytest.param(["a"], GROUPS | {"oidc_groups_prefix": "-"}, {"a"}, id="no-prefix-on-purpose"),
    ],
)
def test_which_groups_one_is_in(groups, settings, found):
    assert who({"sub": "7", "groups": groups}, **settings)[1] == found


def test_everybody_who_is_signed_in_is_known_as_such():
    user = user_of({"sub": "7"}, SignInSettings.read({}, **GIVEN).sign_in())
    assert (user.groups, user.uid) == ({"system:authenticated"}, "")


PREFIX = st.sampled_from(["", "-", "s", "system", "sys", "oidc:"])
ENDING = st.one_of(st.text(max_size=8), st.sampled_from(["system:masters", "ystem:masters", ":masters", "tem:masters"]))


@given(PREFIX, PREFIX, st.sampled_from(["sub", "email", "name"]), ENDING, st.lists(ENDING, max_size=3))
@modest(300)
def test_nobody_is_the_cluster_itself(before_user, before_group, claim, name, groups):
    """By no claim and no prefix that the settings take; system:authenticated is ours."""
    settings = {"oidc_username_claim": claim, "oidc_username_prefix": before_user, "oidc_groups_prefix": before_group}
    try:
        username, found = who({claim: name, "groups": groups}, oidc_groups_claim="groups", **settings)
    except SignInError:
        return
    assert not any(each.startswith("system:") for each in (username, *found))
    assert username.startswith(f"{ISSUER}#") or before_user or claim == "email"


BARE = {"oidc_username_prefix": "-"}


@pytest.mark.parametrize(
    ("claims", "settings", "trouble"),
    [
        pytest.param({}, {}, SignInFailure.CLAIMS, id="no-name"),
        pytest.param({"sub": ""}, {}, SignInFailure.CLAIMS, id="an-empty-name"),
        pytest.param({"sub": 7}, {}, SignInFailure.CLAIMS, id="a-number"),
        pytest.param({"sub": "\ud800"}, {}, SignInFailure.CLAIMS, id="half-a-letter"),
        pytest.param({"email": "a@b", "email_verified": False}, MAIL, SignInFailure.EMAIL, id="not-verified"),
        pytest.param({"email": "a@b", "email_verified": "true"}, MAIL, SignInFailure.EMAIL, id="verified-in-words"),
        pytest.param({"sub": "system:admin"}, BARE, SignInFailure.CLAIMS, id="a-name-of-the-cluster"),
        pytest.param({"email": "system:admin"}, MAIL, SignInFailure.CLAIMS, id="an-address-of-the-cluster"),
        pytest.param({"email": "system:a@b"}, MAIL, SignInFailure.CLAIMS, id="an-address-that-begins-like-it"),
        pytest.param({"email": "kubernetes-admin"}, MAIL, SignInFailure.CLAIMS, id="a-user-of-the-hub-for-an-address"),
        pytest.param({"email": "admin"}, MAIL | BARE, SignInFailure.CLAIMS, id="the-same-without-a-prefix"),
        pytest.param(
            {"sub": "tem:admin"}, {"oidc_username_prefix": "sys"}, SignInFailure.CLAIMS, id="together-with-the-prefix"
        ),
        pytest.param(
            {"sub": "7", "groups": ["m:masters"]},
            GROUPS | {"oidc_groups_prefix": "syste"},
            SignInFailure.CLAIMS,
            id="a-group-together-with-the-prefix",
        ),
        pytest.param(
            {"sub": "7", "groups": ["system:masters"]}, GROUPS, SignInFailure.CLAIMS, id="a-group-of-the-cluster"
        ),
        pytest.param({"sub": "7", "groups": [7]}, GROUPS, SignInFailure.CLAIMS, id="groups-that-are-numbers"),
        pytest.param({"sub": "7", "groups": {"a": "b"}}, GROUPS, SignInFailure.CLAIMS, id="groups-that-are-no-list"),
        pytest.param(
            {"sub": "7", "_claim_names": {"groups": "s"}}, GROUPS, SignInFailure.GROUPS, id="groups-elsewhere"
        ),
    ],
)
def test_who_is_nobody(claims, settings, trouble):
    with pytest.raises(SignInError) as caught:
        who(claims, **settings)
    assert caught.value.trouble is trouble
