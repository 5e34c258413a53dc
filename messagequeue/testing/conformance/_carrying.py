"""Facts about what is carried: bodies and attributes arrive as they were published."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ..._errors import EncodeError, InvalidMessageError
from ..._message import Message
from ._bench import Bench
from ._facts import fact

#: Text that escaping, line-ending or alphabet mistakes change.
TEXTS = (
    "a\r\nb\rc\td\n",
    "<a>&amp;\"'</a>",
    "]]>",
    "%2B+ &=",
    "\u2028 ünïcödé 漢字 \U0001f9ea",
    '{"already": "json"}',
    "cGFy",
    "  spaces around  ",
)

#: Bytes that are no text, look like text, or look like an encoding of something.
BYTES = (b"\xff\x00\x01", bytes(range(256)), b"cGFy", b"plain", b'{"b64_field":"cGFy"}', b"\x00")


class CarryingFacts:
    """What holds for every body and attribute."""

    @fact()
    async def test_text_arrives_as_it_was(self, bench: Bench) -> None:
        """Line ends, markup, percent signs, spaces, any Unicode: byte for byte (SER-04, SER-01)."""
        messages = await _carry(bench, *TEXTS)
        assert sorted(message.text for message in messages) == sorted(TEXTS)

    @fact()
    async def test_bytes_arrive_as_they_were(self, bench: Bench) -> None:
        """Whatever they look like, and whether or not they are text (PUB-06, SER-01)."""
        messages = await _carry(bench, *BYTES)
        assert sorted(message.body for message in messages) == sorted(BYTES)

    @fact()
    async def test_data_arrives_as_json(self, bench: Bench) -> None:
        """Anything with a clear JSON form is encoded, and `json()` gives it back."""
        data: list[object] = [{"id": 7, "lines": [1, 2.5, None, True], "name": "ü"}, [1, 2], 12, None, {}, False]
        messages = await _carry(bench, *data)
        got = [message.json() for message in messages]
        assert all(item in got for item in data)
        assert len(got) == len(data)

    @fact()
    async def test_what_has_no_form_is_refused(self, bench: Bench) -> None:
        """An EncodeError, and nothing is published."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        for data in (object(), {"when": object()}, {1, 2}, float("nan"), "\ud800"):
            with pytest.raises(EncodeError):
                await publisher.publish(data, **bench.key())
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_an_empty_body_is_carried_or_refused(self, bench: Bench) -> None:
        """Never changed into another one."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        for data in ("", b""):
            try:
                await publisher.publish(data, **bench.key())
            except InvalidMessageError:
                continue
            assert [message.body for message in await bench.receive(topic)] == [b""]

    @fact()
    async def test_attributes_arrive_with_their_types(self, bench: Bench) -> None:
        """Text as text, bytes as bytes, encoded once; numbers as their text (CON-20, SER-03)."""
        given: dict[str, Any] = {
            "text": "a\r\n<ü>\U0001f9ea",
            "bytes": bytes(range(256)),
            "zero": b"\x00",
            "int": -12,
            "float": 0.5,
            "dotted.name_1-x": "x",
        }
        (message,) = await _carry(bench, "a", attributes=given)
        assert dict(message.attributes) == {**given, "int": "-12", "float": "0.5"}

    @fact()
    async def test_an_empty_attribute_is_refused(self, bench: Bench) -> None:
        """The error names it; the message is not sent without it (PUB-08)."""
        topic = await bench.new_topic()
        publisher: Any = await bench.publisher(topic)
        for empty in ("", b""):
            with pytest.raises(InvalidMessageError, match="user"):
                await publisher.publish("a", attributes={"user": empty, "trace": None, "ok": "1"}, **bench.key())
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_attributes_of_other_types_are_refused(self, bench: Bench) -> None:
        """A type that would not come back is an error that names the attribute."""
        topic = await bench.new_topic()
        publisher: Any = await bench.publisher(topic)
        for value in (True, [1], {"a": 1}, float("inf"), timedelta(1)):
            with pytest.raises(InvalidMessageError, match="odd"):
                await publisher.publish("a", attributes={"odd": value}, **bench.key())
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_a_message_says_what_it_is(self, bench: Bench) -> None:
        """Topic, keys, first delivery and time of publishing are in the message that the handler gets (CON-20)."""
        topic = await bench.new_topic()
        options: dict[str, Any] = {"ordering_key": "k"} if bench.ordered else {}
        if bench.ordered and bench.features.deduplication:
            options["deduplication_key"] = "d"
        (message,) = await _carry(bench, "a", topic=topic, **options)
        assert message.topic == topic
        assert message.ordering_key == options.get("ordering_key")
        assert message.delivery_attempt == (1 if bench.features.counts_deliveries else None)
        assert message.published_at is None or message.published_at.tzinfo is not None
        if "deduplication_key" in options:
            assert message.deduplication_key == "d"

    @fact()
    async def test_the_callers_objects_are_left_alone(self, bench: Bench) -> None:
        """Publishing changes neither data nor attributes (EXT-08)."""
        data, attributes = {"n": [1]}, {"a": 1, "none": None}
        await _carry(bench, data, attributes=attributes)
        assert data == {"n": [1]}
        assert attributes == {"a": 1, "none": None}


async def _carry(bench: Bench, *data: object, topic: str | None = None, **options: Any) -> list[Message]:
    """Publish *data* and consume it."""
    topic = topic or await bench.new_topic()
    await bench.publish(topic, *data, **options)
    return await bench.receive(topic, len(data))
