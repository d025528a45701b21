"""The sidecar as a process, called as virt-launcher calls it: from start to SIGTERM, whatever happens in between."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import grpc
import pytest
from support.claimed import entry, template_folder
from support.domains import host_devices
from support.nodetree import A40_MDEV, A100_MDEV
from support.required import require
from support.sidecars import APIS, DOMAIN, launcher_pod
from support.waiting import wait_until

from hooksidecar.attachment import Budget

UNAVAILABLE, REFUSED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION
ENTRY = entry(request="vgpu")


@pytest.fixture
def pod():
    """A pod on a node with an A100 in MIG mode; nothing is allocated to it yet."""
    with launcher_pod("a100-mig-mdev", "a40-mdev") as pod:
        yield pod
        for sidecar in pod.sidecars:
            assert all(line.keys() >= {"time", "level", "message"} for line in sidecar.entries())


def attached(domain):
    return {name: element.find("source/address").get("uuid") for name, element in host_devices(domain).items()}


def reasons(sidecar):
    return [line.get("reason") for line in sidecar.entries()]


def test_cold_start_serves_both_layouts_in_every_version(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    for socket in sidecar.sockets:
        hook = sidecar.hook(socket)
        info = hook.info()
        assert list(info.versions) == ["v1alpha3", "v1alpha2", "v1alpha1"]
        assert [point.name for point in info.hookPoints] == ["OnDefineDomain"]
        for version in APIS:
            assert attached(hook.define(version=version)) == {"ua-gpu-gpu0": A100_MDEV}
    [found] = [line["devices"] for line in sidecar.entries() if "devices" in line]
    assert [(device["profile"], device["migBacked"], device["source"]) for device in found] == [
        ("GRID A100-1-5C", True, "metadata")
    ]


def test_hs09_both_layouts_are_served_in_one_folder(pod):
    pod.allocate()
    pod.start(pod.environment(ENTRY))
    there = {str(path.relative_to(pod.sockets)): path.is_socket() for path in pod.sockets.rglob("*")}
    assert there == {"dravirt.sock": True, "dravirt": False, "dravirt/dravirt.sock": True}


def test_authority_of_kubevirt_1_0_is_accepted(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    assert sidecar.hook(authority=str(sidecar.sockets[0])).info().name == "dravirt"


def test_second_define_gives_the_same_domain(pod):
    pod.allocate()
    hook = pod.start(pod.environment(ENTRY)).hook()
    first = hook.define()
    assert hook.define(first) == first


def test_socket_appears_when_late_metadata_has_come(pod):
    sidecar = pod.start(pod.environment(ENTRY), ready=False)
    wait_until(sidecar.log, seconds=40, what="the log")
    time.sleep(1)
    assert sidecar.process.poll() is None
    assert not list(pod.sockets.iterdir())
    assert reasons(sidecar) == ["unresolved"], "the same answer is logged once"
    pod.allocate()
    sidecar.wait_ready()
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_dr04_after_the_budget_the_reason_is_answered_and_the_next_call_finds_the_device(pod):
    hook = pod.start(pod.environment(ENTRY), budget=(1, 0.6)).hook()
    assert hook.info().name == "dravirt"
    code, text = hook.refusal()
    assert code is UNAVAILABLE
    assert text.startswith("dravirt: device 'gpu0' (claim template 'vgpu', request 'vgpu', pod claim 'dravirt-gpu0'): ")
    assert f"{pod.metadata}/resourceclaimtemplates/dravirt-gpu0 is not there" in text
    assert "the API server" in text
    assert text.endswith("(reason: unresolved)")
    pod.allocate()
    assert attached(hook.define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_device_that_appears_during_a_call_is_used_in_it(pod):
    hook = pod.start(pod.environment(ENTRY), budget=(0, 5)).hook()
    threading.Timer(1.5, pod.allocate).start()
    assert attached(hook.define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_one_call_tries_for_five_seconds_at_most(pod):
    hook = pod.start(pod.environment(ENTRY), budget=(0, 5)).hook()
    started = time.monotonic()
    hook.refusal()
    assert 4 <= time.monotonic() - started <= 8


def test_cut_metadata_is_read_when_it_is_whole(pod):
    file = pod.allocate()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    sidecar = pod.start(pod.environment(ENTRY), budget=(1, 0.6))
    code, text = sidecar.hook().refusal()
    assert (code, text[-26:]) == (UNAVAILABLE, "(reason: invalid_metadata)")
    file.write_bytes(whole)
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_dr23_wrong_request_is_refused_with_those_that_exist(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(entry(request="vgpuu")), budget=(0, 5))
    code, text = sidecar.hook().refusal()
    assert code is REFUSED
    assert "no request 'vgpuu', there is vgpu" in text


def test_vg09_vm_never_starts_with_fewer_devices(pod):
    pod.allocate(request="left")
    two = (entry("gpu0", request="left"), entry("gpu1", request="right", podClaim="dravirt-gpu0"))
    code, text = pod.start(pod.environment(*two), budget=(0, 5)).hook().refusal()
    assert code is REFUSED
    assert "request 'right'" in text


def test_sub_request_is_attached_by_the_name_of_its_request(pod):
    file = pod.allocate(request="vgpu")
    file.write_text(file.read_text().replace('"vgpu"', '"vgpu/small"'))
    assert attached(pod.start(pod.environment(ENTRY)).hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_environment_names_the_device_where_no_metadata_is_written(pod):
    environment = pod.environment(ENTRY) | {"MDEV_PCI_RESOURCE_EXAMPLE_COM_VGPU": A100_MDEV}
    assert attached(pod.start(environment).hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_node_is_checked_again_in_every_define(pod):
    pod.allocate()
    hook = pod.start(pod.environment(ENTRY)).hook()
    link = pod.folder / "node/sys/bus/mdev/devices" / A100_MDEV
    target = link.readlink()
    link.unlink()
    code, text = hook.refusal()
    assert code is REFUSED
    assert f"device 'gpu0' ({A100_MDEV}, named by metadata)" in text
    assert text.endswith("(reason: mdev_missing)")
    link.symlink_to(target)
    assert attached(hook.define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_resolved_device_stays_whatever_the_metadata_says_later(pod):
    pod.allocate()
    hook = pod.start(pod.environment(ENTRY)).hook()
    pod.allocate("a40-mdev")
    assert attached(hook.define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_device_that_the_node_refuses_is_not_pinned(pod):
    file = pod.allocate()
    file.write_text(file.read_text().replace(A100_MDEV, A100_MDEV.replace("b0", "b1")))
    hook = pod.start(pod.environment(ENTRY), budget=(0, 5)).hook()
    assert hook.refusal()[1].endswith("(reason: mdev_missing)")
    pod.allocate("a40-mdev")
    assert attached(hook.define()) == {"ua-gpu-gpu0": A40_MDEV}


@pytest.mark.parametrize(
    ("domain", "vmi", "reason"),
    [(b"<domain", b"{}", "invalid_domain"), (DOMAIN, b"{", "invalid_vmi"), (DOMAIN, b"[]", "invalid_vmi")],
    ids=["cut-domain", "cut-vmi", "vmi-is-a-list"],
)
def test_what_cannot_be_read_is_refused(pod, domain, vmi, reason):
    pod.allocate()
    code, text = pod.start(pod.environment(ENTRY)).hook().refusal(domain, vmi)
    assert code is REFUSED
    assert text.endswith(f"(reason: {reason})")


def test_info_is_answered_while_a_define_looks_for_devices(pod):
    sidecar = pod.start(pod.environment(ENTRY), budget=(0, 5))
    refusals = []
    call = threading.Thread(target=lambda: refusals.append(sidecar.hook().refusal()))
    call.start()
    answers = 0
    while call.is_alive():
        assert sidecar.hook().info(timeout=2).name == "dravirt"
        answers += 1
        time.sleep(0.2)
    assert answers > 1
    assert refusals[0][0] is UNAVAILABLE


def test_hs05_shutdown_is_answered_and_the_sidecar_stays(pod):
    # A native sidecar that ends is started again; the kubelet ends it with the pod.
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    hook = sidecar.hook()
    hook.stub("v1alpha3").Shutdown(APIS["v1alpha3"][0].ShutdownParams(), timeout=5)
    time.sleep(0.5)
    assert sidecar.process.poll() is None
    assert attached(hook.define()) == {"ua-gpu-gpu0": A100_MDEV}


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3"])
def test_cloud_init_is_answered_as_it_came(pod, version):
    pod.allocate()
    stub = pod.start(pod.environment(ENTRY)).hook().stub(version)
    params = APIS[version][0].PreCloudInitIsoParams(cloudInitNoCloudSource=b"\x00a", vmi=b"{}", cloudInitData=b"b")
    result = stub.PreCloudInitIso(params, timeout=5)
    assert (result.cloudInitNoCloudSource, result.cloudInitData) == (b"\x00a", b"b")


def test_kill_and_restart_with_all_sources_gone_serves_the_same_devices(pod):
    pod.allocate()
    first = pod.start(pod.environment(ENTRY))
    domain = first.hook().define()
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    shutil.rmtree(pod.metadata)
    assert all(socket.is_socket() for socket in first.sockets), "stale sockets are part of the case"
    second = pod.start(pod.environment(ENTRY), ready=False)
    wait_until(lambda: "serving" in second.log(), seconds=40, what="the second sidecar")
    assert second.hook().info().name == "dravirt"
    assert second.hook().define() == domain
    assert second.seconds_between("devices are known from before the restart", "serving on") < 5
    assert "not attachable" not in second.log()
    assert [device["source"] for line in second.entries() for device in line.get("devices", [])] == ["state"]


def test_stale_sockets_do_not_make_a_searching_sidecar_look_ready(pod):
    pod.allocate()
    environment = pod.environment(ENTRY) | {"DRAVIRT_STATE_DIR": "/proc"}
    assert pod.start(environment).end(signal.SIGKILL) == -signal.SIGKILL
    shutil.rmtree(pod.metadata)
    second = pod.start(environment, ready=False)
    wait_until(lambda: "unresolved" in second.log(), seconds=40, what="the search")
    assert not [path for path in pod.sockets.rglob("*") if path.is_socket()]


def test_state_of_another_intent_is_reported_and_not_used(pod):
    pod.allocate()
    assert pod.start(pod.environment(ENTRY)).end() == 0
    pod.allocate("a40-mdev")
    sidecar = pod.start(pod.environment(ENTRY | {"display": False}))
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A40_MDEV}
    assert "invalid_state" in reasons(sidecar)


def test_broken_state_is_reported_and_not_used(pod):
    pod.allocate()
    (pod.state / "devices.json").write_text('{"version": 1,')
    sidecar = pod.start(pod.environment(ENTRY))
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}
    assert "invalid_state" in reasons(sidecar)


def test_read_only_state_folder_is_a_warning(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY) | {"DRAVIRT_STATE_DIR": "/proc"})  # read-only for root as well
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}
    [warning] = [line for line in sidecar.entries() if line.get("reason") == "unwritable"]
    assert warning["level"] == "warning"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_stop_ends_with_0_and_removes_the_sockets(pod, stop):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    sidecar.hook().info()
    assert sidecar.end(stop) == 0
    assert not [path for path in pod.sockets.rglob("*") if path.is_socket()]


def test_stop_lets_the_running_call_finish(pod):
    sidecar = pod.start(pod.environment(ENTRY), budget=(0, 5))
    answers = []
    call = threading.Thread(target=lambda: answers.append(attached(sidecar.hook().define())))
    call.start()
    wait_until(lambda: reasons(sidecar).count("unresolved") == 3, what="the call")  # two are from the start
    sidecar.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert sidecar.process.poll() is None
    pod.allocate()
    call.join()
    assert answers == [{"ua-gpu-gpu0": A100_MDEV}]
    assert sidecar.process.wait(15) == 0


def test_stop_before_serving_ends_with_0(pod):
    sidecar = pod.start(pod.environment(ENTRY), ready=False)
    wait_until(sidecar.log, seconds=40, what="the log")
    assert sidecar.end() == 0
    assert not list(pod.sockets.iterdir())


def test_hs03_stale_sockets_and_a_strict_umask_do_not_keep_clients_out(pod):
    pod.allocate()
    first = pod.start(pod.environment(ENTRY), umask=0o077)
    assert [socket.stat().st_mode & 0o777 for socket in first.sockets] == [0o777, 0o777]
    assert (pod.sockets / "dravirt").stat().st_mode & 0o777 == 0o777
    first.end(signal.SIGKILL)
    second = pod.start(pod.environment(ENTRY), umask=0o077)
    wait_until(lambda: "serving" in second.log(), seconds=40, what="the second sidecar")
    for socket in second.sockets:
        assert second.hook(socket).info().name == "dravirt"


# What runs as another user may not be able to read this interpreter's library, so everything is imported before.
AS_QEMU = """
import os, socket, sys
from hooksidecar.main import serve
os.setgroups([])
os.setgid({gid})
os.setuid(107)
"""
SERVE_AS_QEMU = AS_QEMU.format(gid=107) + "sys.exit(serve(os.environ))"
CONNECT_AS_QEMU = AS_QEMU.format(gid=4242) + "for each in sys.argv[1:]: socket.socket(socket.AF_UNIX).connect(each)"


def test_hs03_client_of_another_group_can_connect(pod):
    require(os.geteuid() == 0, "only root can start processes of other users")
    pod.allocate()
    for folder in (pod.sockets, pod.state):
        os.chown(folder, 107, 107)
    sidecar = pod.start(pod.environment(ENTRY), code=SERVE_AS_QEMU, umask=0o077)
    assert sidecar.status("Uid") == 107
    subprocess.run([sys.executable, "-c", CONNECT_AS_QEMU, *map(str, sidecar.sockets)], check=True)
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_requests_of_5_mib_are_taken(pod):
    pod.allocate()
    hook = pod.start(pod.environment(ENTRY)).hook()
    comment = b"<!--" + b"x" * (5 << 20) + b"--></domain>"
    big = DOMAIN.replace(b"</domain>", comment)
    assert attached(hook.define(big)) == {"ua-gpu-gpu0": A100_MDEV}
    assert attached(hook.define(vmi=b'{"x": "' + b"y" * (5 << 20) + b'"}')) == {"ua-gpu-gpu0": A100_MDEV}


@pytest.mark.parametrize("text", [None, "", "{", '{"version": 7}', '{"version": 1, "devices": []}'])
def test_broken_intent_ends_with_1_and_serves_nothing(pod, text):
    environment = pod.environment(ENTRY) | {"DRAVIRT_INTENT": text or ""}
    if text is None:
        del environment["DRAVIRT_INTENT"]
    sidecar = pod.start(environment, ready=False)
    assert sidecar.process.wait(40) == 1
    assert reasons(sidecar) == ["invalid_intent"]
    assert not list(pod.sockets.iterdir())


def _no_folder(pod):
    pod.sockets.rmdir()


def _folder_in_the_way(pod):
    (pod.sockets / "dravirt.sock").mkdir()


def _file_in_the_way(pod):
    (pod.sockets / "dravirt").touch()


@pytest.mark.parametrize("harm", [_no_folder, _folder_in_the_way, _file_in_the_way])
def test_sockets_that_cannot_be_made_end_with_3(pod, harm):
    pod.allocate()
    harm(pod)
    sidecar = pod.start(pod.environment(ENTRY), ready=False)
    assert sidecar.process.wait(40) == 3
    assert reasons(sidecar)[-1] == "unwritable"


def test_socket_path_that_is_too_long_ends_with_3(pod):
    pod.allocate()
    long = pod.folder / ("x" * 90)
    long.mkdir()
    sidecar = pod.start(pod.environment(ENTRY) | {"DRAVIRT_SOCKET_DIR": str(long)}, ready=False)
    assert sidecar.process.wait(40) == 3
    assert "longer than 107 bytes" in sidecar.entries()[-1]["message"]


def test_unknown_log_level_does_not_stop_the_vm(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY) | {"DRAVIRT_LOG_LEVEL": "loud"})
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_message_that_is_none_is_refused_and_the_next_one_answered(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY))
    channel = grpc.insecure_channel(f"unix:{sidecar.sockets[0]}")
    with channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain")(b"\x0a\xff", timeout=5)
    assert attached(sidecar.hook().define()) == {"ua-gpu-gpu0": A100_MDEV}


def test_budgets_are_what_virt_launcher_and_the_startup_probe_allow():
    assert Budget() == Budget(start=30, call=5)


def test_nothing_of_domain_or_vmi_is_logged(pod):
    pod.allocate()
    sidecar = pod.start(pod.environment(ENTRY) | {"DRAVIRT_LOG_LEVEL": "debug"})
    sidecar.hook().define(vmi=b'{"spec": {"userData": "hunter2"}}')
    sidecar.hook().refusal(DOMAIN.replace(b"ns_vm", b"hunter2").replace(b"ua-gpu-gpu0", b"ua-other"))
    assert "hunter2" not in sidecar.log()


def test_metadata_of_another_pod_claim_is_not_read(pod):
    pod.allocate()
    shutil.move(template_folder(pod.metadata, "vgpu").parent, pod.metadata / "resourceclaimtemplates" / "other")
    sidecar = pod.start(pod.environment(ENTRY), budget=(0, 0.6))
    assert sidecar.hook().refusal()[0] is UNAVAILABLE
