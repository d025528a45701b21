"""dravirt's servers: whether enough of them run, and in one version with their sidecars."""

import re
from collections.abc import Iterator

from cli.doctor import remedies
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, Place, RawObject, Settings
from cli.doctor.finding import Finding
from cli.doctor.handshake import addresses
from cli.doctor.settings import change, container, value_of
from webhook.raw import mapping, mappings

_ENOUGH = 2
_TAG = re.compile(r":(?P<tag>\w[\w.-]{0,127})$", re.ASCII)


def check_endpoints(endpoints: Objects, place: Place) -> Iterator[Finding]:
    """Find a Service with nothing behind it."""
    if not addresses(endpoints):
        remedy = remedies.restart(place.service, place.namespace)
        subject = f"Service {place.namespace}/{place.service}"
        yield Finding(Code.NO_ENDPOINTS, subject, "no ready server is behind it", remedy)


def check_deployment(deployment: RawObject, budgets: Objects) -> Iterator[Finding]:
    """Find replicas that are missing or not ready, or that a drain may take all at once."""
    metadata = mapping(deployment, "metadata")
    namespace, name = str(metadata.get("namespace")), str(metadata.get("name"))
    subject = f"Deployment {namespace}/{name}"
    wanted = mapping(deployment, "spec").get("replicas", 1)
    ready = mapping(deployment, "status").get("readyReplicas") or 0
    if not ready and wanted:
        what = f"none of its {wanted} replicas is ready"
        yield Finding(Code.NOT_READY, subject, what, remedies.restart(name, namespace))
    elif not ready:
        remedy = remedies.kubectl("scale", f"deployment/{name}", f"--replicas={_ENOUGH}", namespace=namespace)
        yield Finding(Code.NOT_READY, subject, "it is scaled to 0", remedy)
    elif wanted < _ENOUGH:
        remedy = remedies.kubectl("scale", f"deployment/{name}", f"--replicas={_ENOUGH}", namespace=namespace)
        yield Finding(Code.FEW_REPLICAS, subject, f"it has {wanted} replica", remedy)
    elif ready < wanted:
        what = f"{ready} of its {wanted} replicas are ready"
        yield Finding(Code.FEW_REPLICAS, subject, what, remedies.restart(name, namespace))
    labels = mapping(deployment, "spec", "template", "metadata", "labels")
    if wanted >= _ENOUGH and not any(_selects(each, labels) for each in budgets):
        selector = mapping(deployment, "spec", "selector", "matchLabels")
        item = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": dict(selector)}},
        }
        what = "no PodDisruptionBudget selects its pods"
        yield Finding(Code.NO_DISRUPTION_BUDGET, subject, what, remedies.apply(item))


def check_images(deployment: RawObject, settings: Settings | None) -> Iterator[Finding]:
    """Find a sidecar of another version than the webhook."""
    if settings is None or settings.fault:
        return
    images = str(container(deployment).get("image")), settings.sidecar_image
    webhook, sidecar = (match["tag"] if (match := _TAG.search(each.partition("@")[0])) else None for each in images)
    if webhook is None or sidecar is None:
        what = f"webhook {images[0]}, sidecar {images[1]}: a tag is missing, so the versions cannot be compared"
        yield Finding(Code.VERSION_UNTOLD, settings.subject, what)
    elif webhook != sidecar:
        what = f"the webhook is {images[0]}, the sidecar {images[1]}"
        image = f"{images[1].partition('@')[0].removesuffix(sidecar)}{webhook}"
        remedy = change(settings, "sidecar", {**value_of(settings, "sidecar"), "image": image})
        yield Finding(Code.SIDECAR_VERSION, settings.subject, what, remedy)


def _selects(budget: RawObject, labels: RawObject) -> bool:
    """Return whether a budget is for pods with these labels: without a selector for none, with an empty one for all.

    Source: Kubernetes policy/v1, PodDisruptionBudgetSpec.selector.
    """
    selector = mapping(budget, "spec").get("selector")
    if not isinstance(selector, dict):
        return False
    wanted = mapping(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _meets(labels, requirement) for requirement in mappings(selector, "matchExpressions")
    )


def _meets(labels: RawObject, requirement: RawObject) -> bool:
    """Return whether labels meet a requirement. Source: Kubernetes meta/v1, LabelSelectorRequirement."""
    label, values = labels.get(str(requirement.get("key"))), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case _:
            return label is None
