"""What callers learn of jobs that they may not see, while these fail, restore or are gone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.query.streams import wire_keys
from tests.security.access.sites import RULES, Asker, hello, send, token

from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    AmbiguousJobError,
    CheckpointError,
    PermissionDeniedError,
    QueryableStateError,
    RetryLaterError,
    SupersededError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.model.run import Run
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

SECRETS = ("payroll", "salary", "s3://", "vault", "driver-7")
REFUSAL = "CheckpointError s3://vault/payroll/chk-7 is damaged"
FENCING = "driver-7 has taken over s3://vault/payroll"


@pytest.fixture
def rules() -> str:
    """As everywhere, and a caller for the job `payroll`, and one for two of three jobs."""
    tokens = f'clerk = "{digest_of("qst_clerk")}"\nteam = "{digest_of("qst_team")}"\n'
    grants = """
[[grants]]
callers = ["clerk"]
jobs = ["payroll"]
states = ["*"]
kinds = ["read"]
[[grants]]
callers = ["team"]
jobs = ["sensors*"]
states = ["*"]
kinds = ["read"]
"""
    return RULES.replace("[tokens]\n", "[tokens]\n" + tokens) + grants


@pytest.fixture
async def payroll(cluster: InProcessCluster) -> Run:
    """The run of a job beside `sensors`."""
    job = cluster.job("payroll", declare("salary", "string", "double"))
    await job.run(0, {"salary": {"ann": 1.0}})
    return run_of(cluster, job.query_id)


def run_of(cluster: InProcessCluster, query_id: bytes) -> Run:
    coordinator: Any = cluster.coordinator.coordinator
    job = coordinator._catalog._state.jobs.find(query_id)
    run: Run = job.run
    return run


@contextlib.contextmanager
def failing(run: Run, how: str) -> Iterator[None]:
    """The coordinator's state while it restores or refuses a run, or has lost it."""
    if how == "restoring":
        run.start_restore()
    elif how == "refused":
        run.refuse(CheckpointError(REFUSAL))
    elif how == "fenced":
        run.fence(FENCING)
    yield


async def refusal(asker: Asker, method: str, **fields: Any) -> QueryableStateError:
    """The refusal of a call, with what the caller wrote replaced."""
    with pytest.raises(QueryableStateError) as refused:
        await asker.ask(method, **fields)
    error = refused.value
    text = error.message
    for name, letter in (("job", "J"), ("state_name", "S")):
        text = text.replace(repr(fields.get(name) or "-"), letter)
    return error.copy(text)


async def refusals(
    asker: Asker, names: list[tuple[str, str]]
) -> set[tuple[type[QueryableStateError], str, tuple[str, ...]]]:
    """Different refusals of states by job and name; the job's own text does not count."""
    found = set()
    for job, state in names:
        each = await refusal(asker, "LocateState", job=job, state_name=state)
        assert not any(secret in each.message for secret in SECRETS), each.message
        found.add((type(each), each.message.replace(" of job J", ""), each.candidates))
    return found


@pytest.mark.parametrize("how", ["running", "restoring", "refused", "fenced"])
@pytest.mark.parametrize("caller", ["nobody", "reader"])
async def test_jobs_without_a_grant_are_as_jobs_that_do_not_exist(
    cluster: InProcessCluster, proxy: ProxyServer, payroll: Run, how: str, caller: str
) -> None:
    async with Asker(proxy.address, "all") as admin:
        located = await admin.ask("LocateState", job="payroll", state_name="salary")
    registration = located.location.registration
    names = [
        (job, state)
        for job in ("payroll", registration.job_id.hex(), "", "nojob", "0" * 32)
        for state in ("salary", "nosuch")
    ]
    with failing(payroll, how):
        for address in (proxy.address, cluster.servers[0].addresses.query):
            async with Asker(address, caller) as asker:
                [(kind, _, candidates)] = await refusals(asker, names)
                assert kind is PermissionDeniedError
                assert not candidates
                of_jobs = {
                    (await refusal(asker, "ListStates", job=job)).message
                    for job in ("payroll", "nojob", registration.job_id.hex())
                }
                assert len(of_jobs) == 1
                by_id = {
                    (
                        await refusal(
                            asker,
                            "BatchGetKvState",
                            query=query_pb2.Query(state_id=number, keys=wire_keys("ann")),
                        )
                    ).message
                    for number in (registration.state_id, 4711)
                }
                assert len(by_id) == 1


@pytest.mark.parametrize("caller", ["nobody", "reader"])
async def test_a_driver_that_is_gone_is_gone_for_all_names(
    cluster: InProcessCluster, proxy: ProxyServer, payroll: Run, caller: str
) -> None:
    """A proxy finds what it has located before without the driver: that would tell names apart."""
    async with Asker(proxy.address, "all") as admin:
        for job in ("", "payroll"):
            await admin.ask("LocateState", job=job, state_name="salary")
    cluster.coordinator.coordinator.stop()
    async with Asker(proxy.address, caller) as asker:
        names = [(job, name) for job in ("", "payroll", "nojob") for name in ("salary", "nosuch")]
        [(kind, _, _)] = await refusals(asker, names)
        assert kind is RetryLaterError


async def test_who_has_the_grant_is_told_what_is_wrong(proxy: ProxyServer, payroll: Run) -> None:
    async with Asker(proxy.address, "clerk") as clerk:
        for job in ("payroll", ""):
            error = await refusal(clerk, "LocateState", job=job, state_name="nosuch")
            assert isinstance(error, UnknownStateError)
            assert error.candidates == ("salary",)
        payroll.start_restore()
        error = await refusal(clerk, "LocateState", job="payroll", state_name="nosuch")
        assert isinstance(error, RetryLaterError)
        assert "'payroll'" in error.message.replace("J", "'payroll'")
        assert "restored" in error.message
        for name in ("", "payroll"):
            error = await refusal(clerk, "LocateState", job=name, state_name="nosuch")
            assert isinstance(error, RetryLaterError)
        payroll.end_restore()
        payroll.refuse(CheckpointError(REFUSAL))
        for job in ("payroll", ""):
            error = await refusal(clerk, "LocateState", job=job, state_name="nosuch")
            assert isinstance(error, CheckpointError)
            assert error.message == REFUSAL
        payroll.fence(FENCING)
        error = await refusal(clerk, "LocateState", job="payroll", state_name="nosuch")
        assert isinstance(error, SupersededError)
        assert error.message == FENCING


async def test_jobs_of_others_do_not_make_a_name_ambiguous(
    cluster: InProcessCluster, proxy: ProxyServer
) -> None:
    other = cluster.job("payroll", declare("last", "string", "double"))
    await other.run(0, {"last": {"ann": 1.0}})
    async with Asker(proxy.address, "reader") as reader, Asker(proxy.address, "team") as team:
        for asker in (reader, team):
            located = await asker.ask("LocateState", state_name="last")
            assert located.location.registration.job_name == "sensors"
        second = cluster.job("sensors-2", declare("last", "string", "double"))
        await second.run(0, {"last": {"ann": 1.0}})
        with pytest.raises(AmbiguousJobError, match="2 jobs have a state 'last'") as refused:
            await team.ask("LocateState", state_name="last")
        assert len(refused.value.candidates) == 2
        for candidate, name in zip(refused.value.candidates, ("sensors", "sensors-2"), strict=True):
            assert candidate.startswith(f"{name!r} (")
        located = await reader.ask("LocateState", state_name="last")
        assert located.location.registration.job_name == "sensors"


async def test_frames_do_not_name_a_state_that_only_its_id_was_guessed_of(
    proxy: ProxyServer, payroll: Run
) -> None:
    async with Asker(proxy.address, "all") as admin:
        located = await admin.ask("LocateState", job="payroll", state_name="salary")
    async with Asker(proxy.address, "nobody") as nobody:
        assert not (await nobody.ask("ListStates")).states
    frames = await hello(proxy.address, f"Bearer {token('nobody')}")
    assert (await frames.response()).WhichOneof("frame") == "hello"
    texts = set()
    for number in (located.location.registration.state_id, 4711):
        send(frames, id=number, state_id=number, keys=wire_keys("ann"))
        texts.add((await frames.response()).answer.error.message)
    frames.writer.close()
    assert len(texts) == 1
    assert not any(secret in text for secret in SECRETS for text in texts)
