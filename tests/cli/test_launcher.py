"""virt-launcher's side of the hook protocol, as `dravirt simulate` plays it."""

from pathlib import Path

import pytest

from cli import launcher
from dra.errors import Failed
from dra.reasons import Reason


def test_a_socket_on_which_nobody_listens_is_named(monkeypatch):
    monkeypatch.setattr(launcher, "_DIAL_SECONDS", 0.2)
    with pytest.raises(Failed, match=r"nobody listens on /nowhere/a\.sock") as error:
        launcher.connect(Path("/nowhere/a.sock"))
    assert error.value.reason is Reason.NOT_SERVING
