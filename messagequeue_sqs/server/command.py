"""`messagequeue serve`: the server as a program; its options, its log, and when it stops."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from messagequeue import ConfigurationError
from messagequeue.broker.storage import StorageError

from .._limits import PURGE_INTERVAL, REUSE_NAME_AFTER
from ._beside import environment_for, run_beside
from ._declared import queues_from_toml
from .app import MAX_POLLS, SQSServer
from .engine import DEFAULT_ACCOUNT, DEFAULT_REGION

#: Exit codes: it was asked to stop; the address is not to be had, or the data folder cannot be written; the command
#: line or a file is wrong, or the data folder cannot be used.
OK, FAILED, WRONG = 0, 1, 2
DEFAULT_PORT = 9_324
#: Lines of `ID:SECRET`; a command line can be seen by everybody on the machine.
KEYS_VARIABLE = "MESSAGEQUEUE_SERVE_KEYS"

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({})))


def main(argv: Sequence[str]) -> int:
    """Run the server until it is told to stop, or beside a command until that ends, and return the exit code."""
    own, command = _split(argv)
    args = parser().parse_args(own)
    port = args.port if args.port is not None else 0 if command else DEFAULT_PORT
    if args.fsync is not None and args.data is None:
        return _fail("--fsync needs --data: without it nothing is kept", WRONG)
    _log_to_stderr(args.log_level, as_json=args.log_json)
    try:
        keys = _keys(os.environ.get(KEYS_VARIABLE))
        server = SQSServer(
            args.host,
            port,
            args.data,
            fsync=args.fsync or "second",
            queues=queues_from_toml(args.queues) if args.queues else None,
            keys=keys,
            account=args.account,
            region=args.region,
            auto_create=args.auto_create,
            purge_cooldown=PURGE_INTERVAL if args.cooldowns else 0.0,
            reuse_cooldown=REUSE_NAME_AFTER if args.cooldowns else 0.0,
            relaxed=args.relaxed,
            max_polls=args.max_polls,
        )
        return _run(_beside(server, command, args.region, keys) if command else _serve(server))
    except ConfigurationError as error:
        return _fail(str(error), WRONG)
    except StorageError as error:
        return _fail(str(error), FAILED)
    except OSError as error:
        return _fail(f"cannot listen on {args.host}:{port}: {error.strerror or error}", FAILED)


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Part the options of the server from the command after `--`, if any."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="messagequeue serve",
        usage="%(prog)s [options] [-- COMMAND [ARGUMENT ...]]",
        description="Answers as Amazon SQS does.  Any AWS SDK can talk to it: give it the address as endpoint URL, and "
        "any credentials.  It keeps nothing when it ends, unless it is given a data folder.",
    )
    kept = made.add_mutually_exclusive_group()
    kept.add_argument("--data", metavar="FOLDER", help="keep the queues in this folder, made where it is missing")
    kept.add_argument("--memory", action="store_true", help="keep nothing when it ends; so it is without --data")
    made.add_argument(
        "--fsync",
        choices=("second", "always"),
        help="when what was answered is forced to the disk: within a second (default), or before the answer.  Either "
        "survives the end of the process; only `always` survives a power cut whole",
    )
    made.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    made.add_argument("--port", type=int, help=f"0 for a free one ({DEFAULT_PORT}; with a COMMAND, a free one)")
    made.add_argument("--queues", metavar="FILE", help="a TOML file of queues to make at the start")
    made.add_argument("--region", default=DEFAULT_REGION, help="of requests that name none (%(default)s)")
    made.add_argument("--account", default=DEFAULT_ACCOUNT, help="of all queues (%(default)s)")
    made.add_argument("--auto-create", action="store_true", help="make queues when they are first asked for")
    made.add_argument("--cooldowns", action="store_true", help="60 s between purges and before names are used again")
    made.add_argument("--relaxed", action="store_true", help="do not check sizes and characters of messages")
    made.add_argument("--max-polls", type=int, default=MAX_POLLS, help="receives that can wait (%(default)s)")
    made.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    made.add_argument("--log-json", action="store_true", help="one JSON object a line")
    made.epilog = (
        "With a COMMAND it serves as long as that runs, tells it the address by its environment, and exits as it did.  "
        f"Access keys, one ID:SECRET a line, in {KEYS_VARIABLE}: then requests have to be signed."
    )
    return made


def _keys(text: str | None) -> Mapping[str, str] | None:
    if not text or not text.strip():
        return None
    keys = {}
    for line in text.split():
        key, colon, secret = line.partition(":")
        if not key or not colon or not secret:
            raise ConfigurationError(f"{KEYS_VARIABLE}: a line is no ID:SECRET")
        keys[key] = secret
    return keys


async def _serve(server: SQSServer) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with server:
        sys.stdout.write(f"{server.endpoint_url}\n")
        sys.stdout.flush()
        await stopped.wait()
    return OK


async def _beside(server: SQSServer, command: Sequence[str], region: str, keys: Mapping[str, str] | None) -> int:
    async with server:
        return await run_beside(command, environment_for(server.endpoint_url, region, keys, os.environ))


def _run(main: Coroutine[object, object, int]) -> int:
    """Run *main* on the faster loop where there is one; it need not be installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if importlib.util.find_spec("uvloop") is not None:
        factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def _log_to_stderr(level: str, *, as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("messagequeue")
    logger.addHandler(handler)
    logger.setLevel(level)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, its own fields included."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line: dict[str, Any] = {"time": record.created, "level": record.levelname, "message": record.getMessage()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps({**line, **extra}, default=str)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"messagequeue: {message}\n")
    return code
