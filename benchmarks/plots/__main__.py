"""`python -m benchmarks.plots FILE ...`: draws the figures in files of `python -m benchmarks`.

If two files hold figures of one program, those of the later file are drawn. The same figures give
the same pictures, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.plots.capacity import capacity
from benchmarks.plots.query import latencies, open_loop, rates
from benchmarks.plots.streaming import streaming
from benchmarks.plots.style import save

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "plots"
PICTURES = {
    "query": {"query-rates": rates, "query-p99": latencies, "query-open-loop": open_loop},
    "streaming": {"streaming": streaming},
    "capacity": {"capacity": capacity},
}
"""By program, then by name of the picture."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON file of make bench"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the SVG files")
    options = parser.parse_args()
    figures: dict[str, dict[str, object]] = {}
    for file in options.files:
        figures |= json.loads(file.read_text())
    if not PICTURES.keys() & figures.keys():
        parser.error("no figures to draw: give files of `python -m benchmarks PROGRAM --json FILE`")
    options.folder.mkdir(parents=True, exist_ok=True)
    for program, pictures in PICTURES.items():
        if program not in figures:
            continue
        for name, draw in pictures.items():
            drawn = draw(figures[program])
            if drawn is not None:
                path = options.folder / f"{name}.svg"
                save(drawn, path)
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
