"""Claims of `messagequeue.idempotency` in a table of Amazon DynamoDB, for the processes of many machines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from messagequeue import _log_events as events
from messagequeue._errors import ConfigurationError, ErrorCode
from messagequeue.idempotency import ClaimOutcome, IdempotencyStoreError

from . import _claim_items as items
from ._dynamodb import ConditionFailedError, DynamoClient, error_code, server_time

if TYPE_CHECKING:
    from botocore.config import Config

__all__ = ["DynamoDBStore"]

#: Seconds that this machine's clock may differ from DynamoDB's before that is logged: its time comes in whole seconds,
#: and an answer takes a moment.
CLOCK_DIFFERENCE = 3.0

#: Seconds that a new table may take until it can be used, and between two looks at it.
TABLE_TIMEOUT, TABLE_PAUSE = 120.0, 1.0

#: Claims tried at most where the record that hinders one is gone, or has ended, when it is looked at.
CLAIM_TRIES = 3


class DynamoDBStore:
    """
    Keeps records as items of one table, by conditional writes: no read comes before a write.

    DynamoDB's conditions know no time of their own, so whether a claim has ended is judged by the clock of whoever asks
    for it.  The clocks of the machines must agree to within a fraction of `lease`; one that does not is logged.

    Args:
        table: Its name or ARN.  `create_table()` makes it.
        region: None: the ambient one.
        endpoint_url: Where all calls go instead of AWS.
        profile: Of the AWS configuration files; None: the ambient one.
        client_config: A `botocore.config.Config` for the SDK's client; it wins over the time limits set here (2 s to a
            connection, 4 s to an answer, 3 tries).
        clock: Seconds since 1970.

    Raises:
        ConfigurationError: *table* is empty.
    """

    def __init__(
        self,
        table: str,
        /,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        client_config: Config | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(table, str) or not table:
            raise ConfigurationError(f"table={table!r}: give the name or the ARN of a DynamoDB table")
        self._table = table
        self._clock = clock
        self._told = False
        self._client = DynamoClient(
            region=region, endpoint_url=endpoint_url, profile=profile, client_config=client_config
        )

    @property
    def max_result(self) -> int:
        """384 000 bytes: an item of DynamoDB has 400 KB at most, its key and the rest counted."""
        return items.MAX_RESULT

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        for _ in range(CLAIM_TRIES):
            now = self._clock()
            request = items.claim(self._table, key, now, owner=owner, fingerprint=fingerprint, lease=lease)
            try:
                answer = await self._client.call("put_item", request)
            except ConditionFailedError as failed:
                found = items.refused(failed.item or await self._read(key), now)
                if found is not None:
                    return found
            else:
                self._compare_clocks(answer)
                return items.granted(answer.get("Attributes") or {}, owner=owner)
        raise IdempotencyStoreError(
            f"the record of {key} changed {CLAIM_TRIES} times while it was claimed: try again", key=key
        )

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        return await self._write("update_item", items.renew(self._table, key, self._clock(), owner=owner, lease=lease))

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        request = items.complete(self._table, key, self._clock(), owner=owner, ttl=ttl, result=result)
        return await self._write("update_item", request)

    async def release(self, key: str, /, *, owner: str) -> bool:
        return await self._write("delete_item", items.release(self._table, key, owner=owner))

    async def create_table(self) -> None:
        """
        Make the table where it is missing, let it remove what has ended, and return when it can be used.

        Nothing else here needs the rights for this: CreateTable, DescribeTable, DescribeTimeToLive, UpdateTimeToLive.

        Raises:
            ConfigurationError: the table exists and has another key, or its time to live on another attribute.
            IdempotencyStoreError: a call failed, or the table was not ready within 120 s.
        """
        try:
            await self._client.call("create_table", items.table(self._table))
        except IdempotencyStoreError as error:
            if error.__cause__ is None or error_code(error.__cause__) != "ResourceInUse":
                raise
        await self._until_ready()
        described = await self._client.call("describe_time_to_live", {"TableName": self._table})
        if not items.check_expiry(self._table, described["TimeToLiveDescription"]):
            await self._client.call("update_time_to_live", items.expiry(self._table))

    async def close(self) -> None:
        """Close the client.  Later calls raise `ClosedError`; idempotent."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _write(self, method: str, request: items.Request) -> bool:
        try:
            await self._client.call(method, request)
        except ConditionFailedError:
            return False
        return True

    async def _read(self, key: str) -> items.Item:
        """Look at the record, for servers that do not say what the condition failed for."""
        answer = await self._client.call("get_item", items.read(self._table, key))
        found: items.Item = answer.get("Item") or {}
        return found

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(TABLE_TIMEOUT):
                while True:
                    described = await self._client.call("describe_table", {"TableName": self._table})
                    if items.check_table(described["Table"]):
                        return
                    await asyncio.sleep(TABLE_PAUSE)
        except TimeoutError as error:
            raise IdempotencyStoreError(
                f"table {self._table!r} is not ready after {TABLE_TIMEOUT:g} s", code=ErrorCode.UNAVAILABLE
            ) from error

    def _compare_clocks(self, answer: Any) -> None:
        theirs = server_time(answer)
        if self._told or theirs is None:
            return
        difference = self._clock() - theirs.timestamp()
        if abs(difference) > CLOCK_DIFFERENCE:
            self._told = True
            events.CLOCK_WRONG.log(
                "this machine's clock differs from DynamoDB's by about %.0f s, and claims end so much too early or too "
                "late: set it right",
                difference,
                difference=difference,
            )
