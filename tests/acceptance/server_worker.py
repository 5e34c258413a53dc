"""
Servers on a data folder, each a process of its own that lives until it is killed.

    python -m tests.acceptance.server_worker

Reads lines of arguments of `messagequeue serve`.  For each it forks a process that is the command, prints `pid N`,
waits for its end and prints `status N`; between them the process itself prints its address.  (A fork, so that a
hundred rounds cost no hundred imports.)
"""

from __future__ import annotations

import os
import sys

from messagequeue.broker.storage.sqlite import _store
from messagequeue.embedded import _folders  # noqa: F401 - imported before the fork
from messagequeue_sqs.server.command import main

# So small that kills meet the log's being written back, too.
_store.LOG_BYTES = 150_000


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(main(line.split()))
        print("pid", child, flush=True)
        print("status", os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    serve()
