"""The main stories of the suites on a node, told of an installation."""

import pytest
from cluster.test_story import (  # noqa: F401
    allocated,
    boot,
    test_count_two_attaches_both_devices_in_the_order_of_their_names,
    test_two_kinds_in_one_vm,
)

pytestmark = pytest.mark.install
