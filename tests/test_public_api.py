"""What is public: what `__all__` says, documented, and free of third-party modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import messagequeue
import messagequeue.driver
import messagequeue.handlers
import messagequeue.idempotency
import messagequeue.idempotency.redis
import messagequeue.middleware
import messagequeue.priority
import messagequeue.runtime
import messagequeue.telemetry
import messagequeue.testing
import messagequeue_sqs
import messagequeue_sqs.events
import messagequeue_sqs.idempotency
import messagequeue_sqs.sns

PUBLIC = [
    messagequeue,
    messagequeue.driver,
    messagequeue.handlers,
    messagequeue.idempotency,
    messagequeue.idempotency.redis,
    messagequeue.middleware,
    messagequeue.priority,
    messagequeue.runtime,
    messagequeue.telemetry,
    messagequeue.testing,
    messagequeue_sqs,
    messagequeue_sqs.events,
    messagequeue_sqs.sns,
    messagequeue_sqs.idempotency,
]

#: The contract of `import messagequeue`: removing one of these breaks other people's programs.
NAMES = {
    "BatchHandler",
    "ClosedError",
    "Codec",
    "Config",
    "ConfigurationError",
    "ConsumeError",
    "ConsumeKwargs",
    "ConsumeOptions",
    "Consumer",
    "ConsumerProvider",
    "DeadLetter",
    "Discard",
    "EncodeError",
    "ErrConsumerAlreadyRegistered",
    "ErrEmptyTopicName",
    "ErrorCode",
    "ErrorSink",
    "Handler",
    "HandlerError",
    "InvalidMessageError",
    "JSONCodec",
    "LeaseLostError",
    "Message",
    "MessageQueueError",
    "MessageTooLargeError",
    "Middleware",
    "Outgoing",
    "PartialFailure",
    "ProviderConfig",
    "ProviderNotInstalledError",
    "Publish",
    "PublishError",
    "PublishKwargs",
    "PublishMiddleware",
    "PublishOptions",
    "Publisher",
    "PublisherProvider",
    "Receipt",
    "ReceiveError",
    "RetryLater",
    "SettleError",
    "UnknownProviderError",
    "UnroutedError",
    "UnsupportedOptionError",
    "__version__",
    "compose",
    "find_provider",
    "open_consumers",
    "open_publishers",
    "provider_names",
    "register_provider",
    "run",
}

#: Public names that are plain aliases of types, documented where they are defined.
ALIASES = {
    "AttributeValue",
    "ClaimOutcome",
    "ErrorSink",
    "FingerprintFunction",
    "Handler",
    "KeyFunction",
    "Middleware",
    "Publish",
    "PublishMiddleware",
}


#: What their methods mean is said here once, for all that implement them.
PROTOCOLS = (
    messagequeue.Consumer,
    messagequeue.ConsumerProvider,
    messagequeue.Publisher,
    messagequeue.PublisherProvider,
    messagequeue.driver.LeaseSource,
    messagequeue.driver.Sender,
    messagequeue.idempotency.IdempotencyStore,
)

#: The contract of `import messagequeue.telemetry`.
TELEMETRY = {"INSTRUMENTS", "OUTCOMES", "Destination", "OpenTelemetry", "Telemetry"}

#: The contract of `import messagequeue.idempotency`.
IDEMPOTENCY = {
    "ClaimLostError",
    "Claimed",
    "Done",
    "FingerprintMismatchError",
    "Idempotency",
    "IdempotencyError",
    "IdempotencyStore",
    "IdempotencyStoreError",
    "InFlight",
    "InProgressError",
    "InvalidKeyError",
    "MemoryStore",
    "ResultCodec",
    "ResultNotStoredError",
    "SqliteStore",
    "body_fingerprint",
    "idempotent",
    "json_fingerprint",
    "message_key",
}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules outside of the standard library that a fresh interpreter has after *statement*."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    return {name.partition(".")[0] for name in out.split()} - sys.stdlib_module_names


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_names_what_there_is(module: ModuleType) -> None:
    """Every name in `__all__` exists, once, in sorted order."""
    names = module.__all__

    assert [name for name in names if not hasattr(module, name)] == []
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    "module", [messagequeue, messagequeue_sqs, messagequeue_sqs.sns], ids=lambda module: module.__name__
)
def test_all_names_everything_that_is_public(module: ModuleType) -> None:
    """What the package imports from its private modules without an underscore is meant to be used, so it is listed."""
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    visible = (
        {name for name in vars(module) if not name.startswith("_")} - submodules - {"annotations", "TYPE_CHECKING"}
    )

    assert visible - set(module.__all__) == set()


def test_the_contract_is_kept() -> None:
    """No name of the contract is missing from the public namespace."""
    assert NAMES - set(messagequeue.__all__) == set()
    assert IDEMPOTENCY - set(messagequeue.idempotency.__all__) == set()


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_has_a_docstring(module: ModuleType) -> None:
    """Classes and functions say what they are; so do the public methods that a class defines itself."""
    lacking = []
    for name in set(module.__all__) - ALIASES - {"__version__"}:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        if not inspect.getdoc(thing):
            lacking.append(name)
        if inspect.isclass(thing):
            methods = {key: value for key, value in vars(thing).items() if not key.startswith("_")}
            lacking += [f"{name}.{key}" for key, value in methods.items() if _undocumented(thing, key, value)]

    assert sorted(lacking) == []


def _undocumented(owner: type, key: str, value: object) -> bool:
    """Whether *value* is a method without a docstring whose meaning no base class or protocol of ours has said."""
    if not (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)):
        return False
    said = any(hasattr(other, key) for other in (*owner.__mro__[1:], *PROTOCOLS))
    return not said and not inspect.getdoc(getattr(owner, key))


def test_the_contract_of_telemetry_is_kept() -> None:
    """No name of it is missing, and every one is there where OpenTelemetry is installed."""
    assert TELEMETRY - set(messagequeue.telemetry.__all__) == set()


def test_importing_the_library_loads_no_third_party_module() -> None:
    """Not even through the provider's seam: an application that only defines handlers starts at once."""
    assert loaded_by("import messagequeue, messagequeue.driver, messagequeue.middleware") == {"messagequeue"}


def test_importing_the_library_does_not_import_the_runtime() -> None:
    """The runtime, and tenacity with it, is a provider's business."""
    code = "import sys, messagequeue; sys.exit('messagequeue.runtime' in sys.modules or 'tenacity' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_importing_the_stores_of_claims_does_not_import_their_clients() -> None:
    """They are imported when a store is opened, if they are not already."""
    loaded = loaded_by("import messagequeue.idempotency.redis, messagequeue_sqs.idempotency")

    assert loaded & {"aioboto3", "botocore", "redis"} == set()


def test_importing_the_sqs_provider_does_not_import_the_sdk() -> None:
    """aioboto3 takes most of a second to import: it waits until a queue is really used."""
    assert "aioboto3" not in loaded_by("import messagequeue_sqs")


def test_importing_the_sqs_provider_does_not_import_the_server() -> None:
    """It is part of the public namespace, and loaded by who asks for it."""
    code = (
        "import sys, messagequeue_sqs; assert 'messagequeue_sqs.server' not in sys.modules; "
        "from messagequeue_sqs import SQSServer; import messagequeue_sqs.server; "
        "sys.exit(SQSServer is not messagequeue_sqs.server.SQSServer)"
    )

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_every_module_can_be_imported() -> None:
    """None is left behind by a change elsewhere."""
    for package in (messagequeue, messagequeue_sqs):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def test_the_version_is_that_of_the_distribution() -> None:
    """A plain release number."""
    assert messagequeue.__version__[0].isdigit()
