"""A command that runs as long as the server does, and is told where it is; not how the server is set up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

#: What shells answer for a command that is not there, and add to the number of the signal that ended one.
NOT_FOUND, SIGNALLED = 127, 128
#: Where SDKs of AWS and this package's own provider look for the address.
ADDRESS_VARIABLES = ("AWS_ENDPOINT_URL_SQS", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS")


async def run_beside(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """
    Run *command* until it ends, and return its exit status as a shell does.

    SIGTERM is passed on to it.  SIGINT is not: the terminal gives that to the command itself.
    """
    try:
        child = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        sys.stderr.write(f"messagequeue: cannot run {command[0]}: {error.strerror or error}\n")
        return NOT_FOUND
    with _passing_on(child):
        status = await child.wait()
    return status if status >= 0 else SIGNALLED - status


def environment_for(
    url: str, region: str, keys: Mapping[str, str] | None, given: Mapping[str, str]
) -> Mapping[str, str]:
    """
    Return *given* with all that a client of the server needs.

    Credentials are one of *keys*; without keys, such as mean nothing, where *given* names none.
    """
    found = {**given, **dict.fromkeys(ADDRESS_VARIABLES, url)}
    if "AWS_REGION" not in given:
        found.setdefault("AWS_DEFAULT_REGION", region)
    if keys:
        found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"] = next(iter(keys.items()))
        found.pop("AWS_SESSION_TOKEN", None)
    elif "AWS_ACCESS_KEY_ID" not in given and "AWS_PROFILE" not in given:
        found["AWS_ACCESS_KEY_ID"] = found["AWS_SECRET_ACCESS_KEY"] = "any"
    return found


@contextmanager
def _passing_on(child: asyncio.subprocess.Process) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, _terminate, child)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


def _terminate(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        os.kill(child.pid, signal.SIGTERM)
