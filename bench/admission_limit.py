"""The limit to compare with: the same server, an application that reads the body and answers a constant."""

import sys
from pathlib import Path

from starlette.types import Receive, Scope, Send

from webhook.log import configure
from webhook.readiness import Readiness
from webhook.server import Address, serve
from webhook.tls import ServingTLS

ANSWER = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"","allowed":true}}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))],
}
BODY = {"type": "http.response.body", "body": ANSWER}


async def app(_scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(BODY)


if __name__ == "__main__":
    configure("info")
    port, certificate, key = sys.argv[1:]
    tls = ServingTLS()
    tls.swap(Path(certificate).read_bytes(), Path(key).read_bytes())
    serve(app, Address("127.0.0.1", int(port)), tls.context, Readiness({}), drain_seconds=0)
