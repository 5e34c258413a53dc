"""What a store brings back, and what it says where it cannot."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from messagequeue import ConfigurationError
from messagequeue.broker import (
    Broker,
    DeadLetterPolicy,
    DedupScope,
    Envelope,
    Ordering,
    Outcome,
    Queue,
    QueueSettings,
    State,
)
from messagequeue.broker.storage import Enqueued, Event, StorageError
from messagequeue.broker.storage.sqlite import FolderInUseError, Fsync, SqliteStore

DAY = 86_400.0
FIFO = QueueSettings(ordering=Ordering.FIFO, visibility_timeout=30.0)


class Opened(Protocol):
    """See `conftest.py`."""

    path: Path
    store: SqliteStore
    broker: Broker

    def reopen(self, now: float | None = None) -> Broker: ...


def bodies(queue: Queue, now: float) -> list[bytes | str]:
    return [peek.message.body for peek in queue.peek(now)]


def test_messages_come_back_in_their_order_with_all_they_had(opened: Opened) -> None:
    """Bodies of either type, keys, ids, envelopes, delays: equal to what was put."""
    queue = opened.broker.create("orders.fifo", FIFO)
    envelope = Envelope(12.5, {"a": "x", "b": b"\x00\xff"}, {"a": "String.custom"}, "Root=1-2")
    queue.put(1.0, b"\x00binary", key="k", dedup_id="d1", attributes=envelope)
    queue.put(2.0, "text ☃\x00", key="k", dedup_id="d2", attributes=Envelope(3.25))
    queue.put(3.0, b"", key="ключ", attributes=Envelope(None, {}))
    queue.put(4.0, b"late", key="k", delay=100.0)
    before = list(queue.peek(5.0))

    again = opened.reopen(5.0).queue("orders.fifo")

    assert list(again.peek(5.0)) == before
    assert [peek.state for peek in before] == [State.VISIBLE] * 3 + [State.DELAYED]
    assert [lease.message.body for lease in again.take(105.0, 10)] == [b"\x00binary", "text ☃\x00", b"late", b""]


def test_keys_take_turns_in_the_order_of_their_messages(opened: Opened) -> None:
    """After a restart as before it."""
    queue = opened.broker.create("q", FIFO)
    for number in range(6):
        queue.put(1.0, b"%d" % number, key="abc"[number % 3])

    again = opened.reopen(1.0).queue("q")

    assert [lease.message.body for lease in again.take(2.0, 10)] == [b"0", b"3", b"1", b"4", b"2", b"5"]


def test_text_without_a_form_in_utf_8_does_not_stop_the_store(opened: Opened) -> None:
    """Half a surrogate pair in a key, an id or a queue's name comes back as it was."""
    queue = opened.broker.create("q\ud800", FIFO)
    queue.put(1.0, b"x", key="\ud800", dedup_id="\udfff", id="\ud801")
    before = list(queue.peek(1.0))

    again = opened.reopen(1.0)

    assert list(again.queue("q\ud800").peek(1.0)) == before
    assert again.queue("q\ud800").put(1.0, b"y", key="\ud800", dedup_id="\udfff").duplicate


def test_leases_go_on_where_they_were(opened: Opened) -> None:
    """Handles, ends, receive counts and first receives; the key stays locked until the lease ends."""
    queue = opened.broker.create("q", FIFO)
    queue.put(1.0, b"first", key="k")
    queue.put(1.0, b"second", key="k")
    (old,) = queue.take(2.0, 1, visibility=5.0)
    opened.store.write(2.0)
    (lease,) = queue.take(10.0, 1, visibility=20.0)
    queue.extend(11.0, lease.handle, 40.0)
    held = queue.held(12.0, lease.handle)

    again = opened.reopen(12.0).queue("q")

    assert again.held(12.0, lease.handle) == held
    assert again.settle(12.0, old.handle) is Outcome.STALE
    assert again.take(50.9, 10) == []
    (third,) = again.take(51.0, 1)
    assert (third.message.body, third.receives, third.first_received) == (b"first", 3, 2.0)
    assert again.extend(51.0, third.handle, 43_200.0) is Outcome.DONE


def test_the_longest_lease_counts_from_the_receive_also_after_a_restart(opened: Opened) -> None:
    """A lease that was only prolonged keeps the time of its receive, in one commit with it or in a later one."""
    queue = opened.broker.create("q", replace(FIFO, max_lease=100.0))
    for key in "ab":
        queue.put(0.0, b"x", key=key)
    leases = queue.take(10.0, 1) + queue.take(10.0, 1)
    queue.extend(20.0, leases[0].handle, 30.0)
    opened.store.write(20.0)
    queue.extend(20.0, leases[1].handle, 30.0)

    again = opened.reopen(20.0).queue("q")

    assert [again.extend(45.0, lease.handle, 66.0) for lease in leases] == [Outcome.BEYOND_LIMIT] * 2
    assert [again.extend(45.0, lease.handle, 65.0) for lease in leases] == [Outcome.DONE] * 2


def test_settled_purged_and_expired_messages_do_not_return(opened: Opened) -> None:
    """Whether they were written before they went or not; their sequence numbers are not used again."""
    settings = QueueSettings(retention=100.0)
    settled, purged, expired = (opened.broker.create(name, settings) for name in ("settled", "purged", "expired"))
    for written in (True, False):
        for queue in (settled, purged, expired):
            queue.put(1.0, b"x")
        if written:
            opened.store.write(1.0)
    handles = [lease.handle for lease in settled.take(2.0, 2)]
    assert [settled.settle(3.0, handle) for handle in handles] == [Outcome.DONE] * 2
    purged.purge(3.0)
    purged.put(3.0, b"after")
    expired.advance(102.0)

    again = opened.reopen(102.0)

    assert bodies(again.queue("settled"), 3.0) == bodies(again.queue("expired"), 3.0) == []
    assert bodies(again.queue("purged"), 3.0) == [b"after"]
    assert again.queue("settled").settle(3.0, handles[0]) is Outcome.GONE
    assert [again.queue(name).put(3.0, b"y").sequence for name in ("settled", "purged", "expired")] == [3, 4, 3]


def test_the_deduplication_window_outlives_messages_and_restarts(opened: Opened) -> None:
    """A repeat after a settle and a restart is a duplicate, until the window is over; scopes are kept apart."""
    queue = opened.broker.create("q", replace(FIFO, dedup_scope=DedupScope.GROUP))
    first = queue.put(10.0, b"x", key="a", dedup_id="d")
    (lease,) = queue.take(11.0, 1)
    queue.settle(12.0, lease.handle)

    again = opened.reopen(13.0).queue("q")

    repeat = again.put(309.0, b"x", key="a", dedup_id="d")
    assert (repeat.duplicate, repeat.id, repeat.sequence) == (True, first.id, first.sequence)
    assert not again.put(309.0, b"x", key="b", dedup_id="d").duplicate
    assert not again.put(310.0, b"x", key="a", dedup_id="d").duplicate
    assert opened.reopen(310.0).queue("q").put(320.0, b"x", key="a", dedup_id="d").duplicate


def test_a_longer_window_does_not_bring_back_what_was_forgotten(opened: Opened) -> None:
    """What a shorter window let go is not in the file either."""
    queue = opened.broker.create("q", replace(FIFO, dedup_window=10.0))
    queue.put(0.0, b"x", key="a", dedup_id="d")
    opened.store.write(0.0)
    queue.advance(50.0)
    queue.configure(replace(FIFO, dedup_window=300.0))

    assert not opened.reopen(50.0).queue("q").put(51.0, b"x", key="a", dedup_id="d").duplicate


def test_dead_letters_are_in_one_place_only(opened: Opened) -> None:
    """Moved in one commit, with source, count and age."""
    opened.broker.create("dead")
    queue = opened.broker.create("q", QueueSettings(dead_letters=DeadLetterPolicy("dead", 1), visibility_timeout=1.0))
    queue.put(1.0, b"x")
    queue.take(2.0, 1)
    opened.store.write(2.0)
    assert queue.take(5.0, 1) == []

    again = opened.reopen(5.0)

    assert bodies(again.queue("q"), 5.0) == []
    (lease,) = again.queue("dead").take(6.0, 1)
    assert (lease.message.source, lease.message.sent_at, lease.receives, lease.first_received) == ("q", 1.0, 2, 2.0)


def test_a_queue_made_again_knows_no_handle_of_the_one_before(opened: Opened) -> None:
    """Serials go on, also after the restart that follows the deletion of the youngest queue."""
    queue = opened.broker.create("q")
    queue.put(1.0, b"old")
    (lease,) = queue.take(1.0, 1)
    opened.store.write(1.0)
    opened.broker.delete("q")

    again = opened.reopen(2.0)

    assert "q" not in again
    remade = again.create("q")
    remade.put(3.0, b"new")
    remade.take(3.0, 1)
    assert remade.settle(3.0, lease.handle) is Outcome.UNKNOWN
    assert bodies(opened.reopen(4.0).queue("q"), 4.0) == [b"new"]


def test_deleted_and_made_again_within_one_commit(opened: Opened) -> None:
    """Only the last of them is in the file."""
    for number in range(3):
        if number:
            opened.broker.delete("q")
        opened.broker.create("q", QueueSettings(delay=float(number))).put(1.0, b"%d" % number, delay=0.0)

    again = opened.reopen(1.0).queue("q")

    assert (bodies(again, 1.0), again.settings.delay, again.serial) == ([b"2"], 2.0, 3)


def test_settings_and_notes_come_back(opened: Opened) -> None:
    """Every setting; a note that was taken back is gone."""
    settings = QueueSettings(
        ordering=Ordering.KEYED,
        visibility_timeout=1.5,
        delay=2.5,
        retention=None,
        dedup_window=60.0,
        dedup_scope=DedupScope.GROUP,
        dead_letters=DeadLetterPolicy("elsewhere", 3),
        max_in_flight=7,
        max_lease=99.0,
    )
    opened.broker.create("q").configure(replace(settings, ordering=Ordering.STANDARD))
    opened.broker.create("keyed", settings)
    opened.broker.remember("sqs:q:tags", '{"a": "b"}')
    opened.broker.remember("sqs:q:policy", "{}")
    opened.store.write(1.0)
    opened.broker.remember("sqs:q:policy", None)

    again = opened.reopen(1.0)

    assert again.queue("keyed").settings == settings
    assert again.queue("q").settings == replace(settings, ordering=Ordering.STANDARD)
    assert again.notes("sqs:") == {"sqs:q:tags": '{"a": "b"}'}


def test_what_was_not_written_is_not_there(opened: Opened) -> None:
    """Nothing is promised before the commit, and nothing half."""
    opened.broker.create("q").put(1.0, b"written")
    opened.store.write(1.0)
    opened.broker.queue("q").put(1.0, b"recorded only")

    assert bodies(opened.reopen().queue("q"), 1.0) == [b"written"]


def test_the_clock_goes_on_from_the_last_commit(opened: Opened) -> None:
    """It never goes back, whatever a later write says."""
    opened.broker.create("q")
    opened.store.write(5_000.0)
    opened.broker.queue("q").put(1.0, b"x")
    opened.reopen(4_000.0)

    assert opened.store.clock == 5_000.0


def test_the_file_grows_with_what_is_queued_and_not_with_what_passed(opened: Opened) -> None:
    """A thousand megabytes pass through a file of a few: pages are used again, and the log begins anew."""
    queue = opened.broker.create("q", QueueSettings(dedup_window=1.0))
    body, sizes = bytes(20_000), []
    for step in range(200):
        for number in range(25):
            queue.put(float(step), body, dedup_id=f"{step}-{number}")
        opened.store.write(float(step))
        for lease in queue.take(float(step), 25):
            queue.settle(float(step), lease.handle)
        opened.store.write(float(step))
        if opened.store.log_full:
            opened.store.checkpoint()
        sizes.append(sum(file.stat().st_size for file in opened.path.iterdir()))

    assert max(sizes[20:]) < 20_000_000
    opened.reopen(200.0)
    assert sum(file.stat().st_size for file in opened.path.iterdir()) < 2_000_000


# --- one owner


def test_a_second_owner_in_this_process_is_told(opened: Opened) -> None:
    """The error names the folder; once the first is closed the folder is free."""
    with pytest.raises(FolderInUseError, match=r"queues' is in use by this process already"):
        SqliteStore.open(opened.path)
    opened.store.close()

    SqliteStore.open(opened.path).close()


def test_a_second_process_is_told_which_has_it_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    """The kernel's lock: named while it lives, gone with it."""
    program = (
        "import sys, time\nfrom messagequeue.broker.storage.sqlite import SqliteStore\n"
        "store = SqliteStore.open(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ConfigurationError) as caught:
            SqliteStore.open(tmp_path)
        other.send_signal(signal.SIGKILL)

    assert str(caught.value) == (
        f"the data folder {str(tmp_path)!r} is in use by process {other.pid}: "
        "one process owns a folder; stop that one, or give this one a folder of its own"
    )
    SqliteStore.open(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    """With the reason of the system, not a traceback of it."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match=r"cannot be used \(Not a directory\): give a folder"):
        SqliteStore.open(tmp_path / "file" / "queues")


# --- files that cannot be read


def spoil(how: Callable[[sqlite3.Connection], object], path: Path) -> None:
    connection = sqlite3.connect(path / "queues.sqlite3")
    how(connection)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda c: c.execute("PRAGMA user_version = 99"), r"newer messagequeue \(form 99.*upgrade messagequeue"),
        (lambda c: c.execute("PRAGMA application_id = 7"), r"database of another program: give a folder of its own"),
        (lambda c: c.execute("DROP TABLE leases"), r"is damaged .*no such table.*restore the folder"),
        (lambda c: c.execute("DELETE FROM queues"), r"is damaged .*restore the folder from a copy, or move it away"),
        (lambda c: c.execute("UPDATE queues SET settings = 'x'"), r"is damaged "),
        (lambda c: c.execute('UPDATE queues SET settings = \'{"ordering": "odd"}\''), r"is damaged "),
        (lambda c: c.execute("DELETE FROM engine"), r"is damaged "),
    ],
)
def test_a_file_that_does_not_make_sense_is_refused_with_what_to_do(
    opened: Opened, how: Callable[[sqlite3.Connection], object], text: str
) -> None:
    """Newer, foreign, incomplete: never read half, and never written; the folder is free afterwards."""
    opened.broker.create("q").put(1.0, b"x")
    opened.store.write(1.0)
    opened.store.close()
    spoil(how, opened.path)

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=text):
            opened.reopen()


def test_a_file_of_rubbish_is_refused_and_left_alone(tmp_path: Path) -> None:
    """It may be somebody's only copy of something."""
    rubbish = b"this is no database" * 1000
    (tmp_path / "queues.sqlite3").write_bytes(rubbish)

    with pytest.raises(ConfigurationError, match=r"queues.sqlite3' is damaged or not a database .*restore the folder"):
        SqliteStore.open(tmp_path)

    assert (tmp_path / "queues.sqlite3").read_bytes() == rubbish


# --- writes that fail


def fill(store: SqliteStore) -> None:
    """Let the file grow no further, as a full disk would."""
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_failed_write_is_told_and_made_up_for(opened: Opened) -> None:
    """Nothing that was recorded is lost while the process lives, and the order of changes is kept."""
    queue = opened.broker.create("q", FIFO)
    opened.store.write(1.0)
    fill(opened.store)
    for number in range(100):
        queue.put(1.0, b"%03d" % number * 1000, key="k")
    with pytest.raises(StorageError, match=r"queues' cannot be written \(database or disk is full\): look at its disk"):
        opened.store.write(1.0)
    queue.put(2.0, b"later", key="k")
    (lease,) = queue.take(2.0, 1)
    queue.settle(2.0, lease.handle)
    with pytest.raises(StorageError):
        opened.store.write(2.0)
    assert opened.store.failed
    assert opened.store.pending

    opened.store._connection.execute("PRAGMA max_page_count = 1000000")
    expected = bodies(queue, 2.0)
    again = opened.reopen(3.0)

    assert bodies(again.queue("q"), 2.0) == expected
    assert len(expected) == 100
    assert not opened.store.failed


def test_what_cannot_be_kept_is_refused_where_it_is_put(opened: Opened) -> None:
    """Beside a body a durable queue keeps an `Envelope`; the fault does not spoil other messages."""
    queue = opened.broker.create("q")
    queue.put(1.0, b"good")
    with pytest.raises(TypeError, match="keeps an Envelope beside a body, not a object"):
        queue.put(1.0, b"bad", attributes=object())
    queue.put(1.0, b"good, too")

    assert bodies(opened.reopen(1.0).queue("q"), 1.0) == [b"good", b"good, too"]


def test_a_forked_child_cannot_write(opened: Opened) -> None:
    """Two processes on one connection would ruin the file."""
    opened.broker.create("q").put(1.0, b"x")
    opened.store._process = os.getpid() + 1

    with pytest.raises(StorageError, match=r"belongs to process \d+: open it after the fork"):
        opened.store.write(1.0)


def test_a_store_is_loaded_into_an_empty_broker_only(opened: Opened) -> None:
    """Anything else would mix two states."""
    broker = Broker()
    broker.create("q")

    with pytest.raises(ConfigurationError, match="without queues"):
        opened.store.load(broker)


def test_forcing_to_the_disk_can_be_chosen(tmp_path: Path) -> None:
    """`always` is SQLite's FULL, `second` its NORMAL plus `sync()`; another word is an error."""
    for fsync, level in ((Fsync.ALWAYS, 2), ("second", 1)):
        store = SqliteStore.open(tmp_path, fsync=fsync)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (level,)
        store.sync()
        store.close()
        store.close()
    with pytest.raises(ValueError, match="sometimes"):
        SqliteStore.open(tmp_path, fsync="sometimes")


def test_changes_of_one_commit_touch_each_row_once(opened: Opened) -> None:
    """A message that came and went between two commits is never written."""
    seen: list[str] = []
    queue = opened.broker.create("q")
    opened.store.write(1.0)
    opened.store._connection.set_trace_callback(seen.append)
    for _ in range(10):
        queue.put(1.0, b"x")
    for lease in queue.take(1.0, 10):
        queue.settle(1.0, lease.handle)
    opened.store.write(1.0)

    assert [text for text in seen if "messages" in text or "leases" in text] == []
    assert opened.reopen().queue("q").put(1.0, b"x").sequence == 11


def test_the_journal_says_what_the_window_holds(opened: Opened) -> None:
    """Replay needs no rule of deduplication: a change of scope counts for ids that come after it."""
    events: list[Event] = []

    class Remembering:
        def record(self, event: Event, /) -> None:
            events.append(event)

    broker = Broker(journal=Remembering())
    queue = broker.create("q", FIFO)
    queue.put(1.0, b"x", key="a", dedup_id="d")
    queue.configure(replace(FIFO, dedup_scope=DedupScope.GROUP))
    queue.put(2.0, b"y", key="a", dedup_id="d")

    assert [event.identity for event in events if isinstance(event, Enqueued)] == ["d", ("a", "d")]
