"""Which devices of an allocation are an entry's, by the names of requests and sub-requests."""

import pytest
from support.claimed import entry, intent

from hooksidecar.candidates import Wanted

TAKES = [
    ("gpu", "gpu", True),
    ("gpu", "gpu/large", True),
    ("gpu/large", "gpu/large", True),
    ("gpu/large", "gpu/larger", False),
    ("gpu/large", "gpu", False),
    ("gpu/large", "gpu/small", False),
    ("gpu", "gpu2", False),
    ("gpu", "gpu2/large", False),
    ("large", "gpu/large", False),
    (None, "gpu", True),
    (None, "gpu2/large", True),
]


@pytest.mark.parametrize(("wanted", "request_", "taken"), TAKES, ids=[f"{wanted}-{of}" for wanted, of, _ in TAKES])
def test_dr07_entry_takes_its_request_and_all_its_sub_requests(wanted, request_, taken):
    assert Wanted(intent(entry(request=wanted)).devices[0]).takes(request_) is taken
