"""What the suites under the stand-in share."""

import pytest
from support.sidecars import launcher_pod


@pytest.fixture
def pod():
    """A pod on a node with an A100 in MIG mode and an A40; nothing is allocated to it yet."""
    with launcher_pod("a100-mig-mdev", "a40-mdev") as pod:
        yield pod
