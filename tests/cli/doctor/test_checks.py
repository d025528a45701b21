"""Each finding of `dravirt doctor`: what is broken in a prepared cluster is named by its code, and nothing else is."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
import yaml
from support.doctorfacts import (
    AUTHORITY,
    KEEPS_MDEVS,
    MDEV,
    NAME,
    NOW,
    TEXT,
    VF,
    budget,
    deployment,
    device_class,
    endpoint_slice,
    hyperconverged,
    kubevirt,
    prepared,
    registrations,
    secret,
    settings,
    slice_of,
    tried_pod,
    vm,
    vmi,
)
from support.examples import ROOT

from certs.certificates import issue, new_authority, write_certificates
from cli.doctor.checks import BEFORE_UNINSTALL, CHECKS, diagnose
from cli.doctor.codes import Code
from cli.doctor.facts import SUBJECTS, Facts, Place, Right, Rights, Unseen, Verdict
from cli.doctor.finding import Finding
from cli.doctor.registration import WEBHOOKS
from cli.doctor.rights import ALLOCATIONS, review
from cli.doctor.trust import trust_by_handshakes

PERMIT = {"pciVendorSelector": "0000:0000", "resourceName": "dravirt.io/gpu", "externalResourceProvider": True}
LIVE = {"evictionStrategy": "LiveMigrate"}


def permits(*pci: dict, mediated: tuple[dict, ...] = ()) -> dict:
    return kubevirt({**KEEPS_MDEVS, "permittedHostDevices": {"pciHostDevices": [*pci], "mediatedDevices": [*mediated]}})


def without(kind: str, name: str) -> tuple[dict, ...]:
    """The webhook configurations without one webhook."""
    items = registrations()
    for item in items:
        if item["kind"] == kind:
            item["webhooks"] = [each for each in item["webhooks"] if each["name"] != name]
    return items


def changed(kind: str, **fields_of_first: object) -> tuple[dict, ...]:
    items = registrations()
    for item in items:
        if item["kind"] == kind:
            item["webhooks"][0] |= fields_of_first
    return items


def renamed(name: str) -> tuple[dict, ...]:
    items = registrations()
    items[0]["metadata"]["name"] = name
    return items


def without_claims() -> dict:
    """The pod as an API server of Kubernetes 1.34.4 with DynamicResourceAllocation=false gives it back."""
    pod = tried_pod()
    del pod["spec"]["resourceClaims"]
    for each in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        del each["resources"]["claims"]
    return pod


def pod_without(field: str) -> dict:
    pod = tried_pod()
    del pod["spec"][field]
    return pod


def without_claims_of_a_container() -> dict:
    pod = tried_pod()
    del pod["spec"]["containers"][0]["resources"]["claims"]
    return pod


def without_sidecar() -> dict:
    pod = tried_pod()
    del pod["spec"]["initContainers"][0]["restartPolicy"]
    return pod


def other_bundle() -> bytes:
    return write_certificates([new_authority(NOW, NOW - NOW.replace(month=1)).certificate])


def expired() -> dict:
    begin = NOW.replace(month=1)
    leaf = issue(AUTHORITY, [NAME], begin, NOW.replace(month=2) - begin)
    return secret(**{"tls.crt": write_certificates([leaf.certificate])})


def misnamed() -> dict:
    leaf = issue(AUTHORITY, ["other.dravirt-system.svc"], NOW, NOW - NOW.replace(month=11))
    return secret(**{"tls.crt": write_certificates([leaf.certificate])})


MUTATING, VALIDATING = WEBHOOKS
UNREACHABLE = (
    'Internal error occurred: failed calling webhook "vm.dravirt.io": failed to call webhook: connection refused'
)

BROKEN: dict[str, tuple[Facts, Code]] = {
    "Kubernetes 1.31": (prepared(version="v1.31.9", served=("v1alpha3",)), Code.KUBERNETES_TOO_OLD),
    "1.33 without v1beta1": (prepared(version="v1.33.2", served=()), Code.DRA_NOT_SERVED),
    "1.35 without v1": (prepared(version="v1.35.4", served=("v2",)), Code.DRA_NOT_SERVED),
    "claims dropped": (prepared(tried_pod=Verdict(201, item=without_claims())), Code.DRA_OFF),
    "the pod's claims dropped": (
        prepared(tried_pod=Verdict(201, item=pod_without("resourceClaims"))),
        Code.DRA_OFF,
    ),
    "a container's claims dropped": (
        prepared(tried_pod=Verdict(201, item=without_claims_of_a_container())),
        Code.DRA_OFF,
    ),
    "sidecars dropped": (prepared(tried_pod=Verdict(201, item=without_sidecar())), Code.NO_NATIVE_SIDECARS),
    "no KubeVirt": (prepared(kubevirt=None), Code.KUBEVIRT_MISSING),
    "KubeVirt 1.4": (
        prepared(
            kubevirt=kubevirt(
                {"developerConfiguration": {"featureGates": ["DisableMDEVConfiguration"]}}, version="v1.4.1"
            )
        ),
        Code.KUBEVIRT_TOO_OLD,
    ),
    "KubeVirt elsewhere": (
        prepared(kubevirt=kubevirt(KEEPS_MDEVS, namespace="openshift-cnv")),
        Code.KUBEVIRT_NAMESPACE,
    ),
    "no permit": (prepared(kubevirt=permits()), Code.PERMIT_MISSING),
    "another's permit": (prepared(kubevirt=permits({**PERMIT, "resourceName": "nvidia.com/T4"})), Code.PERMIT_MISSING),
    "permit switched off": (prepared(kubevirt=permits({**PERMIT, "disabled": True})), Code.PERMIT_MISSING),
    "permit of KubeVirt's own": (
        prepared(kubevirt=permits({**PERMIT, "externalResourceProvider": False})),
        Code.PERMIT_NOT_EXTERNAL,
    ),
    "permit under mediated": (
        prepared(kubevirt=permits(PERMIT, mediated=({"mdevNameSelector": "none", "resourceName": "dravirt.io/gpu"},))),
        Code.PERMIT_UNDER_MEDIATED,
    ),
    "mdevs deleted": (prepared(kubevirt=kubevirt(), slices=(slice_of(MDEV),)), Code.MDEV_DELETION),
    "mdevs perhaps deleted": (prepared(kubevirt=kubevirt()), Code.MDEV_DELETION_POSSIBLE),
    "no mutating webhooks": (prepared(registrations=registrations()[1:]), Code.WEBHOOKS_MISSING),
    "no validating webhook": (prepared(registrations=registrations()[:1]), Code.WEBHOOKS_MISSING),
    "one webhook gone": (prepared(registrations=without(MUTATING, "vmi.dravirt.io")), Code.WEBHOOK_MISSING),
    "failures ignored": (prepared(registrations=changed(VALIDATING, failurePolicy="Ignore")), Code.FAILURE_POLICY),
    "after KubeVirt": (prepared(registrations=renamed("zz-dravirt")), Code.WEBHOOK_ORDER),
    "certificate expired": (prepared(secret=expired()), Code.CERTIFICATE),
    "certificate of another": (prepared(secret=misnamed()), Code.CERTIFICATE),
    "no certificate": (prepared(secret=secret(**{"tls.crt": b""})), Code.CERTIFICATE),
    "wrong caBundle": (prepared(registrations=registrations(other_bundle())), Code.CA_BUNDLE),
    "empty caBundle": (prepared(registrations=registrations(b"")), Code.CA_BUNDLE),
    "webhook down": (prepared(tried_vm=Verdict(500, UNREACHABLE)), Code.WEBHOOK_UNREACHABLE),
    "webhook left out": (prepared(tried_vm=Verdict(201)), Code.WEBHOOK_NOT_ASKED),
    "no endpoint": (prepared(endpoints=()), Code.NO_ENDPOINTS),
    "endpoints not ready": (prepared(endpoints=(endpoint_slice(ready=False),)), Code.NO_ENDPOINTS),
    "no replica ready": (prepared(deployment=deployment(ready=0)), Code.NOT_READY),
    "scaled to 0": (prepared(deployment=deployment(replicas=0, ready=0)), Code.NOT_READY),
    "one replica ready": (prepared(deployment=deployment(ready=1)), Code.FEW_REPLICAS),
    "one replica": (prepared(deployment=deployment(replicas=1, ready=1)), Code.FEW_REPLICAS),
    "no budget": (prepared(budgets=()), Code.NO_DISRUPTION_BUDGET),
    "other versions": (
        prepared(deployment=deployment(image="registry.example/dravirt-webhook:0.2.0")),
        Code.SIDECAR_VERSION,
    ),
    "digests": (
        prepared(deployment=deployment(image=f"registry.example/dravirt-webhook@sha256:{'0' * 64}")),
        Code.VERSION_UNTOLD,
    ),
    "configuration refused": (prepared(settings=settings("mode: none\n")), Code.CONFIGURATION),
    "rights removed": (prepared(rights=Rights("dravirt-webhook", allocations=ALLOCATIONS[1:2])), Code.RIGHTS_MISSING),
    "certificate's rights removed": (
        prepared(
            rights=Rights(
                "dravirt-webhook",
                certificates=(Right("patch", "", "secrets", "dravirt-system", "dravirt-webhook-tls"),),
            )
        ),
        Code.CERTIFICATE_RIGHTS,
    ),
    "service off": (prepared(settings=settings(TEXT.partition("allocationService")[0])), Code.SERVICE_OFF),
    "no driver": (prepared(slices=()), Code.NO_DRIVER),
    "a driver without devices": (prepared(slices=(slice_of(),)), Code.NO_DRIVER),
    "no class": (prepared(classes=(device_class("other"),)), Code.NO_DEVICE_CLASS),
    "incomplete pool": (prepared(slices=(slice_of(VF, slices=2),)), Code.POOL_INCOMPLETE),
    "identity elsewhere": (prepared(slices=(slice_of({"mediatedDevice": MDEV["mdevUUID"]}),)), Code.IDENTITY_ELSEWHERE),
    "identity unseen": (prepared(slices=(slice_of({"uuid": MDEV["mdevUUID"]}),)), Code.IDENTITY_UNSEEN),
    "VM blocks a drain": (prepared(machines=(vm(**LIVE),)), Code.BLOCKS_DRAIN),
    "VMI blocks a drain": (prepared(machines=(), instances=(vmi(**LIVE),)), Code.BLOCKS_DRAIN),
    "cluster blocks drains": (prepared(kubevirt=kubevirt({**KEEPS_MDEVS, **LIVE})), Code.BLOCKS_DRAIN),
    "gate on": (
        prepared(kubevirt=kubevirt({**KEEPS_MDEVS, "developerConfiguration": {"featureGates": ["GPUsWithDRA"]}})),
        Code.FEATURE_GATE,
    ),
}


def codes(facts: Facts) -> set[Code]:
    return {each.code for each in diagnose(facts).findings}


def the_finding(facts: Facts) -> Finding:
    found = diagnose(facts).findings
    assert len({each.code for each in found}) == 1, found
    return found[0]


def patch_in(remedy: str) -> list[dict]:
    """The JSON Patch of a `kubectl patch` command."""
    return json.loads(shlex.split(remedy.partition(" && ")[0])[-1])


def test_nothing_is_wrong_with_a_prepared_cluster():
    diagnosis = diagnose(prepared())
    assert diagnosis.findings == ()
    assert diagnosis.well == tuple(each.name for each in CHECKS)


@pytest.mark.parametrize(("facts", "code"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_named_by_its_code_and_nothing_else_is(facts, code):
    assert codes(facts) == {code}
    assert all(each.subject and each.what for each in diagnose(facts).findings)


def test_every_code_is_broken_here_once():
    uninstall = {Code.STARTS_WITHOUT_DEVICE, Code.NEVER_STARTS}
    assert {code for _, code in BROKEN.values()} | uninstall | {Code.UNSEEN} == set(Code)


# What nothing has to be done about, or what only its reader can decide.
WITHOUT_REMEDY = {Code.FEATURE_GATE, Code.IDENTITY_UNSEEN, Code.SERVICE_OFF, Code.VERSION_UNTOLD}


@pytest.mark.parametrize(("facts", "code"), BROKEN.values(), ids=BROKEN)
def test_every_other_finding_has_a_command_on_one_line(facts, code):
    for each in diagnose(facts).findings:
        assert bool(each.remedy) == (code not in WITHOUT_REMEDY)
        assert "\n" not in each.remedy
        shlex.split(each.remedy)


@pytest.mark.parametrize(
    "facts",
    [
        prepared(version="v1.33.4+k3s1", served=("v1beta2", "v1beta1")),
        prepared(version="v1.32.0", served=("v1beta1",)),
        prepared(kubevirt=kubevirt({**KEEPS_MDEVS, "permittedHostDevices": None})),
        prepared(kubevirt=permits(PERMIT)),
        prepared(kubevirt=permits(), settings=settings("mode: append\n" + TEXT)),
        prepared(deployment=deployment(image="registry.example:5000/dravirt:0.1.0@sha256:" + "0" * 64)),
        prepared(machines=(vm(asks=None, **LIVE),), instances=()),
        prepared(kubevirt=kubevirt({**KEEPS_MDEVS, **LIVE}), machines=(vm(evictionStrategy="None"),), instances=()),
        prepared(tried_vm=Verdict(403, 'admission webhook "quota.example" denied the request: no VMs here')),
        prepared(slices=(slice_of(generation=1, name="old"), slice_of(VF, generation=2, name="new"))),
    ],
    ids=[
        "k3s with v1beta2", "1.32 with v1beta1", "permits unset", "permitted", "append mode", "tag and digest",
        "LiveMigrate without devices", "the VM's own strategy", "denied by others", "an old generation is left",
    ],
)  # fmt: skip
def test_what_looks_alike_and_is_right_is_not_named(facts):
    assert codes(facts) == set()


def test_the_permit_goes_to_the_hyperconverged_that_owns_kubevirt():
    spec = {"permittedHostDevices": {"pciHostDevices": [{"pciDeviceSelector": "10DE:1EB8"}]}}
    finding = the_finding(prepared(kubevirt=permits(), hyperconverged=hyperconverged(spec)))
    assert "hyperconvergeds.v1beta1.hco.kubevirt.io kubevirt-hyperconverged" in finding.remedy
    (operation,) = patch_in(finding.remedy)
    assert operation["path"] == "/spec/permittedHostDevices/pciHostDevices/-"
    assert operation["value"]["pciDeviceSelector"] == "0000:0000"
    assert finding.fix is None


def test_the_permit_makes_the_parents_that_a_hyperconverged_v1_lacks():
    finding = the_finding(prepared(kubevirt=permits(), hyperconverged=hyperconverged(version="v1")))
    (operation,) = patch_in(finding.remedy)
    assert operation["path"] == "/spec/virtualization"
    (entry,) = operation["value"]["permittedHostDevices"]["pciHostDevices"]
    assert entry["resourceName"] == "dravirt.io/gpu"


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"kind": "HyperConverged", "name": "kubevirt-hyperconverged"}]},
        {"labels": {"app.kubernetes.io/managed-by": "hco-operator"}},
    ],
    ids=["by its reference", "by its label"],
)
def test_a_hyperconverged_that_cannot_be_read_is_not_overwritten(metadata):
    owned = permits()
    owned["metadata"] |= metadata
    diagnosis = diagnose(prepared(kubevirt=owned, hyperconverged=Unseen("forbidden")))
    (finding,) = [each for each in diagnosis.findings if each.code is Code.PERMIT_MISSING]
    assert finding.remedy == "kubectl -n kubevirt edit hyperconvergeds.hco.kubevirt.io kubevirt-hyperconverged"
    assert finding.fix is None


def test_the_permit_in_a_kubevirt_of_its_own_is_safe_to_add():
    finding = the_finding(prepared(kubevirt=permits({"resourceName": "nvidia.com/T4"})))
    assert finding.fix
    assert finding.fix.version == "42"
    assert [each["path"] for each in finding.fix.operations] == [
        "/spec/configuration/permittedHostDevices/pciHostDevices/-"
    ]


def test_nothing_is_changed_where_a_hyperconverged_may_be_unseen():
    (finding, _) = diagnose(prepared(kubevirt=permits(), hyperconverged=Unseen("forbidden"))).findings
    assert (finding.code, finding.fix) == (Code.PERMIT_MISSING, None)


def test_gates_that_are_on_by_default_are_told_and_those_switched_off_are_not():
    found = diagnose(prepared(kubevirt=kubevirt(KEEPS_MDEVS, version="v1.9.0"))).findings
    assert [each.what.partition(" ")[0] for each in found] == ["GPUsWithDRA", "HostDevicesWithDRA"]
    off = {"developerConfiguration": {"disabledFeatureGates": ["GPUsWithDRA", "HostDevicesWithDRA"]}}
    assert codes(prepared(kubevirt=kubevirt({**KEEPS_MDEVS, **off}, version="v1.9.0"))) == set()


def only_fixes() -> Iterator[Code]:
    return (each.code for facts, _ in BROKEN.values() for each in diagnose(facts).findings if each.fix)


def test_nothing_else_is_changed_unasked():
    assert set(only_fixes()) == {Code.PERMIT_MISSING, Code.PERMIT_NOT_EXTERNAL}


def test_types_are_kept_by_name_where_kubevirt_makes_others_itself():
    makes = {"mediatedDevicesConfiguration": {"mediatedDeviceTypes": ["nvidia-222"]}}
    other = {"mdevUUID": MDEV["mdevUUID"], "profile": "NVIDIA A40-2Q"}
    facts = prepared(kubevirt=kubevirt(makes), slices=(slice_of(MDEV, other),))
    remedy = the_finding(facts).remedy
    assert remedy.count("mdevNameSelector") == 2
    assert '"enabled":false' not in remedy


def test_types_that_are_kept_by_name_are_well():
    kept = {"mdevNameSelector": "GRID A100-1-5C", "externalResourceProvider": True}
    facts = {"permittedHostDevices": {"pciHostDevices": [PERMIT], "mediatedDevices": [kept]}}
    assert codes(prepared(kubevirt=kubevirt(facts), slices=(slice_of(MDEV),))) == set()
    other = slice_of({**MDEV, "profile": "NVIDIA A40-2Q"})
    finding = the_finding(prepared(kubevirt=kubevirt(facts), slices=(other,)))
    assert finding.code is Code.MDEV_DELETION
    assert "NVIDIA A40-2Q" in finding.what


def test_older_kubevirt_is_given_the_gate():
    finding = the_finding(
        prepared(kubevirt=kubevirt(version="v1.5.3"), slices=(slice_of({"mdevUUID": MDEV["mdevUUID"]}),))
    )
    assert '"DisableMDEVConfiguration"' in finding.remedy
    finding = the_finding(
        prepared(kubevirt=kubevirt(version="v1.6.6"), hyperconverged=hyperconverged(), slices=(slice_of(VF),))
    )
    assert '"disableMDevConfiguration":true' in finding.remedy


def test_the_ca_bundle_is_mended_with_the_authorities_of_the_secret():
    items = registrations(b"")
    findings = diagnose(prepared(registrations=items)).findings
    assert [each.subject.rpartition(" ")[2] for each in findings] == [
        name for names in WEBHOOKS.values() for name in names
    ]
    operations = patch_in(findings[0].remedy)
    good = registrations()[0]["webhooks"][0]["clientConfig"]["caBundle"]
    assert [each["value"] for each in operations if each["op"] == "add"] == [good] * 3
    assert "resourceVersion" not in findings[0].remedy


def test_the_service_ca_of_openshift_is_asked_to_set_the_ca_bundle():
    kept = secret(**{"ca.crt": b"", "ca.key": b""})
    kept["metadata"]["annotations"] = {"service.beta.openshift.io/originating-service-name": "dravirt-webhook"}
    findings = diagnose(prepared(registrations=registrations(b""), secret=kept)).findings
    assert findings[-1].remedy == (
        "kubectl annotate --overwrite validatingwebhookconfiguration dravirt"
        " service.beta.openshift.io/inject-cabundle=true"
    )


def test_a_certificate_is_renewed_by_whoever_keeps_it():
    own = the_finding(prepared(secret=expired()))
    assert own.remedy == "dravirt certs rotate --cert --namespace dravirt-system"
    others = expired()
    del others["data"]["ca.key"]
    finding = the_finding(prepared(secret=others))
    assert finding.remedy == "kubectl -n dravirt-system delete secret dravirt-webhook-tls"


def test_commands_know_an_installation_of_other_names():
    items = registrations(b"")
    for each in items:
        each["metadata"]["name"] = "acme-dravirt"
    place = Place("acme", "acme-dravirt-webhook")
    trust = trust_by_handshakes({b"": "it holds no certificate"}, items)
    remedy, *_ = (each.remedy for each in diagnose(prepared(registrations=items, trust=trust, place=place)).findings)
    assert remedy == (
        "dravirt certs init --namespace acme --service acme-dravirt-webhook --secret acme-dravirt-webhook-tls"
        " --webhooks acme-dravirt"
    )
    gone = the_finding(prepared(registrations=registrations()[1:], place=place))
    assert gone.remedy.startswith("sed 's/dravirt-system/acme/g; s/dravirt-webhook/acme-dravirt-webhook/g' deploy/")


def test_a_webhook_that_answers_is_seen_without_the_right_to_see_that_it_is_registered():
    assert "webhook answers" in diagnose(prepared(registrations=Unseen("forbidden"), trust=Unseen("forbidden"))).well
    unasked = diagnose(prepared(registrations=Unseen(""), trust=Unseen(""), tried_vm=Verdict(201))).findings
    assert unasked[0].code is Code.WEBHOOK_NOT_ASKED
    assert unasked[0].remedy.endswith("-f deploy/base/webhooks.yaml")


def test_a_vm_whose_instancetype_asks_is_stopped_before_the_uninstall():
    pattern = {
        "kind": "VirtualMachinePreference",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"annotations": {"dravirt.io/devices": "a100"}},
    }
    machine = vm(asks=None)
    machine["spec"]["preference"] = {"name": "gpu", "kind": "virtualmachinepreference"}
    (finding,) = diagnose(prepared(machines=(machine,), instances=(), patterns=(pattern,)), BEFORE_UNINSTALL).findings
    assert '"runStrategy":"Halted"' in finding.remedy


def test_no_key_is_shown():
    shown = json.dumps([each.to_json() for facts, _ in BROKEN.values() for each in diagnose(facts).findings])
    for name in ("ca.key", "tls.key"):
        assert secret()["data"][name][:60] not in shown


def test_a_handshake_says_which_webhooks_do_not_trust_the_server():
    good, bad = registrations(), other_bundle()
    items = (good[0], registrations(bad)[1])
    bundles = {write_certificates([AUTHORITY.certificate]): "", bad: "unable to get local issuer certificate"}
    facts = replace(prepared(), registrations=items, trust=trust_by_handshakes(bundles, items))
    finding = the_finding(facts)
    assert "injected-pod.dravirt.io" in finding.subject
    assert finding.what == "its caBundle: unable to get local issuer certificate"
    assert finding.remedy == "dravirt certs init --namespace dravirt-system"


def test_an_attribute_of_another_name_is_configured_and_the_rest_of_the_file_stays():
    finding = the_finding(prepared(slices=(slice_of({"vf": "0000:3d:00.4", "parentPciAddress": "0000:3d:00.0"}),)))
    text = json.loads(shlex.split(finding.remedy)[-1])["data"]["config.yaml"]
    assert text.startswith(TEXT)
    assert yaml.safe_load(text)["attributes"] == {"vgpu.example.com": {"pciAddress": ["vf"]}}
    assert codes(prepared(settings=settings(text), slices=(slice_of({"vf": "0000:3d:00.4"}),))) == set()


def test_the_webhooks_are_those_that_deploy_registers():
    assert {item["kind"]: tuple(each["name"] for each in item["webhooks"]) for item in registrations()} == WEBHOOKS


def test_a_webhook_that_is_not_asked_is_set_as_deploy_registers_it():
    operations = patch_in(the_finding(prepared(tried_vm=Verdict(201))).remedy)
    shown = registrations()[0]["webhooks"][0]
    for each in operations[1:]:
        assert each["value"] == shown.get(each["path"].rpartition("/")[2], {})


def test_the_rights_are_those_that_deploy_gives():
    rules = yaml.safe_load((ROOT / "deploy" / "base" / "rbac-allocations.yaml").read_text())["rules"]
    given = {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(each.verb, each.group, each.resource) for each in ALLOCATIONS} == given


def test_rights_are_asked_for_as_the_service_account_has_them():
    right = Right("get", "", "secrets", "acme", "tls")
    assert review("webhook", "acme", right)["spec"] == {
        "user": "system:serviceaccount:acme:webhook",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:acme", "system:authenticated"],
        "resourceAttributes": {"verb": "get", "group": "", "resource": "secrets", "namespace": "acme", "name": "tls"},
    }


def test_a_vm_asks_by_its_instancetype_or_preference_too():
    pattern = {
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": "gpu"},
        "spec": {"annotations": {"dravirt.io/devices": "a100"}},
    }
    by_type = vm("typed", asks=None, **LIVE)
    by_type["spec"]["instancetype"] = {"name": "gpu"}
    other = vm("other", asks=None, **LIVE)
    other["spec"]["instancetype"] = {"name": "small"}
    findings = diagnose(prepared(machines=(by_type, other), instances=(), patterns=(pattern,))).findings
    assert [each.subject for each in findings] == ["VirtualMachine team-a/typed"]


def test_before_uninstall_names_the_vms_that_need_dravirt():
    placeholder = {"name": "gpu0", "deviceName": "dravirt.io/gpu"}
    machines = (vm("plain", asks=None), vm("asks"), vm("waits", gpus=[{"name": "own"}, placeholder]))
    facts = prepared(machines=machines, instances=(vmi("asks", owner="asks"), vmi("bare")))
    findings = diagnose(facts, BEFORE_UNINSTALL).findings
    assert [(each.code, each.subject) for each in findings] == [
        (Code.STARTS_WITHOUT_DEVICE, "VirtualMachine team-a/asks"),
        (Code.NEVER_STARTS, "VirtualMachine team-a/waits"),
        (Code.STARTS_WITHOUT_DEVICE, "VirtualMachineInstance team-a/bare"),
    ]
    assert [each["path"] for each in patch_in(findings[1].remedy)] == [
        "/spec/template/spec/domain/devices/gpus/1",
        "/spec/template/metadata/annotations/dravirt.io~1devices",
    ]


def test_what_was_not_seen_is_said_once_and_nothing_is_concluded_from_it():
    facts = prepared(kubevirt=Unseen('kubevirts.kubevirt.io is forbidden: User "jane" cannot list resource'))
    diagnosis = diagnose(facts)
    (finding,) = diagnosis.findings
    assert (finding.code, finding.subject) == (Code.UNSEEN, "the KubeVirt object")
    assert diagnosis.is_good
    assert "placeholder permitted" not in diagnosis.well
    assert "drains" not in diagnosis.well
    assert "webhooks registered" in diagnosis.well


def test_every_fact_may_be_unseen():
    names = [each.name for each in fields(Facts) if each.name not in {"now", "version", "place"}]
    assert sorted(names) == sorted(SUBJECTS)
    diagnosis = diagnose(prepared(**{name: Unseen("forbidden") for name in names}))
    assert {each.code for each in diagnosis.findings} == {Code.UNSEEN}
    assert len(diagnosis.findings) == len(names)
    assert diagnosis.well == ()


def test_errors_come_first():
    findings = diagnose(prepared(kubevirt=kubevirt(), budgets=Unseen("forbidden"), slices=())).findings
    assert [each.severity for each in findings] == ["error", "warning", "unknown"]


def test_a_budget_of_others_does_not_count():
    other = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    assert codes(prepared(budgets=(other,))) == {Code.NO_DISRUPTION_BUDGET}
    assert codes(prepared(budgets=(other, budget()))) == set()


KEY = {"key": "app.kubernetes.io/name"}
SELECTORS = {
    "none": (None, False),
    "an empty one": ({}, True),
    "in": ({"matchExpressions": [{**KEY, "operator": "In", "values": ["other", "dravirt"]}]}, True),
    "in others": ({"matchExpressions": [{**KEY, "operator": "In", "values": ["other"]}]}, False),
    "not in": ({"matchExpressions": [{**KEY, "operator": "NotIn", "values": ["dravirt"]}]}, False),
    "not in others": ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
    "exists": ({"matchExpressions": [{**KEY, "operator": "Exists"}]}, True),
    "does not exist": ({"matchExpressions": [{**KEY, "operator": "DoesNotExist"}]}, False),
    "one of two": (
        {"matchLabels": {KEY["key"]: "dravirt"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        False,
    ),
}


@pytest.mark.parametrize(("selector", "counts"), SELECTORS.values(), ids=SELECTORS)
def test_a_budget_counts_where_its_selector_selects_the_replicas(selector, counts):
    found = codes(prepared(budgets=({"spec": {"selector": selector}},)))
    assert found == (set() if counts else {Code.NO_DISRUPTION_BUDGET})
