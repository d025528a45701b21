"""Coverage-guided fuzzing of what hostile input reaches: `PYTHONPATH=tests python -m fuzz --seconds 60 [TARGET…]`.

A target is a function of bytes (`fuzz.targets`); what it raises is a finding. The seeds of a target lie in
`seeds/<target>/`; a finding is written to `findings/<target>/`. `test_targets.py` runs all of both without the fuzzer,
so a finding that is mended and kept there stays mended.
"""
