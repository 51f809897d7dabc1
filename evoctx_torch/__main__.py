"""`python -m evoctx_torch` is `evoctx`."""

import sys

from evoctx_torch.cli import main

if __name__ == "__main__":
    sys.exit(main())
