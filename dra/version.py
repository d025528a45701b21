"""The version of dravirt, written into every pod it injects."""

__version__ = "0.1.0"
