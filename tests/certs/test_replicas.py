"""Several replicas, one Secret, a clock that runs: at every instant what is served is trusted, and all agree.

The judge of a certificate is cryptography's own path building, at the time and under the caBundle that the slowest API
server has in use.
"""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.authorities import QUICK
from support.simulatedcluster import Cluster, Replica

from certs.cabundle import bundles
from certs.certificates import read_certificates, write_certificates
from certs.material import read_material
from certs.store import Conflict

LAGS = st.floats(0, (QUICK.propagation - 2 * QUICK.interval).total_seconds())
WORLDS = settings(max_examples=10, deadline=None)


def start(lag: float, replicas: int) -> tuple[Cluster, list[Replica]]:
    """Return a cluster whose first certificate is made and trusted."""
    cluster = Cluster(lag)
    running = [Replica(cluster) for _ in range(replicas)]
    for replica in running:
        replica.look()
    cluster.seconds += lag
    return cluster, running


def interrupt(random, replica, others) -> None:
    """Let another replica do all its work in the middle of this one's."""
    calls, at = iter(range(100)), random.randrange(8)

    def before() -> None:
        if next(calls) == at and others:
            random.choice(others).look()

    replica.access.before = before


def tick(random, cluster: Cluster, replicas: list[Replica]) -> None:
    """Let a second pass in which each replica looks once, in any order, one in the middle of another's work."""
    begin = cluster.seconds
    for replica in random.sample(replicas, len(replicas)):
        others = [each for each in replicas if each is not replica]
        interrupt(random, replica, others)
        for each in others:
            each.access.before = lambda: None
        replica.look()
        cluster.seconds += random.random() / len(replicas)
    cluster.seconds = begin + 1


def converged(cluster: Cluster, replicas: list[Replica]) -> None:
    material, faults = read_material(cluster.data())
    assert faults == ()
    assert {replica.leaf for replica in replicas} == {material.leaf}
    trust = [bundle for each in cluster.configurations.values() for bundle in bundles(each).values()]
    assert dict.fromkeys(trust) == {write_certificates(material.bundle): None}
    assert all(replica.is_trusted() for replica in replicas)


@WORLDS
@given(st.randoms(use_true_random=False), LAGS, st.integers(1, 3))
def test_tl10_whole_rotations_lose_no_call(random, lag, number):
    cluster, replicas = start(lag, number)
    authorities = set()
    for _ in range(90):
        tick(random, cluster, replicas)
        assert all(replica.is_trusted() for replica in replicas), cluster.seconds
        authorities.add(read_material(cluster.data())[0].authority.certificate)
    assert len(authorities) >= 3
    for _ in range(6):
        tick(random, cluster, replicas)
    converged(cluster, replicas)


@WORLDS
@given(st.randoms(use_true_random=False), LAGS)
def test_replicas_that_are_killed_at_any_step_lose_no_call(random, lag):
    cluster, replicas = start(lag, 2)
    for _ in range(70):
        if random.random() < 0.3:
            random.choice(replicas).restart()
        tick(random, cluster, replicas)
        assert all(replica.is_trusted() for replica in replicas), cluster.seconds


@pytest.mark.parametrize("_", range(20))
def test_tl03_replicas_that_start_at_once_agree_on_one_authority(_):
    cluster = Cluster()
    replicas = [Replica(cluster) for _ in range(3)]
    # each has read that there is nothing before any of them writes
    replicas[0].access.before = once(replicas[1].look, after=2)
    replicas[1].access.before = once(replicas[2].look, after=2)
    replicas[0].look()

    assert cluster.writes == 1
    assert len(read_material(cluster.data())[0].bundle) == 1
    converged(cluster, replicas)


def once(action, *, after):
    calls = iter(range(100))

    def before():
        if next(calls) == after:
            action()

    return before


def lose(cluster):
    cluster.set_secret(None)


def empty(cluster):
    cluster.set_secret({})


def wipe(cluster):
    cluster.set_trust(None)


def corrupt(cluster):
    cluster.set_secret({**cluster.data(), "tls.crt": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})


def mix(cluster):
    """Put a certificate with another's key into the Secret."""
    other = Cluster()
    Replica(other).look()
    cluster.set_secret({**cluster.data(), "tls.key": other.data()["tls.key"]})


def forget_authority(cluster):
    cluster.set_secret({**cluster.data(), "ca.crt": b""})


def forget_key(cluster):
    cluster.set_secret({**cluster.data(), "ca.key": b""})


HARMLESS = [lose, empty, corrupt, mix, forget_authority, forget_key]
"""What a replica that runs gets over without a lost call: it serves from memory."""


@WORLDS
@given(st.randoms(use_true_random=False), LAGS, st.lists(st.sampled_from(HARMLESS), min_size=1, max_size=4))
def test_a_secret_that_is_lost_or_broken_costs_no_call(random, lag, faults):
    cluster, replicas = start(lag, 2)
    for fault in faults:
        for _ in range(random.randrange(1, 30)):
            tick(random, cluster, replicas)
        fault(cluster)
        for _ in range(8):
            tick(random, cluster, replicas)
            assert all(replica.is_trusted() for replica in replicas), (cluster.seconds, fault)
    for _ in range(10):
        tick(random, cluster, replicas)
    converged(cluster, replicas)


JUMPS = st.sampled_from([-400, -30, -2, -0.001, 0.0001, 5, 100, 1000]).map(lambda days: dt.timedelta(days=days))


@WORLDS
@given(
    st.randoms(use_true_random=False),
    st.lists(st.one_of(JUMPS, st.sampled_from([*HARMLESS, wipe])), min_size=1, max_size=5),
)
def test_whatever_happens_it_heals_by_itself(random, events):
    cluster, replicas = start(1.0, 2)
    for event in events:
        if isinstance(event, dt.timedelta):
            cluster.jumped += event
        else:
            event(cluster)
        if random.random() < 0.5:
            tick(random, cluster, replicas)
        if random.random() < 0.3:
            random.choice(replicas).restart()
    for _ in range(10):
        tick(random, cluster, replicas)
    converged(cluster, replicas)


def test_tl01_a_wiped_ca_bundle_is_back_after_one_look():
    cluster, (replica,) = start(0, 1)
    before = write_certificates(read_material(cluster.data())[0].bundle)
    cluster.set_trust(None)
    assert not replica.is_trusted()

    replica.look()

    assert replica.is_trusted()
    assert {b for each in cluster.configurations.values() for b in bundles(each).values()} == {before}


@pytest.mark.parametrize("index", [0, 1, 2])
def test_tl01_the_ca_bundle_of_one_webhook_is_mended_alone(index):
    cluster, (replica,) = start(0, 1)
    cluster.set_trust(b"nonsense", of=index)

    replica.look()

    assert replica.is_trusted()


def test_nothing_is_written_while_nothing_is_due():
    cluster, replicas = start(0, 3)
    versions = [each["metadata"]["resourceVersion"] for each in cluster.configurations.values()]
    for _ in range(5):
        for replica in replicas:
            replica.look()
    assert cluster.writes == 1
    assert [each["metadata"]["resourceVersion"] for each in cluster.configurations.values()] == versions


def test_a_replica_that_stood_still_brings_no_old_bundle_back():
    cluster, (slow, quick) = start(0, 2)
    cluster.set_trust(None)

    def meanwhile():
        for _ in range(45):  # until a new authority has joined
            cluster.seconds += 1
            quick.look()

    slow.access.before = once(meanwhile, after=2)  # it has read both, and is about to patch
    slow.look()

    assert len({read_certificates(b) for each in cluster.configurations.values() for b in bundles(each).values()}) == 1
    assert slow.is_trusted()
    assert quick.is_trusted()
    assert {len(trust) for trust in cluster.used()} == {2}


def test_a_wiped_bundle_begins_the_wait_anew():
    cluster, (replica,) = start(0, 1)
    while len(read_material(cluster.data())[0].bundle) == 1:
        cluster.seconds += 1
        replica.look()
    leaf = replica.leaf
    for _ in range(2):
        for _ in range(3):
            cluster.seconds += 1
            replica.look()
        cluster.set_trust(None)
        replica.look()
    assert replica.leaf == leaf, "no API server had 4 seconds to learn of the new authority"


def test_a_conflict_that_never_ends_is_told():
    cluster, (replica,) = start(0, 1)
    cluster.seconds += 17  # the certificate is due, and good for 7 seconds more

    def write():
        cluster.set_secret(cluster.data())

    replica.access.before = write
    with pytest.raises(Conflict):
        replica.look()
    assert replica.is_trusted(), "what is served stays"
