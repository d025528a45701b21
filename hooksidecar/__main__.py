"""`python -m hooksidecar`: what the image runs."""

import os
import sys

from hooksidecar.main import serve

if __name__ == "__main__":
    sys.exit(serve(os.environ))
