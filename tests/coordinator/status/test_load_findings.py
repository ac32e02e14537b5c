"""Findings on clients that reach their limits, and on keys that take most of the load."""

from __future__ import annotations

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.status.findings.load_findings import load_findings
from queryable_state.server.coordinator.status.load_table import LoadTable
from queryable_state.v1 import hot_keys_pb2, status_pb2

JOB = bytes(range(16))
READ, WRITE = hot_keys_pb2.HotKey.READ, hot_keys_pb2.HotKey.WRITE


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def refused(process: str, count: int, **fields: str) -> coordinator_pb2.ReportLoadRequest:
    known = {
        "caller": "dashboard",
        "job_id": JOB.hex(),
        "state_name": "last",
        "limit": "queries_per_s",
    }
    refusal = coordinator_pb2.RefusedQueries(count=count, **(known | fields))
    return coordinator_pb2.ReportLoadRequest(process_id=process, refused=count, refusals=[refusal])


def touched(
    process: str,
    counts: dict[str, int],
    *,
    side: hot_keys_pb2.HotKey.Side.ValueType = WRITE,
    states: tuple[str, ...] = ("last",),
) -> coordinator_pb2.ReportLoadRequest:
    """The report of a server with these touches of keys, the same of each state."""
    report = coordinator_pb2.ReportLoadRequest(process_id=process)
    for name in states:
        hot_keys = hot_keys_pb2.ListHotKeysResponse()
        hot_keys.totals.add(
            state_name=name, side=side, total=sum(counts.values()), operator_uid="counts"
        )
        for key, count in counts.items():
            hot_keys.keys.add(
                state_name=name, side=side, key=key.encode(), key_json=f'"{key}"', count=count
            )
        report.states.add(query_id=JOB, hot_keys=hot_keys)
    return report


def found(load: LoadTable) -> list[status_pb2.Finding]:
    return list(load_findings(load, JOB))


def table(*reports: coordinator_pb2.ReportLoadRequest, clock: Clock | None = None) -> LoadTable:
    load = LoadTable(clock or Clock())
    for report in reports:
        load.reported(report)
    return load


def failed(
    server: str, *subtasks: int, uid: str = "counts", reason: str = "INTERNAL"
) -> coordinator_pb2.ReportLoadRequest:
    report = coordinator_pb2.ReportLoadRequest(process_id=server)
    for index in subtasks:
        problem = f"No space left on device: {index}.sst"
        store = report.failed_stores.add(problem=problem, reason=reason)
        store.subtask.query_id = JOB
        store.subtask.operator_uid = uid
        store.subtask.index = index
    return report


def test_stores_that_cannot_be_written_are_told_by_server_and_operator() -> None:
    clock = Clock()
    load = table(failed("server-1", 0, 1), failed("server-2", 2), clock=clock)
    clock.now_ms += 10_000
    first, second = found(load)
    assert (first.code, first.since_ms) == ("STORE_FAILED", 1_000_000)
    for part in ("server-1", "2 stores", "'counts'", "No space left on device: 0.sst"):
        assert part in first.message
    assert "Make room on the disk" in first.next_step
    assert "1 store of" in second.message


def test_a_store_whose_disk_refused_a_write_is_storage_that_is_not_writable() -> None:
    [finding] = found(table(failed("server-1", 0, reason="STORAGE_WRITE_FAILED")))
    assert finding.code == "STORAGE_NOT_WRITABLE"
    assert "Make room on the disk" in finding.next_step


def test_a_store_that_was_replaced_is_no_finding() -> None:
    load = table(failed("server-1", 0), failed("server-1"))
    assert not found(load)
    assert not found(table(failed("server-1", 0, uid="other"), failed("server-1")))


def test_a_client_is_named_with_its_state_limit_and_number_of_refusals() -> None:
    [finding] = found(table(refused("server-1", 700), refused("proxy-1", 534)))
    assert finding.code == "CLIENT_LIMITED"
    for part in ("'dashboard'", "1,234 requests", "'last'", "`queries_per_s`", "server-1"):
        assert part in finding.message
    assert "raise `queries_per_s` in the access file" in finding.next_step


def test_a_client_that_meets_a_limit_now_and_then_is_no_finding() -> None:
    assert not found(table(refused("server-1", 10), refused("proxy-1", 9)))


def test_refusals_of_other_jobs_or_of_no_state_are_not_shown() -> None:
    other = refused("server-1", 900, job_id=bytes(16).hex())
    assert not found(table(other, refused("server-2", 900, job_id="", state_name="")))


def test_a_report_replaces_the_one_before_and_expires() -> None:
    clock = Clock()
    load = table(refused("server-1", 700), clock=clock)
    [first] = found(load)
    clock.now_ms += 5_000
    load.reported(refused("server-1", 800))
    [second] = found(load)
    assert "800 requests" in second.message
    assert second.since_ms == first.since_ms
    clock.now_ms += 20_001
    assert not found(load)
    assert load.of_process("server-1").refused == 800
    assert not load.of_process("server-1").refusals
    clock.now_ms += 200_000
    load.reported(refused("server-1", 800))
    assert found(load)[0].since_ms == clock.now_ms


def test_a_key_with_most_rows_is_named_once_for_all_states_of_its_operator() -> None:
    others = {f"key_{n}": 100 for n in range(12)}
    [finding] = found(
        table(
            touched("server-1", {"hot": 9_000} | others, states=("last", "seen")),
            touched("server-2", {f"other_{n}": 200 for n in range(9)}, states=("last", "seen")),
        )
    )
    assert finding.code == "HOT_KEY"
    assert "Key \"hot\" has 75 % of all rows of operator 'counts', 9,000 of 12,000" in (
        finding.message
    )
    assert "`queryable-state hotkeys JOB`" in finding.next_step


def test_a_key_with_most_queries_is_named_with_its_state() -> None:
    counts = {"hot": 9_000} | {f"key_{n}": 10 for n in range(12)}
    [finding] = found(table(touched("server-1", counts, side=READ)))
    assert "of state 'last' gets 99 % of all queries" in finding.message


def test_a_key_with_most_rows_is_hot_at_a_low_rate() -> None:
    others = {f"key_{n}": 50 for n in range(12)}
    [finding] = found(table(touched("server-1", {"hot": 900} | others)))
    assert "60 % of all rows" in finding.message
    assert not found(table(touched("server-1", {"hot": 599} | others)))


def test_even_few_and_rare_keys_are_not_hot() -> None:
    even = {f"key_{n}": 9_000 for n in range(12)}
    few = {"all": 90_000, "others": 10}
    rare = {"hot": 500} | {f"key_{n}": 10 for n in range(12)}
    for counts in (even, few, rare):
        assert not found(table(touched("server-1", counts)))
