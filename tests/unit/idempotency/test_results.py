"""`Idempotency.run()`: one result for everybody, or an error that says why there is none; and how keys are made."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue import ConfigurationError, ErrorCode
from messagequeue.idempotency import (
    FingerprintMismatchError,
    Idempotency,
    InProgressError,
    InvalidKeyError,
    MemoryStore,
    ResultNotStoredError,
)
from messagequeue.idempotency._keys import record_key
from messagequeue.testing import run_virtual


@dataclass
class Receipt:
    number: int
    lines: tuple[str, ...]


def returning(value):
    async def work():
        return value

    return work


async def never():
    raise AssertionError("the work is done again")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        ("text", "text"),
        (0, 0),
        ("", ""),
        ({"größe": [1, 2.5, None]}, {"größe": [1, 2.5, None]}),
        ((1, 2), [1, 2]),
        (Receipt(1, ("a", "b")), {"number": 1, "lines": ["a", "b"]}),
    ],
)
def test_everybody_gets_the_same_result(value, plain):
    """The first caller gets what the later ones get, not an object that only the first one sees."""

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n")

        assert await calls.run("k", returning(value)) == plain
        assert await calls.run("k", never) == plain

    run_virtual(main())


def test_a_codec_gives_objects_back():
    """For results that are more than JSON."""

    class Receipts:
        def encode(self, value, /):
            return f"{value.number}:{','.join(value.lines)}".encode()

        def decode(self, data, /):
            number, _, lines = data.decode().partition(":")
            return Receipt(int(number), tuple(lines.split(",")))

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n")
        receipt = Receipt(1, ("a", "b"))

        assert await calls.run("k", returning(receipt), codec=Receipts()) == receipt
        assert await calls.run("k", never, codec=Receipts()) == receipt

    run_virtual(main())


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("x" * 100, ErrorCode.TOO_LARGE, "104 bytes, the limit is 50"),
        ({1, 2}, ErrorCode.ENCODE, "cannot encode set as JSON: sort it into a list"),
        (b"raw", ErrorCode.ENCODE, "cannot encode bytes"),
    ],
)
def test_a_result_that_cannot_be_kept_is_an_error_and_the_work_is_done(value, code, text):
    """It is not done again; the caller who did it can still reach the value."""

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n", max_result=50)

        with pytest.raises(ResultNotStoredError, match=text) as first:
            await calls.run("k", returning(value))
        with pytest.raises(ResultNotStoredError, match="was not kept") as later:
            await calls.run("k", never)

        assert first.value.code is code
        assert first.value.value == value
        assert later.value.value is None

    run_virtual(main())


def test_a_codec_that_raises_is_a_result_that_cannot_be_kept():
    """Whatever it raises; the cause is kept."""

    class Broken:
        def encode(self, value, /):
            raise ZeroDivisionError

        def decode(self, data, /):
            raise AssertionError

    async def main():
        with pytest.raises(ResultNotStoredError, match="its codec raised ZeroDivisionError") as caught:
            await Idempotency(MemoryStore(), namespace="n").run("k", returning(1), codec=Broken())
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    run_virtual(main())


def test_a_call_under_way_is_an_error_that_says_when_to_come_back():
    """The caller decides whether it waits."""

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n", lease=60)

        async def slow():
            await asyncio.sleep(10)
            return 1

        first = asyncio.create_task(calls.run("k", slow))
        await asyncio.sleep(4)
        with pytest.raises(InProgressError) as caught:
            await calls.run("k", never)

        assert caught.value.retry_after == pytest.approx(56)
        assert caught.value.code is ErrorCode.IN_PROGRESS
        assert await first == 1

    run_virtual(main())


def test_another_fingerprint_is_an_error():
    """An amount that changed under the same order, say; no fingerprint compares nothing."""

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n")
        await calls.run("k", returning(1), fingerprint="12.50 EUR")

        with pytest.raises(FingerprintMismatchError):
            await calls.run("k", never, fingerprint="13.00 EUR")
        with pytest.raises(InvalidKeyError, match="fingerprint is a float"):
            await calls.run("k", never, fingerprint=12.5)
        assert await calls.run("k", never, fingerprint=b"12.50 EUR") == 1
        assert await calls.run("k", never) == 1

    run_virtual(main())


def test_namespaces_keep_work_apart():
    """Two kinds of work whose keys are equal."""

    async def main():
        store = MemoryStore()
        charges, mails = (Idempotency(store, namespace=name) for name in ("charges", "mails"))

        assert await charges.run("o-1", returning("charged")) == "charged"
        assert await mails.run("o-1", returning("mailed")) == "mailed"

    run_virtual(main())


def test_done_work_is_forgotten_after_its_time():
    """`ttl` seconds after it was done, it is done anew."""

    async def main():
        calls = Idempotency(MemoryStore(), namespace="n", lease=10, ttl=100)
        await calls.run("k", returning(1))
        await asyncio.sleep(99)
        assert await calls.run("k", never) == 1
        await asyncio.sleep(2)
        assert await calls.run("k", returning(2)) == 2

    run_virtual(main())


@pytest.mark.parametrize("namespace", ["", None, 1])
def test_a_namespace_is_needed(namespace):
    """Without one, two functions that share a store would share their results."""
    with pytest.raises(ConfigurationError, match="namespace="):
        Idempotency(MemoryStore(), namespace=namespace)


@pytest.mark.parametrize("key", ["", None, 1])
def test_a_key_is_needed(key):
    """Nothing is run without one."""
    with pytest.raises(InvalidKeyError):
        run_virtual(Idempotency(MemoryStore(), namespace="n").run(key, never))


TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text('[]",\\ab/é\ud800', max_size=8),
    st.builds(lambda text, times: text * times, st.text(min_size=1), st.integers(100, 600)),
)


@given(TEXTS, TEXTS.filter(bool), TEXTS, TEXTS.filter(bool))
def test_record_keys_fit_every_store_and_never_meet(namespace, key, other_namespace, other_key):
    """1 to 512 printable ASCII characters, from any text; two are equal only where both of their parts are."""
    made, other = record_key(namespace, key), record_key(other_namespace, other_key)

    assert 1 <= len(made) <= 512
    assert all(" " <= letter <= "~" for letter in made)
    assert (made == other) is ((namespace, key) == (other_namespace, other_key))


def test_record_keys_are_readable_and_stable():
    """Records outlive the program that wrote them: the form of keys must not change."""
    assert record_key("orders", "id:1") == '["orders","id:1"]'
    assert record_key("orders", "größe") == '["orders","gr\\u00f6\\u00dfe"]'
    assert record_key("orders", "x" * 600).startswith('["orders","sha256","')
    assert len(record_key("n" * 600, "x")) == 68


def test_errors_survive_pickling():
    """With everything they carry, as they cross processes."""
    for error in (
        InProgressError("busy", retry_after=3.0, key="k"),
        ResultNotStoredError("large", value=[1], key="k", code=ErrorCode.TOO_LARGE),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert vars(copy) == vars(error)
        assert str(copy) == str(error)
