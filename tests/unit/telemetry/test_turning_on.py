"""How telemetry is turned on, and that there is none of it otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from messagequeue import (
    Config,
    ConfigurationError,
    ProviderConfig,
    UnsupportedOptionError,
    open_consumers,
    open_publishers,
    register_provider,
)
from messagequeue._registry import unregister_provider
from messagequeue.driver import ProviderSpec
from messagequeue.embedded import MemoryConsumerProvider, MemoryPublisherProvider
from messagequeue.noop import NoopConfig, NoopConsumerProvider, NoopPublisherProvider
from messagequeue.runtime import RuntimePublisher
from messagequeue.runtime.observed_publisher import ObservedPublisher
from messagequeue.telemetry import OpenTelemetry, Telemetry
from messagequeue.testing import run_virtual
from messagequeue_sqs import SQSConsumerProvider, SQSPublisherProvider
from tests.unit.telemetry.recording import Recording, nothing


def interpreter(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ or None)


#: Makes `import opentelemetry` fail, as where it is not installed.
WITHOUT = "import sys; sys.modules['opentelemetry'] = None\n"


def test_opentelemetry_is_a_telemetry():
    """As the providers take it."""
    assert isinstance(OpenTelemetry(), Telemetry)


def test_without_telemetry_nothing_of_it_is_there():
    """The publisher is the plain one, the source is the provider's own, and no third-party module is loaded."""

    async def main() -> None:
        async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
            publisher = await publishers.new_publisher("orders")
            consumer = await consumers.new_consumer("orders", nothing)
            assert type(publisher) is RuntimePublisher
            assert consumer._telemetry is None  # type: ignore[attr-defined]
            assert type(consumer._source).__name__ == "MemorySource"  # type: ignore[attr-defined]

    run_virtual(main())
    code = "import sys, messagequeue.embedded, messagequeue.telemetry; sys.exit('opentelemetry' in sys.modules)"
    assert interpreter(code).returncode == 0


def test_every_provider_takes_telemetry_in_its_constructor():
    """Both halves of each; what is none is refused by its type."""
    telemetry = Recording().telemetry
    halves = [
        MemoryPublisherProvider, MemoryConsumerProvider, NoopPublisherProvider, NoopConsumerProvider,
        SQSPublisherProvider, SQSConsumerProvider,
    ]  # fmt: skip
    for half in halves:
        half(telemetry=telemetry)
        with pytest.raises(TypeError, match="telemetry is str"):
            half(telemetry="otel")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="telemetry is OpenTelemetry: give an instance"):
            half(telemetry=OpenTelemetry)  # type: ignore[arg-type]


def test_the_configuration_can_ask_for_it():
    """For both halves or one; `none` and nothing are none, also where the other half's setting would hold."""
    both = Config.from_env(environ={"MESSAGEQUEUE_TELEMETRY": "otel"})
    one = Config.from_env(environ={"MESSAGEQUEUE_TELEMETRY": "otel", "MESSAGEQUEUE_CONSUMER_TELEMETRY": "none"})
    table = Config.from_mapping({"publisher": {"telemetry": "otel"}})

    assert (both.publisher.telemetry, both.consumer.telemetry) == ("otel", "otel")
    assert (one.publisher.telemetry, one.consumer.telemetry) == ("otel", None)
    assert (table.publisher.telemetry, table.consumer.telemetry) == ("otel", None)
    assert Config.from_env(environ={"MESSAGEQUEUE_TELEMETRY": ""}).publisher.telemetry is None
    assert Config().publisher.telemetry is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Config.from_env(environ={"MESSAGEQUEUE_TELEMETRY": "ote"}), "MESSAGEQUEUE_TELEMETRY='ote'.*'otel'"),
        (lambda: Config.from_mapping({"telemetry": 1}), "telemetry=1: give one of otel or none"),
        (lambda: Config.from_mapping({"telemetry": {"otel": 1}}), "telemetry is a table"),
        (lambda: Config.from_mapping({"telemetri": "otel"}), "did you mean 'telemetry'"),
        (lambda: ProviderConfig("memory", telemetry="x"), "telemetry='x'"),
        (lambda: OpenTelemetry(client_id=""), "client_id=''"),
    ],
)
def test_a_wrong_setting_is_an_error_that_says_what_is_right(make: object, words: str):
    """Before anything is opened."""
    with pytest.raises(ConfigurationError, match=words):
        make()  # type: ignore[operator]


def test_configured_telemetry_is_that_of_the_global_providers():
    """`MESSAGEQUEUE_TELEMETRY=otel` and the SDK's own set-up are all that a program needs."""
    code = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from messagequeue import open_publishers

async def main():
    async with open_publishers() as publishers:
        exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        await (await publishers.new_publisher("orders")).publish("x")
    print([span.name for span in exporter.get_finished_spans()])

asyncio.run(main())
"""
    done = interpreter(code, MESSAGEQUEUE_TELEMETRY="otel", PYTHONPATH=":".join(sys.path))

    assert done.stdout == "['send orders']\n", done.stderr


def test_what_is_given_wins_over_the_configuration():
    """A telemetry of the program's own, where the environment asks for the global one."""
    recording = Recording()

    async def main() -> None:
        config = {"provider": "memory", "telemetry": "otel", "memory": {"name": "given"}}
        async with open_publishers(config, telemetry=recording.telemetry) as publishers:
            await (await publishers.new_publisher("orders")).publish("x")

    run_virtual(main())
    assert len(recording.spans("send")) == 1


def test_a_missing_package_is_an_error_with_the_command_that_helps():
    """Asked for by import, and by configuration; a program that does not ask is not harmed."""
    imported = interpreter(WITHOUT + "from messagequeue.telemetry import OpenTelemetry", PYTHONPATH=":".join(sys.path))
    configured = interpreter(
        WITHOUT + "import asyncio, messagequeue as m\n"
        "async def main():\n    async with m.open_publishers({'telemetry': 'otel'}): pass\nasyncio.run(main())",
        PYTHONPATH=":".join(sys.path),
    )
    unasked = interpreter(
        WITHOUT + "import asyncio, messagequeue as m, messagequeue.telemetry\n"
        "async def main():\n    async with m.open_publishers('memory://'): pass\nasyncio.run(main())",
        PYTHONPATH=":".join(sys.path),
    )

    for done in (imported, configured):
        assert done.returncode == 1
        assert "ConfigurationError: telemetry needs opentelemetry-api: pip install 'messagequeue[otel]'" in done.stderr
    assert unasked.returncode == 0, unasked.stderr


@dataclass(frozen=True)
class ShelfConfig:
    """No options."""


@pytest.fixture
def deaf() -> Iterator[None]:
    """A provider of somebody else that was written before there was telemetry."""
    spec = ProviderSpec(
        name="deaf",
        config=ShelfConfig,
        publisher=lambda config: NoopPublisherProvider(NoopConfig()),
        consumer=lambda config: NoopConsumerProvider(NoopConfig()),
    )
    register_provider(spec)
    yield
    unregister_provider("deaf")


@pytest.mark.usefixtures("deaf")
def test_a_provider_that_takes_no_telemetry_is_refused_with_it_and_works_without():
    """Asked for and not honoured would be worse than an error."""

    async def main() -> None:
        async with open_publishers("deaf://") as publishers:
            await publishers.ping()
        for telemetry in (Recording().telemetry, None):
            with pytest.raises(UnsupportedOptionError, match="'deaf' takes no telemetry"):
                async with open_consumers({"provider": "deaf", "telemetry": "otel"}, telemetry=telemetry):
                    pass

    run_virtual(main())


def test_a_publisher_that_replaces_a_stopped_one_is_told_of_too():
    """Under the same series."""
    recording = Recording()

    async def main() -> None:
        async with open_publishers("memory://?name=again", telemetry=recording.telemetry) as publishers:
            first = await publishers.new_publisher("orders")
            await first.publish("x")
            await first.stop()
            second = await publishers.new_publisher("orders")
            assert type(second) is ObservedPublisher
            await second.publish("y")

    run_virtual(main())
    assert recording.total("messaging.client.sent.messages") == 2
    assert len(recording.metrics()["messagequeue.publisher.resent"]) == 1
