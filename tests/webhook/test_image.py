"""Image references are refused before they reach a pod."""

import pytest

from webhook.image import is_image

DIGEST = "sha256:" + "0123456789abcdef" * 4

VALID = [
    "dravirt-hooksidecar",
    "dravirt-hooksidecar:0.1.0",
    "library/nginx",
    "registry.example.org/dravirt/hook-sidecar:v1",
    "registry.example.org:5000/dravirt/hook_sidecar__x.y--z:1.0_rc.1",
    "localhost/x",
    "localhost:5000/x",
    "10.0.0.1:5000/x:1",
    "[fd00::1]:5000/x:1",
    "Registry.Example.org/x",
    f"x@{DIGEST}",
    f"registry.example.org:5000/a/b/c:1@{DIGEST}",
    "x@sha512:" + "0123456789abcdef" * 8,
    "a" * 255,
    "x:" + "t" * 128,
]

INVALID = [
    "",
    " ",
    " x",
    "x\n",
    "x y",
    "X",
    "registry.example.org/X",
    "x:",
    "x@",
    ":1",
    "@" + DIGEST,
    "x:-1",
    "x:1:2",
    "x/",
    "/x",
    "x//y",
    "https://registry.example.org/x",
    "registry.example.org:port/x",
    "x..y",
    "x___y",
    "-x",
    "x-",
    "x@sha256:abc",
    "x@sha256:" + "G" * 64,
    "x@md5:" + "0" * 32,
    "x:ä",
    "ä",
    "${IMAGE}",
    "x:{{ .Values.tag }}",
    "a" * 256,
    "x:" + "t" * 129,
    "a-" * 20_000,
]


@pytest.mark.parametrize("text", VALID, ids=lambda text: text[:60])
def test_names_an_image(text):
    assert is_image(text)


@pytest.mark.parametrize("text", INVALID, ids=lambda text: repr(text[:60]))
def test_names_no_image(text):
    assert not is_image(text)
