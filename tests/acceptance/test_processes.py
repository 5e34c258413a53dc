"""What becomes of messages when a consumer's process is killed, stopped or restarted, against LocalStack."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messagequeue import Receipt
from messagequeue_sqs import SQSConfig, SQSPublisherProvider
from tests.support.localstack import Queues

pytestmark = [pytest.mark.acceptance, pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent.parent

MARGIN = 3.0
"""Seconds for a process to notice, to hand back and to end, on a busy machine."""


class Record:
    """What the workers wrote; an order counts as handled where its handler was about to return."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, word: str) -> list[tuple[str, str]]:
        """Return id and body of every whole line that begins with *word*."""
        if not self.path.exists():
            return []
        found = [line.split(" ", 2) for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(name, body.rstrip("\n")) for what, name, body in found if what == word]

    @property
    def done(self) -> Counter[str]:
        return Counter(body for _, body in self.lines("done"))

    @property
    def ids(self) -> set[str]:
        return {name for name, _ in self.lines("began")}


@contextmanager
def worker(queues: Queues, url: str, record: Record, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a worker that has said `ready`; kill it at the end where it still runs."""
    env = os.environ | {
        "MESSAGEQUEUE_PROVIDER": "sqs",
        "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": queues.endpoint,
        "MESSAGEQUEUE_SQS_CONSUME_CHECKS": "off",  # so that a worker that is well says nothing
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-W", "error", "-m", "tests.acceptance.worker", url, str(record.path), *options]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(condition: Callable[[], object], within: float, what: str) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str], within: float) -> tuple[int, str]:
    """Return exit status and output of a process that ends by itself *within* seconds."""
    output, _ = process.communicate(timeout=within)
    return process.returncode, output


def publish(queues: Queues, url: str, bodies: list[str]) -> set[str]:
    """Publish through the library and return the ids."""

    async def send() -> list[object]:
        async with SQSPublisherProvider(SQSConfig(queue_address=queues.endpoint)) as provider:
            publisher = await provider.new_publisher(url)
            return list(await publisher.publish_many(bodies))

    receipts = [receipt for receipt in asyncio.run(send()) if isinstance(receipt, Receipt)]
    assert len(receipts) == len(bodies)
    return {receipt.message_id for receipt in receipts}


def test_a_killed_consumer_loses_none_of_a_thousand_messages(queues: Queues, tmp_path: Path) -> None:
    """SIGKILL in the middle of the work: another process handles everything that the first had not settled."""
    url = queues.create(VisibilityTimeout=4)
    record = Record(tmp_path / "record")
    bodies = [f"order-{number}" for number in range(1000)]
    ids = publish(queues, url, bodies)
    options = ("--work", "0.05", "concurrency=20", "wait_time=1")
    with worker(queues, url, record, *options) as first:
        until(lambda: sum(record.done.values()) >= 300, 60, "300 messages are handled")
        first.send_signal(signal.SIGKILL)
        first.wait()
    held = queues.counts(url)[1]
    before = record.done
    with worker(queues, url, record, *options) as second:
        until(lambda: len(record.done) == 1000 and queues.counts(url) == (0, 0, 0), 60, "everything is handled")
        second.send_signal(signal.SIGTERM)
        status, output = ended(second, MARGIN + 1)

    assert 300 <= len(before) < 1000
    assert held > 0, "the first was killed while it held messages"
    assert record.done.keys() == set(bodies)
    assert record.ids <= ids
    assert status == 0, output
    twice = [body for body, count in record.done.items() if count > 1]
    assert len(twice) <= held, "only what the killed process held may be handled twice"


def test_sigterm_leaves_nothing_invisible_and_nothing_acknowledged_is_handled_twice(
    queues: Queues, tmp_path: Path
) -> None:
    """Handlers that end in time are settled, the others are handed back, and the process exits with 0."""
    drain, wait = 1.0, 2.0
    url = queues.create(VisibilityTimeout=300)
    record = Record(tmp_path / "record")
    bodies = [f"slow-{number}" for number in range(3)] + [f"quick-{number}" for number in range(200)]
    publish(queues, url, bodies)
    options = (f"wait_time={wait:g}", f"drain_timeout={drain:g}", "concurrency=20")
    with worker(queues, url, record, "--work", "0.2", "--slow", "60", *options) as first:
        until(lambda: len(record.done) >= 60 and _begun(record, "slow") == 3, 30, "the work is under way")
        first.send_signal(signal.SIGTERM)
        status, output = ended(first, drain + wait + MARGIN)
    visible, in_flight, _ = queues.counts(url)
    acknowledged = set(record.done)
    with worker(queues, url, record, *options) as second:
        until(lambda: queues.counts(url) == (0, 0, 0), 30, "the second takes the rest")
        second.send_signal(signal.SIGTERM)
        ended(second, drain + wait + MARGIN)

    assert status == 0, output
    assert in_flight == 0
    assert visible == len(bodies) - len(acknowledged)
    assert acknowledged < set(bodies)
    assert record.done == Counter(bodies), "each is handled to its end exactly once"


def _begun(record: Record, prefix: str) -> int:
    return sum(body.startswith(prefix) for _, body in record.lines("began"))


def test_restarts_in_mid_work_make_no_copies(queues: Queues, tmp_path: Path) -> None:
    """Five times SIGTERM and restart: counters and handled ones add up to 20, and no id is new (SHUT-05)."""
    url = queues.create(VisibilityTimeout=300)
    record = Record(tmp_path / "record")
    bodies = [f"order-{number}" for number in range(20)]
    ids = publish(queues, url, bodies)
    sums = []
    for _ in range(5):
        before = len(record.lines("began"))
        options = ("--work", "0.5", "concurrency=3", "wait_time=1", "drain_timeout=0.1")
        with worker(queues, url, record, *options) as process:
            until(lambda before=before: len(record.lines("began")) >= before + 5, 20, "it is in mid-work")
            process.send_signal(signal.SIGTERM)
            status, output = ended(process, 1 + MARGIN)
        sums.append(sum(queues.counts(url)) + sum(record.done.values()))
        assert status == 0, output

    assert sums == [20] * 5
    assert record.ids <= ids
    assert queues.counts(url)[1] == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_at_once_and_the_message_stays(
    queues: Queues, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The first signal drains, the second cuts that short with the signal's exit status (SHUT-09)."""
    url = queues.create(VisibilityTimeout=300)
    record = Record(tmp_path / "record")
    queues.send(url, "slow-1")
    with worker(queues, url, record, "--slow", "60", "drain_timeout=60", "wait_time=1") as process:
        until(lambda: record.lines("began"), 10, "the handler runs")
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            # It drains.  The parked receive ends meanwhile: one that is torn down may capture the message again.
            process.wait(2)
        process.send_signal(number)
        status, output = ended(process, 1 + MARGIN)

    assert status == code
    assert "Traceback" not in output
    assert not record.done
    assert queues.counts(url) == (1, 0, 0), "handed back at once"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_the_handler_finish(queues: Queues, tmp_path: Path, number: signal.Signals) -> None:
    """In mid-handler: it ends its work, the message is settled, the process exits with 0 and is silent (SHUT-09)."""
    url = queues.create(VisibilityTimeout=300)
    record = Record(tmp_path / "record")
    queues.send(url, "slow-1")
    with worker(queues, url, record, "--slow", "1.5", "wait_time=1") as process:
        until(lambda: record.lines("began"), 10, "the handler runs")
        process.send_signal(number)
        status, output = ended(process, 1.5 + 1 + MARGIN)

    assert (status, output) == (0, "")
    assert list(record.done) == ["slow-1"]
    assert queues.counts(url) == (0, 0, 0)


def test_sigterm_while_a_receive_is_parked_strands_nothing(queues: Queues, tmp_path: Path) -> None:
    """A message that comes while the process stops is not hidden, also where `drain_timeout` is below the poll."""
    url = queues.create(VisibilityTimeout=300)
    record = Record(tmp_path / "record")
    with worker(queues, url, record, "drain_timeout=0.2", "wait_time=3") as process:
        time.sleep(1)  # it polls
        process.send_signal(signal.SIGTERM)
        time.sleep(0.7)
        queues.send(url, "late")
        status, output = ended(process, 0.2 + 3 + MARGIN)

    assert status == 0, output
    assert queues.counts(url) == ((0 if record.done else 1), 0, 0)
