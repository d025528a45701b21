"""The fuzzer of one target, in a process of its own: `python -m fuzz.worker TARGET [option of libFuzzer…] FOLDER…`."""

import sys

import atheris

with atheris.instrument_imports(include=["dra", "hooksidecar", "webhook"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    program, target, *options = sys.argv
    atheris.Setup([program, *options], TARGETS[target])
    atheris.Fuzz()
