"""The stand-in for virt-launcher, case by case: what it accepts, in which order it calls, when it panics."""

import shutil
import tempfile
import time
from pathlib import Path

import pytest
from integration.launcher.cases import CASES, Case
from integration.launcher.stage import Stage
from support import launcher
from support.launcher import INFO, RELEASES, Fault, HookManager, Panic
from support.otherhooks import other_hook

DOMAIN = b"<domain/>"


@pytest.fixture
def folder():
    """An empty shared folder whose path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="dravirt-"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("case", [case for case in CASES if case.nested is not None], ids=str)
def test_sockets_in_subfolders(folder, case):
    check(folder, case, "v1.8", case.nested)


@pytest.mark.parametrize("case", [case for case in CASES if case.flat is not None], ids=str)
def test_sockets_in_the_folder_itself(folder, case):
    check(folder, case, "v1.5", case.flat)


def check(folder: Path, case: Case, release: str, outcome: object) -> None:
    with Stage(folder, case) as stage:
        manager = HookManager(folder, RELEASES[release], **({"info": INFO} if outcome is Fault.INFO else {}))
        if isinstance(outcome, Fault):
            with pytest.raises(Panic) as panic:
                manager.collect(case.expected, case.timeout)
            assert panic.value.fault is outcome
            return
        manager.collect(case.expected, case.timeout)
        domain = manager.on_define_domain(DOMAIN, b"{}")
        assert domain == DOMAIN + "".join(path for path, _ in outcome).encode(), "each is given the answer of the last"
        assert stage.called("OnDefineDomain") == set(outcome)
        manager.shutdown()
        assert {path for path, _ in stage.called("Shutdown")} == set(case.shutdown)


class StandStill:
    """A clock that stands still between the pauses asked for, which it keeps."""

    def __init__(self):
        self.pauses = []

    def monotonic(self):
        return sum(self.pauses)

    def sleep(self, seconds):
        self.pauses.append(seconds)


@pytest.mark.parametrize(("release", "pause"), [("v1.6", 1), ("v1.8", 0.3)])
def test_a_second_a_scan_up_to_1_7_and_three_a_second_from_1_8_on(folder, monkeypatch, release, pause):
    clock = StandStill()
    monkeypatch.setattr(launcher, "time", clock)
    with other_hook(folder / "a" / "a.sock"):
        HookManager(folder, RELEASES[release]).collect(1, 5)
    assert clock.pauses == [pause]


def test_info_that_is_quick_is_in_time_for_virt_launcher(folder):
    with other_hook(folder / "a" / "a.sock"):
        manager = HookManager(folder, RELEASES["v1.8"], info=INFO)
        manager.collect(1, 30)
    assert manager.callbacks.keys() == {"OnDefineDomain", "Shutdown"}


def test_up_to_1_5_an_empty_folder_is_waited_for_beyond_the_timeout(folder):
    manager = HookManager(folder, RELEASES["v1.5"])
    started = time.monotonic()
    with pytest.raises(Panic):
        manager.collect(1, 1)
    assert time.monotonic() - started >= 2


def test_up_to_1_1_the_second_version_is_the_newest(folder):
    with other_hook(folder / "a.sock", versions=("v1alpha1", "v1alpha2", "v1alpha3")) as hook:
        manager = HookManager(folder, RELEASES["v1.0"])
        manager.collect(1, 30)
        manager.on_define_domain(DOMAIN, b"{}")
        assert [call[:2] for call in hook.calls] == [("v1alpha2", "OnDefineDomain")]


def test_folder_that_cannot_be_read_ends_virt_launcher(folder):
    with pytest.raises(Panic) as panic:
        HookManager(folder / "none", RELEASES["v1.8"]).collect(1, 1)
    assert panic.value.fault is Fault.FOLDER
