"""`python -m cli` is `dravirt`."""

from cli.main import run

run()
