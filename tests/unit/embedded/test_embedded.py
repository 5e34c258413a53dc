"""The provider `embedded`: what a restart brings back, who may have a folder, and what an answer means."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from messagequeue import (
    ClosedError,
    Config,
    ConfigurationError,
    ErrorCode,
    LeaseLostError,
    Message,
    PublishError,
    Receipt,
    ReceiveError,
    SettleError,
    open_consumers,
    open_publishers,
)
from messagequeue.broker import Counts
from messagequeue.driver import EncodedMessage, LeaseSource, Sender
from messagequeue.embedded import (
    EMBEDDED,
    EmbeddedConfig,
    EmbeddedConsumerProvider,
    EmbeddedPublisherProvider,
    close_hub,
    embedded_broker,
    embedded_now,
    open_hub,
)
from messagequeue.embedded._folders import _folders, _lock
from messagequeue.testing import run_virtual


class Halves:
    """The seams of one topic."""

    def __init__(self, sender: Sender, source: LeaseSource, path: Path) -> None:
        self.sender = sender
        self.source = source
        self.path = path

    async def send(self, body: str, **options: object) -> Receipt:
        (receipt,) = await self.sender.send([EncodedMessage(body, **options)])  # type: ignore[arg-type]
        assert isinstance(receipt, Receipt)
        return receipt

    async def receive(self, wait: float = 0.0) -> Sequence[tuple[Message, object]]:
        return [(delivery.message, delivery.lease) for delivery in await self.source.receive(10, wait=wait)]


def process(path: Path, work: Callable[[Halves], Awaitable[None]], topic: str = "orders", **options: object) -> None:
    """Do *work* as a process would that begins, and ends in order."""
    config = EmbeddedConfig(path=path, visibility_timeout=10.0, **options)  # type: ignore[arg-type]

    async def main() -> None:
        async with EmbeddedPublisherProvider(config) as publishers, EmbeddedConsumerProvider(config) as consumers:
            sender = await publishers._open_sender(topic)
            source = await consumers._open_source(topic, config.consume)
            await work(Halves(sender, source, path))

    run_virtual(main())


def test_messages_leases_and_counts_survive_a_restart(tmp_path: Path) -> None:
    """What was settled stays away; what was held comes back when its lease ends, with its count."""

    async def before(halves: Halves) -> None:
        for body in ("a", "b", "c"):
            await halves.send(body, ordering_key="k", attributes={"n": 1, "raw": b"\x00"})
        (_, lease), *_ = await halves.receive()
        assert await halves.source.settle([lease]) == [None]

    async def after(halves: Halves) -> None:
        assert embedded_broker(halves.path).queue("orders").counts(embedded_now(halves.path)) == Counts(in_flight=2)
        found = [message for message, _ in await halves.receive(20.0)]
        assert [(m.text, m.delivery_attempt, dict(m.attributes)) for m in found] == [
            ("b", 2, {"n": "1", "raw": b"\x00"}),
            ("c", 2, {"n": "1", "raw": b"\x00"}),
        ]

    process(tmp_path, before)
    process(tmp_path, after)


def test_a_repeat_after_a_restart_is_a_duplicate(tmp_path: Path) -> None:
    """The first one's answer is given."""
    receipts = []

    async def publish(halves: Halves) -> None:
        receipts.append(await halves.send("a", ordering_key="k", deduplication_key="d"))

    process(tmp_path, publish)
    process(tmp_path, publish)

    assert receipts[0] == receipts[1]


def test_whoever_names_a_topic_first_in_a_process_says_what_it_is_like(tmp_path: Path) -> None:
    """A changed option counts after a restart, also a new dead-letter topic; the SQS server's topics are its own."""

    async def publish(halves: Halves) -> None:
        await halves.send("a")

    async def look(halves: Halves) -> None:
        broker = embedded_broker(halves.path)
        settings = broker.queue("orders").settings
        assert settings.retention == 77.0
        assert settings.dead_letters is not None
        assert settings.dead_letters.target == "orders.lost"
        assert "orders.lost" in broker

    async def look_at_the_servers(halves: Halves) -> None:
        assert embedded_broker(halves.path).queue("sqs.orders").settings.retention == 345_600.0

    process(tmp_path, publish)
    process(tmp_path, look, retention=77.0, dead_letter_suffix=".lost")
    process(tmp_path, publish, topic="sqs.orders")
    process(tmp_path, look_at_the_servers, topic="sqs.orders", retention=77.0)


def test_halves_share_a_folder_by_its_real_path_and_the_last_closes_it(tmp_path: Path) -> None:
    """Through a link, or with `..`: one broker.  Afterwards the folder is free."""
    (tmp_path / "queues").mkdir()
    (tmp_path / "link").symlink_to("queues")
    got: list[str] = []

    async def handle(message: Message) -> None:
        got.append(message.text)
        consumer.stop()

    async def main() -> None:
        nonlocal consumer
        async with open_publishers(f"embedded://{tmp_path}/queues") as publishers:
            async with open_consumers(f"embedded://{tmp_path}/link/../queues") as consumers:
                consumer = await consumers.new_consumer("orders", handle)
                publisher = await publishers.new_publisher("orders")
                await publisher.publish("hello")
                await consumer.consume()
            assert len(_folders) == 1
        assert not _folders

    consumer = None  # type: ignore[assignment]
    run_virtual(main())

    assert got == ["hello"]


def test_a_folder_in_use_by_another_process_is_an_error_that_names_both(tmp_path: Path) -> None:
    """From either half, and from `ping()`; once the other has gone, the same provider can go on."""
    program = (
        "import sys\nfrom messagequeue.broker.storage.sqlite import SqliteStore\n"
        "store = SqliteStore.open(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
    )

    async def handle(message: Message) -> None:
        """Nothing."""

    async def main(other: subprocess.Popen[bytes]) -> None:
        url = f"embedded://{tmp_path}"
        async with open_publishers(url) as publishers, open_consumers(url) as consumers:
            for attempt in (publishers.new_publisher("a"), consumers.new_consumer("a", handle), consumers.ping()):
                with pytest.raises(ConfigurationError, match=f"{tmp_path}' is in use by process {other.pid}: one"):
                    await attempt
            other.send_signal(signal.SIGKILL)
            other.wait()
            await publishers.ping()
            await consumers.ping()

    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        run_virtual(main(other))


def test_halves_that_differ_in_fsync_are_refused(tmp_path: Path) -> None:
    """A folder has one promise."""

    async def main() -> None:
        hub = await open_hub(tmp_path)
        with pytest.raises(ConfigurationError, match=r"open with fsync='second' .*not 'always'"):
            await open_hub(tmp_path, fsync="always")
        await close_hub(hub)

    run_virtual(main())


def test_a_folder_can_be_opened_again_while_it_is_being_closed(tmp_path: Path) -> None:
    """The second waits for the end of the first."""

    async def main() -> None:
        first = await open_hub(tmp_path)
        closing = asyncio.create_task(close_hub(first))
        await asyncio.sleep(0)
        second = await open_hub(tmp_path)
        await closing
        assert second is not first
        await close_hub(second)

    run_virtual(main())


def test_a_cancelled_opening_leaves_the_folder_free(tmp_path: Path) -> None:
    """What a thread opened for nobody is closed again."""

    async def main() -> None:
        task = asyncio.create_task(open_hub(tmp_path))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        while not (tmp_path / "queues.sqlite3").exists():
            await asyncio.to_thread(int)
        with _lock:  # the thread has opened it
            pass
        while _folders:
            await asyncio.to_thread(int)
        await close_hub(await open_hub(tmp_path, fsync="always"))

    run_virtual(main())


def test_a_closed_provider_opens_no_folder(tmp_path: Path) -> None:
    """Also where the opening had begun before."""

    async def main() -> None:
        provider = EmbeddedConsumerProvider(EmbeddedConfig(path=tmp_path))
        opening = asyncio.create_task(provider.ping())
        await asyncio.sleep(0)
        await provider.close()
        with pytest.raises(ClosedError):
            await opening
        assert not _folders

    run_virtual(main())


def test_nothing_is_confirmed_that_is_not_committed(tmp_path: Path) -> None:
    """A publish says that it does not know, a receive brings nothing, a settlement may be tried ag."""

    async def work(halves: Halves) -> None:
        await halves.send("first")
        ((_, lease),) = await halves.receive()
        store = embedded_broker(halves.path).journal
        connection = store._connection  # type: ignore[union-attr]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

        with pytest.raises(PublishError, match=r"may or may not be stored: .*disk is full") as caught:
            await halves.send("x" * 100_000)
        assert caught.value.code is ErrorCode.NOT_CONFIRMED
        with pytest.raises(ReceiveError) as not_received:
            await halves.receive()
        assert not_received.value.retryable
        (fault,) = await halves.source.settle([lease])
        assert isinstance(fault, SettleError)
        assert not isinstance(fault, LeaseLostError)
        assert fault.retryable

        connection.execute("PRAGMA max_page_count = 100000")
        assert await halves.source.settle([lease]) == [None]
        assert [len(message.body) for message, _ in await halves.receive()] == [100_000]

    process(tmp_path, work)


def test_the_memory_provider_loads_no_sqlite() -> None:
    """It is not everywhere, and takes its time."""
    program = "import sys, messagequeue.embedded; sys.exit('sqlite3' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    "config",
    [
        Config.from_url("embedded:///var/lib/app/queues?fsync=always"),
        Config.from_mapping({"provider": "embedded", "embedded": {"path": "/var/lib/app/queues", "fsync": "always"}}),
        Config.from_env(
            environ={
                "MESSAGEQUEUE_PROVIDER": "embedded",
                "MESSAGEQUEUE_EMBEDDED_PATH": "/var/lib/app/queues",
                "MESSAGEQUEUE_EMBEDDED_FSYNC": "always",
            }
        ),
    ],
)
def test_it_is_configured_by_url_mapping_and_environment(config: Config) -> None:
    """The URL's path is the folder; nothing is opened yet."""
    assert config.publisher.settings == EmbeddedConfig(path=Path("/var/lib/app/queues"), fsync="always")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("embedded://", "path is not set and has no default"),
        ("embedded:///tmp/x?fsync=sometimes", "fsync in the .*one of second, always"),
        ("embedded:///tmp/x?name=y", "there is no option 'name'"),
        ("embedded:///tmp/x?delay=901", "out of range"),
    ],
)
def test_a_wrong_configuration_says_what_to_do(url: str, text: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigurationError, match=text):
        Config.from_url(url)


def test_a_config_made_in_code_is_checked_too() -> None:
    """As in a file."""
    with pytest.raises(ConfigurationError, match="path is empty: give a folder"):
        EmbeddedConfig(path="")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give 'second' or 'always'"):
        EmbeddedConfig(path=Path("x"), fsync="never")  # type: ignore[arg-type]
    assert EMBEDDED.url_path == "path"
