"""Command line of the generators of pages in docs/."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write_or_check(
    path: Path, page: Callable[[], str], *, description: str | None, target: str
) -> int:
    """Writes a page; with --check it writes nothing, and reports if the page differs.

    `target` is the make target that writes the page. Returns the exit status of the process.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, report a difference")
    check = parser.parse_args().check
    wanted = page()
    if check:
        if not path.exists() or path.read_text(encoding="utf-8") != wanted:
            print(f"{path} is out of date. To fix it: make {target}", file=sys.stderr)
            return 1
        return 0
    path.write_text(wanted, encoding="utf-8")
    print(path)
    return 0
