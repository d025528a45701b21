"""A sidecar and the real service as processes: from the pod's token over TLS to the domain with the device."""

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from support.allocations import NODE, claim, device, pod, resource_slice, result
from support.apifolder import ApiFolder
from support.claimed import entry
from support.nodetree import LAYOUTS
from support.sidecars import DOMAIN, launcher_pod
from support.waiting import wait_until
from support.webhookserver import WebhookServer

from cli.throwaway import Certificate, issue

DEVICE = LAYOUTS["a100-mig-mdev"].device
SLICE = resource_slice(devices=[device("v0", mdevUUID=DEVICE), device("v1", mdevUUID="0" * 8 + DEVICE[8:])])
SHARED = "[{name: gpu0, resourceClaimName: shared}]"


@dataclass
class Site:
    """A cluster, its webhook, and a launcher pod on a node."""

    api: ApiFolder
    pod: object
    folder: Path
    certificate: Certificate
    server: WebhookServer | None = None
    port: int = 0

    def serve(self):
        """Start the webhook where it does not run, from the second time on at the same port."""
        config = self.folder / "config.json"
        ca = str(self.certificate.authority)
        config.write_text(json.dumps({"allocationService": {"caFile": ca}}))
        arguments = ["--config", str(config), "--kubeconfig", str(self.api.kubeconfig)]
        arguments += ["--port", str(self.port)] if self.port else []
        self.server = WebhookServer(arguments, self.folder, self.certificate)
        self.port = self.server.port

    def kill(self):
        self.server.end()
        self.server = None

    def environment(self, *entries, token="t1"):
        (self.folder / "token").write_text(token)
        service = {
            "url": f"https://127.0.0.1:{self.port or 9}",
            "ca": self.certificate.authority.read_text(),
            "serverName": "localhost",
            "tokenPath": str(self.folder / "token"),
        }
        return self.pod.environment(*(entries or [entry(request="vgpu")]), service=service)


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "webhook"
    folder.mkdir()
    with ApiFolder(tmp_path) as api, launcher_pod("a100-mig-mdev") as launcher:
        api.enter(pod("vm1"), "t1")
        api.put(claim("vm1-gpu0", owner=pod("vm1")), SLICE)
        site = Site(api, launcher, folder, issue(folder))
        site.serve()
        yield site
        if site.server:
            site.server.end()


def attached(sidecar):
    return sidecar.hook().define(DOMAIN).decode()


def attached_soon(sidecar):
    """Return the domain, asked for again and again as virt-handler does."""
    hook, end = sidecar.hook(), time.monotonic() + 20
    while True:
        try:
            return hook.define(DOMAIN).decode()
        except grpc.RpcError:
            if time.monotonic() > end:
                raise


def test_a_driver_that_writes_nothing_is_served(site):
    sidecar = site.pod.start(site.environment())
    assert DEVICE in attached(sidecar)
    (found,) = [each for each in sidecar.entries() if each["message"] == "devices found"]
    assert found["devices"][0]["source"] == "service"
    events = [each for each in site.server.log() if each["message"] == "allocations"]
    assert [each["status"] for each in events] == [200]
    assert "httpx" not in {each["logger"] for each in site.server.log()}


def test_an_mdev_made_at_prepare_is_found_once_the_driver_has_said_so(site):
    site.api.put(resource_slice(devices=[device("v0", type="vgpu")]))
    sidecar = site.pod.start(site.environment(), budget=(0.2, 0.6))
    status = {"driver": "vgpu.example.com", "pool": NODE, "device": "v0", "data": {"mdevUUID": DEVICE}}
    code, text = sidecar.hook().refusal()
    assert code == grpc.StatusCode.UNAVAILABLE
    assert "no_identity" in text
    site.api.put(claim("vm1-gpu0", owner=pod("vm1"), devices=[status]))
    assert DEVICE in attached_soon(sidecar)


def test_the_sidecar_waits_within_its_budget_and_then_says_why(site):
    site.kill()
    sidecar = site.pod.start(site.environment(), budget=(4, 2))  # (less by the first question)
    wait_until(lambda: "serving on" in sidecar.log(), what="the sidecar")
    assert 2 < sidecar.seconds_between("not attachable", "serving without devices") < 15
    code, text = sidecar.hook().refusal()
    assert code == grpc.StatusCode.UNAVAILABLE
    assert "service_unreachable" in text
    assert "Connection refused" in text
    assert "Metadata: " in text
    assert "Environment: " in text


def test_a_service_that_comes_back_is_asked_again(site):
    site.kill()
    sidecar = site.pod.start(site.environment(), budget=(0.5, 0.6))
    assert "service_unreachable" in sidecar.hook().refusal()[1]
    site.serve()
    assert DEVICE in attached_soon(sidecar)


@pytest.mark.parametrize("path", ["tokenreviews", "/pods/", "resourceclaims", "resourceslices"])
def test_killed_at_any_step_it_never_gives_a_wrong_device(site, path):
    site.api.fail({"path": path, "delay": 8})  # (the service gives up earlier: it is killed before it answers)
    sidecar = site.pod.start(site.environment(), budget=(0.3, 0.6), ready=False)
    wait_until(lambda: any(path in each for each in site.api.asked), what=f"the question for {path}")
    site.server.send(signal.SIGKILL)
    site.server.wait()
    sidecar.wait_ready()
    assert "service_unreachable" in sidecar.hook().refusal()[1]
    site.api.fail()
    site.serve()
    assert DEVICE in attached_soon(sidecar)


def test_after_kill_9_it_is_ready_again_from_its_state_with_everything_gone(site):
    environment = site.environment()
    first = site.pod.start(environment)
    before = attached(first)
    first.end(signal.SIGKILL)
    site.kill()
    site.api.clear("pods")
    (site.folder / "token").unlink()
    again = site.pod.start(environment)
    assert attached(again) == before
    assert again.seconds_between("devices are known from before the restart", "serving on") < 5
    assert "not attachable" not in again.log()


def test_the_kubelets_new_token_is_used(site):
    environment = site.environment(token="expired")
    sidecar = site.pod.start(environment, budget=(0.3, 0.6))
    code, text = sidecar.hook().refusal()
    assert code == grpc.StatusCode.UNAVAILABLE
    assert "invalid_token" in text
    (site.folder / "token").write_text("t1")
    assert DEVICE in attached_soon(sidecar)


def test_of_two_vms_with_one_claim_the_first_runs_and_the_other_gets_its_turn(site):
    first, second = (pod(name, claims={"dravirt-gpu0": "shared"}) for name in ("vm1", "vm2"))
    site.api.enter(first, "t1")
    site.api.enter(second, "t2")
    site.api.put(claim("shared", result("v0"), reserved=[first, second]))
    direct = entry(request="vgpu", claim="shared")
    with launcher_pod("a100-mig-mdev") as other:
        one = site.pod.start(site.environment(direct))
        environment = {**site.environment(direct, token="t2"), **folders(other)}
        # (the token file is shared here: the first has its device by now)
        two = other.start(environment, budget=(0.3, 0.6))
        assert DEVICE in attached(one)
        text = two.hook().refusal()[1]
        assert "claim_held" in text
        assert "held by pod 'vm1'" in text
        site.api.remove(first)
        site.api.put(claim("shared", result("v0"), reserved=[second]))
        assert DEVICE in attached_soon(two)


def test_metadata_does_not_go_past_the_one_who_has_the_claim(site):
    first, second = (pod(name, claims={"dravirt-gpu0": "shared"}) for name in ("vm1", "vm2"))
    site.api.put(first)
    site.api.enter(second, "t2")
    site.api.put(claim("shared", result("v0"), reserved=[first, second]))
    metadata = site.pod.metadata / "resourceclaims" / "shared" / "vgpu"
    metadata.mkdir(parents=True)
    written = site.pod.allocate()
    (metadata / written.name).write_text(written.read_text())
    sidecar = site.pod.start(site.environment(entry(request="vgpu", claim="shared"), token="t2"), budget=(0.3, 2))
    text = sidecar.hook().refusal()[1]
    assert "did not confirm" in text
    assert "claim_held" in text


def folders(other):
    return {key: value for key, value in other.environment(entry()).items() if key.endswith(("_DIR", "_ROOT"))}


def test_memory_with_the_service_stays_far_below_the_limit_of_the_container(site):
    environment = site.environment()
    lean = {name: value for name, value in environment.items() if not name.startswith("COVERAGE")}
    sidecar = site.pod.start(lean)
    hook = sidecar.hook()
    for _ in range(300):
        hook.define(DOMAIN)
    assert sidecar.status("VmRSS") <= 48 * 1024
