"""Show what dravirt's webhooks make of an object, without a cluster.

FILE holds a VirtualMachine, a VirtualMachineInstance, a launcher Pod or an AdmissionReview, in YAML or JSON; `-` reads
stdin. The object is taken as being created, a pod as created by KubeVirt's controller; an AdmissionReview says itself.
The mutated object goes to stdout, warnings and a denial to stderr; a denial exits with code 1. Of a pod the validating
webhook has the last look, as in a cluster; with --patch it is not asked.

examples:
  dravirt render vm.yaml
  kubectl get vm my-vm -o yaml | dravirt render -
  dravirt render --patch launcher-pod.json
  dravirt render --config config.yaml vmi.yaml
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import jsonpatch
from msgspec.structs import replace

from cli.manifests import read_manifest, to_json, to_yaml
from dra.errors import Refused
from dra.reasons import Reason
from webhook.admission import HANDLERS, Handler
from webhook.authorities import shown
from webhook.config import Config
from webhook.configfile import load_config
from webhook.decision import AdmissionRequest, Decision
from webhook.raw import mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="the object, or - for stdin")
    parser.add_argument("--config", metavar="FILE", help="the configuration file of an installation")
    parser.add_argument("--patch", action="store_true", help="print the JSON Patch instead of the object")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="format of the object")


def run(args: argparse.Namespace) -> int:
    """Render the object and return the exit code."""
    config = shown(load_config(args.config))
    request, handler = as_request(read_manifest(args.file), config, path=args.file)
    decision = handler.decide(request, config)
    if not _tell(decision):
        return 1
    print(f"{decision.reason}: {decision.reason.sentence}", file=sys.stderr)
    if args.patch:
        sys.stdout.write(to_json(list(decision.patch)))
        return 0
    mutated = _apply(request.object, decision, path=args.file)
    validating = HANDLERS.get(f"/validate/{handler.kind.lower()}")
    if validating and not _tell(validating.decide(replace(request, object=mutated), config)):
        return 1
    sys.stdout.write(to_json(mutated) if args.output == "json" else to_yaml(mutated))
    return 0


def _tell(decision: Decision) -> bool:
    """Print warnings and a denial; return whether the object is allowed."""
    for warning in decision.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if not decision.allowed:
        print(f"denied: {decision.message}", file=sys.stderr)
    return decision.allowed


def as_request(item: dict[str, Any], config: Config, *, path: str) -> tuple[AdmissionRequest, Handler]:
    """Return the admission request that `item` is or would be part of, and the webhook that mutates its kind."""
    review = mapping(item, "request") if item.get("kind") == "AdmissionReview" else {}
    subject = mapping(review, "object") if review else item
    handler = _handler(subject, path)
    metadata = mapping(subject, "metadata")
    username = mapping(review, "userInfo").get("username") or config.kubevirt_controller
    request = AdmissionRequest(
        uid=str(review.get("uid") or "render"),
        kind=handler.kind,
        operation=str(review.get("operation") or "CREATE"),
        namespace=str(review.get("namespace") or metadata.get("namespace") or "default"),
        name=str(metadata.get("name") or ""),
        username=str(username),
        object=subject,
        old_object=mapping(review, "oldObject") or None,
    )
    return request, handler


def _handler(subject: Any, path: str) -> Handler:
    group = str(subject.get("apiVersion")).rpartition("/")[0]
    for route, handler in HANDLERS.items():
        if route.startswith("/mutate/") and (handler.group, handler.kind) == (group, subject.get("kind")):
            return handler
    kinds = ", ".join(handler.kind for route, handler in HANDLERS.items() if route.startswith("/mutate/"))
    message = (
        f"must be one of {kinds} or an AdmissionReview of one, is {subject.get('apiVersion')} {subject.get('kind')}"
    )
    raise Refused(Reason.UNREADABLE, message, path=path)


def _apply(item: Mapping[str, Any], decision: Decision, *, path: str) -> Any:
    try:
        return jsonpatch.apply_patch(item, list(decision.patch))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"is malformed, the patch does not apply: {error}; look at it with --patch"
        raise Refused(Reason.UNREADABLE, message, path=path) from error
