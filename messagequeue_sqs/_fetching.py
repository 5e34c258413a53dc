"""The consuming half of large payloads: bodies are fetched before the handler runs, and deleted after their message."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import cast

from messagequeue import _log_events as events
from messagequeue._errors import ConsumeError, DecodeError, Discard, ErrorCode
from messagequeue._message import Message
from messagequeue._protocols import Handler
from messagequeue.driver import Capabilities, CheckedSource, Delivery, LeaseSource, Limits, TopicFacts
from messagequeue.runtime.tasks import OwnedTasks

from ._faults import CallError
from ._opening import PointedMessage, fetched, own_object
from ._pointer import Pointer
from ._s3_api import ObjectTooLargeError, PayloadStats, S3Api, StoredObject
from ._s3_config import S3Payloads
from ._settling import Lease

_log = logging.getLogger("messagequeue.sqs")

#: What S3 answers for an object that is not there; without s3:ListBucket it answers AccessDenied, which may mean both.
_MISSING = "NoSuchKey"
#: Calls to delete objects that may be under way; beyond it objects are left to the bucket's life-cycle rule.
DELETES = 100
#: Seconds that deletes under way have when the consumer closes.
DELETE_GRACE = 5.0


class FetchingSource:
    """
    A `LeaseSource`, and a stage over another one: messages that point to S3 reach their handler with their body.

    It is fetched when the handler's turn comes, while the lease is prolonged; not with the receive, which a large
    object would hold up for nine other messages.

    Args:
        source: Receives the pointers; its messages are read by `_opening.Opening` with the same buckets.
        store: Where bodies are.
    """

    def __init__(
        self,
        source: LeaseSource,
        store: S3Api,
        options: S3Payloads,
        topic: str,
        *,
        stats: PayloadStats | None = None,
    ) -> None:
        self._source = source
        self._store = store
        self._options = options
        self._topic = topic
        self._stats = PayloadStats() if stats is None else stats
        self._deletes = OwnedTasks(_log)

    @property
    def capabilities(self) -> Capabilities:
        return self._source.capabilities

    @property
    def limits(self) -> Limits:
        return self._source.limits

    async def start(self) -> float:
        return await self._source.start()

    async def facts(self) -> TopicFacts:
        source = self._source
        return await source.facts() if isinstance(source, CheckedSource) else TopicFacts()

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        return await self._source.receive(max_messages, wait=wait)

    # -- before the handler ---------------------------------------------------------------------------------------

    def opening(self, handler: Handler, /) -> Handler:
        """Return what fetches the body of a message that is in S3, and hands all others on as they are."""

        def open_message(message: Message) -> Awaitable[None]:
            if isinstance(message, PointedMessage):
                return self._open(message, handler)
            return handler(message)

        return open_message

    async def _open(self, message: PointedMessage, handler: Handler) -> None:
        await handler(await self.fetch(message))

    async def fetch(self, message: PointedMessage) -> Message:
        """
        Return *message* with its body.

        Raises:
            DecodeError: it cannot be had; `retryable` where that is no fault of the message.
            Discard: it is gone for certain, and `on_missing` is `delete`.
        """
        stored = await self._get(message)
        wrong = difference(message, stored)
        if wrong:
            raise self._fault(message, f"its body at {message.pointer} {wrong}", code=ErrorCode.CHECKSUM)
        opened, problem = fetched(message, stored.body)
        if problem:
            raise self._fault(message, problem)
        self._stats.fetched += 1
        return opened

    async def _get(self, message: PointedMessage) -> StoredObject:
        pointer, most = message.pointer, self._options.max_size
        if message.size > most:
            raise self._fault(
                message,
                f"its body has {message.size} bytes, and payloads.max_size is {most}: raise it, or fetch it elsewhere",
            )
        try:
            return await self._store.get_object(pointer.bucket, pointer.key, limit=most)
        except ObjectTooLargeError:
            raise self._fault(message, f"its body at {pointer} has more bytes than payloads.max_size, {most}") from None
        except CallError as error:
            if error.name == _MISSING and self._options.on_missing == "delete":
                events.PAYLOAD_MISSING.log(
                    "topic %s: the body of message %s is gone from %s; the message is deleted (on_missing)",
                    self._topic,
                    message.id,
                    pointer,
                    topic=self._topic,
                    message_id=message.id,
                )
                raise Discard("its body is gone from S3") from error.origin
            # Whatever else S3 says (denied, no such bucket, an outage) is mended without touching the message.
            lost = error.name == _MISSING
            text = f"its body cannot be fetched: {error}"
            raise self._fault(message, text, code=error.fault.code, retryable=not lost) from error.origin

    def _fault(
        self, message: Message, words: str, *, code: ErrorCode | None = None, retryable: bool = False
    ) -> DecodeError:
        text = f"message {message.id}: {words}"
        return DecodeError(text, topic=self._topic, about=message, code=code, retryable=retryable)

    # -- after the message ----------------------------------------------------------------------------------------

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        """As the protocol says; objects are deleted after it, without anybody waiting for that."""
        results = await self._source.settle(leases)
        if self._options.delete:
            settled = [lease for lease, result in zip(leases, results, strict=False) if result is None]
            self._delete_objects(settled)
        return results

    def _delete_objects(self, leases: Sequence[object]) -> None:
        buckets = defaultdict[str, list[Pointer]](list)
        for lease in leases:
            pointer = own_object(cast(Lease, lease), self._options.readable) if isinstance(lease, dict) else None
            if pointer is not None:
                buckets[pointer.bucket].append(pointer)
        for bucket, pointers in buckets.items():
            if len(self._deletes) >= DELETES:
                self._not_deleted(bucket, len(pointers), f"{DELETES} calls are under way already")
            else:
                self._deletes.spawn(self._delete(bucket, pointers), name=f"messagequeue delete {self._topic}")

    async def _delete(self, bucket: str, pointers: Sequence[Pointer]) -> None:
        try:
            failed = await self._store.delete_objects(bucket, [pointer.key for pointer in pointers])
        except CallError as error:
            self._not_deleted(bucket, len(pointers), str(error))
            return
        except asyncio.CancelledError:
            self._not_deleted(bucket, len(pointers), "the consumer was closed")
            raise
        self._stats.deleted += len(pointers) - len(failed)
        if failed:
            self._not_deleted(bucket, len(failed), ", ".join(sorted(set(failed.values()))))

    def _not_deleted(self, bucket: str, count: int, why: str) -> None:
        self._stats.delete_failures += count
        events.PAYLOADS_LEFT.log(
            "topic %s: bodies of settled messages that stay in s3://%s: %d (%s)",
            self._topic,
            bucket,
            count,
            why,
            topic=self._topic,
            count=count,
        )

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return await self._source.release(leases, after=after)

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return await self._source.extend(leases, by=by)

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        """As the protocol says; the pointer goes there, so that the object stays."""
        return await self._source.dead_letter(lease, message, reason=reason, error=error)

    async def close(self) -> None:
        """Wait for deletes under way, a few seconds at most, then close the source."""
        try:
            if self._deletes:
                await asyncio.wait(set(self._deletes), timeout=DELETE_GRACE)
            await self._deletes.cancel_all()
        finally:
            await self._source.close()


def difference(message: PointedMessage, stored: StoredObject) -> str:
    """Return how what was fetched differs from what was sent, or ""; a checksum that is absent does not differ."""
    if len(stored.body) != message.size:
        return f"has {len(stored.body)} bytes, and its message says {message.size}"
    # One of an object that was put in parts is about the parts: it ends in their number.
    theirs = stored.sha256
    if theirs and "-" not in theirs:
        ours = base64.b64encode(hashlib.sha256(stored.body).digest()).decode("ascii")
        if ours != theirs:
            return "does not have the SHA-256 that S3 gave with it"
    return ""
