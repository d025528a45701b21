"""The main stories of the suites, told of an installation."""

import pytest
from cluster.test_annotation import test_a_wrong_one_is_denied_with_the_field_and_the_remedy  # noqa: F401
from cluster.test_story import (  # noqa: F401
    allocated,
    boot,
    test_a_direct_claim,
    test_count_two_attaches_both_devices_in_the_order_of_their_names,
    test_two_kinds_in_one_vm,
)

pytestmark = [pytest.mark.install, pytest.mark.usefixtures("installation")]
