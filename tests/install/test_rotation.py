"""Rotations of an installation that is asked all the time: certificates of seconds, real clocks, no call that fails."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from cluster.controlplane import ADMIN
from cluster.images import TREE
from cluster.process import until

from install.rotations import QUICK, ROTATION, SHORT, look, settled, through
from install.witness import restarts

pytestmark = pytest.mark.install

CUT_OFF = re.compile(
    "connection refused|connection reset by peer|EOF$|broken pipe"
    "|server closed idle connection|use of closed network connection|write HTTP request on broken connection"
)
"""What Go says of a connection that the other side has cut, depending on what it was about to do with it."""


@pytest.fixture(scope="module", autouse=True)
def short_lives(installation):
    """Certificates that live for seconds while the tests of this module run, and short waits from then on."""
    installation.arguments = SHORT
    installation.apply()
    installation.wait_until_ready()
    before = look(installation)
    installation.kubectl("-n", installation.namespace, "delete", "secret", "dravirt-webhook-tls")
    until(lambda: look(installation).authority not in {"", before.authority}, seconds=60, what="another authority")
    settled(installation)
    yield
    installation.arguments = QUICK
    installation.apply()
    installation.wait_until_ready()


@pytest.fixture
def rotate(cluster, installation):
    """Begin a rotation, as an administrator would; return what was there before."""

    def _rotate():
        before = look(installation)
        plane = cluster.control_plane
        command = [sys.executable, "-m", "cli", "certs", "rotate", f"--kubeconfig={plane.kubeconfig(ADMIN)}", *SHORT]
        subprocess.run([*command, f"--namespace={installation.namespace}"], check=True, timeout=60, cwd=TREE)
        return before

    return _rotate


def test_tl10_whole_rotations_of_authority_and_certificate_lose_no_call(installation, load):
    with load() as running:
        for _ in through(installation, look(installation), ROTATION * 2):
            pass
        settled(installation)

    print("calls through two rotations:", running.count)  # noqa: T201
    assert running.failures == []
    assert running.count > 200


def test_a_replica_that_is_deleted_at_every_step_loses_no_call(installation, rotate, load):
    with load() as running:
        for _ in through(installation, rotate(), ROTATION):
            oldest, *_ = installation.pods()
            installation.delete_pod(oldest)
            installation.wait_until_ready()
        settled(installation)

    print("calls through a rotation, with a replica deleted at each step:", running.count)  # noqa: T201
    assert running.failures == []
    assert running.count > 100


def test_a_replica_that_is_killed_at_every_step_loses_what_it_had_at_hand(installation, node, rotate, load):
    times = []
    with load() as running:
        for number, _ in enumerate(through(installation, rotate(), ROTATION)):
            pod = installation.pods()[number % 2]
            begin = time.monotonic()
            os.kill(node.pid(pod, "webhook"), signal.SIGKILL)
            _wait_for_restart(installation.api, pod)
            installation.wait_until_ready()
            times.append((begin, time.monotonic()))
        settled(installation)

    costs = [[each for each in running.failures if begin <= each.at <= end] for begin, end in times]
    print("calls that a kill cost:", [len(each) for each in costs], "of", running.count)  # noqa: T201
    assert sum(map(len, costs)) == len(running.failures), "a call failed without a kill"
    assert all(CUT_OFF.search(each.text) for each in running.failures)


def _wait_for_restart(api, pod):
    until(lambda: restarts(api.refresh(pod)) > restarts(pod), seconds=60, what="the container started again")


def test_the_witness_was_never_touched(witness):
    assert witness.is_untouched()
