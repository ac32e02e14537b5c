"""Writes fixtures: `python -m tests.native_state.programs FOLDER [NAME...]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.native_state.programs.writer import main

main()
