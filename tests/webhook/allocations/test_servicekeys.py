"""The key that switches the service on: one file is needed, the rest follows."""

import os

import pytest

from cli.throwaway import issue
from dra.contract import TOKEN_PATH
from dra.errors import Failed, Refused
from dra.intent import ServiceAddress
from webhook.config import Installation
from webhook.configfile import ConfigFile, load_config, read_config


@pytest.fixture
def ca(tmp_path):
    return issue(tmp_path).authority


def written(folder, text):
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def test_the_file_of_the_authority_is_enough(tmp_path, ca):
    config = load_config(written(tmp_path, f"allocationService: {{caFile: {ca}}}"))
    host = "dravirt-webhook.dravirt-system.svc"
    assert config.allocation_service == ServiceAddress(f"https://{host}:443", ca.read_text(), host, TOKEN_PATH)


def test_the_address_is_that_of_the_installations_service():
    installation = Installation(service_host="hook.gpus.svc")
    config, _ = read_config("allocationService: {caFile: c}", path="c", installation=installation)
    assert config.allocation_service.url == "https://hook.gpus.svc:443"
    assert config.allocation_service.server_name == "hook.gpus.svc"


def test_a_server_that_knows_its_authorities_needs_no_file():
    config, warnings = read_config("allocationService: {}", path="c")
    assert (config.ca_file, config.lacks_authority, warnings) == (None, True, [])


def test_a_server_that_does_not_know_them_says_what_to_set():
    with pytest.raises(Refused, match=r"allocationService\.caFile: must name .* --tls-self-managed or with --tls-ca"):
        read_config("allocationService: {}", path="c", installation=Installation(knows_authorities=False))


def test_an_address_keeps_the_name_of_the_certificate():
    text = "allocationService: {caFile: c, url: 'https://10.96.3.4:8443/', serverName: d.example}"
    config, warnings = read_config(text, path="c")
    assert (config.allocation_service.url, config.allocation_service.server_name) == (
        "https://10.96.3.4:8443",
        "d.example",
    )
    assert warnings == []


def test_an_unknown_key_is_reported():
    _, warnings = read_config("allocationService: {caFile: c, urls: x}", path="c")
    assert warnings == ["c: allocationService.urls: is not a known field: did you mean url?"]


@pytest.mark.parametrize("text", ["", "allocationService:\n"], ids=["absent", "null"])
def test_absent_it_is_off(text):
    assert read_config(text, path="c")[0].allocation_service is None


@pytest.mark.parametrize("url", ["http://d", "https://", "https://d/x", "https://u@d", "https://d:x", "https://d?a=b"])
def test_a_url_is_an_origin_over_tls(url):
    with pytest.raises(Refused, match="must be https"):
        read_config(f"allocationService: {{caFile: c, url: '{url}'}}", path="c")


CONTENT = {"missing": None, "empty": "", "no certificate": "hello", "cut": "-----BEGIN CERTIFICATE-----\nMII"}


@pytest.mark.parametrize("content", CONTENT.values(), ids=CONTENT)
def test_an_authority_that_is_none_stops_the_start(tmp_path, content):
    if content is not None:
        (tmp_path / "ca.crt").write_text(content)
    with pytest.raises((Failed, Refused), match=r"ca\.crt"):
        load_config(written(tmp_path, f"allocationService: {{caFile: {tmp_path}/ca.crt}}"))


def test_a_key_beside_the_authority_is_given_to_no_sidecar(tmp_path):
    pair = issue(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(pair.authority.read_text() + pair.key.read_text())
    with pytest.raises(Refused, match=r"both\.pem: must hold certificates alone") as refused:
        load_config(written(tmp_path, f"allocationService: {{caFile: {both}}}"))
    assert pair.key.read_text().splitlines()[1] not in str(refused.value)


def test_an_authority_that_would_not_fit_into_a_variable_is_refused(tmp_path, ca):
    bundle = tmp_path / "bundle.crt"
    bundle.write_text(ca.read_text() * 100)
    with pytest.raises(Refused, match="32768 characters"):
        load_config(written(tmp_path, f"allocationService: {{caFile: {bundle}}}"))


def test_a_new_authority_is_handed_out_and_a_broken_one_is_not(tmp_path, ca):
    times = iter(range(0, 100, 2))
    file = ConfigFile(written(tmp_path, f"allocationService: {{caFile: {ca}}}"), clock=lambda: next(times))
    first = file.current().allocation_service.ca

    other = tmp_path / "other"
    other.mkdir()
    ca.write_text(first + issue(other).authority.read_text())
    both = file.current().allocation_service.ca
    assert both.startswith(first)
    assert both.count("BEGIN CERTIFICATE") == 2

    ca.write_text("nothing")
    assert file.current().allocation_service.ca == both
    assert file.error is not None
    ca.unlink()
    assert file.current().allocation_service.ca == both

    ca.write_text(first)
    assert file.current().allocation_service.ca == first
    assert file.error is None


def test_switching_on_and_off_needs_no_restart(tmp_path, ca):
    times = iter(range(0, 100, 2))
    path = written(tmp_path, "mode: placeholder")
    file = ConfigFile(path, clock=lambda: next(times))
    assert file.current().allocation_service is None
    path.write_text(f"allocationService: {{caFile: {ca}}}")
    assert file.current().allocation_service is not None
    ca.write_text(ca.read_text() + "\n")
    os.utime(ca)
    assert file.current().allocation_service.ca.endswith("\n\n")
    path.write_text("mode: placeholder ")
    assert file.current().allocation_service is None


def test_a_configuration_whose_authority_comes_later_is_used_then(tmp_path, ca, caplog):
    file, late = written(tmp_path, "mode: placeholder"), tmp_path / "late.crt"
    clock = iter(range(0, 1000, 10))
    config_file = ConfigFile(file, clock=lambda: next(clock))
    file.write_text(f"mode: append\nallocationService: {{caFile: {late}}}")
    assert config_file.current().mode == "placeholder"
    assert config_file.current().mode == "placeholder"
    assert len([line for line in caplog.records if "not used" in line.message]) == 1
    late.write_text(ca.read_text())
    assert config_file.current().mode == "append"
    assert config_file.error is None
