"""The kubelet's side of a driver: registration, and preparing the claims that the kubelet names."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from cluster.driver.messages import dra, dra_services, registration, registration_services
from cluster.driver.prepared import CannotPrepare, Claim, Devices, Prepared

log = logging.getLogger(__name__)
FindClaim = Callable[[str, str], dict[str, Any] | None]
"""From namespace and name to the ResourceClaim, None where it is gone."""


class Plugin:
    """Both servers of a driver, on sockets in the kubelet's folder."""

    def __init__(self, driver: str, kubelet: Path, find_claim: FindClaim, devices: Devices) -> None:
        folder = kubelet / "plugins" / driver
        folder.mkdir(parents=True, exist_ok=True)
        self._endpoint = folder / "dra.sock"
        self._registry = kubelet / "plugins_registry" / f"{driver}-reg.sock"
        self._driver, self._devices = driver, devices
        self._servers = [grpc.server(ThreadPoolExecutor(4)), grpc.server(ThreadPoolExecutor(1))]
        serving, registering = self._servers
        dra_services.add_DRAPluginServicer_to_server(_Claims(driver, find_claim, devices), serving)
        registration_services.add_RegistrationServicer_to_server(_Registration(driver, self._endpoint), registering)
        serving.add_insecure_port(f"unix://{self._endpoint}")
        registering.add_insecure_port(f"unix://{self._registry}")

    def __enter__(self) -> Self:
        # The kubelet calls the first socket as soon as it has found the second.
        for server in self._servers:
            server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in reversed(self._servers):
            server.stop(grace=1).wait()


class _Registration:
    def __init__(self, driver: str, endpoint: Path) -> None:
        self._driver, self._endpoint = driver, endpoint

    def GetInfo(self, _: Any, __: Any) -> Any:  # noqa: N802 (the protocol's name)
        return registration.PluginInfo(
            type="DRAPlugin", name=self._driver, endpoint=str(self._endpoint), supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, status: Any, _: Any) -> Any:  # noqa: N802 (the protocol's name)
        log.info("registered: %s %s", status.plugin_registered, status.error)
        return registration.RegistrationStatusResponse()


class _Claims:
    def __init__(self, driver: str, find_claim: FindClaim, devices: Devices) -> None:
        self._driver, self._find_claim, self._devices = driver, find_claim, devices

    def NodePrepareResources(self, request: Any, _: Any) -> Any:  # noqa: N802 (the protocol's name)
        response = dra.NodePrepareResourcesResponse()
        for reference in request.claims:
            answer = response.claims[reference.uid]
            try:
                prepared = self._devices.prepare(self._claim(reference))
            except CannotPrepare as error:
                log.warning("claim %s/%s: %s", reference.namespace, reference.name, error)
                answer.error = str(error)
                continue
            answer.devices.extend(_device(each) for each in prepared)
            log.info(
                "claim %s/%s: prepared %s", reference.namespace, reference.name, [each.device for each in prepared]
            )
        return response

    def NodeUnprepareResources(self, request: Any, _: Any) -> Any:  # noqa: N802 (the protocol's name)
        response = dra.NodeUnprepareResourcesResponse()
        for reference in request.claims:
            self._devices.unprepare(reference.uid)
            response.claims[reference.uid].SetInParent()
            log.info("claim %s/%s: unprepared", reference.namespace, reference.name)
        return response

    def _claim(self, reference: Any) -> Claim:
        """Return the claim that the kubelet names, as the API server has it: its uid must be the same."""
        found = self._find_claim(reference.namespace, reference.name)
        if found is None or found["metadata"]["uid"] != reference.uid:
            raise CannotPrepare(f"claim {reference.namespace}/{reference.name} is not there with uid {reference.uid}")
        allocation = found.get("status", {}).get("allocation")
        if allocation is None:
            raise CannotPrepare("the claim is not allocated")
        results = tuple(each for each in allocation["devices"]["results"] if each["driver"] == self._driver)
        annotations = found["metadata"].get("annotations", {})
        return Claim(reference.uid, reference.name, reference.namespace, annotations, results)


def _device(prepared: Prepared) -> Any:
    return dra.Device(
        # Containers refer to a request, not to the sub-request that the scheduler chose.
        request_names=[prepared.request.partition("/")[0]],
        pool_name=prepared.pool,
        device_name=prepared.device,
        cdi_device_ids=prepared.cdi_ids,
        share_id=prepared.share_id,
    )
