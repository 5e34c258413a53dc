"""The publishing half of large payloads: which bodies go to S3, under which key; not how a message is sent."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from messagequeue._errors import InvalidMessageError, MessageTooLargeError, PublishError
from messagequeue._message import AttributeValue, Receipt
from messagequeue.driver import Capabilities, EncodedMessage, Limits, Sender

from . import _wire
from ._faults import CallError
from ._pointer import (
    LEGACY_SIZE_ATTRIBUTE,
    SHARED_ENDING,
    SIZE_ATTRIBUTE,
    SIZE_ATTRIBUTES,
    Pointer,
    derived_key,
    write_pointer,
)
from ._s3_api import PayloadStats, S3Api
from ._s3_config import S3Payloads


@dataclass(slots=True)
class Upload:
    """A body on its way to S3; `body` is let go of when it is there."""

    pointer: Pointer
    body: bytes
    done: bool = False


@dataclass(frozen=True, slots=True)
class OffloadedMessage(EncodedMessage):
    """A message that points to where its body is.  `upload` is that body, the same however often it is sent."""

    upload: Upload | None = None


class OffloadingSender:
    """
    A `Sender`, and a stage before another one: what is above the threshold is put into S3, and a pointer is sent.

    The key is decided once for each message, so that sending it again leaves no second object: chance where the broker
    does not deduplicate; derived from the deduplication key where there is one; else, on a topic that deduplicates by
    content, from the content, for the broker sees only the pointer.

    Args:
        sender: Sends the pointers.
        store: Where bodies are put.
        topic: What keys are derived from beside the message, and what errors are about.
        threshold: Bytes of body and attributes that *sender* still gets as they are.
        shared: Several queues get what is published here, so that no consumer may delete it.
    """

    def __init__(
        self,
        sender: Sender,
        store: S3Api,
        options: S3Payloads,
        topic: str,
        *,
        threshold: int,
        shared: bool = False,
        stats: PayloadStats | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        if options.bucket is None:
            raise ValueError("payloads.bucket is not set, so there is nowhere to put a body")
        self._sender = sender
        self._store = store
        self._options = options
        self._bucket = options.bucket
        self._topic = topic
        self._threshold = threshold
        self._shared = shared
        self._stats = PayloadStats() if stats is None else stats
        self._new_id = new_id

    @property
    def capabilities(self) -> Capabilities:
        return self._sender.capabilities

    @property
    def limits(self) -> Limits:
        return self._sender.limits

    # -- before it is sent ----------------------------------------------------------------------------------------

    def prepare(self, message: EncodedMessage, /) -> EncodedMessage:
        """
        Return *message* as it is, or what points to its body.

        Raises:
            InvalidMessageError: a rule of the broker is broken, or an attribute is one of those that are set here.
            MessageTooLargeError: the body is above `S3Payloads.max_size`.
        """
        reserved = [name for name in SIZE_ATTRIBUTES if message.attributes and name in message.attributes]
        if reserved:
            raise InvalidMessageError(
                f"attribute {reserved[0]!r} is set by this library where a body is in S3: drop it"
            )
        try:
            size = self._sender.measure(message)
        except MessageTooLargeError as error:
            size = error.size
        return message if size <= self._threshold else self._offloaded(message)

    def measure(self, message: EncodedMessage, /) -> int:
        return self._sender.measure(message)

    def _offloaded(self, message: EncodedMessage) -> OffloadedMessage:
        # The object holds what the message's body would have been: Amazon's clients put it back as text.
        text, encoding = _wire.encode_body(message.body)
        body = text.encode()
        if len(body) > self._options.max_size:
            raise MessageTooLargeError(
                f"the body has {len(body)} bytes; payloads.max_size is {self._options.max_size}: raise it here and for "
                "the consumers, or publish less",
                size=len(body),
                limit=self._options.max_size,
            )
        pointer = Pointer(self._bucket, self._key(message, body))
        legacy = self._options.legacy
        attributes: dict[str, AttributeValue] = dict(message.attributes or {})
        attributes[LEGACY_SIZE_ATTRIBUTE if legacy else SIZE_ATTRIBUTE] = len(body)
        if encoding is not None:
            attributes[_wire.Mark(_wire.ENCODING_ATTRIBUTE)] = encoding
        return OffloadedMessage(
            write_pointer(pointer, legacy=legacy),
            message.ordering_key,
            message.deduplication_key,
            message.delay,
            attributes,
            message.traceparent,
            upload=Upload(pointer, body),
        )

    def _key(self, message: EncodedMessage, body: bytes) -> str:
        prefix, shared = self._options.prefix, self._shared
        if message.deduplication_key is not None:
            parts = self._topic, message.ordering_key or "", message.deduplication_key
            return derived_key(prefix, *parts, body=body, shared=shared)
        if self.capabilities.deduplication:
            # The broker compares pointers: equal bodies must have equal ones.  Beyond its window they are messages of
            # their own, which then have one object between them.
            return derived_key(prefix, self._topic, body=body, shared=True)
        return f"{prefix}{self._new_id()}{SHARED_ENDING if shared else ''}"

    # -- sending --------------------------------------------------------------------------------------------------

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        """
        Put the bodies that are not there yet, all at the same time, then send the messages whose bodies are.

        A message whose body cannot be put fails alone; where trying again may help, later ones of its ordering key are
        held back with it.
        """
        failed = await self._put_all(messages)
        if not failed:
            return await self._sender.send(messages)
        held = self._held_back(messages, failed)
        sendable = [message for at, message in enumerate(messages) if at not in held]
        results = iter(await self._sender.send(sendable) if sendable else ())
        return [held[at] if at in held else next(results) for at in range(len(messages))]

    async def close(self) -> None:
        await self._sender.close()

    async def _put_all(self, messages: Sequence[EncodedMessage]) -> dict[int, PublishError]:
        uploads = {
            at: message.upload
            for at, message in enumerate(messages)
            if isinstance(message, OffloadedMessage) and message.upload is not None and not message.upload.done
        }
        if not uploads:
            return {}
        async with asyncio.TaskGroup() as puts:
            tasks = {
                at: puts.create_task(self._put(upload), name=f"messagequeue put {upload.pointer}")
                for at, upload in uploads.items()
            }
        return {at: error for at, task in tasks.items() if (error := task.result()) is not None}

    async def _put(self, upload: Upload) -> PublishError | None:
        pointer = upload.pointer
        sha256 = base64.b64encode(hashlib.sha256(upload.body).digest()).decode("ascii")
        try:
            await self._store.put_object(pointer.bucket, pointer.key, upload.body, sha256=sha256)
        except CallError as error:
            fault = error.fault
            failure = PublishError(
                f"the body could not be put into S3, so nothing was sent: {error}",
                topic=self._topic,
                code=fault.code,
                retryable=fault.retryable,
            )
            failure.__cause__ = error.origin
            return failure
        upload.done, upload.body = True, b""
        self._stats.put += 1
        return None

    def _held_back(
        self, messages: Sequence[EncodedMessage], failed: dict[int, PublishError]
    ) -> dict[int, PublishError]:
        """Return *failed* with what must wait for those of them that are tried again, by position."""
        if not self.capabilities.ordering:
            return failed
        held, waiting = dict(failed), dict[str, PublishError]()
        for at, message in enumerate(messages):
            key = message.ordering_key
            if key is None:
                continue
            if at in failed and failed[at].retryable:
                waiting.setdefault(key, failed[at])
            elif at not in failed and key in waiting:
                first = waiting[key]
                held[at] = PublishError(
                    f"not sent, for an earlier message of its ordering key was not: {first}",
                    topic=self._topic,
                    code=first.code,
                    retryable=True,
                )
        return held
