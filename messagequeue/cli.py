"""
The command `messagequeue`, or `python -m messagequeue`: what is installed, does a configuration work, serve SQS.

Not for running consumers: that is the application's own program, with `messagequeue.run()`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Iterator, Sequence

from ._config import Config
from ._errors import ConfigurationError, MessageQueueError
from ._open import open_consumers, open_publishers
from ._registry import find_provider, provider_names
from ._settings import Field, option_fields
from ._version import __version__

#: Exit codes: everything is well; the broker did not answer; the configuration or the command line is wrong.
OK, FAILED, WRONG = 0, 1, 2

#: What shells report of a program that was ended by SIGPIPE.
PIPE_CLOSED = 141

_SERVE = "messagequeue_sqs.server.command"

#: Seconds that `check` waits for each half.
CHECK_TIMEOUT = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with *argv* (default: the process's arguments) and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["serve"]:
        return _serve(given[1:])
    args = _parser().parse_args(given)
    try:
        if args.command == "providers":
            _write(_providers(args.name))
            return OK
        return asyncio.run(_check(_config(args), args.timeout))
    except ConfigurationError as exc:
        return _fail(str(exc), WRONG)
    except BrokenPipeError:
        # Nobody reads on, such as `| head`.  Python would say so once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="messagequeue", description="Look at providers and configurations.")
    parser.add_argument("--version", action="version", version=f"messagequeue {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    providers = commands.add_parser("providers", help="list the installed providers and their options")
    providers.add_argument("name", nargs="?", help="only this one")
    check = commands.add_parser(
        "check",
        help="read a configuration and ask its brokers whether they answer",
        description="Reads the environment unless told otherwise.  Exits with 0 where both halves answer, 1 where one "
        "does not, 2 where the configuration is wrong.",
    )
    commands.add_parser("serve", help="answer as Amazon SQS does, on this machine", add_help=False)
    source = check.add_mutually_exclusive_group()
    source.add_argument("--url", help="read this URL instead, such as sqs://?region=eu-west-1")
    source.add_argument("--toml", metavar="FILE", help="read this file instead")
    check.add_argument(
        "--timeout", type=float, default=CHECK_TIMEOUT, metavar="SECONDS", help="for each half (%(default)s)"
    )
    return parser


def _serve(argv: Sequence[str]) -> int:
    """The server belongs to the SQS package, which this one does not know: it is looked up when it is asked for."""
    try:
        command = importlib.import_module(_SERVE)
    except ModuleNotFoundError as exc:
        if not _SERVE.startswith(exc.name or " "):
            raise
        return _fail(f"`serve` needs the package {_SERVE.partition('.')[0]}: install messagequeue whole", WRONG)
    code: int = command.main(argv)
    return code


def _config(args: argparse.Namespace) -> Config:
    if args.url is not None:
        return Config.from_url(args.url)
    return Config.from_env() if args.toml is None else Config.from_toml(args.toml)


def _providers(name: str | None) -> Iterator[str]:
    for known in provider_names() if name is None else [name]:
        yield known
        try:
            yield from (f"  {_described(option)}" for option in option_fields(find_provider(known).config))
        except ConfigurationError as exc:
            if name is not None:
                raise
            yield f"  ({exc})"


def _described(option: Field) -> str:
    unit = option.rule.get("unit")
    default = f"{option.default!r}{f' {unit}' if unit and option.default is not None else ''}"
    return f"{option.key} = {default}  {option.rule.get('doc', '')}".rstrip()


async def _check(config: Config, timeout: float) -> int:
    publisher = await _answers("publisher", config, timeout)
    consumer = await _answers("consumer", config, timeout)
    return OK if publisher and consumer else FAILED


async def _answers(half: str, config: Config, timeout: float) -> bool:
    name = getattr(config, half).provider
    try:
        async with asyncio.timeout(timeout):
            async with open_publishers(config) if half == "publisher" else open_consumers(config) as provider:
                await provider.ping()
    except ConfigurationError:
        raise
    except (MessageQueueError, TimeoutError) as exc:
        _fail(f"{half}: {name}: {str(exc) or f'no answer within {timeout:g} s'}", FAILED)
        return False
    _write([f"{half}: {name}: OK"])
    return True


def _write(lines: Sequence[str] | Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"messagequeue: {message}\n")
    return code
