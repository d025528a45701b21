"""Run a stand-in driver: `python -m cluster.driver SETTINGS --kubeconfig FILE --node NAME --kubelet DIR --cdi DIR`."""

import argparse
import json
import logging
import signal
import sys
import threading
from pathlib import Path

import httpx

from cluster.api import Api, ApiError
from cluster.driver.devices import StandInDevices
from cluster.driver.plugin import Plugin
from cluster.driver.publication import Publication
from cluster.driver.settings import in_use, parse_settings

log = logging.getLogger(__name__)
PAUSE = 0.3
"""Seconds between two looks at the settings and the slices."""


def main() -> int:
    """Serve until SIGTERM, then withdraw the slices."""
    parser = argparse.ArgumentParser(prog="python -m cluster.driver")
    parser.add_argument("settings", type=Path, help="the driver's settings (JSON), read again when they change")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--kubelet", type=Path, required=True, help="the kubelet's root folder")
    parser.add_argument("--cdi", type=Path, required=True, help="the container runtime's folder of CDI specs")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    _serve(args, _api(args.kubeconfig), stop)
    return 0


def _serve(args: argparse.Namespace, api: Api, stop: threading.Event) -> None:
    settings, publication = parse_settings(args.settings.read_text()), Publication(api, args.node)
    devices = StandInDevices(
        settings, args.cdi, args.settings.with_name(f"{settings.driver}-metadata"), publication.write_status
    )
    with Plugin(settings.driver, args.kubelet, publication.find_claim, devices):
        published = None
        while not stop.wait(PAUSE):
            text = args.settings.read_text()
            now = parse_settings(text)
            if now != devices.settings:
                devices.change(now)
            try:
                publication.publish(now, changed=now.slices != published)
            except (ApiError, httpx.TransportError) as error:
                log.warning("not published, tried again: %s", error)
                continue
            published = now.slices
            in_use(args.settings).write_text(text)
    publication.withdraw(settings.driver)


def _api(kubeconfig: Path) -> Api:
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return Api(cluster["server"], user["token"], Path(cluster["certificate-authority"]))


if __name__ == "__main__":
    sys.exit(main())
