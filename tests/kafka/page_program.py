"""Runs the Python blocks of docs/kafka.md as one program; for test_page.

Arguments: HOST:PORT of the broker, folder that stands for `/shared`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.pages import ROOT, blocks


def main(servers: str, folder: str) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(ROOT / "docs" / "kafka.md"):
        if block.language == "python":
            text = block.text.replace("broker-1:9092,broker-2:9092", servers)
            exec(compile(text.replace("/shared/", f"{folder}/"), str(block), "exec"), namespace)
    namespace["again"].process_all_available()
    namespace["again"].cancel()
    namespace["spark"].stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
