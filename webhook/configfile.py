"""The configuration: YAML to a `Config`, and a file or folder that may change while it is used.

A wrong value refuses the whole file, since half a configuration is none that anybody wrote. An unknown key is reported
and ignored, so that a release starts with the file of the next one after a rollback.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dra.errors import DravirtError, Refused
from dra.fields import Fields
from dra.intent import NAME_LISTS, Mode, read_attributes, read_environment
from dra.names import require_dns_label, require_dns_subdomain
from dra.reasons import Reason
from webhook.config import Config, Installation, Resources, SidecarConfig
from webhook.configtext import parse, read, signature
from webhook.image import is_image
from webhook.log import LEVELS
from webhook.quantity import parse_quantity, same_quantity
from webhook.servicekeys import read_service, with_authority

_WRONG = Reason.INVALID_CONFIGURATION
_KEYS = ("mode", "sidecar", "kubevirtNamespace", "attributes", "environment", "allocationService")
_LOOK_EVERY = 1.0  # seconds
_DEFAULTS = Config()
_USUAL = Installation()

_log = logging.getLogger(__name__)


def load_config(path: Path | str | None, installation: Installation = _USUAL) -> Config:
    """Return the configuration in the file or folder at `path`, the defaults where there is none; log the warnings.

    Raises Refused where it is wrong, Failed where it cannot be read.
    """
    value = {} if path is None else read(Path(path))
    config, warnings = _checked(value, str(path), installation)
    for warning in warnings:
        _log.warning("%s", warning)
    return with_authority(config)


def read_config(text: str, *, path: str, installation: Installation = _USUAL) -> tuple[Config, list[str]]:
    """Return the configuration that the YAML `text` of the file at `path` holds, and a warning per unknown key.

    Raises Refused with the file and the path of the wrong field.
    """
    return _checked(parse(text, path=path), path, installation)


def _checked(value: Any, path: str, installation: Installation) -> tuple[Config, list[str]]:
    warnings: list[str] = []
    try:
        config = _config(Fields.of(value, "", _WRONG), warnings, installation)
    except Refused as error:
        raise Refused(_WRONG, error.message, path=path) from error
    return config, [f"{path}: {warning}" for warning in warnings]


def _config(fields: Fields, warnings: list[str], installation: Installation) -> Config:
    warnings += fields.unknown(_KEYS)
    attributes = fields.mapping("attributes")
    for driver in attributes.raw:
        warnings += attributes.mapping(driver).unknown(NAME_LISTS)
    namespace = fields.optional_text("kubevirtNamespace")
    if namespace is not None:
        require_dns_label(namespace, fields.at("kubevirtNamespace"), _WRONG)
    return Config(
        mode=Mode(fields.optional_choice("mode", list(Mode)) or _DEFAULTS.mode),
        sidecar=_sidecar(fields.mapping("sidecar"), warnings, installation.sidecar_image),
        kubevirt_namespace=namespace or _DEFAULTS.kubevirt_namespace,
        attributes=read_attributes(attributes),
        environment=read_environment(fields.mapping("environment")),
        **read_service(fields, warnings, installation),
    )


def _sidecar(fields: Fields, warnings: list[str], default_image: str) -> SidecarConfig:
    warnings += fields.unknown(("image", "resources", "imagePullSecrets", "logLevel"))
    # An empty `image:` is refused as well: it comes from a template whose value was forgotten.
    image = fields.text("image") if "image" in fields.raw else default_image
    if not is_image(image):
        raise fields.refuse("image", f"must be an image reference ([host/]path[:tag][@digest]), got {image[:80]!r}")
    secrets = [
        Fields.of(item, f"{fields.at('imagePullSecrets')}[{index}]", _WRONG)
        for index, item in enumerate(fields.items("imagePullSecrets"))
    ]
    for secret in secrets:
        warnings += secret.unknown(("name",))
    return SidecarConfig(
        image=image,
        resources=_resources(fields.mapping("resources"), warnings),
        image_pull_secrets=tuple(
            require_dns_subdomain(secret.text("name"), secret.at("name"), _WRONG) for secret in secrets
        ),
        log_level=fields.optional_choice("logLevel", LEVELS) or _DEFAULTS.sidecar.log_level,
    )


def _resources(fields: Fields, warnings: list[str]) -> Resources:
    """Return the sidecar's resources, written as a container's are."""
    warnings += fields.unknown(("requests", "limits"))
    requests, limits = fields.mapping("requests"), fields.mapping("limits")
    for side in (requests, limits):
        warnings += side.unknown(("cpu", "memory"))
    defaults = _DEFAULTS.sidecar.resources
    memory, memory_limit = _quantity(requests, "memory"), _quantity(limits, "memory")
    if memory and memory_limit and not same_quantity(memory, memory_limit):
        raise requests.refuse("memory", f"must equal limits.memory ({memory_limit}), got {memory}")
    cpu = _quantity(requests, "cpu") or defaults.cpu_request
    cpu_limit = _quantity(limits, "cpu") or defaults.cpu_limit
    if parse_quantity(cpu) > parse_quantity(cpu_limit):
        raise requests.refuse("cpu", f"must be at most limits.cpu ({cpu_limit}), got {cpu}: set both")
    return Resources(cpu_request=cpu, cpu_limit=cpu_limit, memory=memory_limit or memory or defaults.memory)


def _quantity(fields: Fields, name: str) -> str | None:
    """Return a quantity above zero, None where the field is absent or null."""
    value = fields.raw.get(name)
    if value is None:
        return None
    try:
        positive = parse_quantity(value) > 0
    except ValueError as error:
        raise fields.refuse(name, str(error)) from error
    if not positive:
        raise fields.refuse(name, f"must be more than 0, got {value}")
    return str(value)


class ConfigFile:
    """The configuration in a file, read again when it changes; the last good one counts until the next is good.

    Without a file it is what the defaults give.
    """

    def __init__(
        self,
        path: Path | None,
        installation: Installation = _USUAL,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file. Raises Refused or Failed: at the start there is no last good one."""
        self._path = path
        self._installation = installation
        self._clock = clock
        self._next_look = clock() + _LOOK_EVERY
        self._signature = signature(path)
        self._config = load_config(path, installation)
        self.read_at = time.time()
        """When the configuration in use was read, in seconds since 1970."""
        self._ca_signature = signature(self._config.ca_file)
        self.error: DravirtError | None = None
        """Why the file as it is now is not used, None where it is."""

    def current(self) -> Config:
        """Return the configuration to use now, after a look at the file at most once a second."""
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY
            self._look()
        return self._config

    def _look(self) -> None:
        # The signature is taken before the text is read: a change in between is seen at the next look.
        seen, ca_seen = signature(self._path), signature(self._config.ca_file)
        if (seen, ca_seen) == (self._signature, self._ca_signature) and self.error is None:
            return
        self._signature, self._ca_signature = seen, ca_seen
        try:
            config = load_config(self._path, self._installation)
            if config.ca_file != self._config.ca_file:
                self._ca_signature = signature(config.ca_file)
            self._config = config
        except DravirtError as error:
            # Tried again at every look: what is wrong may be outside, an authority's file that is not there yet.
            if self.error is None or self.error.message != error.message:
                fields = {"reason": error.reason}
                _log.error(
                    "the configuration is not used, the last good one stays: %s", error, extra={"fields": fields}
                )
            self.error = error
        else:
            self.error, self.read_at = None, time.time()
            _log.info("the configuration was read again: %s", self._path)
