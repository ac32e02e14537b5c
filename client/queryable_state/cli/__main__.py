"""Entry point of `python -m queryable_state.cli`."""

import sys

from queryable_state.cli import main

if __name__ == "__main__":
    sys.exit(main())
