"""What a seed means: which faults strike in a round, when, and on what."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.faults import faults, file_losses, neighbour, program_faults, storage_faults
from tests.chaos.jobs.sink_plans import FILE_SINK_PLANS
from tests.chaos.site import Site

Fault = Callable[[Site], str]

ANYWHERE: dict[str, Fault] = {
    "kill-server": faults.kill_server,
    "kill-both-servers": faults.kill_both_servers,
    "kill-executor": faults.kill_executor,
    "pause-server": faults.pause_server,
    "stutter-server": faults.stutter_server,
    "cut-off-server": faults.cut_off_server,
    "hold-up-server": faults.hold_up_server,
    "drop-connections": faults.drop_connections,
    "fail-writes": storage_faults.fail_writes,
    "damage-checkpoint": storage_faults.damage_checkpoint,
    "damage-changelog": storage_faults.damage_changelog,
    "hostile-neighbour": neighbour.hostile_neighbour,
}
"""What the driver survives."""
OF_DRIVER: dict[str, Fault] = {
    "kill-driver": faults.kill_driver,
    "kill-starting-driver": faults.kill_starting_driver,
    "rename-operator": program_faults.rename_operator,
    "lose-files": file_losses.lose_files,
}
OF_SINK: dict[str, Fault] = {"kill-between-commits": faults.kill_between_commits}
FAULTS = {**ANYWHERE, **OF_DRIVER, **OF_SINK}


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One fault of a round."""

    fault: str
    after_s: float
    """Seconds from the strike before, or from the end of its recovery."""
    waits: bool
    """Whether the round waits for the recovery before the next one."""


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """One round."""

    seed: int
    standalone: bool
    """Executors belong to workers that outlive the driver; else to the driver."""
    file_sink: bool
    """The query is started by hand, into files; else by `env.execute_async`."""
    snapshot_s: float
    """Seconds between checkpoints."""
    inline_bytes: int
    """Files up to this size stand in a checkpoint's metadata."""
    tolerable_failures: int
    """Checkpoints in a row that may fail before the job does, and is restarted."""
    parallelism: int
    sink_plan: str
    """The plan in front of a file sink; else empty."""
    random_actions: bool
    """The job has a sink that runs a random action a batch; not with a file sink."""
    strikes: tuple[Strike, ...]
    windowed: bool
    """The job has windows behind its first operator, with a sink; not with a file sink."""

    @classmethod
    def of(cls, seed: int, *, only: tuple[str, ...] = (), strikes: int = 0) -> RoundPlan:
        """The round of a seed. `only`: its faults, in this order; `strikes`: how many."""
        chance = random.Random(f"plan-{seed}")
        kind = chance.choices(["local", "driver", "sink"], weights=[45, 38, 17])[0]
        if only:
            kind = "sink" if set(only) & set(OF_SINK) else kind if kind != "sink" else "driver"
            kind = "driver" if set(only) & set(OF_DRIVER) and kind == "local" else kind
            names = list(only)
        else:
            count = strikes or chance.randrange(2, 5)
            names = chance.choices(list(ANYWHERE), k=count)
            own = {"local": {}, "driver": OF_DRIVER, "sink": OF_SINK}[kind]
            if own:
                names[chance.randrange(count)] = chance.choice(list(own))
        return cls(
            seed=seed,
            standalone=kind != "local",
            file_sink=kind == "sink",
            snapshot_s=chance.choice([1.0, 1.5, 2.0]),
            inline_bytes=chance.choice([0, 0, 20480]),
            tolerable_failures=chance.choice([0, 1000]),
            parallelism=chance.choice([2, 3, 4]),
            sink_plan=chance.choice(list(FILE_SINK_PLANS)) if kind == "sink" else "",
            random_actions=kind != "sink" and chance.random() < 0.7,
            strikes=tuple(
                Strike(fault=name, after_s=chance.uniform(0.2, 2.5), waits=chance.random() < 0.7)
                for name in names
            ),
            windowed=kind != "sink" and chance.random() < 0.7,
        )

    def __str__(self) -> str:
        return ", ".join(
            [
                "standalone cluster" if self.standalone else "local cluster",
                f"{self.parallelism} subtasks",
                f"snapshots every {self.snapshot_s:g} s",
                f"inline up to {self.inline_bytes}",
                f"{self.tolerable_failures} failed ones tolerated",
                *([f"file sink behind {self.sink_plan}"] if self.file_sink else []),
                *(["a random action a batch"] if self.random_actions else []),
                *(["windows"] if self.windowed else []),
            ]
        )
