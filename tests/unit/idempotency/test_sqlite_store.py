"""`SqliteStore`: its file, its thread, its processes; what all stores do is the conformance kit's."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from messagequeue import ClosedError, ConfigurationError, ErrorCode
from messagequeue.idempotency import Claimed, Done, IdempotencyStoreError, SqliteStore
from messagequeue.idempotency._sqlite_file import PURGE_ROWS, RecordFile
from tests.support.realtime import real_time

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "claims.db"


async def do(store, key, *, ttl=1000.0):
    found = await store.claim(key, owner="me", fingerprint="", lease=10)
    if isinstance(found, Claimed):
        await store.complete(key, owner="me", ttl=ttl, result=b"r")
    return found


@real_time()
async def test_records_outlive_the_store(path):
    """Closed and opened again, it still knows what is done."""
    async with SqliteStore(path) as store:
        await do(store, "k")
    async with SqliteStore(str(path)) as store:
        assert await do(store, "k") == Done("", b"r")


@real_time()
async def test_the_event_loop_does_not_wait_for_the_disk(path):
    """All of SQLite's work is done on another thread; the loop turns meanwhile."""
    seen = []

    def clock():
        seen.append(threading.current_thread())
        return 0.0

    async with SqliteStore(path, clock=clock) as store:
        await do(store, "k")

    assert {thread.name.partition("_")[0] for thread in seen} == {"messagequeue-idempotency"}
    for thread in seen:
        thread.join(10)
        assert not thread.is_alive()


@real_time()
async def test_records_that_ended_are_removed_along_the_way(path):
    """The file does not grow for ever, and nobody has to see to it."""
    now = [0.0]
    async with SqliteStore(path, clock=lambda: now[0]) as store:
        for number in range(100):
            await do(store, f"old{number}", ttl=10)
        now[0] = 20.0
        for number in range(64):
            await do(store, f"new{number}")
        left = await store.purge()

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (64,)
    connection.close()
    assert left == 0


@real_time()
async def test_purge_removes_any_number(path):
    """In transactions that are never long."""
    now = [0.0]
    async with SqliteStore(path, clock=lambda: now[0]) as store:
        for number in range(PURGE_ROWS + 1):
            await store.claim(f"k{number}", owner="me", fingerprint="", lease=1)
        now[0] = 10.0

        assert await store.purge() == PURGE_ROWS + 1


@real_time()
async def test_a_closed_store_is_refused(path):
    """With what to do; closing twice, or what was never opened, does nothing."""
    store = SqliteStore(path)
    await store.close()
    await store.close()

    with pytest.raises(ClosedError, match="after the consumers"):
        await do(store, "k")
    assert not path.exists()


@real_time()
async def test_calls_under_way_end_before_the_file_is_closed(path):
    """None of them is lost, and none is left without an answer."""
    store = SqliteStore(path)
    calls = [asyncio.create_task(do(store, f"k{number}"), name=f"call {number}") for number in range(20)]
    await asyncio.sleep(0)
    await store.close()

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(answer, Claimed | ClosedError) for answer in answers)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("CREATE TABLE theirs (x)", "another program"),
        ("PRAGMA user_version = 2; PRAGMA application_id = 1836149092", "newer messagequeue"),
        (None, "cannot be used"),
    ],
    ids=["another program's", "newer", "damaged"],
)
@real_time()
async def test_a_file_that_is_not_ours_is_refused(path, statement, text):
    """Nothing is written into it."""
    if statement is None:
        path.write_bytes(b"no database" * 1000)
    else:
        connection = sqlite3.connect(path)
        connection.executescript(statement)
        connection.close()
    before = path.read_bytes() if statement is None else None

    async with SqliteStore(path) as store:
        with pytest.raises(ConfigurationError, match=text):
            await do(store, "k")

    assert before in (None, path.read_bytes())


@real_time()
async def test_a_folder_that_is_not_there_is_a_wrong_setting(tmp_path):
    """It names the path and says what to do."""
    async with SqliteStore(tmp_path / "no" / "claims.db") as store:
        with pytest.raises(ConfigurationError, match="may read and write"):
            await do(store, "k")


def test_a_file_that_others_keep_locked_is_a_passing_fault(path):
    """Trying again later may help, and the message comes back."""
    file = RecordFile(str(path), busy=0.05, fsync=False)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(IdempotencyStoreError, match="SQLITE_BUSY") as caught:
        file.purge(0.0)

    assert caught.value.retryable
    assert caught.value.code is ErrorCode.UNAVAILABLE
    other.execute("ROLLBACK")
    assert file.purge(0.0) == 0
    other.close()
    file.close()


@pytest.mark.parametrize("path", ["", ":memory:", b"claims.db"])
def test_a_path_is_needed(path):
    """A database in memory would be each process's own."""
    with pytest.raises(ConfigurationError, match="path="):
        SqliteStore(path)


_FORKED = """
import asyncio, os, sys
from messagequeue import ConfigurationError
from messagequeue.idempotency import SqliteStore

store = SqliteStore(sys.argv[1])
asyncio.run(store.claim("k", owner="parent", fingerprint="", lease=10))
child = os.fork()
if child == 0:
    try:
        asyncio.run(store.claim("k", owner="child", fingerprint="", lease=10))
    except ConfigurationError as error:
        print(error, flush=True)
        asyncio.run(asyncio.wait_for(store.close(), 5))
        os._exit(0)
    os._exit(1)
status = os.waitpid(child, 0)[1]
asyncio.run(store.close())
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
def test_a_store_does_not_cross_a_fork(path):
    """A process that inherited it is told so, and can close it, rather than waiting for a thread that is not there."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED, path],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "after the fork" in done.stdout


_CLAIMING = """
import asyncio, sys
from messagequeue.idempotency import Claimed, SqliteStore

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        sys.stdin.readline()
        for number in range(100):
            found = await store.claim(f"k{number}", owner=sys.argv[2], fingerprint="", lease=100)
            if isinstance(found, Claimed):
                assert await store.complete(f"k{number}", owner=sys.argv[2], ttl=100, result=None)
                print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.acceptance
def test_processes_do_not_get_the_same_key(path):
    """Four of them make the file at the same time and ask for the same hundred keys: each is one's."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIMING, path, f"owner{number}"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    ended = [worker.communicate(timeout=60) for worker in workers]

    assert [worker.returncode for worker in workers] == [0] * 4, ended
    claimed = [int(line) for output, _ in ended for line in output.split()]
    assert sorted(claimed) == list(range(100))
