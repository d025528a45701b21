"""The rule that a missing tool or folder is never passed over in silence."""

import os

import pytest


def require(thing: object, missing: str) -> None:
    """Skip the test with the line `missing` where `thing` is not there; fail it under DRAVIRT_REQUIRE=all."""
    if thing:
        return
    if os.environ.get("DRAVIRT_REQUIRE") == "all":
        pytest.fail(f"DRAVIRT_REQUIRE=all: {missing}", pytrace=False)
    pytest.skip(missing)
