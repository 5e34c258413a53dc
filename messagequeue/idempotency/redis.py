"""
Claims in Redis, for the processes of many machines; the only module that knows the `redis` package.

Each method is one script, which the server runs as one step, by its own clock: the clocks of the clients do not matter.
A record is a hash that Redis removes by itself.
"""

from __future__ import annotations

import importlib.util
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .._errors import ClosedError, ConfigurationError, ErrorCode, MessageQueueError, ProviderNotInstalledError
from ._errors import IdempotencyStoreError
from ._records import MAX_RESULT
from ._store import Claimed, ClaimOutcome, Done, InFlight

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

__all__ = ["RedisStore"]

#: What the names of records begin with, where nobody says otherwise.
PREFIX = "messagequeue:idempotency:"

# A server whose memory is full refuses a script's first write where that needs memory (HSET), and none after it.  So
# claims, which begin with one, are refused then; renewals and completions, which begin with PEXPIRE, are not.
#
# An end that has passed already (PEXPIRE of 0) would remove the record, and what is written next would have none.
#
# In whole milliseconds, which a Lua number holds exactly.  Values in answers are text: Redis cuts numbers to integers.
_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# KEYS: record.  ARGV: owner, fingerprint, lease.
_CLAIM = f"""{_NOW}
local old = redis.call('HMGET', KEYS[1], 'owner', 'state', 'ends_at', 'fingerprint', 'result')
local took_over = 0
if old[1] then
  local lasts = now < tonumber(old[3])
  if lasts and old[2] == 'done' then return {{'done', old[4], old[5] or ''}} end
  if old[1] ~= ARGV[1] then
    if lasts then return {{'in flight', old[4], tostring(old[3] - now)}} end
    if old[2] == 'claimed' then took_over = 1 end
  end
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'state', 'claimed', 'ends_at', now + ARGV[3], 'fingerprint', ARGV[2])
redis.call('HDEL', KEYS[1], 'result')
redis.call('PEXPIRE', KEYS[1], math.max(1, 2 * ARGV[3]))
return {{'claimed', took_over}}
"""

# KEYS: record.  ARGV: owner, lease.
_RENEW = f"""{_NOW}
local old = redis.call('HMGET', KEYS[1], 'owner', 'state')
if old[1] ~= ARGV[1] or old[2] ~= 'claimed' then return 0 end
redis.call('PEXPIRE', KEYS[1], math.max(1, 2 * ARGV[2]))
redis.call('HSET', KEYS[1], 'ends_at', now + ARGV[2])
return 1
"""

# KEYS: record.  ARGV: owner, ttl, result.
_COMPLETE = f"""{_NOW}
local old = redis.call('HMGET', KEYS[1], 'owner', 'state')
if old[1] ~= ARGV[1] then return 0 end
if old[2] == 'done' then return 1 end
redis.call('PEXPIRE', KEYS[1], math.max(1, ARGV[2]))
redis.call('HSET', KEYS[1], 'state', 'done', 'ends_at', now + ARGV[2], 'result', ARGV[3])
return 1
"""

# KEYS: record.  ARGV: owner.
_RELEASE = """
local old = redis.call('HMGET', KEYS[1], 'owner', 'state')
if old[1] ~= ARGV[1] or old[2] ~= 'claimed' then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""


class RedisStore:
    """
    Keeps records in a Redis server or cluster; tested with Redis 7.

    Args:
        client: A `redis.asyncio.Redis` or `RedisCluster`, which stays its maker's to close.  Give it time limits
            (`socket_timeout`); whether it decodes responses does not matter.
        prefix: What the names of records begin with.

    Every record is one key, so its server must not evict keys (`maxmemory-policy noeviction`), or done work is done
    again.
    """

    def __init__(self, client: Redis | RedisCluster, /, *, prefix: str = PREFIX) -> None:
        self._client = client
        self._owns = False
        self._closed = False
        self._prefix = prefix
        self._claim, self._renew, self._complete, self._release = (
            client.register_script(text) for text in (_CLAIM, _RENEW, _COMPLETE, _RELEASE)
        )

    @classmethod
    def from_url(cls, url: str, /, *, prefix: str = PREFIX, **options: Any) -> Self:
        """
        Return a store with a client of its own, which `close()` closes.

        Args:
            url: As of `redis.asyncio.Redis.from_url()`: `redis://host:6379/0`, `rediss://`, `unix://`.
            options: As of the same; time limits are 5 s where none are given.

        Raises:
            ProviderNotInstalledError: the extra `redis` is not installed.
            ConfigurationError: *url* is none.
        """
        if importlib.util.find_spec("redis") is None:
            raise ProviderNotInstalledError("RedisStore needs redis: pip install 'messagequeue[redis]'")
        from redis.asyncio import Redis

        options = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0} | options
        try:
            client = Redis.from_url(url, **options)
        except ValueError:  # its text may hold a part of the address, and so of a password
            raise ConfigurationError("the address of Redis is none: give one as redis://host:6379/0") from None
        store = cls(client, prefix=prefix)
        store._owns = True
        return store

    @property
    def max_result(self) -> int:
        """1 MiB."""
        return MAX_RESULT

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        answer = await self._run(self._claim, key, owner, fingerprint, _milliseconds(lease))
        match _text(answer[0]):
            case "claimed":
                return Claimed(bool(answer[1]))
            case "done":
                return Done(_text(answer[1]), _result(_text(answer[2])))
            case _:
                return InFlight(float(_text(answer[2])) / 1000, _text(answer[1]))

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        return bool(await self._run(self._renew, key, owner, _milliseconds(lease)))

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        # As text with a mark before it: a client that decodes responses would stumble over bytes, and "" is nothing.
        kept = "" if result is None else "=" + b64encode(result).decode()
        return bool(await self._run(self._complete, key, owner, _milliseconds(ttl), kept))

    async def release(self, key: str, /, *, owner: str) -> bool:
        return bool(await self._run(self._release, key, owner))

    async def close(self) -> None:
        """
        Close the client that `from_url()` made; one that was given is left as it is.

        Later calls raise `ClosedError`; idempotent.
        """
        self._closed = True
        if self._owns:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, script: Callable[..., Awaitable[Any]], key: str, *values: str | int) -> Any:
        if self._closed:  # the client would open a connection again
            raise ClosedError("the RedisStore is closed: close it after the consumers that use it")
        try:
            return await script(keys=[self._prefix + key], args=values)
        except Exception as error:  # whatever the client raises: the table says what it is, the cause is kept
            raise _fault(error) from error


def _milliseconds(seconds: float) -> int:
    return ceil(seconds * 1000)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _result(kept: str) -> bytes | None:
    return b64decode(kept[1:]) if kept else None


# By class name, the most special first met in the class's bases wins; so that nothing here imports the client.
_CLASSES: dict[str, tuple[ErrorCode, bool, str]] = {
    "AuthenticationError": (ErrorCode.CREDENTIALS, False, "check user and password"),
    "AuthorizationError": (ErrorCode.ACCESS_DENIED, False, "check the user's rights"),
    "NoPermissionError": (
        ErrorCode.ACCESS_DENIED,
        False,
        "allow eval, evalsha, script|load, time, hmget, hset, hdel, pexpire and del on the keys of the store's prefix",
    ),
    "OutOfMemoryError": (ErrorCode.FULL, True, "its memory is full: give it more, or lower ttl"),
    "ConnectionError": (ErrorCode.CONNECTION, True, "check that it runs and can be reached"),
    "TimeoutError": (ErrorCode.CONNECTION, True, "it did not answer in time"),
    "BusyLoadingError": (ErrorCode.UNAVAILABLE, True, "it is starting"),
    "ReadOnlyError": (ErrorCode.UNAVAILABLE, True, "this is a replica: it was, or must be, promoted"),
    "TryAgainError": (ErrorCode.UNAVAILABLE, True, "the cluster is moving the key"),
    "ClusterDownError": (ErrorCode.UNAVAILABLE, True, "the cluster is down"),
    "MasterDownError": (ErrorCode.UNAVAILABLE, True, "its master is down"),
    "ResponseError": (ErrorCode.INVALID, False, "it refused the script"),
    "OSError": (ErrorCode.CONNECTION, True, "check that it runs and can be reached"),
}


def _fault(error: Exception) -> MessageQueueError:
    kinds: Sequence[type] = type(error).__mro__
    code, retryable, advice = next(
        (_CLASSES[kind.__name__] for kind in kinds if kind.__name__ in _CLASSES),
        (ErrorCode.OTHER, False, "see the cause"),
    )
    # Its type, never its text, which may hold the address with a password.
    return IdempotencyStoreError(
        f"Redis did not do what it was asked ({type(error).__name__}): {advice}", code=code, retryable=retryable
    )
