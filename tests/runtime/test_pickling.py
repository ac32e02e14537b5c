"""Pickles of values whose type is unknown."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from queryable_state.streaming.runtime.pickling import pickled

PROGRAM = """
import sys
from dataclasses import dataclass
from queryable_state.streaming.runtime.pickling import pickled

@dataclass
class Trip:
    miles: float

sys.stdout.buffer.write(pickled([Trip(1.5), Trip]))
"""


def test_values_of_a_class_of_the_main_program_are_readable_in_another_process() -> None:
    written = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    trip, its_class = pickle.loads(written.stdout)
    assert trip == its_class(1.5)
    # A worker passes it on, though it is no class of its own main program.
    again, class_again = pickle.loads(pickled([trip, its_class]))
    assert class_again is its_class
    assert again == trip


def test_values_of_importable_classes_name_their_class() -> None:
    assert pickled(range(3)) == pickle.dumps(range(3), protocol=5)


def test_what_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError, match="generator"):
        pickled(item for item in "ab")
