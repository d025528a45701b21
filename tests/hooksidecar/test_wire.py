"""Our reading and writing of hook messages is protobuf's, by the stubs that protoc makes of the definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooksidecar.api import info_pb2, v1alpha1_pb2, v1alpha2_pb2
from hooksidecar.callbacks import _INFO
from hooksidecar.wire import decode, encode

LENGTHS = [0, 1, 127, 128, 129, 16383, 16384, 5 << 20]


@pytest.mark.parametrize("length", LENGTHS)
def test_request_of_any_length_is_read(length):
    params = v1alpha1_pb2.OnDefineDomainParams(domainXML=b"d" * length, vmi=b"v")
    assert decode(params.SerializeToString()).get(1, b"") == params.domainXML
    assert decode(params.SerializeToString())[2] == b"v"


@pytest.mark.parametrize("length", LENGTHS)
def test_answer_of_any_length_is_written(length):
    result = v1alpha2_pb2.PreCloudInitIsoResult(cloudInitNoCloudSource=b"s" * length, cloudInitData=b"d")
    assert encode([(1, b"s" * length), (3, b"d")]) == result.SerializeToString()


@given(st.binary(), st.binary(), st.binary())
def test_fields_come_through_in_both_directions(source, vmi, data):
    params = v1alpha2_pb2.PreCloudInitIsoParams(cloudInitNoCloudSource=source, vmi=vmi, cloudInitData=data)
    fields = {number: value for number, value in ((1, source), (2, vmi), (3, data)) if value}
    assert decode(params.SerializeToString()) == fields
    assert v1alpha2_pb2.PreCloudInitIsoParams.FromString(encode(fields.items())) == params


def test_info_says_what_the_definitions_mean_by_it():
    assert info_pb2.InfoResult.FromString(_INFO) == info_pb2.InfoResult(
        name="dravirt",
        hookPoints=[info_pb2.HookPoint(name="OnDefineDomain", priority=0)],
        versions=["v1alpha3", "v1alpha2", "v1alpha1"],
    )


UNKNOWN = {
    "varint": b"\x20\xff\x01",
    "fixed64": b"\x29" + bytes(8),
    "fixed32": b"\x35" + bytes(4),
    "bytes": b"\x3a\x01x",
}


@pytest.mark.parametrize("field", UNKNOWN.values(), ids=UNKNOWN)
def test_field_of_a_later_version_is_passed_over(field):
    for message in (field + b"\x0a\x01d", b"\x0a\x01d" + field):
        assert v1alpha1_pb2.OnDefineDomainParams.FromString(message).domainXML == b"d"
        assert decode(message)[1] == b"d"


def test_last_of_a_repeated_field_counts():
    message = b"\x0a\x01a\x0a\x01b"
    assert v1alpha1_pb2.OnDefineDomainParams.FromString(message).domainXML == b"b"
    assert decode(message) == {1: b"b"}


MALFORMED = {
    "cut-length": b"\x0a",
    "cut-bytes": b"\x0a\x05abc",
    "cut-varint": b"\x20\xff",
    "cut-fixed": b"\x29\x00",
    "endless-varint": b"\x20" + b"\xff" * 20,
    "huge-length": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "end-group": b"\x0c",
    "type-7": b"\x0f",
    "field-0": b"\x02\x01x",
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
def test_malformed_message_is_an_error(message):
    with pytest.raises(Exception, match="parsing"):
        v1alpha1_pb2.OnDefineDomainParams.FromString(message)
    with pytest.raises(ValueError, match=r"malformed|cut|longer|unknown type"):
        decode(message)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(message):
    try:
        fields = decode(message)
    except ValueError:
        return
    assert all(number > 0 and value in message for number, value in fields.items())
