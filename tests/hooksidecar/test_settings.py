"""The sidecar's environment: the contract's names and defaults."""

from pathlib import Path

import pytest
from support.claimed import entry, intent, intent_json

from dra.errors import Refused
from dra.reasons import Reason
from hooksidecar.settings import Settings

TEXT = intent_json(entry())


def test_defaults_are_the_paths_of_a_launcher_pod():
    settings = Settings.of({"DRAVIRT_INTENT": TEXT, "DRAVIRT_ROOT": ""})
    assert settings == Settings(
        intent=intent(entry()),
        socket_dir=Path("/var/run/kubevirt-hooks"),
        state_dir=Path("/var/lib/dravirt"),
        root=Path("/"),
        metadata_dir=Path("/var/run/kubernetes.io/dra-device-attributes"),
    )


def test_every_path_can_be_set():
    paths = {"DRAVIRT_SOCKET_DIR": "/s", "DRAVIRT_STATE_DIR": "/t", "DRAVIRT_ROOT": "/r", "DRAVIRT_METADATA_DIR": "/m"}
    settings = Settings.of({"DRAVIRT_INTENT": TEXT, **paths})
    assert [settings.socket_dir, settings.state_dir, settings.root, settings.metadata_dir] == [
        Path(path) for path in paths.values()
    ]


@pytest.mark.parametrize(
    "environ",
    [{}, {"DRAVIRT_INTENT": ""}, {"DRAVIRT_INTENT": "{"}, {"DRAVIRT_INTENT": '{"version": 2}'}],
    ids=["absent", "empty", "no-json", "unknown-version"],
)
def test_broken_intent_is_refused(environ):
    with pytest.raises(Refused, match="DRAVIRT_INTENT") as raised:
        Settings.of(environ)
    assert raised.value.reason is Reason.INVALID_INTENT
