"""docs/certificates.md says what the options default to, and grants what is asked for."""

import argparse

import pytest
import yaml
from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from certs.policy import Policy
from cli.installation import add_installation, add_policy, duration, shown
from cli.main import main

PAGE = ROOT / "docs" / "certificates.md"


def test_the_table_has_every_lifetime_and_its_default():
    parser = argparse.ArgumentParser(add_help=False)
    add_policy(parser)
    defaults = {action.option_strings[0]: shown(action.default) for action in parser._actions}
    assert {codes(row[0])[0]: codes(row[1])[0] for row in rows(section(PAGE, "## Self-managed"))} == defaults


def test_the_defaults_are_a_policy():
    assert Policy().propagation == duration("2m")


def test_the_rights_are_for_the_names_that_are_the_defaults():
    parser = argparse.ArgumentParser(add_help=False)
    add_installation(parser)
    args = parser.parse_args([])
    role, cluster_role = yaml.safe_load_all(fenced(PAGE.read_text(), "yaml")[0])
    assert role["metadata"]["namespace"] == args.namespace
    assert role["rules"][0]["resourceNames"] == [args.secret]
    assert cluster_role["rules"][0]["resourceNames"] == [args.webhooks]


@pytest.mark.parametrize("command", ["certs", "webhook"])
def test_help_is_by_example(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"  dravirt {command} " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "1", "1w", "-1s", "1.5h", "1s "])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="90s, 15m, 12h or 30d"):
        duration(text)


@pytest.mark.parametrize("text", ["90s", "15m", "12h", "30d"])
def test_a_time_is_shown_as_it_is_read(text):
    assert shown(duration(text)) == text
