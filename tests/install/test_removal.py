"""After `kubectl delete -k`: nothing is left, and nothing is held up."""

import re

import pytest
from cluster import machines, watching

from install.inventory import inventory

pytestmark = pytest.mark.install

OF_TESTS = re.compile(r" (t\d+|witness)/| /(t\d+|witness)$")


def test_a_removal_leaves_nothing_and_holds_nothing_up(api, installation, before, witness, namespace):
    installation.delete()

    assert sorted(each for each in inventory(api) - before if not OF_TESTS.search(each)) == []
    assert witness.is_untouched()
    api.apply(machines.vm(namespace, "without"))
    watching.launcher(api, namespace, "without")
    api.apply(machines.vm(namespace, "asks", asks="vgpu"))
    watching.launcher(api, namespace, "asks")
    watching.clear(api, witness.namespace)
