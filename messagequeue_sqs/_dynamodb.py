"""
The only module that knows the AWS SDK's client of DynamoDB: when it is opened, its time limits, what its errors mean.

What is asked of DynamoDB, and how answers are read, is `_claim_items`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from messagequeue._errors import (
    ClosedError,
    ConfigurationError,
    ErrorCode,
    MessageQueueError,
    ProviderNotInstalledError,
)
from messagequeue.idempotency import IdempotencyStoreError

from . import _faults

if TYPE_CHECKING:
    from botocore.config import Config

#: Seconds to a connection and to an answer, and tries; a handler waits for them, and its store's time limit ends them.
CONNECT_TIMEOUT, READ_TIMEOUT, ATTEMPTS = 2.0, 4.0, 3
#: Connections at most; they are opened when they are needed.
CONNECTIONS = 100

#: What the tables for SQS do not know: another transaction has the item just now.
_TRANSACTION = "TransactionConflict"


class ConditionFailedError(Exception):
    """A write was not made: its condition does not hold.  `item` is what is there; {} where that is not said."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class DynamoClient:
    """
    One client, opened with the first call.

    Args:
        region, endpoint_url, profile: None: the ambient ones.
        client_config: Wins over what is set here.
    """

    def __init__(
        self, *, region: str | None, endpoint_url: str | None, profile: str | None, client_config: Config | None
    ) -> None:
        self._region = region
        self._endpoint_url = endpoint_url
        self._profile = profile
        self._client_config = client_config
        self._client: Any = None
        self._opening: asyncio.Lock | None = None
        self._exits = AsyncExitStack()
        self._closed = False

    async def call(self, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """
        Make one call, with the SDK's own retries.

        Raises:
            ConditionFailedError: a conditional write was not made.
            IdempotencyStoreError: the call failed; `__cause__` is the SDK's exception.
            ConfigurationError: there can be no client.
        """
        client = await self._opened()
        try:
            answer: dict[str, Any] = await getattr(client, method)(**request)
        except Exception as error:  # whatever the SDK raises: the table says what it is, the cause is kept
            if error_code(error) == "ConditionalCheckFailed":
                raise ConditionFailedError(_response(error).get("Item") or {}) from error
            raise translate(error, method, str(request.get("TableName"))) from error
        return answer

    async def close(self) -> None:
        """Close the client.  Later calls raise `ClosedError`; idempotent."""
        self._closed = True
        async with self._lock():
            self._client = None
            await self._exits.aclose()

    async def _opened(self) -> Any:
        async with self._lock():
            if self._closed:
                raise ClosedError("the DynamoDBStore is closed: close it after the consumers that use it")
            if self._client is None:
                try:
                    self._client = await self._exits.enter_async_context(self._make())
                except MessageQueueError:
                    raise
                except Exception as error:
                    fault = _faults.fault_of_class(kind.__name__ for kind in type(error).__mro__)
                    words = " ".join(str(error).split()) if fault.quote else type(error).__name__
                    raise ConfigurationError(f"the client of DynamoDB cannot be made: {words}") from error
            return self._client

    def _lock(self) -> asyncio.Lock:
        if self._opening is None:
            self._opening = asyncio.Lock()
        return self._opening

    def _make(self) -> Any:
        try:
            import aioboto3
            from aiobotocore.config import AioConfig
        except ImportError as error:
            raise ProviderNotInstalledError("DynamoDBStore needs aioboto3: pip install aioboto3") from error

        config = AioConfig(
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
        )
        if self._client_config is not None:
            config = config.merge(self._client_config)
        # Left out where nobody gave one: only then does the SDK look at AWS_ENDPOINT_URL(_DYNAMODB).
        where: dict[str, Any] = {} if self._endpoint_url is None else {"endpoint_url": self._endpoint_url}
        session = aioboto3.Session(profile_name=self._profile)
        return session.client("dynamodb", region_name=self._region, config=config, **where)


def server_time(answer: Mapping[str, Any]) -> datetime | None:
    """Return the time that an answer says it was given at, to the second; None where it says none."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
    return None


def _response(error: BaseException) -> dict[str, Any]:
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else {}


def error_code(error: BaseException) -> str:
    """Return the service's error code in its normal form, or the exception's class name."""
    code = _response(error).get("Error", {}).get("Code")
    return _faults.normal_code(str(code)) if code else type(error).__name__


def translate(error: Exception, method: str, table: str) -> IdempotencyStoreError:
    """Return what an exception of the SDK means, by the tables in `_faults`."""
    response, code = _response(error), error_code(error)
    if "Error" in response:
        fault = _faults.fault_of_code(code, response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    else:
        fault = _faults.fault_of_class(kind.__name__ for kind in type(error).__mro__)
    text = f"{method} on table {table!r} of DynamoDB failed: {code}"
    advice = _ADVICE.get(fault.code, "")
    return IdempotencyStoreError(
        f"{text} — {advice}" if advice else text, code=fault.code, retryable=fault.retryable or code == _TRANSACTION
    )


_ADVICE = {
    ErrorCode.NOT_FOUND: "it must exist in this account and region: DynamoDBStore.create_table() makes it",
    ErrorCode.ACCESS_DENIED: "allow this identity the actions that docs/idempotency.md lists",
    ErrorCode.CREDENTIALS: "no usable AWS credentials: check the credential chain",
    ErrorCode.INVALID: "is its key the text attribute `id` and no sort key?",
    ErrorCode.CONFIGURATION: "correct the AWS configuration",
}
