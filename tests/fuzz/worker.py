"""The fuzzer of one target, in a process of its own: `python -m fuzz.worker TARGET [option of libFuzzer…] FOLDER…`."""

import random
import sys

import atheris

with atheris.instrument_imports(include=["dra", "hooksidecar", "webhook"]):
    from fuzz.mutators import MUTATORS
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until told to stop. One mutation in four is of bytes, the others are of the target's structure."""
    program, target, *options = sys.argv
    by_structure = MUTATORS.get(target)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        made = by_structure(data, chance) if by_structure and chance.randrange(4) else None
        return atheris.Mutate(data, max_size) if made is None else made[:max_size]

    more = {"custom_mutator": mutate} if by_structure else {}
    atheris.Setup([program, *options], TARGETS[target], **more)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
