"""Generates the Python code of every .proto file, beside it.

`make proto` writes it; `make check` calls this with --check, which writes nothing and fails when
the committed code is not what the protos generate.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

PROTO_ROOT = Path(__file__).resolve().parent.parent / "proto"
GENERATED_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, report differences")
    parser.add_argument("--root", type=Path, default=PROTO_ROOT, help="folder of the .proto files")
    arguments = parser.parse_args()
    root: Path = arguments.root.resolve()

    with tempfile.TemporaryDirectory() as scratch:
        generate(root, Path(scratch))
        wanted = read_generated(Path(scratch))
    found = read_generated(root)
    outdated = sorted(
        path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)
    )

    if arguments.check:
        for path in outdated:
            print(f"{root / path}: {difference(path, wanted, found)}", file=sys.stderr)
        if outdated:
            print("Generated code is out of date. To fix it: make proto", file=sys.stderr)
        return 1 if outdated else 0

    for path in outdated:
        if path in wanted:
            (root / path).write_bytes(wanted[path])
        else:
            (root / path).unlink()
        print(root / path)
    return 0


def generate(root: Path, out: Path) -> None:
    """Runs protoc with the gRPC and mypy plugins over all protos under `root`."""
    # Sorted, because the order of the arguments must not depend on the file system.
    protos = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.proto"))
    if not protos:
        return
    tools = Path(sys.executable).parent
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={root}",
            f"--proto_path={resources.files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-mypy={tools / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={tools / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            *protos,
        ],
        check=True,
    )


def read_generated(root: Path) -> dict[Path, bytes]:
    """The generated files under `root`, by their path relative to it."""
    return {
        path.relative_to(root): path.read_bytes()
        for pattern in GENERATED_PATTERNS
        for path in root.rglob(pattern)
    }


def difference(path: Path, wanted: dict[Path, bytes], found: dict[Path, bytes]) -> str:
    if path not in found:
        return "missing"
    if path not in wanted:
        return "its .proto file is gone"
    return "differs from what its .proto file generates"


if __name__ == "__main__":
    sys.exit(main())
