"""`python -m queryable_state.cli`, where the script `queryable-state` is not on the path."""

import sys

from queryable_state.cli import main

if __name__ == "__main__":
    sys.exit(main())
