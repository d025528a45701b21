"""The facts about a launcher pod: whose it is, where its hook flag stands, how many placeholders it asks for."""

import json

import pytest
from support.admission import INJECTED, RESOURCE, compute_of, launcher_pod

from dra.claims import PodClaim
from webhook.launcher import HookFlag, Launcher, is_launcher

OWNER = launcher_pod()["metadata"]["ownerReferences"][0]


def test_pod_of_a_vmi_is_a_launcher():
    assert is_launcher(launcher_pod())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", None),
        ("labels", {}),
        ("labels", {"kubevirt.io": "hotplug-disk"}),
        ("labels", {"kubevirt.io": ["virt-launcher"]}),
        ("ownerReferences", None),
        ("ownerReferences", []),
        ("ownerReferences", "VirtualMachineInstance"),
        ("ownerReferences", [None, 1]),
        ("ownerReferences", [OWNER | {"kind": "ReplicaSet"}]),
        ("ownerReferences", [OWNER | {"apiVersion": "example.org/v1"}]),
        ("ownerReferences", [OWNER | {"apiVersion": "kubevirt.io.example.org/v1"}]),
        ("ownerReferences", [OWNER | {"apiVersion": None}]),
        ("ownerReferences", [OWNER | {"controller": False}]),
        ("ownerReferences", [OWNER | {"controller": "true"}]),
        ("ownerReferences", [{key: OWNER[key] for key in OWNER if key != "controller"}]),
    ],
)
def test_pod_without_label_or_owner_is_none(field: str, value: object):
    pod = launcher_pod()
    pod["metadata"][field] = value
    assert not is_launcher(pod)


@pytest.mark.parametrize("version", ["v1", "v1alpha3"])
def test_owner_may_be_of_any_version_and_stand_beside_others(version: str):
    pod = launcher_pod()
    pod["metadata"]["ownerReferences"] = [{"kind": "X"}, OWNER | {"apiVersion": f"kubevirt.io/{version}"}]
    assert is_launcher(pod)


def flag_of(command: object, args: object = None) -> HookFlag | None:
    pod = launcher_pod()
    compute = compute_of(pod)
    compute["command"] = command
    if args is not None:
        compute["args"] = args
    return Launcher.of(pod).hook_flag


@pytest.mark.parametrize(
    ("command", "args", "flag", "next_item"),
    [
        (["v", "--hook-sidecars", "0"], None, HookFlag("command", 2, 0), "1"),
        (["v", "--hook-sidecars", "2", "--x"], ["--y"], HookFlag("command", 2, 2), "3"),
        (["v"], ["--x", "--hook-sidecars", "1"], HookFlag("args", 2, 1), "2"),
        (["v", "--hook-sidecars=9"], None, HookFlag("command", 1, 9, "--hook-sidecars="), "--hook-sidecars=10"),
        (["v"], ["--hook-sidecars=0"], HookFlag("args", 0, 0, "--hook-sidecars="), "--hook-sidecars=1"),
        (None, ["--hook-sidecars", "0"], HookFlag("args", 1, 0), "1"),
        ([1, None, "--hook-sidecars", "0"], None, HookFlag("command", 3, 0), "1"),
    ],
)
def test_hs11_hook_flag_is_found_in_either_place_and_form(command, args, flag: HookFlag, next_item: str):
    found = flag_of(command, args)
    assert found == flag
    assert found.incremented() == next_item


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ([], None),
        (None, None),
        ("--hook-sidecars 0", None),
        ({"--hook-sidecars": "0"}, None),
        (["/bin/bash", "-c", "echo", "bound PVCs"], None),
        (["v", "--hook-sidecars"], ["0"]),
        (["v", "--hook-sidecars", "many"], None),
        (["v", "--hook-sidecars", 1], None),
        (["v", "--hook-sidecars", "-1"], None),
        (["v", "--hook-sidecars", "1.5"], None),
        (["v", "--hook-sidecars", "1e3"], None),
        (["v", "--hook-sidecars", "\u0661"], None),
        (["v", "--hook-sidecars", "9" * 5000], None),
        (["v", "--hook-sidecars="], None),
        (["v", "--hook-sidecars=", "1"], None),
        (["v", "--hook-sidecars-x=1"], None),
        (["v", "--hook-sidecars\n", "1"], None),
    ],
)
def test_flag_without_a_number_is_none(command: object, args: object):
    assert flag_of(command, args) is None


@pytest.mark.parametrize(
    ("limits", "requests", "count"),
    [
        ({RESOURCE: "1"}, {RESOURCE: "1"}, 1),
        ({RESOURCE: "32"}, None, 32),
        (None, {RESOURCE: "2"}, 2),
        ({RESOURCE: 2}, {}, 2),
        ({RESOURCE: "1k"}, {}, 1000),
        ({RESOURCE: "1e3"}, {}, 1000),
        ({RESOURCE: "1000m"}, {}, 1),
        ({RESOURCE: None}, {RESOURCE: None}, 0),
        ({}, {}, 0),
        (None, None, 0),
        ("x", [], 0),
        ({RESOURCE: "1.5"}, {}, -1),
        ({RESOURCE: "-1"}, {}, -1),
        ({RESOURCE: ""}, {}, -1),
        ({RESOURCE: True}, {}, -1),
        ({RESOURCE: ["1"]}, {}, -1),
        ({RESOURCE: "one"}, {}, -1),
        ({RESOURCE: "9" * 5000}, {}, -1),
    ],
)
def test_placeholders_are_counted(limits: object, requests: object, count: int):
    pod = launcher_pod()
    compute_of(pod)["resources"] = {"limits": limits, "requests": requests}
    assert Launcher.of(pod).placeholders == count


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        (None, None),
        ("", ""),
        ("{}", ""),
        ("x", ""),
        ("[]", ""),
        ('"skipped"', ""),
        ("[" * 100_000, ""),
        ("1" * 5000, ""),
        (5, ""),
        (["{}"], ""),
        ('{"mode": "other"}', ""),
        ('{"mode": ["skipped"]}', ""),
        ('{"mode": "skipped"}', "skipped"),
        ('{"mode": "placeholder"}', "placeholder"),
    ],
    ids=str,
)
def test_marker_of_any_shape_is_read(text: object, marker: object):
    pod = launcher_pod()
    if text is not None:
        pod["metadata"]["annotations"][INJECTED] = text
    assert Launcher.of(pod).marker == marker


def test_compute_is_found_by_its_name():
    pod = launcher_pod()
    pod["spec"]["containers"].insert(0, {"name": "istio-proxy", "command": ["--hook-sidecars", "7"]})
    launcher = Launcher.of(pod)
    assert launcher.compute == 1
    assert launcher.hook_flag == HookFlag("command", 4, 0)


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"containers": [{"name": "other"}]}], ids=json.dumps)
def test_pod_without_compute_has_no_flag_and_no_placeholder(spec: object):
    launcher = Launcher.of(launcher_pod() | {"spec": spec})
    assert (launcher.compute, launcher.hook_flag, launcher.placeholders) == (None, None, 0)


PROVISIONING = "kubevirt.io/ephemeral-provisioning"


@pytest.mark.parametrize(
    ("annotation", "command", "provisioning"),
    [
        ("true", ["/bin/bash", "-c", "echo", "bound PVCs"], True),
        ("false", ["/bin/bash", "-c", "echo", "bound PVCs"], False),
        (None, ["/bin/bash", "-c", "echo", "bound PVCs"], False),
        (True, ["/bin/bash", "-c", "echo", "bound PVCs"], False),
        ("true", ["/usr/bin/virt-launcher-monitor", "--hook-sidecars", "0"], False),
    ],
)
def test_provisioning_pod_has_the_annotation_and_runs_no_virt_launcher(annotation, command, provisioning: bool):
    pod = launcher_pod()
    if annotation is not None:
        pod["metadata"]["annotations"][PROVISIONING] = annotation
    compute_of(pod)["command"] = command
    assert Launcher.of(pod).is_provisioning is provisioning


def test_migration_target_is_known_by_its_label():
    pod = launcher_pod()
    assert not Launcher.of(pod).is_migration_target
    pod["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "b3a1cf6e"
    assert Launcher.of(pod).is_migration_target


@pytest.mark.parametrize(
    ("present", "there"),
    [
        ([{"name": "dravirt-a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimName": "y"}], True),
        ([{"name": "dravirt-a", "resourceClaimName": "x", "future": 1}], True),
        ([{"name": "dravirt-a", "resourceClaimTemplateName": "x"}], False),
        ([{"name": "dravirt-a", "resourceClaimName": "y"}], False),
        ([{"name": "dravirt-a"}], False),
        ([None, "dravirt-a"], False),
        ([], False),
        (None, False),
    ],
)
def test_claims_are_compared_in_full(present: object, there: bool):
    pod = launcher_pod()
    pod["spec"]["resourceClaims"] = present
    assert Launcher.of(pod).holds([PodClaim("dravirt-a", None, "x", ())]) is there


def test_claims_named_directly_keep_their_place_and_templates_of_others_are_no_facts():
    pod = launcher_pod()
    pod["spec"]["resourceClaims"] = [
        {"name": "a", "resourceClaimTemplateName": "t"},
        {"name": "b", "resourceClaimName": "x"},
        {"name": "dravirt-c", "resourceClaimTemplateName": "t"},
    ]
    assert Launcher.of(pod).claims == ((1, "b", "x", None), (2, "dravirt-c", None, "t"))


def test_pods_that_differ_in_names_alone_have_the_same_facts():
    one, other = launcher_pod(), launcher_pod()
    other["metadata"] |= {"generateName": "virt-launcher-other-", "managedFields": [{"manager": "x"}]}
    other["metadata"]["labels"]["vm.kubevirt.io/name"] = "other"
    assert Launcher.of(one) == Launcher.of(other)
    assert hash(Launcher.of(one)) == hash(Launcher.of(other))
