"""`python -m tests.chaos`: seeded rounds of faults against a job whose answers are known.

Each round has the next seed, runs in a folder of its own and is judged at its end. The folder of a
round that failed is kept; its seed, with `--rounds 1`, plans the same faults again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import write_json
from benchmarks.machine import Machine, NoiseMeter
from tests.chaos.clusters import LocalCluster, StandaloneCluster
from tests.chaos.plan import FAULTS, RoundPlan
from tests.chaos.report import lines_of, summary, to_json
from tests.chaos.round import Round

if TYPE_CHECKING:
    from tests.chaos.result import RoundResult


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, help="of the first round; without it a random one")
    parser.add_argument("--strikes", type=int, default=0, help="faults a round; 0: 2 to 4")
    parser.add_argument("--faults", default="", help=f"these instead: {', '.join(FAULTS)}")
    parser.add_argument("--stop", action="store_true", help="stop at the first round that fails")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all rounds")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument(
        "--volatile",
        action="store_true",
        help="keep no durable copy: rounds that kill servers have to fail",
    )
    options = parser.parse_args()
    only = tuple(filter(None, options.faults.split(",")))
    unknown = set(only) - set(FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed

    # Tests find the tools they start by the environment; a temporary folder may be a link.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    machine, meter = Machine.here(), NoiseMeter()
    folder = Path(tempfile.mkdtemp(prefix="chaos-")).resolve()
    results: list[RoundResult] = []
    with contextlib.ExitStack() as stack:
        standalone: StandaloneCluster | None = None
        for number in range(options.rounds):
            plan = RoundPlan.of(seed + number, only=only, strikes=options.strikes)
            _say(f"round {number + 1} of {options.rounds}, seed {plan.seed}: {plan}")
            own = folder / f"round-{plan.seed}"
            own.mkdir()
            if plan.standalone and standalone is None:
                standalone = stack.enter_context(StandaloneCluster(folder / "cluster"))
            with contextlib.ExitStack() as of_round:
                cluster = (
                    standalone
                    if plan.standalone and standalone is not None
                    else of_round.enter_context(LocalCluster(own / "cluster"))
                )
                durable = not options.volatile
                result = Round(plan, own, cluster, durable=durable, say=_say).run()
            results.append(result)
            _say("\n".join(lines_of(result)))
            if result.passed and not options.keep:
                shutil.rmtree(own, ignore_errors=True)
            elif not result.passed:
                _say(f"  FAILED: seed {plan.seed}; its files are in {own}")
                if options.stop:
                    break
    _say("\n".join(["", *machine.lines(), meter.line(), summary(results)]))
    if options.json:
        rounds = [to_json(result) for result in results]
        write_json(options.json, {"machine": machine.to_json(), "rounds": rounds})
    failed = not all(result.passed for result in results)
    if not failed and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
