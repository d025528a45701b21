"""What all tests share: the corpus, a log of their own, and a gRPC that leaves forks alone."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support import corpus as corpora
from support.required import require

# libvirt is in these processes too, and forks to start QEMU. In such a child, gRPC's handlers of forks wait for
# descriptors that libvirt closed, and QEMU never starts. Read when gRPC is first used; nothing here needs the handlers.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

# A busy machine is not slow code: bench/ measures.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("corpus"):
        require(corpora.corpus_root(), corpora.MISSING)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Take away the handler of a command that ran in this process: its stderr was the test's, and is closed."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:  # (pytest's are of classes of their own)
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def corpus() -> Path:
    """The folder of the corpus: `kubevirt/` and `live/`."""
    root = corpora.corpus_root()
    require(root, corpora.MISSING)
    assert root
    return root


@pytest.fixture
def bug_inputs(corpus: Path) -> Path:
    """The folder of the inputs that came with bug reports."""
    folder = corpus.parent / "bugs" / "inputs"
    require(folder.is_dir(), f"there is no {folder}")
    return folder
