"""docs/configuration.md shows what the configuration file takes and what holds without one."""

import argparse
import re

import yaml
from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from cli.installation import add_installation, add_sidecar_image
from webhook.config import Config
from webhook.configfile import _KEYS, read_config
from webhook.servicekeys import KEYS as SERVICE_KEYS

PAGE = ROOT / "docs" / "configuration.md"
SERVICE_PAGE = ROOT / "docs" / "allocation-service.md"


def test_the_file_shown_first_says_what_holds_without_a_file():
    config, warnings = read_config(fenced(PAGE.read_text(), "yaml")[0], path="config.yaml")
    assert (config, warnings) == (Config(), [])


def test_the_file_shown_first_has_every_key_that_may_be_set():
    shown = yaml.safe_load(fenced(PAGE.read_text(), "yaml")[0])
    assert [*shown, "allocationService"] == list(_KEYS)


def test_every_part_shown_is_taken_without_a_warning():
    for block in fenced(PAGE.read_text(), "yaml")[1:]:
        config, warnings = read_config(block, path="config.yaml")
        assert config != Config()
        assert warnings == []


def test_the_table_has_every_key_and_its_default():
    table = {code: codes(row[1]) for row in rows(PAGE.read_text()) for code in codes(row[0])}
    shown = _leaves(yaml.safe_load(fenced(PAGE.read_text(), "yaml")[0]))
    options = {each for each in table if each.startswith("--")}
    assert sorted(table.keys() - options) == sorted([*shown, "allocationService"])
    for key, default in shown.items():
        assert table[key] == [default], key


def test_the_service_is_off_where_its_key_is_absent():
    assert re.search(r"\| `allocationService` \| \| absent: off", PAGE.read_text())
    assert Config().allocation_service is None


def test_the_page_of_the_service_shows_its_keys_and_a_file_that_is_taken():
    shown = {codes(row[0])[0]: row[1] for row in rows(section(SERVICE_PAGE, "## Switching it on"))}
    assert sorted(shown) == sorted(SERVICE_KEYS)
    config, warnings = read_config(fenced(SERVICE_PAGE.read_text(), "yaml")[0], path="config.yaml")
    assert (config.ca_file, warnings) == (None, [])
    assert codes(shown["url"]) == [config.allocation_service.url.replace("dravirt-system", "<namespace>")]
    assert codes(shown["serverName"]) == [
        config.allocation_service.server_name.replace("dravirt-system", "<namespace>")
    ]


def test_the_table_of_options_says_what_the_command_takes():
    parser = argparse.ArgumentParser(add_help=False)
    add_sidecar_image(parser)
    add_installation(parser)
    text = " ".join(parser.format_help().split())
    table = rows(section(PAGE, "## What the process is told"))
    assert [codes(row[0])[0] for row in table] == [each.option_strings[0] for each in parser._actions]
    for row in table:
        variable, default = codes(row[1])[0], codes(row[2])
        assert f"(default: {variable}, or {default[0] if default else 'none'})" in text


def _leaves(value: dict, prefix: str = "") -> dict[str, str]:
    """Return what is set, by path: a mapping that is empty counts as set."""
    leaves: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            leaves |= _leaves(item, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = {"[]": "[]", "{}": "{}"}.get(str(item), str(item))
    return leaves
