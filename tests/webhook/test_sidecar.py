"""The hook sidecar's container: restricted, first to start, and sized so that the pod keeps its QoS class."""

import copy

import pytest
from support.admission import launcher_pod, qos_class

from webhook.config import Resources, SidecarConfig
from webhook.raw import mappings
from webhook.sidecar import container, is_guaranteed

CONFIG = SidecarConfig(image="registry.example/dravirt:1", log_level="debug")
CLAIMS = [{"name": "dravirt-gpu0"}]


def sidecar(config: SidecarConfig = CONFIG, *, intent: str = "{}", guaranteed: bool = False, limit_cpu: bool = False):
    return container(config, intent, CLAIMS, guaranteed=guaranteed, limit_cpu=limit_cpu)


def test_container_is_a_native_sidecar_from_the_configured_image():
    item = sidecar()
    assert (item["name"], item["image"], item["restartPolicy"]) == (
        "dravirt-hook",
        "registry.example/dravirt:1",
        "Always",
    )
    assert item["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_hs15_container_meets_pod_security_restricted():
    assert sidecar()["securityContext"] == {
        "runAsUser": 107,
        "runAsGroup": 107,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_container_has_no_selinux_label_of_its_own():
    assert "seLinuxOptions" not in str(sidecar())


def test_intent_survives_the_expansion_of_the_kubelet():
    env = sidecar(intent='{"x":"$(HOME) $HOME $$"}')["env"]
    assert env == [
        {"name": "DRAVIRT_INTENT", "value": '{"x":"$$(HOME) $$HOME $$$$"}'},
        {"name": "DRAVIRT_LOG_LEVEL", "value": "debug"},
    ]


def test_volumes_are_mounted_whole():
    assert sidecar()["volumeMounts"] == [
        {"name": "hook-sidecar-sockets", "mountPath": "/var/run/kubevirt-hooks"},
        {"name": "dravirt-state", "mountPath": "/var/lib/dravirt"},
    ]


def test_startup_is_probed_by_a_small_program_and_no_port():
    probe = sidecar()["startupProbe"]
    assert probe["exec"] == {"command": ["/usr/bin/test", "-S", "/var/run/kubevirt-hooks/dravirt.sock"]}
    assert set(probe) == {"exec", "periodSeconds", "timeoutSeconds", "failureThreshold"}
    assert probe["periodSeconds"] * probe["failureThreshold"] > 30
    assert not {"ports", "livenessProbe", "readinessProbe"} & set(sidecar())


@pytest.mark.parametrize(
    ("guaranteed", "limit_cpu", "requests", "limits"),
    [
        (False, False, {"cpu": "50m", "memory": "64M"}, {"memory": "64M"}),
        (False, True, {"cpu": "50m", "memory": "64M"}, {"memory": "64M", "cpu": "200m"}),
        (True, True, {"cpu": "200m", "memory": "64M"}, {"memory": "64M", "cpu": "200m"}),
        (True, False, {"cpu": "200m", "memory": "64M"}, {"memory": "64M", "cpu": "200m"}),
    ],
)
def test_hs13_requests_and_memory_limit_are_always_there(guaranteed, limit_cpu, requests: dict, limits: dict):
    """A CPU limit stretches the start, so it is there only where compute has one, which a quota would demand."""
    resources = sidecar(guaranteed=guaranteed, limit_cpu=limit_cpu)["resources"]
    assert resources == {"requests": requests, "limits": limits, "claims": CLAIMS}


def test_resources_are_those_of_the_configuration():
    config = SidecarConfig(resources=Resources("10m", "1", "128Mi"))
    resources = sidecar(config, limit_cpu=True)["resources"]
    assert resources["requests"] == {"cpu": "10m", "memory": "128Mi"}
    assert resources["limits"] == {"cpu": "1", "memory": "128Mi"}


def resources_of(cpu: tuple, memory: tuple) -> dict:
    sides = zip(("requests", "limits"), zip(cpu, memory, strict=True), strict=True)
    return {
        side: {name: amount for name, amount in zip(("cpu", "memory"), pair, strict=True) if amount is not None}
        for side, pair in sides
    }


EQUAL = resources_of(("4", "4"), ("8Gi", "8Gi"))
QOS = {
    "equal": ([EQUAL], "Guaranteed"),
    "equal, spelled apart": ([resources_of(("4", "4000m"), ("8Gi", "8192Mi"))], "Guaranteed"),
    "limits only": ([resources_of((None, "4"), (None, "8Gi"))], "Guaranteed"),
    "less asked than allowed": ([resources_of(("2", "4"), ("8Gi", "8Gi"))], "Burstable"),
    "no cpu limit": ([resources_of(("4", None), ("8Gi", "8Gi"))], "Burstable"),
    "no memory limit": ([resources_of(("4", "4"), ("8Gi", None))], "Burstable"),
    "one of two": ([EQUAL, resources_of(("1", "2"), ("1Gi", "1Gi"))], "Burstable"),
    "both": ([EQUAL, EQUAL], "Guaranteed"),
    "one without": ([EQUAL, {}], "Burstable"),
    "zero limit is none": ([resources_of(("0", "0"), ("8Gi", "8Gi"))], "Burstable"),
    "nothing": ([{}], "BestEffort"),
}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize(("resources", "qos"), QOS.values(), ids=QOS)
def test_guaranteed_pod_is_known_as_kubernetes_knows_it(resources: list, qos: str, kind: str):
    pod = launcher_pod()
    first, *others = copy.deepcopy(resources)
    pod["spec"]["containers"] = [{"name": "compute", "resources": first}]
    pod["spec"].setdefault(kind, []).extend({"name": f"c{i}", "resources": each} for i, each in enumerate(others))
    assert qos_class(pod) == qos
    containers = mappings(pod, "spec", "containers") + mappings(pod, "spec", "initContainers")
    assert is_guaranteed(containers) is (qos == "Guaranteed")


@pytest.mark.parametrize("containers", [[], [{}], [{"resources": None}]], ids=str)
def test_malformed_pod_is_not_guaranteed(containers: list):
    assert not is_guaranteed(containers)
