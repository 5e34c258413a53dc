"""Start-up checks: what is doubtful in how a topic is set up, and what a consumer does about it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from messagequeue import ConfigurationError, ConsumeOptions
from messagequeue.driver import TopicFacts
from messagequeue.runtime.checks import FACTS_TIMEOUT, findings
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench

DAY = 86_400.0
GOOD = {"dead_letters": True, "max_receives": 5, "retention": 4 * DAY, "dead_letter_retention": 14 * DAY}


def codes(*, ordered: bool = False, facts: dict[str, Any] | None = None, **options: Any) -> list[str]:
    found = findings(TopicFacts(**GOOD | (facts or {})), ConsumeOptions(**options), ordered=ordered)
    assert all(finding.text for finding in found)
    return [finding.code for finding in found]


@pytest.mark.parametrize("ordered", [False, True])
def test_nothing_is_doubtful_in_a_topic_that_is_set_up_well(ordered: bool) -> None:
    """Nor in one of which nothing is known."""
    assert codes(ordered=ordered, retry_delay=[1, 10, 60]) == []
    assert findings(TopicFacts(), ConsumeOptions(retry_delay=[1] * 50), ordered=ordered) == []


def test_topic_without_a_dead_letter_queue() -> None:
    """Unless that is what was asked for, or it is not known."""
    without = {"dead_letters": False, "max_receives": None, "dead_letter_retention": None}
    assert codes(facts=without) == ["no_dead_letter_queue"]
    assert codes(facts=without, no_dead_letter_queue="discard") == []
    assert codes(facts=without | {"dead_letters": None}) == []


def test_too_few_receives() -> None:
    """One is too few everywhere; two are where the followers of a failed message are received with it."""
    assert codes(facts={"max_receives": 1}) == ["one_receive"]
    assert codes(facts={"max_receives": 1}, ordered=True) == ["one_receive"]
    assert codes(facts={"max_receives": 2}) == []
    assert codes(facts={"max_receives": 2}, ordered=True) == ["few_receives"]
    assert codes(facts={"max_receives": 3}, ordered=True) == []


def test_retries_that_never_come() -> None:
    """More delays than receives; as many are used, the last before the move."""
    assert codes(retry_delay=[1] * 5) == []
    assert codes(retry_delay=[1] * 6) == ["unreachable_retries"]
    assert codes(retry_delay=1, facts={"max_receives": 1}) == ["one_receive"]


def test_retries_that_outlast_the_retention() -> None:
    """The longest that the delays can be, jitter and factor included."""
    assert codes(retry_delay=43_200) == []
    assert codes(retry_delay=43_200, facts={"max_receives": 8}) == ["retries_outlast_retention"]
    assert codes(retry_delay=43_200, facts={"max_receives": 7}) == []
    assert codes(retry_delay=60, retry_factor=2, retry_jitter=1, facts={"retention": 1_860}) == [
        "retries_outlast_retention"
    ]
    assert codes(retry_delay=60, retry_factor=2, facts={"retention": 1_861}) == []


def test_dead_letters_that_are_gone_when_they_come() -> None:
    """Only where their age counts on."""
    short = {"dead_letter_retention": 4 * DAY}
    assert codes(facts=short | {"keeps_age": True}) == ["dead_letter_retention"]
    assert codes(facts=short | {"keeps_age": False}) == []
    assert codes(facts={"keeps_age": True}) == []


class Telling(FakeSource):
    """A source that tells how its topic is set up."""

    def __init__(self, facts: TopicFacts | Exception, *, takes: float = 0.0) -> None:
        super().__init__()
        self.tells, self.takes, self.asked = facts, takes, 0

    async def facts(self) -> TopicFacts:
        self.asked += 1
        await asyncio.sleep(self.takes)
        if isinstance(self.tells, Exception):
            raise self.tells
        return self.tells


DOUBTFUL = TopicFacts(dead_letters=False, retention=60.0)


async def nothing(_message: object) -> None: ...


def consume(source: Telling, seconds: float = 1.0, **options: Any) -> None:
    async def main() -> None:
        source.put("a")
        b = bench(source, nothing, **options)
        for _ in range(2):
            task = asyncio.create_task(b.consumer.consume())
            await asyncio.sleep(seconds)
            b.consumer.stop()
            await task
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        assert not left
        await b.consumer.close()

    run_virtual(main())


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.event, getattr(record, "finding", "")) for record in caplog.records if "topic." in record.event]


def test_consumer_warns_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The broker is asked beside the first receive, and not again by the next `consume()`."""
    source = Telling(DOUBTFUL)
    with caplog.at_level(logging.WARNING, "messagequeue"):
        consume(source)

    assert events(caplog) == [("topic.doubtful", "no_dead_letter_queue")]
    assert "give it one" in caplog.text
    assert source.stored == []
    assert source.asked == 1


def test_consumer_does_not_wait_for_what_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Neither with its work nor at its end; an answer that takes too long is none."""
    source = Telling(DOUBTFUL, takes=1_000)
    with caplog.at_level(logging.DEBUG, "messagequeue"):
        consume(source, FACTS_TIMEOUT + 1)

    assert source.stored == []
    assert events(caplog) == [("topic.unknown", "")]

    caplog.clear()
    source = Telling(DOUBTFUL, takes=1_000)
    consume(source, 1)
    assert source.stored == []
    assert events(caplog) == []


def test_broker_that_does_not_tell_is_a_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """The permission is optional."""
    with caplog.at_level(logging.DEBUG, "messagequeue"):
        consume(Telling(PermissionError("no")))

    assert [record.levelname for record in caplog.records if record.event == "topic.unknown"] == ["DEBUG"]


def test_consumer_that_is_told_to_be_strict_receives_nothing() -> None:
    """The error names every finding; it may be consumed again, and is checked again."""

    async def main() -> None:
        source = Telling(TopicFacts(dead_letters=True, max_receives=1, retention=100.0))
        source.put("a")
        b = bench(source, nothing, checks="error", retry_delay=[60, 60])
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"'t': .*after 1 receive: .*; retry_delay has 2.*'warn'"):
                await b.consumer.consume()
        assert source.ops("receive") == []
        source.tells = TopicFacts(dead_letters=True, max_receives=5)
        task = asyncio.create_task(b.consumer.consume())
        await asyncio.sleep(1)
        assert source.stored == []
        b.consumer.stop()
        await task
        assert source.asked == 3

    run_virtual(main())


def test_checks_that_are_off_ask_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """No request, no line."""
    source = Telling(DOUBTFUL)
    with caplog.at_level(logging.DEBUG, "messagequeue"):
        consume(source, checks="off")

    assert source.asked == 0
    assert events(caplog) == []
