"""The environment as a source: taken where nothing is left to guess, and never a placeholder."""

import pytest
from support.claimed import allocated, entry, intent, metadata_json

from dra.contract import PLACEHOLDER_ENV
from dra.errors import Refused
from dra.identity import MdevUUID, PciAddress
from dra.metadata import decode_metadata
from dra.reasons import Reason
from hooksidecar.candidates import Wanted
from hooksidecar.environment import Environment

A, B, C = (MdevUUID.parse(f"3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a1{digit}") for digit in "abc")
PCI = PciAddress.parse("0000:65:00.0")


def known(*drivers):
    """Return one device of each driver, as a metadata file without identities names them."""
    devices = [allocated(f"d{index}", driver=driver) for index, driver in enumerate(drivers)]
    return decode_metadata(metadata_json({"gpu": devices}).encode(), path="metadata")


def ask(variables, *wanted, configured=None, taken=()):
    return Environment(variables, configured or {}).find(wanted, taken)


def want(name="gpu0", count=1, *drivers):
    return Wanted(intent(entry(name, count=count)).devices[0], known(*drivers))


def identities(answer):
    assert isinstance(answer, tuple), answer
    return [candidate.identity for candidate in answer]


ONE = {
    "mdev": ({"MDEV_PCI_RESOURCE_EXAMPLE_COM_GPU": str(A)}, A),
    "pci": ({"PCI_RESOURCE_EXAMPLE_COM_GPU": "0000:65:00.0"}, PCI),
    "upper-case": ({"MDEV_PCI_RESOURCE_X": str(A).upper()}, A),
    "trailing-comma": ({"MDEV_PCI_RESOURCE_X": f" {A} ,"}, A),
    "same-device-twice": ({"MDEV_PCI_RESOURCE_X": str(A), "MDEV_PCI_RESOURCE_Y": f"{A},{A}"}, A),
    "placeholder-variable": ({PLACEHOLDER_ENV: str(B), "MDEV_PCI_RESOURCE_X": str(A)}, A),
    "placeholder-value": ({"MDEV_PCI_RESOURCE_X": f"00000000-0000-4000-8000-000000000001,{A}"}, A),
    "dash-in-name": ({"MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-2Q": str(A)}, A),
    "others-are-passed-over": ({"PATH": "/bin", "MY_PCI_RESOURCE_X": "0000:01:00.0", "PCI_RESOURCE_X": str(PCI)}, PCI),
}


@pytest.mark.parametrize(("variables", "identity"), ONE.values(), ids=ONE)
def test_one_value_for_the_one_entry_is_its_device(variables, identity):
    [answer] = ask(variables, want())
    assert identities(answer) == [identity]


def test_as_many_values_as_the_entry_counts_are_its_devices_in_their_order():
    [answer] = ask({"MDEV_PCI_RESOURCE_X": f"{B},{A}"}, want("gpu", 2))
    assert identities(answer) == [A, B]


def test_single_device_keeps_what_the_driver_said_of_it():
    [[candidate]] = ask({"MDEV_PCI_RESOURCE_X": str(A)}, want("gpu0", 1, "vgpu.example.com"))
    assert (candidate.allocated.device, candidate.identity) == ("d0", A)


def test_device_of_a_resolved_entry_is_no_candidate():
    [answer] = ask({"MDEV_PCI_RESOURCE_X": f"{A},{B}"}, want("b"), taken={A})
    assert identities(answer) == [B]


AMBIGUOUS = {
    "more-values": ({"MDEV_PCI_RESOURCE_X": f"{A},{B}"}, [want()]),
    "fewer-values": ({"MDEV_PCI_RESOURCE_X": str(A)}, [want("gpu", 2)]),
    "two-entries": ({"MDEV_PCI_RESOURCE_X": f"{A},{B}"}, [want("a"), want("b")]),
    "mdev-and-its-parent": ({"MDEV_PCI_RESOURCE_X": str(A), "PCI_RESOURCE_X": str(PCI)}, [want()]),
}


@pytest.mark.parametrize(("variables", "wanted"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_anything_left_to_guess_is_ambiguous(variables, wanted):
    for answer in ask(variables, *wanted):
        assert (type(answer), answer.reason) == (Refused, Reason.AMBIGUOUS_ENVIRONMENT)
        assert "MDEV_PCI_RESOURCE_X" in answer.message
        assert all(each.entry.request.name in answer.message for each in wanted)


@pytest.mark.parametrize(
    "variables", [{}, {PLACEHOLDER_ENV: str(A)}, {"HOME": "/"}], ids=["none", "placeholder", "other"]
)
def test_no_variable_is_not_known(variables):
    [answer] = ask(variables, want())
    assert (type(answer), answer.reason) == (Refused, Reason.UNRESOLVED)


@pytest.mark.parametrize("value", ["gpu-0", "0000:65:00", f"{A};{B}", "/dev/vfio/48"])
def test_value_that_is_no_device_is_refused(value):
    [answer] = ask({"PCI_RESOURCE_X": value}, want())
    assert (type(answer), answer.reason) == (Refused, Reason.INVALID_ENVIRONMENT)
    assert "variable PCI_RESOURCE_X" in answer.message


CONFIGURED = {"a.example": ("A_GPUS",), "b.example": ("B_GPUS", "B_MORE")}


def test_configured_variable_is_the_entry_s_of_its_driver():
    variables = {"A_GPUS": str(A), "B_GPUS": str(B), "B_MORE": str(C)}
    first, second = ask(variables, want("x", 1, "a.example"), want("y", 2, "b.example"), configured=CONFIGURED)
    assert identities(first) == [A]
    assert identities(second) == [B, C]


def test_request_served_by_two_drivers_has_the_variables_of_both():
    variables = {"A_GPUS": str(A), "B_GPUS": str(B)}
    [answer] = ask(variables, want("x", 2, "a.example", "b.example"), configured=CONFIGURED)
    assert identities(answer) == [A, B]


def test_entry_that_is_left_gets_what_the_configured_variables_do_not_hold():
    variables = {"A_GPUS": str(A), "MDEV_PCI_RESOURCE_X": f"{A},{B}"}
    first, second = ask(variables, want("x", 1, "a.example"), want("y"), configured=CONFIGURED)
    assert identities(first) == [A]
    assert identities(second) == [B]


def test_two_entries_of_one_driver_are_ambiguous():
    answers = ask({"A_GPUS": f"{A},{B}"}, want("x", 1, "a.example"), want("y", 1, "a.example"), configured=CONFIGURED)
    assert {answer.reason for answer in answers} == {Reason.AMBIGUOUS_ENVIRONMENT}


def test_entry_beside_an_ambiguous_one_is_not_the_last():
    variables = {"A_GPUS": f"{A},{B}", "MDEV_PCI_RESOURCE_X": str(C)}
    answers = ask(variables, want("x", 1, "a.example"), want("y"), configured=CONFIGURED)
    assert {answer.reason for answer in answers} == {Reason.AMBIGUOUS_ENVIRONMENT}


def test_variable_of_another_driver_is_not_the_entry_s():
    [answer] = ask({"B_GPUS": str(B)}, want("x", 1, "a.example"), configured=CONFIGURED)
    assert answer.reason is Reason.UNRESOLVED


def test_configured_variable_counts_for_an_entry_whose_driver_is_not_known():
    [answer] = ask({"B_GPUS": str(PCI)}, want("x"), configured=CONFIGURED)
    assert identities(answer) == [PCI]
