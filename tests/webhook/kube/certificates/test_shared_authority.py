"""What replicas make of a Secret, whatever happens to it, to the registration, to the hub and to themselves."""

import asyncio
from base64 import b64decode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.authority import Authority, Leaf
from certs.rotation import Lineage, certificates_in
from scorer.api.event import Event
from tests.waiting import until
from tests.webhook.kube.authority_hub import SECRET, AuthorityHub
from webhook.access.front_proxy import API_SERVICE
from webhook.kube.certificates.authority_secret import AuthoritySecret
from webhook.kube.certificates.shared_authority import SETTLING, CertificateProfile, ManagedAuthority
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, StoreError, UnavailableError
from webhook.kube.webhook_configurations.ca_bundles import API_SERVICE_KIND, CONFIGURATIONS, CaBundles
from webhook.runtime.clock import utc_now

NAME = "harbormaster.quay.svc"
NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
DUE = NOW + timedelta(days=250)


class Clock:
    """Stands still unless moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Replica:
    """A `ManagedAuthority` and the leaf that its server shows."""

    def __init__(self, hub: AuthorityHub, clock: Clock, api_service: str = "") -> None:
        self.clock = clock
        self.counted: list[str] = []
        self.told: list[tuple[dict, Event]] = []
        self.kept = ManagedAuthority(
            AuthoritySecret(hub, "quay", "ca"),
            CaBundles(hub, "hooks", api_service),
            CertificateProfile((NAME,), ()),
            clock,
            check_seconds=0.01,
            count_write=self.counted.append,
            tell=lambda document, event: self.told.append((document, event)),
        )
        self.leaf: Leaf | None = None

    def renew(self) -> bool:
        """Do what the server does every few seconds; return whether there is another leaf."""
        found = self.kept.following(self.leaf, self.clock()) if self.leaf else self.kept.first(self.clock())
        self.leaf = found or self.leaf
        return found is not None

    async def settle(self) -> None:
        await self.kept.settle()
        self.renew()


@pytest.fixture
def hub():
    return AuthorityHub()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def start(hub, clock):
    """Start a replica, as its process does."""

    async def start(at: Clock | None = None) -> Replica:
        replica = Replica(hub, at or clock)
        await replica.kept.start()
        replica.renew()
        return replica

    return start


def bundles(hub: AuthorityHub) -> list[tuple[x509.Certificate, ...]]:
    """What each entry of both configurations trusts."""
    return [
        certificates_in(b64decode(entry["clientConfig"].get("caBundle", "")))
        for kind in CONFIGURATIONS
        for entry in hub.documents[str(path_of(kind, name="hooks"))]["webhooks"]
    ]


def is_called(hub: AuthorityHub, replica: Replica, now: datetime) -> bool:
    """Whether the API server, by each entry, accepts what a replica shows."""
    return all(is_accepted(replica, trusted, now) for trusted in bundles(hub))


def is_accepted(replica: Replica, trusted: tuple[x509.Certificate, ...], now: datetime) -> bool:
    """Whether a client that trusts these authorities accepts what a replica shows."""
    leaf, *above = x509.load_pem_x509_certificates(replica.leaf.chain_pem)
    verifier = PolicyBuilder().store(Store(trusted or [Authority.new(now).certificate])).time(now)
    try:
        verifier.build_server_verifier(x509.DNSName(NAME)).verify(leaf, above)
    except VerificationError:
        return False
    return True


def stored(hub: AuthorityHub) -> Lineage:
    document = hub.documents[SECRET]
    entries = {name: b64decode(value) for name, value in document["data"].items()}
    return Lineage.read(entries, document["metadata"].get("annotations") or {})


async def test_replicas_that_start_at_once_agree_on_one_authority(hub, start):
    replicas = await asyncio.gather(*(start() for _ in range(4)))
    assert hub.writes.count("POST secrets") == 1
    assert {replica.leaf.issuer for replica in replicas} == {stored(hub).active.name}
    assert all(trusted == stored(hub).trusted() for trusted in bundles(hub))
    assert all(is_called(hub, replica, NOW) for replica in replicas)
    assert [replica.kept.bundle_problem() for replica in replicas] == [""] * 4
    assert sorted(word for replica in replicas for word in replica.counted) == ["success"]


async def test_replicas_have_the_key_of_the_authority_in_common_and_their_own_for_their_leaves(hub, start, clock):
    replicas = [await start() for _ in range(2)]
    keys = {replica.kept.common_key(replica.leaf) for replica in replicas}
    assert keys == {stored(hub).active.key_pem}
    assert len({replica.leaf.key_pem for replica in replicas}) == 2
    clock.now = DUE
    for replica in replicas:
        await replica.settle()
    assert {replica.kept.common_key(replica.leaf) for replica in replicas} == {stored(hub).active.key_pem} != keys


async def test_looking_again_writes_nothing_and_signs_nothing(hub, start):
    replica = await start()
    before = list(hub.writes)
    for _ in range(3):
        await replica.kept.settle()
        assert not replica.renew()
    assert hub.writes == before


async def test_replicas_that_roll_over_at_once_make_one_generation(hub, start, clock):
    replicas = [await start() for _ in range(4)]
    first = stored(hub)
    clock.now = DUE
    await asyncio.gather(*(replica.settle() for replica in replicas))
    assert stored(hub).generation == 2
    assert stored(hub).trusted() == (stored(hub).active.certificate, first.active.certificate)
    assert {replica.leaf.issuer for replica in replicas} == {stored(hub).active.name}
    assert all(is_called(hub, replica, DUE) for replica in replicas)
    for authority in stored(hub).trusted():
        assert all(is_accepted(replica, (authority,), DUE) for replica in replicas)
    assert all(set(replica.kept.above) == {"ca", "cross"} for replica in replicas)


async def test_another_authority_is_told_once_by_each_replica_that_has_known_the_one_before(hub, start, clock):
    """Not at the installation, and not by a replica that starts."""
    replicas = [await start(), await start()]
    first = stored(hub).active
    clock.now = DUE
    for replica in (*replicas, *replicas):
        await replica.settle()
    late = await start()
    assert [len(replica.told) for replica in (*replicas, late)] == [1, 1, 0]
    [(document, event)] = replicas[0].told
    assert document == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "ca", "namespace": "quay", "uid": "u"},
    }
    assert (event.reason, event.type) == ("CertificateAuthorityRotated", "Normal")
    assert f"is now {stored(hub).active.name}" in event.message
    assert event.message.endswith(f". Still trusted: {first.name}")


async def test_an_authority_that_a_user_distrusts_is_told_as_well(hub, start):
    replica = await start()
    secret = AuthoritySecret(hub, "quay", "ca")
    found = await secret.read()
    await secret.write(found.lineage.rolled_over(NOW, distrust=True), found)
    await replica.settle()
    [(_, event)] = replica.told
    assert event.message.endswith("Still trusted: none")


def nothing(_: AuthorityHub) -> None:
    pass


def delete(hub: AuthorityHub) -> None:
    hub.delete(SECRET)


def empty(hub: AuthorityHub) -> None:
    document = hub.documents[SECRET]
    hub.put(SECRET, {**document, "data": {}})


def fill_with_garbage(hub: AuthorityHub) -> None:
    hub.fill_secret(tls_crt=b"\x00\xff", tls_key=b"-----BEGIN", ca_crt=b"x", cross_crt=b"")


def bring(hub: AuthorityHub) -> None:
    other = Authority.new(NOW)
    hub.fill_secret(tls_crt=other.pem, tls_key=other.key_pem, ca_crt=other.pem, cross_crt=b"")


def wipe(hub: AuthorityHub) -> None:
    for kind in CONFIGURATIONS:
        document = hub.documents[str(path_of(kind, name="hooks"))]
        for entry in document["webhooks"]:
            entry["clientConfig"].pop("caBundle")
        hub.put(path_of(kind, name="hooks"), document)


ACCIDENTS = [
    pytest.param(nothing, NOW, id="nothing"),
    pytest.param(nothing, DUE, id="a-rollover"),
    pytest.param(delete, NOW, id="secret-deleted"),
    pytest.param(empty, NOW, id="secret-emptied"),
    pytest.param(fill_with_garbage, NOW, id="garbage"),
    pytest.param(bring, NOW, id="another-authority"),
    pytest.param(wipe, NOW, id="bundles-wiped"),
    pytest.param(wipe, DUE, id="bundles-wiped-when-due"),
    pytest.param(delete, DUE, id="secret-deleted-when-due"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before-it-took-effect", "after"])
@pytest.mark.parametrize("point", range(9))
@pytest.mark.parametrize(("accident", "now"), ACCIDENTS)
async def test_a_crash_at_any_point_leaves_what_works(hub, start, clock, accident, now, point, after):
    """One of two replicas dies at one of its requests: the other is called on, and finishes what was begun."""
    dying, other = await start(), await start()
    clock.now = now
    for replica in (dying, other):
        replica.renew()
    accident(hub)
    is_wiped = accident is wipe
    with hub.breaking(point, after=after), suppress(StoreError):
        await dying.kept.settle()
    dying.renew()
    assert is_wiped or (is_called(hub, other, now) and is_called(hub, dying, now))
    await other.settle()
    assert is_called(hub, other, now)
    clock.now += SETTLING
    other.renew()
    late = await start()
    for replica in (other, late):
        assert replica.leaf.issuer == stored(hub).active.name
        assert is_called(hub, replica, clock())
        assert replica.kept.bundle_problem() == ""
        assert all(replica.kept.bundles_in_sync().values())


@pytest.mark.parametrize(("accident", "now"), ACCIDENTS)
async def test_after_any_accident_replicas_come_to_rest(hub, start, clock, accident, now):
    replicas = [await start() for _ in range(3)]
    clock.now = now
    accident(hub)
    for _ in range(2):
        for replica in replicas:
            await replica.settle()
        clock.now += SETTLING
    before = list(hub.writes)
    for replica in replicas:
        await replica.settle()
    assert hub.writes == before
    assert len({replica.leaf.issuer for replica in replicas}) == 1


async def test_a_deleted_secret_is_followed_by_the_next_generation(hub, start):
    """The replicas know the key still, so clients are carried over."""
    replica = await start()
    first = stored(hub)
    delete(hub)
    await replica.settle()
    assert stored(hub).generation == 2
    assert stored(hub).cross.issuer == first.active.certificate.subject


async def test_without_any_replica_a_deleted_secret_leaves_what_was_registered_trusted(hub, start):
    """Other replicas may serve its leaves still."""
    await start()
    first = stored(hub)
    delete(hub)
    await start()
    assert stored(hub).trusted()[1:] == (first.active.certificate,)


async def test_another_authority_takes_over_once_the_api_servers_have_heard_of_it(hub, start, clock):
    """Nothing leads from ours to it: until then the old leaf is served, and the old authority stays trusted."""
    replica = await start()
    ours = stored(hub).active
    bring(hub)
    await replica.settle()
    assert replica.leaf.issuer == ours.name
    assert stored(hub).trusted() == (stored(hub).active.certificate, ours.certificate)
    clock.now += SETTLING - timedelta(seconds=1)
    assert not replica.renew()
    clock.now += timedelta(seconds=1)
    assert replica.renew()
    assert replica.leaf.issuer == stored(hub).active.name


async def test_another_authority_that_is_due_is_replaced_without_losing_ours(hub, start, clock):
    replica = await start()
    ours = stored(hub).active.certificate
    old = Authority.new(NOW - timedelta(days=300))
    hub.fill_secret(tls_crt=old.pem, tls_key=old.key_pem, ca_crt=old.pem)
    await replica.settle()
    assert set(stored(hub).trusted()[1:]) == {ours, old.certificate}
    assert is_called(hub, replica, NOW)


async def test_a_short_life_is_looked_at_more_often_than_the_setting_says(hub):
    profile = CertificateProfile((NAME,), (), authority_life=timedelta(seconds=1.5), leaf_life=timedelta(seconds=1))
    kept = ManagedAuthority(AuthoritySecret(hub, "quay", "ca"), CaBundles(hub, "hooks"), profile, utc_now, 3600)
    await kept.start()
    keeping = asyncio.create_task(kept.keep(lambda: None))
    try:
        await until(lambda: stored(hub).generation != 1)
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def test_what_is_distrusted_is_left_at_once(hub, start):
    replica = await start()
    secret = AuthoritySecret(hub, "quay", "ca")
    found = await secret.read()
    await secret.write(found.lineage.rolled_over(NOW, distrust=True), found)
    await replica.settle()
    assert replica.leaf.issuer == stored(hub).active.name
    assert stored(hub).trusted() == (stored(hub).active.certificate,)
    assert is_called(hub, replica, NOW)


async def test_a_certificate_of_somebody_else_is_never_written_over(hub, start):
    """The setting may name the wrong Secret."""
    authority = Authority.new(NOW)
    leaf = authority.issue(("shop.example.com",), (), NOW)
    hub.fill_secret(tls_crt=leaf.chain_pem, tls_key=leaf.key_pem)
    before = hub.documents[SECRET]
    replica = await start()
    assert hub.documents[SECRET] == before
    assert "quay/ca holds a certificate that is not an authority" in replica.kept.bundle_problem()


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        pytest.param("secrets", "there is no certificate authority yet: not allowed", id="secret"),
        pytest.param("webhookconfigurations", "have not been read yet: not allowed", id="configurations"),
    ],
)
async def test_a_replica_that_is_kept_out_runs_and_says_so(hub, start, word, complaint):
    hub.refusal[word] = ForbiddenError("not allowed")
    replica = await start()
    assert replica.leaf is not None
    assert complaint in replica.kept.bundle_problem()
    assert list(replica.kept.bundles_in_sync().values()) == [False, False]  # an alert on 0 sees it
    hub.refusal.clear()
    await replica.settle()
    assert replica.kept.bundle_problem() == ""
    assert is_called(hub, replica, NOW)


async def test_a_provisional_authority_is_never_trusted(hub, start):
    hub.refusal["secrets"] = ForbiddenError("not allowed")
    replica = await start()
    assert replica.leaf.issuer.startswith("harbormaster-ca-0-")
    assert not is_called(hub, replica, NOW)
    hub.refusal.clear()
    await replica.settle()
    assert replica.leaf.issuer.startswith("harbormaster-ca-1-")
    assert len(stored(hub).trusted()) == 1


async def test_a_replica_whose_clock_is_a_month_ahead_is_called_on(hub, start, clock):
    """Its leaves begin with their authority; its authorities are replaced by whose clock is right; then both rest."""
    ahead = Clock(NOW + timedelta(days=30))
    replicas = [await start(), await start(ahead)]
    for clock.now in (NOW, NOW + timedelta(days=230), DUE):
        ahead.now = clock.now + timedelta(days=30)
        for _ in range(3):
            for replica in replicas:
                await replica.settle()
        before = list(hub.writes)
        clock.now, ahead.now = clock.now + SETTLING, ahead.now + SETTLING
        for replica in replicas:
            await replica.settle()
            assert is_called(hub, replica, clock())
        assert hub.writes == before


async def test_a_clock_that_jumps_a_month_brings_the_next_leaf(hub, start, clock):
    replica = await start()
    for days in (30, 60, 90):
        clock.now = NOW + timedelta(days=days)
        await replica.settle()
        assert is_called(hub, replica, clock())
    clock.now = NOW - timedelta(days=30)  # set back, to before the authority was made
    await replica.settle()
    clock.now += SETTLING
    replica.renew()
    assert is_called(hub, replica, clock())


async def test_an_expired_authority_leaves_the_secret_and_the_bundles_once(hub, start, clock):
    replicas = [await start(), await start()]
    clock.now = DUE
    for replica in replicas:
        await replica.settle()
    end = stored(hub).earlier[0].not_valid_after_utc
    clock.now = end
    before = len(hub.writes)
    for replica in (*replicas, *replicas):
        await replica.settle()
    assert [len(trusted) for trusted in bundles(hub)] == [1] * 4
    assert len(hub.writes) == before + 3  # the Secret, and two configurations


async def test_leaves_are_renewed_after_two_thirds_of_their_life(hub, start, clock):
    replica = await start()
    times = []
    for hour in range(24 * 15):
        clock.now = NOW + timedelta(hours=hour)
        if replica.renew():
            times.append(hour)
    assert [later - earlier for earlier, later in pairwise([0, *times])] == [112] * 3
    assert len(hub.writes) == 3


async def test_it_keeps_following_the_hub(hub, start):
    """By its watches, also after the hub has refused for a while."""
    replica = await start()
    keeping = asyncio.create_task(replica.kept.keep(replica.renew))
    try:
        await asyncio.sleep(0)
        wipe(hub)
        await until(lambda: is_called(hub, replica, NOW))
        hub.refusal["secrets"] = ForbiddenError("not allowed")
        delete(hub)
        await asyncio.sleep(0.05)
        hub.refusal.clear()
        await until(lambda: SECRET in hub.documents and replica.leaf.issuer == stored(hub).active.name)
        assert stored(hub).generation == 2
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


SERVICE = path_of(API_SERVICE_KIND, name=API_SERVICE)


async def test_the_api_service_trusts_what_the_hooks_trust(hub, clock, caplog):
    hub.put(SERVICE, {"metadata": {"name": API_SERVICE}, "spec": {"versionPriority": 15}})
    replica = Replica(hub, clock, API_SERVICE)
    with caplog.at_level("INFO"):
        await replica.settle()
    written_to = [record.configuration for record in caplog.records if record.message == "caBundle written"]
    assert min(written_to) == f"APIService {API_SERVICE}"
    spec = hub.documents[SERVICE]["spec"]
    assert {certificates_in(b64decode(spec["caBundle"])), *bundles(hub)} == {bundles(hub)[0]}
    assert spec["versionPriority"] == 15
    assert replica.kept.bundles_in_sync()["APIService"]
    assert not replica.kept.bundle_problem()
    written = list(hub.writes)
    await replica.settle()
    assert hub.writes == written
    hub.put(SERVICE, {"metadata": {"name": API_SERVICE}, "spec": {}})
    await replica.settle()
    assert hub.documents[SERVICE]["spec"]["caBundle"] == spec["caBundle"]


async def test_an_authority_is_not_served_before_the_api_service_trusts_it(hub, clock):
    hub.put(SERVICE, {"metadata": {"name": API_SERVICE}, "spec": {}})
    replica = Replica(hub, clock, API_SERVICE)
    await replica.settle()
    clock.now = DUE
    hub.refusal = {"apiservices": UnavailableError("away")}
    with suppress(StoreError):
        await replica.kept.settle()
    clock.now += SETTLING
    replica.renew()
    trusted = certificates_in(b64decode(hub.documents[SERVICE]["spec"]["caBundle"]))
    assert is_accepted(replica, trusted, clock.now)


@pytest.mark.parametrize("refusal", [None, ForbiddenError("no such right")], ids=["missing", "forbidden"])
async def test_without_the_api_service_the_hooks_are_served_as_ever(hub, clock, refusal):
    hub.refusal = {"apiservices": refusal} if refusal else {}
    replica = Replica(hub, clock, API_SERVICE)
    await replica.settle()
    assert is_called(hub, replica, clock.now)
    assert "APIService" not in replica.kept.bundles_in_sync()
