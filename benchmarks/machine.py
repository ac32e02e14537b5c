"""The machine a figure was measured on and its load: the note under every table."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "spark-queryable-state",
    "grpcio",
    "protobuf",
    "rocksdict",
    "uvloop",
    "pyspark",
    "pyarrow",
    "redis",
    "hiredis",
    "valkey-glide",
)


@dataclass(frozen=True)
class Machine:
    """Hardware and software, which do not change during a run."""

    cpus: int
    """CPUs this process may run on."""
    cpu_model: str
    memory_gib: float
    system: str
    python: str
    packages: dict[str, str]
    """Version by name of the installed packages."""
    started: str
    """Local time."""

    @classmethod
    def here(cls) -> Machine:
        """The machine of this process."""
        return cls(
            cpus=len(os.sched_getaffinity(0)),
            cpu_model=_first_value("/proc/cpuinfo", "model name") or platform.machine(),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            packages={name: version for name in PACKAGES if (version := _version(name))},
            started=time.strftime("%Y-%m-%d %H:%M:%S"),
        )

    def lines(self) -> list[str]:
        """The note as text."""
        packages = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        hardware = f"{self.cpus} CPUs ({self.cpu_model}), {self.memory_gib} GiB"
        return [f"{hardware}, {self.system}, Python {self.python}, {self.started}", packages]

    def to_json(self) -> dict[str, object]:
        """The note as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds of the whole machine since it started."""

    busy_s: float
    idle_s: float
    steal_s: float
    own_s: float
    """CPU seconds of this process and its ended children."""

    @classmethod
    def now(cls) -> CpuTimes:
        """The counters of /proc/stat."""
        with Path("/proc/stat").open() as stat:
            ticks = [int(field) for field in stat.readline().split()[1:]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks[:8]
        hertz = os.sysconf("SC_CLK_TCK")
        times = os.times()
        return cls(
            busy_s=(user + nice + system + irq + softirq) / hertz,
            idle_s=(idle + iowait) / hertz,
            steal_s=steal / hertz,
            own_s=times.user + times.system + times.children_user + times.children_system,
        )


class NoiseMeter:
    """Load and CPU use of the machine from construction to `note()`.

    Distrust figures of a machine that other work kept busy.
    """

    def __init__(self) -> None:
        self.load_before = os.getloadavg()[0]
        self._cpu = CpuTimes.now()

    def note(self) -> dict[str, float]:
        """Load averages and the shares of all CPU time since construction."""
        after = CpuTimes.now()
        busy = after.busy_s - self._cpu.busy_s
        idle = after.idle_s - self._cpu.idle_s
        steal = after.steal_s - self._cpu.steal_s
        total = max(busy + idle + steal, 1e-9)
        return {
            "load_before": round(self.load_before, 2),
            "load_after": round(os.getloadavg()[0], 2),
            "busy_share": round(busy / total, 3),
            "steal_share": round(steal / total, 3),
        }

    def line(self) -> str:
        """The note as text; a load before the run is of other work."""
        note = self.note()
        return (
            f"load {note['load_before']} before, {note['load_after']} after; CPUs busy "
            f"{note['busy_share']:.0%}, stolen by the host {note['steal_share']:.1%}"
        )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _first_value(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        field, _, value = line.partition(":")
        if field.strip() == name:
            return value.strip()
    return None
