"""
A DynamoDB for tests: moto's server, in a process of its own.

moto, and what its server needs, come with the extra `test`.
"""

from __future__ import annotations

import contextlib
import sys
import urllib.request
from collections.abc import Iterator

from tests.support.servers import serving

# moto answers each request on a thread and holds no lock between looking at a condition and writing, so two conditional
# writes at once can both be made.  DynamoDB serialises the writes of an item; here, all requests are.
_BOOTSTRAP = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
moto, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()
def one_by_one(environ, start_response):
    with lock:
        return list(moto(environ, start_response))
run_simple("127.0.0.1", int(sys.argv[1]), one_by_one, threaded=True)
"""


@contextlib.contextmanager
def moto_running() -> Iterator[str]:
    """Yield the address of a server that holds nothing yet."""

    def command(port: int) -> list[str]:
        return [sys.executable, "-c", _BOOTSTRAP, str(port)]

    def is_ready(port: int) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json", timeout=5) as answer:
            return answer.status == 200  # type: ignore[no-any-return]

    with serving(command, is_ready) as port:
        yield f"http://127.0.0.1:{port}"
