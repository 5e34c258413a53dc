"""`RedisStore` against a real server: what it leaves there, what its faults mean; the rest is the conformance kit's."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import uuid

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError

from messagequeue import ClosedError, ConfigurationError, ErrorCode
from messagequeue.idempotency import Claimed, ClaimLostError, Idempotency, IdempotencyStoreError, InFlight
from messagequeue.idempotency.redis import RedisStore
from tests.support.realtime import real_time
from tests.support.redis import redis_running
from tests.support.servers import free_port

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("redis")]


@pytest.fixture
def prefix():
    return f"test:{uuid.uuid4()}:"


async def claim(store, key="k", *, owner="me", lease=10.0):
    return await store.claim(key, owner=owner, fingerprint="", lease=lease)


@real_time()
async def test_every_record_has_an_end(redis_url, prefix):
    """From its first moment: a crash right after a claim leaves nothing that stays for ever (CON-26)."""
    async with Redis.from_url(redis_url) as client:
        store = RedisStore(client, prefix=prefix)

        await claim(store, lease=10)
        claimed = await client.pttl(f"{prefix}k")
        await store.renew("k", owner="me", lease=100)
        renewed = await client.pttl(f"{prefix}k")
        await store.complete("k", owner="me", ttl=1000, result=b"r")
        done = await client.pttl(f"{prefix}k")
        await claim(store, "now", lease=10)
        await store.renew("now", owner="me", lease=0)
        at_once = await client.pttl(f"{prefix}now")

    assert at_once in (-2, 0, 1)  # gone, or about to be
    assert 10_000 < claimed <= 20_000
    assert 100_000 < renewed <= 200_000
    assert 900_000 < done <= 1_000_000


@real_time()
async def test_a_server_that_forgot_the_scripts_is_given_them_again(redis_url, prefix):
    """After a restart or a failover."""
    async with Redis.from_url(redis_url) as client:
        store = RedisStore(client, prefix=prefix)
        await claim(store)
        await client.script_flush()

        assert isinstance(await claim(store, owner="other"), InFlight)


@real_time()
async def test_a_connection_that_breaks_or_a_script_that_is_forgotten_in_the_middle_costs_no_result(redis_url, prefix):
    """While the work runs: its end is recorded over a new connection, by scripts that are loaded again."""
    async with Redis.from_url(redis_url) as other, RedisStore.from_url(redis_url, prefix=prefix) as store:
        calls = Idempotency(store, namespace="n", lease=10)

        async def work():
            await other.script_flush()
            await other.client_kill_filter(_type="normal", skipme=True)
            return "result"

        for _ in range(2):
            assert await calls.run("k", work) == "result"


@pytest.mark.parametrize("loses", ["flushall", "restart"])
@real_time()
async def test_a_server_that_loses_a_claim_has_it_said(prefix, loses):
    """Evicted, flushed, or restarted without its data: the end cannot be recorded, so a copy does the work again."""
    with redis_running(enable_debug_command="local") as url:
        async with Redis.from_url(url) as other, RedisStore.from_url(url, prefix=prefix) as store:
            calls = Idempotency(store, namespace="n", lease=20)
            begun = []

            async def work():
                begun.append(1)
                if len(begun) > 1:
                    return "again"
                if loses == "flushall":
                    await other.flushall()
                else:
                    with contextlib.suppress(RedisConnectionError):
                        await other.execute_command("DEBUG", "RESTART")
                return "lost"

            with pytest.raises(ClaimLostError, match="the store has forgotten it"):
                await calls.run("k", work)
            for _ in range(2):
                assert await calls.run("k", work) == "again"
            assert len(begun) == 2


@real_time()
async def test_calls_cancelled_in_the_middle_do_not_mix_up_answers(redis_url, prefix):
    """A connection whose answer nobody read is not used again for another call."""
    async with Redis.from_url(redis_url, max_connections=1) as client:
        store = RedisStore(client, prefix=prefix)
        await claim(store, "taken", owner="other")
        for turns in range(8):
            task = asyncio.create_task(claim(store, f"k{turns}"), name="cancelled claim")
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

            assert isinstance(await claim(store, "taken"), InFlight)
            assert await claim(store, f"free{turns}") == Claimed()


@real_time()
async def test_from_url_opens_and_closes_a_client_of_its_own(redis_url, prefix):
    """And a client that was given is left open."""
    async with RedisStore.from_url(redis_url, prefix=prefix) as store:
        assert await claim(store) == Claimed()
    async with Redis.from_url(redis_url) as client:
        async with RedisStore(client, prefix=prefix) as store:
            assert isinstance(await claim(store, owner="other"), InFlight)
        assert await client.ping()


@real_time()
async def test_a_closed_store_is_refused(redis_url, prefix):
    """The client would open a connection again that nobody closes; one that was given goes on for others."""
    owning = RedisStore.from_url(redis_url, prefix=prefix)
    async with Redis.from_url(redis_url) as client:
        for store in (owning, RedisStore(client, prefix=prefix)):
            await store.release("k", owner="nobody")
            await store.close()
            await store.close()
            with pytest.raises(ClosedError, match="close it after the consumers"):
                await claim(store)


@pytest.mark.parametrize("url", ["http://localhost", "redis://user:secret/with-slash@host:6379"])
def test_a_wrong_address_is_refused_without_being_shown(url):
    """It may hold a password."""
    with pytest.raises(ConfigurationError, match="give one as redis://") as caught:
        RedisStore.from_url(url)

    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@real_time()
async def test_a_server_that_is_not_there_is_a_passing_fault():
    """Nobody listens at the port: the message comes back later."""
    async with RedisStore.from_url("redis://:secret@127.0.0.1:1/0") as store:
        with pytest.raises(IdempotencyStoreError, match="check that it runs") as caught:
            await claim(store)

    assert caught.value.code is ErrorCode.CONNECTION
    assert caught.value.retryable
    assert "secret" not in str(caught.value)


@real_time()
async def test_a_wrong_password_is_a_fault_that_stays(redis_url):
    """And is not worked around by fail_open."""
    wrong = redis_url.replace("://:", "://:no")
    async with RedisStore.from_url(wrong) as store:
        with pytest.raises(IdempotencyStoreError, match="user and password") as caught:
            await Idempotency(store, namespace="n", fail_open=True).run("k", pytest.fail)

    assert caught.value.code is ErrorCode.CREDENTIALS
    assert not caught.value.retryable


@real_time()
async def test_missing_rights_say_which_are_needed(redis_url, prefix):
    """A user with just what the text says can use the store; one without cannot."""
    rights = ["+eval", "+evalsha", "+script|load", "+time", "+hmget", "+hset", "+hdel", "+pexpire", "+del"]
    async with Redis.from_url(redis_url) as admin:
        for name, allowed in (("idempotent", rights), ("nobody", ["+ping"])):
            await admin.execute_command("ACL", "SETUSER", name, "on", ">pw", f"~{prefix}*", *allowed)
    host = redis_url.rpartition("@")[2]
    async with RedisStore.from_url(f"redis://idempotent:pw@{host}", prefix=prefix) as store:
        assert await claim(store) == Claimed()
        assert await store.renew("k", owner="me", lease=10)
        assert await store.complete("k", owner="me", ttl=10, result=None)
        assert not await store.release("k", owner="me")
    async with RedisStore.from_url(f"redis://nobody:pw@{host}", prefix=prefix) as store:
        with pytest.raises(IdempotencyStoreError, match=r"evalsha, script\|load") as caught:
            await claim(store)

    assert caught.value.code is ErrorCode.ACCESS_DENIED
    assert not caught.value.retryable


@real_time()
async def test_a_cluster_will_do(prefix):
    """Every record is one key, so each script finds all it needs on one node."""
    with redis_running(cluster_enabled="yes", cluster_port=str(free_port())) as url:
        async with Redis.from_url(url) as node:
            await node.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            while b"cluster_state:ok" not in await node.execute_command("CLUSTER", "INFO"):
                await asyncio.sleep(0.05)
        async with RedisCluster.from_url(url) as client:
            store = RedisStore(client, prefix=prefix)
            for key in "abc":
                assert await claim(store, key) == Claimed()
                assert isinstance(await claim(store, key, owner="other"), InFlight)
                assert await store.complete(key, owner="me", ttl=10, result=None)


@real_time()
async def test_a_full_server_is_a_passing_fault(redis_url, prefix):
    """No work is begun, and what was begun can be ended; it takes claims again when it has room."""
    async with Redis.from_url(redis_url) as client:
        store = RedisStore(client, prefix=prefix)
        await claim(store, "begun")
        await client.config_set("maxmemory", "1")
        try:
            with pytest.raises(IdempotencyStoreError, match="its memory is full") as caught:
                await claim(store)
            assert await store.renew("begun", owner="me", lease=10)
            assert await store.complete("begun", owner="me", ttl=10, result=b"r")
        finally:
            await client.config_set("maxmemory", "0")

        assert caught.value.code is ErrorCode.FULL
        assert caught.value.retryable
        assert await claim(store) == Claimed()


@real_time()
async def test_another_kind_of_key_in_the_way_is_not_overwritten(redis_url, prefix):
    """Somebody else's data under the store's prefix."""
    async with Redis.from_url(redis_url) as client:
        await client.set(f"{prefix}k", "theirs")
        with pytest.raises(IdempotencyStoreError) as caught:
            await claim(RedisStore(client, prefix=prefix))

        assert not caught.value.retryable
        assert await client.get(f"{prefix}k") == b"theirs"


def test_the_extra_is_asked_for_where_it_is_missing():
    """`import messagequeue.idempotency.redis` needs no redis; making a client does, and says what to install."""
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from messagequeue.idempotency.redis import RedisStore\n"
        "try: RedisStore.from_url('redis://localhost')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout.strip() == "ProviderNotInstalledError RedisStore needs redis: pip install 'messagequeue[redis]'"
