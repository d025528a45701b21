"""simulate: a case that does not fit together, at the door of the command."""

import shutil

import pytest
from support.examples import ROOT

from cli.main import main


@pytest.fixture
def case(tmp_path):
    return shutil.copytree(ROOT / "examples" / "mig-backed-mdev", tmp_path / "case", symlinks=True)


def test_a_device_that_the_claims_were_not_allocated_is_named(case, capfd):
    claims = case / "resourceclaims.yaml"
    claims.write_text(claims.read_text().replace("device: ", "device: other-"))

    assert main(["simulate", str(case)]) == 1
    err = capfd.readouterr().err
    assert "resourceclaims.yaml: gpu0 is " in err
    assert "by its metadata, the claims have " in err
