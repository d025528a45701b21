"""`python -m hooksidecar`: the sidecar alone, without the command around it."""

import os
import sys

from hooksidecar.main import serve

if __name__ == "__main__":
    sys.exit(serve(os.environ))
