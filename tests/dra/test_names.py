"""Names as Kubernetes accepts them."""

import pytest
from hypothesis import given
from support.dra_inputs import UNSAFE_NAMES, bounded, labels, request_names, subdomains

from dra.errors import Refused
from dra.names import (
    base_request,
    is_attribute_name,
    is_dns_label,
    is_dns_subdomain,
    is_pool_name,
    is_request_reference,
    require_dns_label,
    require_dns_subdomain,
    require_pool,
    require_request,
)
from dra.reasons import Reason

CHECKS = [is_dns_label, is_dns_subdomain, is_request_reference, is_pool_name, is_attribute_name]


@pytest.mark.parametrize("text", UNSAFE_NAMES.values(), ids=UNSAFE_NAMES.keys())
def test_unsafe_text_is_no_name_of_any_kind(text):
    assert [check for check in CHECKS[:4] if check(text)] == []


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (is_dns_label, "a", True),
        (is_dns_label, "0", True),
        (is_dns_label, "a100-1-10c", True),
        (is_dns_label, "a" * 63, True),
        (is_dns_label, "a" * 64, False),
        (is_dns_label, "gpu.a", False),
        (is_dns_subdomain, "a.b.c", True),
        (is_dns_subdomain, "1e3", True),
        (is_dns_subdomain, "a" * 64, True),  # Kubernetes checks the whole name only, not each label
        (is_dns_subdomain, "a" * 253, True),
        (is_dns_subdomain, "a" * 254, False),
        (is_dns_subdomain, "a..b", False),
        (is_dns_subdomain, ".a", False),
        (is_dns_subdomain, "a.", False),
        (is_dns_subdomain, "a.-b", False),
        (is_dns_subdomain, "a/b", False),
        (is_request_reference, "gpu", True),
        (is_request_reference, "gpu/large", True),
        (is_request_reference, "a" * 63 + "/" + "b" * 63, True),
        (is_request_reference, "a" * 64, False),
        (is_request_reference, "gpu/", False),
        (is_request_reference, "/large", False),
        (is_request_reference, "gpu/large/xl", False),
        (is_request_reference, "gpu/..", False),
        (is_pool_name, "node-7", True),
        (is_pool_name, "node-7.example.test/rack-1", True),
        (is_pool_name, "a//b", False),
        (is_pool_name, "a/../b", False),
        (is_pool_name, "/".join(["a"] * 127), True),
        (is_pool_name, "/".join(["a"] * 128), False),
        (is_attribute_name, "mdevUUID", True),
        (is_attribute_name, "_x9", True),
        (is_attribute_name, "resource.kubernetes.io/pciBusID", True),
        (is_attribute_name, "a" * 32, True),
        (is_attribute_name, "a" * 33, False),
        (is_attribute_name, "a" * 63 + "/x", True),
        (is_attribute_name, "a" * 64 + "/x", False),
        (is_attribute_name, "9x", False),
        (is_attribute_name, "pci-bus", False),
        (is_attribute_name, "pciBusID\n", False),
        (is_attribute_name, "", False),
        (is_attribute_name, "/x", False),
        (is_attribute_name, "a.b/", False),
        (is_attribute_name, "a/b/c", False),
        (is_attribute_name, "\u0430", False),
    ],
)
def test_names_follow_the_rules_of_kubernetes(check, text, expected):
    assert check(text) is expected


@bounded
@given(labels)
def test_a_label_is_also_a_subdomain_a_request_and_a_pool(label):
    assert all(check(label) for check in CHECKS[:4])


@bounded
@given(subdomains)
def test_a_subdomain_is_also_a_pool(name):
    assert is_dns_subdomain(name)
    assert is_pool_name(name)


@bounded
@given(request_names)
def test_base_request_is_what_a_pod_may_refer_to(request):
    base = base_request(request)
    assert is_dns_label(base)
    assert request == base or request.startswith(f"{base}/")


@pytest.mark.parametrize(
    ("asked", "given_", "same"),
    [("gpu", "gpu/slice", True), ("gpu", "gpu", True), ("gpu", "gpu2", False), ("gpu", "gpu2/slice", False)],
)
def test_dr07_requests_match_on_the_part_before_the_slash(asked, given_, same):
    assert (base_request(given_) == asked) is same


@pytest.mark.parametrize(
    ("require", "right", "wrong", "what"),
    [
        (require_dns_label, "gpu0", "gpu.0", "DNS label"),
        (require_dns_subdomain, "gpu.0", "gpu/0", "DNS subdomain"),
        (require_request, "main/sub", "main/sub/x", "name of a request"),
        (require_pool, "a.b/c", "a//c", "name of a pool"),
    ],
)
def test_a_wrong_name_is_refused_at_its_path(require, right, wrong, what):
    assert require(right, "field[3].name", Reason.INVALID_DEVICES) == right
    with pytest.raises(Refused, match=f"^field\\[3\\].name: must be .*{what}.* got '{wrong}'$") as refused:
        require(wrong, "field[3].name", Reason.INVALID_DEVICES)
    assert refused.value.reason is Reason.INVALID_DEVICES
    assert refused.value.path == "field[3].name"


@pytest.mark.parametrize("require", [require_dns_label, require_dns_subdomain, require_request, require_pool])
def test_a_refusal_shows_look_alikes_and_stays_short(require):
    with pytest.raises(Refused) as refused:
        require("\u0430" * 100_000, "name", Reason.INVALID_DEVICES)
    assert "\\u0430" in refused.value.message
    assert refused.value.message.isascii()
    assert len(refused.value.message) < 700
