"""The names of an installation, by option or by variable: one way for all of them."""

import argparse

import pytest

from cli.installation import add_installation, add_sidecar_image, names_of
from dra.contract import DEFAULT_NAMESPACE, SERVICE_NAME
from webhook.config import Installation

NAMES = {
    "--namespace": ("POD_NAMESPACE", DEFAULT_NAMESPACE),
    "--service": ("DRAVIRT_SERVICE", SERVICE_NAME),
    "--secret": ("DRAVIRT_SECRET", "dravirt-webhook-tls"),
    "--webhooks": ("DRAVIRT_WEBHOOKS", "dravirt"),
    "--cluster-domain": ("DRAVIRT_CLUSTER_DOMAIN", ""),
    "--sidecar-image": ("DRAVIRT_SIDECAR_IMAGE", Installation().sidecar_image),
}


def parser():
    made = argparse.ArgumentParser(add_help=False)
    add_installation(made)
    add_sidecar_image(made)
    return made


def parsed(option, *arguments):
    return vars(parser().parse_args([*arguments]))[option.removeprefix("--").replace("-", "_")]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for variable, _ in NAMES.values():
        monkeypatch.delenv(variable, raising=False)


def test_these_are_all():
    assert sorted(each.option_strings[0] for each in parser()._actions) == sorted(NAMES)


@pytest.mark.parametrize("option", NAMES)
def test_the_option_comes_before_the_variable_and_that_before_the_default(option, monkeypatch):
    variable, default = NAMES[option]
    assert parsed(option) == default
    monkeypatch.setenv(variable, "")
    assert parsed(option) == default
    monkeypatch.setenv(variable, "by-variable")
    assert parsed(option) == "by-variable"
    assert parsed(option, option, "by-option") == "by-option"


@pytest.mark.parametrize("option", NAMES)
def test_help_names_variable_and_default(option):
    variable, default = NAMES[option]
    text = " ".join(parser().format_help().split())
    assert f"(default: {variable}, or {default or 'none'})" in text


@pytest.mark.parametrize("way", ["option", "variable"])
@pytest.mark.parametrize("option", NAMES)
def test_what_cannot_be_one_is_wrong_usage_that_names_both(option, way, monkeypatch, capsys):
    variable, _ = NAMES[option]
    if way == "variable":
        monkeypatch.setenv(variable, "../x y")
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([option, "../x y"] if way == "option" else [])
    assert ended.value.code == 2
    assert f"argument {option}: '../x y' is no " in (err := capsys.readouterr().err)
    assert f"({option} or {variable})" in err


def test_the_certificates_names_are_those_of_service_and_namespace():
    args = parser().parse_args(["--service", "hook", "--namespace", "gpus"])
    assert names_of(args)[0] == "hook.gpus.svc"
