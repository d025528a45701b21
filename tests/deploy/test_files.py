"""What holds of the files of `deploy/` as they stand: rights, hardening, names, and what they say of the command."""

import argparse
import re

import pytest
import yaml
from support.examples import ROOT, fenced

from cli import webhook as command
from dra import contract
from dra.version import __version__
from webhook.config import Config
from webhook.server import FINISH_SECONDS

DEPLOY = ROOT / "deploy"
INSTALLED = sorted(path for part in ("base", "overlays", "components") for path in (DEPLOY / part).rglob("*.yaml"))
PARTS = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "DeviceClass"}


def objects(*paths):
    found = [each for path in paths for each in yaml.safe_load_all(path.read_text())]
    return [each for each in found if each and each.get("kind") not in {None, "Kustomization", "Component"}]


def one(kind, name, *paths):
    (found,) = (
        each for each in objects(*(paths or INSTALLED)) if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


ALL = [each for each in objects(*INSTALLED) if "metadata" in each]
DEPLOYMENT = one("Deployment", "dravirt-webhook")
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINERS = [*POD["initContainers"], *POD["containers"]]


@pytest.mark.parametrize("folder", PARTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_a_kustomization_uses_every_file_beside_it(folder):
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    used = {each for key in ("resources", "configurations", "components") for each in kustomization.get(key, [])}

    assert {path.name for path in folder.iterdir()} - {"kustomization.yaml"} == {
        each for each in used if "/" not in each
    }


def test_every_object_is_found_by_the_label_of_the_installation():
    assert [each["metadata"]["name"] for each in ALL if each["metadata"].get("labels", {}).get(
        "app.kubernetes.io/name") != "dravirt"] == []  # fmt: skip


def test_every_object_is_in_our_namespace_or_in_none():
    for each in ALL:
        cluster_wide = each["kind"] in CLUSTER_WIDE or each["apiVersion"].startswith("admissionregistration")
        assert each["metadata"].get("namespace") == (None if cluster_wide else contract.DEFAULT_NAMESPACE)


def test_names_are_those_that_the_code_goes_by():
    assert one("Service", contract.SERVICE_NAME)
    assert one("Namespace", contract.DEFAULT_NAMESPACE)
    assert one("ConfigMap", "dravirt-config")["data"] == {"config.yaml": "{}\n"}


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda each: each["name"])
def test_a_container_is_restricted(container):
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    resources = container["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_a_pod_is_restricted_and_has_no_token_unless_an_overlay_gives_it_one():
    assert POD["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 107,
        "runAsGroup": 107,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert POD["automountServiceAccountToken"] is False
    assert one("ServiceAccount", "dravirt-webhook")["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & POD.keys()
    assert [set(each) - {"name"} for each in POD["volumes"]] == [{"configMap"}]


def test_the_namespace_enforces_that():
    labels = one("Namespace", "dravirt-system")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


def test_images_are_of_this_release_and_the_sidecars_stands_in_one_version():
    sidecar, webhook = (each["image"] for each in CONTAINERS)

    assert webhook == f"dravirt-webhook:{__version__}"
    assert sidecar == Config().sidecar.image == f"dravirt-hooksidecar:{__version__}"
    assert DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]["dravirt.io/sidecar-image"] == sidecar


def arguments_of(overlay):
    """The arguments of the webhook in an overlay: those of the base, and what the overlay's patches append."""
    kustomization = yaml.safe_load((DEPLOY / "overlays" / overlay / "kustomization.yaml").read_text())
    arguments = list(POD["containers"][0]["args"])
    for each in kustomization["patches"]:
        operations = yaml.safe_load(each["patch"])
        appended = [each for each in operations if "path" in each and each["path"].endswith("/args/-")] if isinstance(
            operations, list) else []  # fmt: skip
        arguments += [each["value"] for each in appended]
    return arguments


@pytest.mark.parametrize("overlay", ["self-managed", "cert-manager", "openshift"])
def test_the_command_takes_the_arguments_of_every_overlay(overlay):
    word, *arguments = arguments_of(overlay)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args(arguments)

    assert word == "webhook"
    assert args.tls_self_managed == (overlay == "self-managed")
    assert (args.tls_cert is None, args.tls_key is None, args.tls_ca is None) == (args.tls_self_managed,) * 3
    ports = {each["name"]: each["containerPort"] for each in POD["containers"][0]["ports"]}
    assert ports == {"https": args.port, "health": args.health_port}
    assert POD["terminationGracePeriodSeconds"] > args.drain_seconds + FINISH_SECONDS
    mounts = {each["mountPath"] for each in POD["containers"][0]["volumeMounts"]}
    assert str(args.config) in mounts


def test_rights_to_keep_certificates_are_those_that_the_docs_name():
    shown = list(yaml.safe_load_all(fenced((ROOT / "docs" / "certificates.md").read_text(), "yaml")[0]))
    ours = [each for each in objects(DEPLOY / "overlays" / "self-managed" / "rbac.yaml") if "rules" in each]

    assert [(each["kind"], each["rules"]) for each in ours] == [(each["kind"], each["rules"]) for each in shown]


RIGHTS = {
    ("", "pods"): {"get"},
    ("", "secrets"): {"get", "patch", "create"},
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): {"get", "patch"},
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): {"get", "patch"},
    ("authentication.k8s.io", "tokenreviews"): {"create"},
    ("resource.k8s.io", "resourceclaims"): {"get"},
    ("resource.k8s.io", "resourceclaimtemplates"): {"get"},
    ("resource.k8s.io", "resourceslices"): {"list"},
}


def test_no_right_is_given_that_is_not_listed_here():
    given = {}
    for role in (each for each in ALL if "rules" in each):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    given.setdefault((group, resource), set()).update(rule["verbs"])
                    if group == "admissionregistration.k8s.io" or (
                        resource == "secrets" and rule["verbs"] != ["create"]
                    ):
                        assert rule["resourceNames"]
                    assert resource != "secrets" or role["kind"] == "Role"
    assert given == RIGHTS


def test_every_binding_is_of_a_role_that_is_there_to_the_one_account():
    roles = {(each["kind"], each["metadata"]["name"]) for each in ALL if "rules" in each}
    for each in ALL:
        if each["kind"].endswith("Binding") and "roleRef" in each:
            reference = (each["roleRef"]["kind"], each["roleRef"]["name"])
            assert reference in roles or reference[1].startswith("system:openshift:scc:")
            (subject,) = each["subjects"]
            assert (subject["kind"], subject["name"]) == ("ServiceAccount", "dravirt-webhook")


def test_webhooks_and_policies_look_at_marked_objects_alone_and_fail_closed():
    webhooks = [hook for each in ALL for hook in each.get("webhooks", [])]
    policies = [each["spec"] for each in ALL if each["kind"] == "ValidatingAdmissionPolicy"]

    assert (len(webhooks), len(policies)) == (4, 3)
    for each in (*webhooks, *policies):
        assert each["failurePolicy"] == "Fail"
        marks = " ".join(condition["expression"] for condition in each["matchConditions"])
        assert contract.DEVICES_ANNOTATION in marks or contract.INJECTED_ANNOTATION in marks
    for each in webhooks:
        assert each["timeoutSeconds"] <= 5
        assert each["sideEffects"] == "None"
    # A parameter that an API server has not read yet would refuse every pod there is.
    assert not [each for each in policies if "paramKind" in each]


def test_tl13_no_manifest_says_anything_of_a_ca_bundle_that_is_set_at_run_time():
    """An empty one would be written over the right one whenever the manifests are applied again."""
    webhooks = [hook for each in ALL for hook in each.get("webhooks", [])]

    assert [set(each["clientConfig"]) for each in webhooks] == [{"service"}] * 4
    assert "caBundle:" not in "".join(path.read_text() for path in INSTALLED)


def test_policies_go_by_the_names_of_the_contract():
    text = (DEPLOY / "base" / "policies.yaml").read_text()
    names = set(re.findall(r"dravirt\.io/\w+|dravirt-hook\b", text))

    assert names == {
        contract.DEVICES_ANNOTATION,
        contract.INJECTED_ANNOTATION,
        contract.COPIED_ANNOTATION,
        contract.PLACEHOLDER_RESOURCE,
        contract.SIDECAR_CONTAINER,
    }
    policy = one("ValidatingAdmissionPolicy", "dravirt-injected-pods")
    assert policy["spec"]["variables"][0]["expression"] == f"'{Config().kubevirt_controller}'"


def test_selectors_find_the_pods():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"):
        spec = one(kind, "dravirt-webhook")["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert (selector.get("matchLabels") or selector).items() == labels


def test_the_service_and_the_network_lead_to_the_port_of_the_server():
    (port,) = one("Service", "dravirt-webhook")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    assert one("NetworkPolicy", "dravirt-webhook")["spec"]["ingress"] == [{"ports": [{"port": 8443}]}]


def test_one_replica_is_always_there():
    spec = DEPLOYMENT["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, 0)
    budget = one("PodDisruptionBudget", "dravirt-webhook")["spec"]
    assert (budget["minAvailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert {each["whenUnsatisfiable"] for each in POD["topologySpreadConstraints"]} == {"ScheduleAnyway"}
