"""What all tests share: the corpus."""

from pathlib import Path

import pytest
from hypothesis import settings
from support import corpus as corpora
from support.required import require

# A busy machine is not slow code: bench/ measures.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("corpus"):
        require(corpora.corpus_root(), corpora.MISSING)


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
