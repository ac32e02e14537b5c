"""docs/pyflink.md and the classes it is generated from."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.pages import ROOT

from queryable_state.streaming.compat.pyflink_alias import named

SCRIPT = ROOT / "scripts" / "generate_pyflink_docs.py"
PAGE = ROOT / "docs" / "pyflink.md"


def test_the_page_is_current() -> None:
    """And the check names the command that writes it."""
    checked = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_each_name_that_works_exists() -> None:
    """Read from the page itself, so that a mistake of the generator shows too."""
    absent, checked = [], 0
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        class_name = section.partition("\n")[0]
        for method in re.findall(
            r"^\| `(\w+)\(.*\)` \| (?!missing|refused)[a-z ]+ \|", section, re.MULTILINE
        ):
            checked += 1
            if not callable(getattr(named(class_name), method, None)):
                absent.append(f"{class_name}.{method}")
    assert checked > 100
    assert not absent
