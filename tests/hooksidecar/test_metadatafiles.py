"""The metadata files: the exact paths, several drivers and requests, late, cut and hostile files."""

import os
import shutil

import pytest
from support.claimed import DRIVER, allocated, claim_folder, entry, intent, template_folder, write_metadata

from dra.errors import Failed, Refused
from dra.metadata import MAX_METADATA
from dra.reasons import Reason
from hooksidecar.candidates import Wanted
from hooksidecar.metadatafiles import MetadataFiles

UUID = "3f0e2a54-6c1d-4b7a-9f33-0c5d1e2b7a10"


def ask(folder, **wanted):
    """Return what the files say of one entry."""
    claimed = intent(entry(**wanted)).devices[0]
    [answer] = MetadataFiles(folder).find([Wanted(claimed)], ())
    return answer


def names(answer):
    assert isinstance(answer, tuple), answer
    return [candidate.allocated.device for candidate in answer]


def test_template_claim_is_found_below_its_pod_claim(tmp_path):
    write_metadata(template_folder(tmp_path, "vgpu"), allocated("v0", mdevUUID=UUID))
    write_metadata(template_folder(tmp_path, "vgpu", pod_claim="another"), allocated("v9"))
    write_metadata(claim_folder(tmp_path, "vgpu", claim="dravirt-gpu0"), allocated("v8"))
    [candidate] = ask(tmp_path, request="vgpu")
    assert candidate.identity is None
    assert candidate.allocated.sort_key == ("vgpu", DRIVER, "node-7", "v0", "")
    assert candidate.allocated.attributes == {"mdevUUID": {"string": UUID}}


def test_direct_claim_is_found_below_its_own_name(tmp_path):
    write_metadata(claim_folder(tmp_path, "vgpu", claim="lab-claim"), allocated("v0"))
    write_metadata(template_folder(tmp_path, "vgpu"), allocated("v9"))
    assert names(ask(tmp_path, claim="lab-claim", request="vgpu")) == ["v0"]


def test_direct_claim_whose_metadata_is_elsewhere_is_told_why(tmp_path):
    """A copy of a generated claim has its annotation: the driver writes below that pod claim's name."""
    write_metadata(template_folder(tmp_path, "vgpu", pod_claim="gpu"), allocated("v0"))
    answer = ask(tmp_path, claim="lab-claim", request="vgpu")
    assert isinstance(answer, Failed)
    assert "resourceclaims/lab-claim is not there" in answer.message
    assert "annotation resource.kubernetes.io/pod-claim-name" in answer.message
    assert "annotation" not in ask(tmp_path, request="vgpu").message


def test_entry_without_request_takes_all_requests_of_its_claim(tmp_path):
    write_metadata(template_folder(tmp_path, "right"), allocated("v1"))
    write_metadata(template_folder(tmp_path, "left"), allocated("v0"))
    assert names(ask(tmp_path, count=2)) == ["v0", "v1"]


@pytest.mark.parametrize("first", ["gpu.a.example", "gpu.b.example"])
def test_dr10_files_of_two_drivers_are_read_in_name_order(tmp_path, first):
    for driver in sorted(["gpu.a.example", "gpu.b.example"], key=lambda name: name != first):
        device = allocated(driver.replace(".", "-"), driver=driver)
        write_metadata(template_folder(tmp_path, "gpu"), device, driver=driver)
    assert names(ask(tmp_path, request="gpu", count=2)) == ["gpu-a-example", "gpu-b-example"]


@pytest.mark.parametrize(("request_", "found"), [("gpu", ["v3"]), ("gpu/slice", ["v3"]), ("gpu2", ["v4"])], ids=str)
def test_dr07_subrequest_lies_in_the_folder_of_its_request(tmp_path, request_, found):
    write_metadata(template_folder(tmp_path, "gpu"), allocated("v3"), request="gpu/slice")
    write_metadata(template_folder(tmp_path, "gpu2"), allocated("v4"))
    assert names(ask(tmp_path, request=request_)) == found


def test_dr07_another_subrequest_than_the_chosen_one_is_refused(tmp_path):
    write_metadata(template_folder(tmp_path, "gpu"), allocated("v3"), request="gpu/slice")
    answer = ask(tmp_path, request="gpu/whole")
    assert (type(answer), answer.reason) == (Refused, Reason.UNKNOWN_REQUEST)
    assert "no request 'gpu/whole', there is gpu/slice" in answer.message


def test_dr07_subrequest_of_a_longer_name_is_not_taken(tmp_path):
    folder = template_folder(tmp_path, "gpu")
    write_metadata(folder, allocated("v4"), request="gpu2/large")
    assert ask(tmp_path, request="gpu").reason is Reason.UNRESOLVED


def test_dr23_unknown_request_is_answered_with_those_that_exist(tmp_path):
    write_metadata(template_folder(tmp_path, "gpu"), allocated("v0"))
    write_metadata(template_folder(tmp_path, "other"), allocated("v1"))
    answer = ask(tmp_path, request="gpuu")
    assert (type(answer), answer.reason) == (Refused, Reason.UNKNOWN_REQUEST)
    assert "no request 'gpuu', there is gpu, other" in answer.message


@pytest.mark.corpus
def test_dr16_first_object_of_a_known_version_and_shape_counts(tmp_path, bug_inputs):
    folder = template_folder(tmp_path, "gpu")
    folder.mkdir(parents=True)
    shutil.copy(bug_inputs / "dr16-two-versions.metadata.json", folder / "vgpu.example.test-metadata.json")
    [candidate] = ask(tmp_path, request="gpu")
    assert candidate.allocated.attributes["mdevUUID"]["string"] == UUID


@pytest.mark.corpus
def test_file_that_lists_several_requests_counts_for_the_one_of_its_folder(tmp_path, bug_inputs):
    for request in ("left", "right"):
        folder = template_folder(tmp_path, request)
        folder.mkdir(parents=True)
        shutil.copy(bug_inputs / "vg01-two-vgpus.metadata.json", folder / "vgpu.example.test-metadata.json")
    assert names(ask(tmp_path, request="right")) == ["v1"]
    assert names(ask(tmp_path, count=2)) == ["v0", "v1"]


def test_what_is_not_there_yet_may_come(tmp_path):
    folder = template_folder(tmp_path, "vgpu")
    for make in (lambda: None, lambda: folder.parent.mkdir(parents=True), folder.mkdir):
        make()
        answer = ask(tmp_path, request="vgpu")
        assert (type(answer), answer.reason) == (Failed, Reason.UNRESOLVED)
    write_metadata(folder, request="vgpu")
    assert "no device is listed" in ask(tmp_path, request="vgpu").message
    write_metadata(folder, allocated("v0"))
    assert names(ask(tmp_path, request="vgpu")) == ["v0"]


def test_request_without_a_file_keeps_the_whole_claim_unknown(tmp_path):
    write_metadata(template_folder(tmp_path, "left"), allocated("v0"))
    template_folder(tmp_path, "right").mkdir()
    assert isinstance(ask(tmp_path, count=2), Failed)


@pytest.mark.parametrize("keep", [0, 1, 200], ids=["empty", "one-byte", "half"])
def test_cut_file_may_be_whole_on_the_next_try(tmp_path, keep):
    file = write_metadata(template_folder(tmp_path, "vgpu"), allocated("v0"))
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    answer = ask(tmp_path, request="vgpu")
    assert (type(answer), answer.reason) == (Failed, Reason.INVALID_METADATA)
    file.write_bytes(whole)
    assert names(ask(tmp_path, request="vgpu")) == ["v0"]


def test_link_within_the_metadata_folder_is_followed(tmp_path):
    file = write_metadata(tmp_path / "..data", allocated("v0"), request="vgpu")
    folder = template_folder(tmp_path, "vgpu")
    folder.mkdir(parents=True)
    (folder / file.name).symlink_to(file)
    assert names(ask(tmp_path, request="vgpu")) == ["v0"]


@pytest.mark.parametrize("what", ["file", "request", "claim"])
def test_link_out_of_the_metadata_folder_is_refused(tmp_path, what):
    inside, outside = tmp_path / "in", tmp_path / "out"
    target = template_folder(outside, "vgpu")
    write_metadata(target, allocated("v0"))
    link = template_folder(inside, "vgpu")
    if what == "file":
        link, target = link / f"{DRIVER}-metadata.json", target / f"{DRIVER}-metadata.json"
    elif what == "claim":
        link, target = link.parent, target.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    answer = ask(inside, request="vgpu")
    assert (type(answer), answer.reason) == (Refused, Reason.UNREADABLE)
    assert "leads out of" in answer.message


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    folder = template_folder(tmp_path, "vgpu")
    folder.mkdir(parents=True)
    make(folder / f"{DRIVER}-metadata.json")
    answer = ask(tmp_path, request="vgpu")
    assert (type(answer), answer.reason) == (Refused, Reason.UNREADABLE)
    assert "is no regular file" in answer.message


def test_file_without_bounds_is_refused(tmp_path):
    file = write_metadata(template_folder(tmp_path, "vgpu"), allocated("v0"))
    os.truncate(file, MAX_METADATA + 1)
    answer = ask(tmp_path, request="vgpu")
    assert (type(answer), answer.reason) == (Refused, Reason.INVALID_METADATA)


def test_folder_without_bounds_is_refused(tmp_path):
    folder = template_folder(tmp_path, "vgpu")
    folder.mkdir(parents=True)
    for index in range(300):
        (folder / f"d{index}-metadata.json").touch()
    answer = ask(tmp_path, request="vgpu")
    assert (type(answer), answer.reason) == (Refused, Reason.UNREADABLE)


def test_files_of_other_names_are_passed_over(tmp_path):
    folder = template_folder(tmp_path, "vgpu")
    write_metadata(folder, allocated("v0"))
    for name in ("README", ".hidden-metadata.json", "Upper-metadata.json", "-metadata.json", "x-metadata.json.tmp"):
        (folder / name).write_text("not for us")
    (folder.parent / "..data").mkdir()
    assert names(ask(tmp_path)) == ["v0"]


def test_two_entries_on_one_claim_are_answered_one_by_one(tmp_path):
    write_metadata(template_folder(tmp_path, "left"), allocated("v0"))
    claimed = intent(
        entry("a", request="left", podClaim="dravirt-gpu0"), entry("b", request="right", podClaim="dravirt-gpu0")
    )
    first, second = MetadataFiles(tmp_path).find([Wanted(each) for each in claimed.devices], ())
    assert names(first) == ["v0"]
    assert second.reason is Reason.UNKNOWN_REQUEST
