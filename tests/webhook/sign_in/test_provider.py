"""What is believed of a provider, what is read of it, and how often."""

import asyncio
from base64 import b64encode

import pytest
from aiohttp import web

from tests.loopback import on_loopback
from tests.webhook.sign_in.lying_provider import OTHER_KEY, SECRET, lying_provider, options, public
from webhook.settings.environment import SettingsError
from webhook.sign_in.provider import (
    AGAIN_SECONDS,
    CALL_SECONDS,
    KEPT_SECONDS,
    LARGEST_ANSWER_BYTES,
    MOST_KEYS,
    Provider,
)
from webhook.sign_in.sessions import PendingSignIn
from webhook.sign_in.trouble import SignInError, SignInFailure

ABOUT = "/.well-known/openid-configuration"


class Tick:
    """Stands still unless it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


async def refusal(asking) -> SignInError:
    with pytest.raises(SignInError) as caught:
        await asking
    return caught.value


@pytest.mark.parametrize(
    ("about", "words"),
    [
        pytest.param({"issuer": "https://evil.example.com"}, "the issuer of the provider is", id="another-issuer"),
        pytest.param({"issuer": None}, "the issuer of the provider is", id="no-issuer"),
        pytest.param({"authorization_endpoint": "http://evil.example.com/a"}, "be an https", id="authorization-http"),
        pytest.param({"token_endpoint": "http://evil.example.com/t"}, "be an https", id="token-http"),
        pytest.param({"jwks_uri": "http://evil.example.com/k"}, "be an https", id="keys-http"),
        pytest.param({"end_session_endpoint": "http://evil.example.com/e"}, "be an https", id="end-of-session-http"),
        pytest.param({"authorization_endpoint": "javascript:alert(1)"}, "be an https", id="script"),
        pytest.param({"authorization_endpoint": "https://a/\r\nSet-Cookie: x=y"}, "be an https", id="header"),
        pytest.param({"token_endpoint": "//evil.example.com"}, "be an https", id="no-scheme"),
        pytest.param({"token_endpoint": None}, "be an https", id="none"),
        pytest.param({"jwks_uri": "http://[::1"}, "be an https", id="no-url"),
    ],
)
async def test_what_a_provider_may_not_say_of_itself(tmp_path, about, words):
    async with lying_provider(about=about) as lying:
        error = await refusal(Provider(options(tmp_path, lying.issuer), Tick()).about())
    assert error.trouble is SignInFailure.PROVIDER
    assert words in str(error)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        pytest.param(
            web.Response(status=302, headers={"Location": "http://evil/"}), SignInFailure.PROVIDER, id="redirect"
        ),
        pytest.param(web.Response(status=404), SignInFailure.PROVIDER, id="not-there"),
        pytest.param(web.Response(status=502, text="<html>"), SignInFailure.UNREACHABLE, id="behind-a-broken-proxy"),
        pytest.param(web.Response(text="[]"), SignInFailure.PROVIDER, id="no-object"),
        pytest.param(web.Response(text='{"issuer":'), SignInFailure.PROVIDER, id="no-json"),
        pytest.param(web.Response(body=b" " * (LARGEST_ANSWER_BYTES + 1)), SignInFailure.PROVIDER, id="oversized"),
    ],
)
@pytest.mark.parametrize("path", [ABOUT, "/keys"])
async def test_answers_that_are_none(tmp_path, path, answer, trouble):
    async with lying_provider(answers={path: answer}) as lying:
        error = await refusal(Provider(options(tmp_path, lying.issuer), Tick()).key("k1"))
        assert lying.asked[-1] == path
    assert error.trouble is trouble


async def test_no_more_is_read_than_the_bound(tmp_path):
    """Also of one that does not say how much comes, and never ends."""
    written = 0

    async def endless(request):
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
                written += 65536
        except ConnectionError:
            return response

    async with lying_provider() as lying:
        app = web.Application()
        app.router.add_get("/keys", endless)
        async with on_loopback(app) as address:
            lying.about["jwks_uri"] = f"{address}/keys"
            error = await refusal(Provider(options(tmp_path, lying.issuer), Tick()).key("k1"))
    assert error.trouble is SignInFailure.PROVIDER
    assert "more than" in str(error)


async def test_one_that_is_not_there_is_not_reached_and_not_asked_again_at_once(tmp_path):
    async with lying_provider() as lying:
        issuer = lying.issuer
    tick = Tick()
    provider = Provider(options(tmp_path, issuer), tick)
    for _ in range(2):
        assert (await refusal(provider.about())).trouble is SignInFailure.UNREACHABLE
    async with lying_provider() as lying:
        provider = Provider(options(tmp_path, lying.issuer), tick)
        lying.answers[ABOUT] = web.Response(status=500)
        for _ in range(3):
            await refusal(provider.about())
        assert lying.asked == [ABOUT]
        tick.now += AGAIN_SECONDS
        del lying.answers[ABOUT]
        assert await provider.about()


async def test_while_one_does_not_answer_all_who_wait_for_it_wait_once(tmp_path):
    """It is not asked anew for each of them, one after the other."""
    tick, asked, silent = Tick(), [], asyncio.Event()

    class Silent(Provider):
        async def _ask(self, url, form, headers):
            asked.append(url)
            await silent.wait()
            tick.now += CALL_SECONDS  # as long as it was waited for
            raise SignInError(SignInFailure.UNREACHABLE, "no answer")

    provider = Silent(options(tmp_path, "https://accounts.example.com"), tick)
    waiting = [asyncio.create_task(refusal(provider.about())) for _ in range(5)]
    await asyncio.sleep(0)
    silent.set()
    assert {error.trouble for error in await asyncio.gather(*waiting)} == {SignInFailure.UNREACHABLE}
    assert len(asked) == 1
    tick.now += AGAIN_SECONDS
    await refusal(provider.about())
    assert len(asked) == 2


async def test_what_it_says_is_kept_for_an_hour_and_keys_are_read_again_when_one_is_unknown(tmp_path):
    tick = Tick()
    async with lying_provider() as lying:
        provider = Provider(options(tmp_path, lying.issuer), tick)
        await asyncio.gather(*(provider.key("k1") for _ in range(10)))
        assert lying.asked == [ABOUT, "/keys"]
        lying.keys.append(public(OTHER_KEY, "k2"))
        for _ in range(10):  # nobody can make us ask more often than this
            assert (await refusal(provider.key("k2"))).trouble is SignInFailure.TOKEN
        assert lying.asked.count("/keys") == 1
        tick.now += AGAIN_SECONDS
        assert (await provider.key("k2"))["kid"] == "k2"
        assert lying.asked.count("/keys") == 2
        tick.now += KEPT_SECONDS - 1
        await provider.key("k1")
        assert lying.asked.count("/keys") == 2
        del lying.keys[1]
        tick.now += 1
        assert (await refusal(provider.key("k2"))).trouble is SignInFailure.TOKEN
        assert lying.asked.count("/keys") == 3


async def test_keys_that_cannot_be_read_again_leave_those_that_are_known(tmp_path):
    tick = Tick()
    async with lying_provider() as lying:
        provider = Provider(options(tmp_path, lying.issuer), tick)
        await provider.key("k1")
        lying.answers["/keys"] = web.Response(status=503)
        tick.now += AGAIN_SECONDS
        assert (await refusal(provider.key("k2"))).trouble is SignInFailure.UNREACHABLE
        assert (await provider.key("k1"))["kid"] == "k1"


@pytest.mark.parametrize(
    ("keys", "kid", "found"),
    [
        pytest.param([public()], None, True, id="the-only-one-needs-no-name"),
        pytest.param([public(), public(OTHER_KEY, "k2")], None, False, id="one-of-several-does"),
        pytest.param([public(use="enc")], "k1", False, id="for-encryption"),
        pytest.param(["k1", 7, public()], "k1", True, id="among-others-that-are-none"),
        pytest.param([], "k1", False, id="none"),
    ],
)
async def test_which_key_it_is(tmp_path, keys, kid, found):
    async with lying_provider(keys=keys) as lying:
        asking = Provider(options(tmp_path, lying.issuer), Tick()).key(kid)
        if found:
            assert (await asking)["kid"] == "k1"
        else:
            assert (await refusal(asking)).trouble is SignInFailure.TOKEN


async def test_too_many_keys_are_not_looked_through(tmp_path):
    async with lying_provider(keys=[public()] * (MOST_KEYS + 1)) as lying:
        error = await refusal(Provider(options(tmp_path, lying.issuer), Tick()).key("k1"))
    assert error.trouble is SignInFailure.PROVIDER


@pytest.mark.parametrize("ways", [None, ["client_secret_basic", "client_secret_post"], ["client_secret_post"]])
async def test_how_it_knows_us(tmp_path, ways):
    about = {} if ways is None else {"token_endpoint_auth_methods_supported": ways}
    async with lying_provider(about=about) as lying:
        assert await Provider(options(tmp_path, lying.issuer), Tick()).exchange("c0de", "verifier")
        (form,), (headers,) = lying.forms, lying.headers
    assert (form["code"], form["code_verifier"]) == ("c0de", "verifier")
    if ways == ["client_secret_post"]:
        assert (form["client_id"], form["client_secret"]) == ("harbormaster", SECRET)
        assert "Authorization" not in headers
    else:
        pair = f"harbormaster:{SECRET.replace(' ', '+')}"
        assert headers["Authorization"] == f"Basic {b64encode(pair.encode()).decode()}"
        assert "client_secret" not in form


async def test_the_question_has_all_that_protects_the_answer(tmp_path):
    async with lying_provider(about={"authorization_endpoint": "https://a.example.com/auth?tenant=7"}) as lying:
        begun = PendingSignIn("st", "no", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        address = await Provider(options(tmp_path, lying.issuer, scopes=("openid", "groups")), Tick()).address(begun)
    assert address == (
        "https://a.example.com/auth?tenant=7&response_type=code&client_id=harbormaster"
        "&redirect_uri=https%3A%2F%2Ffleet.example.com%2Fsign-in%2Fcallback&scope=openid+groups&state=st&nonce=no"
        # the challenge of RFC 7636, appendix B
        "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
    )


async def test_where_one_signs_out(tmp_path):
    async with lying_provider() as lying:
        assert (
            await Provider(options(tmp_path, lying.issuer), Tick()).sign_out_address() == "https://fleet.example.com/"
        )
        lying.about["end_session_endpoint"] = "https://a.example.com/end"
        assert await Provider(options(tmp_path, lying.issuer), Tick()).sign_out_address() == (
            "https://a.example.com/end?client_id=harbormaster"
            "&post_logout_redirect_uri=https%3A%2F%2Ffleet.example.com%2F"
        )
        lying.answers[ABOUT] = web.Response(status=500)
        assert (
            await Provider(options(tmp_path, lying.issuer), Tick()).sign_out_address() == "https://fleet.example.com/"
        )


@pytest.mark.parametrize("content", [None, "", "\n", "é", "a\nb"])
def test_a_client_secret_that_is_none(tmp_path, content):
    settings = options(tmp_path, "https://a.example.com")
    if content is None:
        settings.client_secret_file.unlink()
    else:
        settings.client_secret_file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match="HARBORMASTER_OIDC_CLIENT_SECRET_FILE: '") as caught:
        Provider(settings, Tick()).check_files()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_authorities_that_are_none(tmp_path, content):
    if content is not None:
        (tmp_path / "ca").write_text(content, encoding="ascii")
    with pytest.raises(SettingsError, match="HARBORMASTER_OIDC_CA: '"):
        Provider(options(tmp_path, "https://a.example.com", ca=tmp_path / "ca"), Tick()).check_files()
