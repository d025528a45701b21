"""The stories of an outage, told of an installation whose Deployment is scaled to none."""

import pytest
from cluster import machines, watching
from cluster.api import ApiError
from cluster.test_outage_on_node import boot, test_it_goes_on_and_is_restarted_once_dravirt_is_back  # noqa: F401

pytestmark = pytest.mark.install


@pytest.fixture(autouse=True)
def outage(cluster, dravirt, api, namespace):
    """A claim template `vgpu`; at the end dravirt is up again."""
    api.apply(machines.template(namespace, "vgpu", machines.request("time-sliced")))
    yield
    dravirt.up()


def test_without_a_replica_a_new_opted_in_vm_is_refused_and_others_are_not(api, dravirt, namespace):
    dravirt.down()

    with pytest.raises(ApiError, match=r'failed calling webhook "vm\.dravirt\.io"'):
        api.apply(machines.vm(namespace, "asks", asks="vgpu"))
    api.apply(machines.vm(namespace, "without"))
    watching.launcher(api, namespace, "without")
