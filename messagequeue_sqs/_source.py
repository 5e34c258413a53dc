"""Receives from one queue and settles what it received; when to do so, and how often, is the runtime's decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from messagequeue import _log_events as events
from messagequeue._errors import (
    ConfigurationError,
    ConsumeError,
    DecodeError,
    ErrorCode,
    ReceiveError,
)
from messagequeue._message import Message
from messagequeue._options import ConsumeOptions
from messagequeue.driver import Capabilities, Delivery, Limits, TopicFacts

from . import _limits, _wire
from ._api import ReceivedMessage, ReceiveRequest, SqsApi
from ._dead_letter import DeadLetters
from ._facts import facts_of
from ._faults import CallError
from ._md5 import attributes_md5, body_md5
from ._queue import Queue
from ._sender import capabilities_of
from ._settling import Lease, Settler

#: Parked receives of one consumer at most; each of them holds a connection.
_MAX_RECEIVES = 50


#: The attributes that say how a queue is set up.
_FACTS = ("RedrivePolicy", "MessageRetentionPeriod")

Decode = Callable[[str, ReceivedMessage], tuple[Message, DecodeError | None]]


class SQSSource:
    """
    The `messagequeue.driver.LeaseSource` of one queue.

    Args:
        receiving: For long polls: its connections and its read timeout are for them.
        calls: For everything else, so that it never waits behind a parked poll.
        options: `visibility_timeout`, `heartbeat_interval` and what sizes the receives.
        read_timeout: Seconds after which *receiving* gives up on an answer.
        decode: What a handler gets of a received message, and why it must not, if so.
    """

    def __init__(
        self,
        receiving: SqsApi,
        calls: SqsApi,
        queue: Queue,
        options: ConsumeOptions,
        *,
        read_timeout: float,
        verify_checksums: bool = True,
        decode: Decode = _wire.decode_message,
    ) -> None:
        self._receiving = receiving
        self._calls = calls
        self._queue = queue
        self._url = queue.url
        self._fifo = queue.is_fifo
        self._capabilities = capabilities_of(queue)
        self._options = options
        self._read_timeout = read_timeout
        self._verify = verify_checksums
        self._decode = decode
        slots = math.ceil((options.concurrency + options.prefetch) / _limits.RECEIVE_MESSAGES)
        self._limits = Limits(
            batch_entries=_limits.BATCH_ENTRIES,
            receive_messages=_limits.RECEIVE_MESSAGES,
            max_receives=_MAX_RECEIVES if options.adaptive else min(_MAX_RECEIVES, slots),
        )
        given = options.visibility_timeout
        self._visibility: int | None = None if given is None else math.ceil(given)
        self._settler = Settler(calls, queue)
        self._dead_letters = DeadLetters(calls, queue, self._settler, verify_checksums=verify_checksums)
        self._asked = ["VisibilityTimeout"] if options.checks == "off" else ["VisibilityTimeout", *_FACTS]
        self._attributes: Mapping[str, str] | None = None
        self._told: set[str] = set()

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def limits(self) -> Limits:
        return self._limits

    # -- start ---------------------------------------------------------------------------------------------------

    async def start(self) -> float:
        """
        Return the lease in seconds: `visibility_timeout`, else what the queue is set to.

        Without the permission to read that, receives ask for 30 s themselves, so that the number is known and not
        guessed; with a `heartbeat_interval` of the user's own, the user must say.

        Raises:
            ConfigurationError: the lease is 0, not above `heartbeat_interval`, or must be given.
            ReceiveError: the queue's attributes cannot be read for another reason.
        """
        lease = float(self._visibility if self._visibility is not None else await self._queue_lease())
        interval = self._options.heartbeat_interval
        if lease <= 0:
            raise ConfigurationError(
                f"queue {self._queue.url} has a visibility timeout of 0 s, so that nobody can hold a message: "
                "raise it, or give visibility_timeout=..."
            )
        if interval is not None and interval >= lease:
            raise ConfigurationError(
                f"heartbeat_interval={interval!r} is not below the queue's visibility timeout of {lease:g} s: every "
                "lease would end before its first prolongation; give half of it or less, or visibility_timeout=..."
            )
        if lease < self._read_timeout:
            self._warn_once(
                events.SQS_SHORT_LEASE,
                "queue %s: the visibility timeout of %g s is below the read timeout of receives, %g s: messages of a "
                "receive whose answer is lost come back only after they were delivered to nobody",
                self._queue.url,
                lease,
                self._read_timeout,
            )
        return lease

    async def _queue_lease(self) -> int:
        try:
            attributes = await self._calls.get_queue_attributes(self._queue.url, self._asked)
        except CallError as error:
            if error.fault.code is not ErrorCode.ACCESS_DENIED:
                raise self._receive_error(error) from error.origin
            attributes = {}
        self._attributes = attributes
        text = attributes.get("VisibilityTimeout", "")
        return int(text) if text.isdigit() else self._chosen_lease()

    def _chosen_lease(self) -> int:
        if self._options.heartbeat_interval is not None:
            raise ConfigurationError(
                f"heartbeat_interval={self._options.heartbeat_interval!r} needs the lease, and the visibility timeout "
                f"of queue {self._queue.url} may not be read: give visibility_timeout=..., or grant "
                "sqs:GetQueueAttributes"
            )
        self._visibility = _limits.VISIBILITY_DEFAULT
        self._warn_once(
            events.SQS_UNKNOWN_LEASE,
            "queue %s: its visibility timeout may not be read (sqs:GetQueueAttributes); receives ask for %d s",
            self._queue.url,
            self._visibility,
        )
        return self._visibility

    async def facts(self) -> TopicFacts:
        """
        As the protocol says: one GetQueueAttributes for the queue, which `start()` may have made, and one for its
        dead-letter queue.

        Raises:
            CallError: the queue's attributes may not be read.
        """
        attributes = self._attributes
        if attributes is None:
            attributes = await self._calls.get_queue_attributes(self._queue.url, [*_FACTS])
        return await facts_of(attributes, self._queue, self._calls)

    # -- receive -------------------------------------------------------------------------------------------------

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        """
        Return up to 10 messages.  *wait* is rounded up to whole seconds, at most 20.

        A message that SQS puts into one answer twice is two deliveries, each with a handle of its own.
        """
        request: ReceiveRequest = {
            "QueueUrl": self._queue.url,
            "MaxNumberOfMessages": min(max_messages, _limits.RECEIVE_MESSAGES),
            "WaitTimeSeconds": min(math.ceil(wait), _limits.WAIT_MAX),
            # AttributeNames, the older name of the second, is deprecated since May 2024.
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
        if self._visibility is not None:
            request["VisibilityTimeout"] = self._visibility
        try:
            received = await self._receiving.receive_message(request)
        except CallError as error:
            raise self._receive_error(error) from error.origin
        delivery = self._delivery
        return [delivery(raw) for raw in received]

    def _delivery(self, raw: ReceivedMessage) -> Delivery:
        message, fault = self._decode(self._url, raw)
        if self._fifo and message.ordering_key is None:
            self._warn_once(
                events.SQS_NO_GROUP,
                "queue %s is FIFO and gave message %s without MessageGroupId: it is handled on its own",
                self._queue.url,
                message.id,
            )
        if fault is None and self._verify:
            # Bytes that were made of the text are not made again.  Of ASCII text, those of base64 and those from within
            # an envelope are fewer; of other text they can be as many by chance.
            text, body = raw.get("Body", ""), message.body
            came = body if len(body) == len(text) and text.isascii() else text.encode()
            expected = raw.get("MD5OfBody")
            if (expected and expected != body_md5(came)) or raw.get("MD5OfMessageAttributes"):
                fault = self._checksum_fault(raw, message, came)
        return Delivery(message, raw, fault)

    def _checksum_fault(self, raw: ReceivedMessage, message: Message, came: bytes) -> DecodeError | None:
        body, attributes = raw.get("MD5OfBody"), raw.get("MD5OfMessageAttributes")
        if body and body != body_md5(came):
            what = "body"
        elif attributes and attributes != attributes_md5(raw.get("MessageAttributes", {})):
            what = "attributes"
        else:
            return None
        return DecodeError(
            f"message {message.id}: the MD5 of its {what} is not the one that SQS gave with it",
            topic=self._queue.url,
            about=message,
            code=ErrorCode.CHECKSUM,
        )

    def _receive_error(self, error: CallError) -> ReceiveError:
        fault = error.fault
        return ReceiveError(
            str(error), topic=self._queue.url, code=fault.code, retryable=fault.retryable, fatal=fault.fatal
        )

    # -- settle --------------------------------------------------------------------------------------------------

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        return await self._settler.delete(_leases(leases))

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        """As the protocol says; *after* is rounded up to whole seconds, at most 43 200."""
        return await self._settler.change(_leases(leases), math.ceil(after))

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        """
        As the protocol says; *by* is rounded down to whole seconds, at least 1.

        SQS refuses what would pass 12 h since the receive; it does not shorten it.
        """
        return await self._settler.change(_leases(leases), max(1, int(by)))

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        [held] = _leases([lease])
        return await self._dead_letters.move(held, message, reason, error)

    async def close(self) -> None:
        """Nothing belongs to the topic alone: the clients are the provider's."""

    def _warn_once(self, event: events.Event, text: str, *values: object) -> None:
        if event.name not in self._told:
            self._told.add(event.name)
            event.log(text, *values, topic=self._queue.url)


def _leases(leases: Sequence[object]) -> list[Lease]:
    mine = [cast(Lease, lease) for lease in leases if type(lease) is dict]
    if len(mine) != len(leases):
        raise TypeError("a lease is what receive() of this source returned with the message")
    return mine
