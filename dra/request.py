"""The device request: what the annotation `dravirt.io/devices` asks for.

The grammar, decided in this order:
- text that is a DNS subdomain is the short form: one device `gpu0` from the claim template of that name
  (`1e3`, `no` and `2024-01-01` are template names, whatever YAML makes of them);
- anything else is YAML or JSON: a list of entries with `name`, `resourceClaimTemplateName` or `resourceClaimName`, and
  optionally `request`, `count`, `display` and `ramfb`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dra.contract import MAX_DEVICE_NAME, MAX_DEVICES
from dra.errors import Refused
from dra.fields import Fields, shown
from dra.names import base_request, is_dns_subdomain, require_dns_label, require_dns_subdomain, require_request
from dra.reasons import Reason

MAX_ANNOTATION = 32 * 1024
"""Characters of the annotation: 32 entries with the longest names there are fit in."""

_WRONG = Reason.INVALID_ANNOTATION
_FIELDS = ("name", "resourceClaimTemplateName", "resourceClaimName", "request", "count", "display", "ramfb")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One entry of the annotation: `count` devices of one request of one claim."""

    name: str
    template: str | None = None
    """The ResourceClaimTemplate to make a claim from, or"""
    claim: str | None = None
    """the existing ResourceClaim to use."""
    request: str | None = None
    """The request of the claim, `main` or `main/sub`; None: all that the claim yields."""
    count: int = 1
    display: bool | None = None
    ramfb: bool | None = None

    @property
    def device_names(self) -> tuple[str, ...]:
        """The names of the devices: `name`, or `name-0` to `name-<count-1>`."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{index}" for index in range(self.count))

    @property
    def base_request(self) -> str | None:
        """The request that a pod may refer to: without the sub-request that the scheduler chooses."""
        return None if self.request is None else base_request(self.request)


def parse_requests(text: str, load: Callable[[str], object], *, path: str) -> tuple[DeviceRequest, ...]:
    """Return the device requests that the annotation value `text` holds.

    `load` parses YAML (of which JSON is a part) and raises ValueError with the place of a syntax error; `path` is the
    field that holds the annotation. Raises Refused with the path of the wrong entry and field.
    """
    if len(text) > MAX_ANNOTATION:
        raise Refused(_WRONG, f"must be at most {MAX_ANNOTATION} characters, got {len(text)}", path=path)
    short = text.strip()
    if is_dns_subdomain(short):
        return (DeviceRequest("gpu0", template=short),)
    if not short:
        raise Refused(_WRONG, "is empty: name a ResourceClaimTemplate, or remove the annotation", path=path)
    try:
        value = load(text)
    except (ValueError, RecursionError) as error:
        # (a parser may quote the text it cannot read, however long)
        raise Refused(_WRONG, f"is neither the name of a template nor YAML: {error!s:.300}", path=path) from error
    return _requests(value, path)


def _requests(value: object, path: str) -> tuple[DeviceRequest, ...]:
    if not isinstance(value, list):
        raise Refused(_WRONG, f"must be a list of devices or the name of a template, got {shown(value)}", path=path)
    if not value:
        raise Refused(_WRONG, "lists no device: add an entry, or remove the annotation", path=path)
    if len(value) > MAX_DEVICES:
        raise Refused(_WRONG, f"must hold at most {MAX_DEVICES} devices, got {len(value)} entries", path=path)
    requests = tuple(read_entry(Fields.of(entry, f"{path}[{i}]", _WRONG)) for i, entry in enumerate(value))
    check_requests(requests, path, _WRONG)
    return requests


def read_entry(fields: Fields) -> DeviceRequest:
    """Return the request that one entry of the annotation holds."""
    if "deviceClassName" in fields.raw:
        raise fields.refuse("deviceClassName", "not supported yet: name a ResourceClaimTemplate of that class")
    fields.only(_FIELDS)
    return read_request(fields, template="resourceClaimTemplateName", claim="resourceClaimName")


def read_request(fields: Fields, *, template: str, claim: str) -> DeviceRequest:
    """Return the request in `fields`, whose claim stands in the field called `template` or the one called `claim`.

    An intent says `template` and `claim` where the annotation has the long names.
    """
    request = DeviceRequest(
        name=fields.text("name"),
        template=fields.optional_text(template),
        claim=fields.optional_text(claim),
        request=fields.optional_text("request"),
        count=fields.integer("count", 1, low=1, high=MAX_DEVICES),
        display=fields.optional_boolean("display"),
        ramfb=fields.optional_boolean("ramfb"),
    )
    _check_names(fields, request, template=template, claim=claim)
    return request


def _check_names(fields: Fields, request: DeviceRequest, *, template: str, claim: str) -> None:
    require_dns_label(request.name, fields.at("name"), fields.reason)
    longest = len(request.device_names[-1])
    if longest > MAX_DEVICE_NAME:
        raise fields.refuse("name", f"must be at most {MAX_DEVICE_NAME} characters with its index, got {longest}")
    if (request.template is None) == (request.claim is None):
        raise Refused(fields.reason, f"needs exactly one of {template} and {claim}", path=fields.path)
    if request.template is not None:
        require_dns_subdomain(request.template, fields.at(template), fields.reason)
    if request.claim is not None:
        require_dns_subdomain(request.claim, fields.at(claim), fields.reason)
    if request.request is not None:
        require_request(request.request, fields.at("request"), fields.reason)
    if request.ramfb and request.display is False:
        raise fields.refuse("ramfb", "a boot console (ramfb) needs a display: remove `display: false`")
    if request.ramfb and request.count > 1:
        raise fields.refuse("ramfb", f"one device of a VM can have ramfb, this entry makes {request.count}: split it")


def check_requests(requests: tuple[DeviceRequest, ...], path: str, reason: Reason) -> None:
    """Refuse entries that contradict each other: names twice, too many devices, two boot consoles."""
    owners: dict[str, int] = {}
    ramfb: int | None = None
    for index, request in enumerate(requests):
        for name in request.device_names:
            if name in owners:
                message = f"{name!r} is also a device of entry [{owners[name]}]: give each its own name"
                raise Refused(reason, message, path=f"{path}[{index}].name")
            owners[name] = index
        if request.ramfb and ramfb is not None:
            message = f"one device of a VM can have ramfb, entry [{ramfb}] has it already"
            raise Refused(reason, message, path=f"{path}[{index}].ramfb")
        ramfb = index if request.ramfb else ramfb
    if len(owners) > MAX_DEVICES:
        raise Refused(reason, f"must ask for at most {MAX_DEVICES} devices in all, got {len(owners)}", path=path)
