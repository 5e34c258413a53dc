"""`messagequeue serve`, as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messagequeue_sqs.server._beside import environment_for

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and its address; end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "messagequeue", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def posted(url: str, action: str, **params: object) -> tuple[int, object]:
    headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    request = urllib.request.Request(url, json.dumps(params).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or "{}")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_command_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    """It says where, makes the declared queues, logs in lines of JSON, and exits with 0."""
    file = tmp_path / "queues.toml"
    file.write_text("[queues.orders]\n")
    with serving("--queues", str(file), "--log-json") as (process, url):
        status, listed = posted(url, "ListQueues")
        process.send_signal(number)
        _, log = process.communicate(timeout=10)

    assert (status, listed) == (200, {"QueueUrls": [f"{url}/000000000000/orders"]})
    assert process.returncode == 0
    assert json.loads(log.splitlines()[0])["url"] == url


def test_command_answers_soon() -> None:
    """Within a second on any machine; a third of that on an idle one."""
    started = time.monotonic()
    with serving() as (_, url):
        assert posted(url, "ListQueues")[0] == 200
        assert time.monotonic() - started < 3


def test_command_checks_signatures_where_it_has_keys() -> None:
    """They come by the environment."""
    with serving(MESSAGEQUEUE_SERVE_KEYS="AKID:secret\nAKID2:other") as (_, url):
        assert posted(url, "ListQueues")[0] == 403


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--queues", "nowhere.toml"], {}, "nowhere.toml"),
        ([], {"MESSAGEQUEUE_SERVE_KEYS": "x"}, "a line is no ID:SECRET"),
        (["--account", "7"], {}, "give twelve digits"),
        (["--fsync", "always"], {}, "--fsync needs --data"),
        (["--data", "x", "--memory"], {}, "not allowed with"),
        (["--data", "/dev/null/x"], {}, "the data folder '/dev/null/x' cannot be used"),
    ],
)
def test_command_says_what_is_wrong(arguments: list[str], environment: dict[str, str], says: str) -> None:
    """And exits with 2."""
    with serving(*arguments, **environment) as (process, url):
        _, log = process.communicate(timeout=10)

    assert (url, process.returncode) == ("", 2)
    assert says in log


def test_command_says_that_its_address_is_taken() -> None:
    """And exits with 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serving("--port", str(taken.getsockname()[1])) as (process, _):
            _, log = process.communicate(timeout=10)

    assert process.returncode == 1
    assert "cannot listen on 127.0.0.1:" in log


def test_command_keeps_what_it_answered_in_its_folder(tmp_path: Path) -> None:
    """After SIGKILL as after SIGTERM; a changed declaration changes the queue, and what it does not name stays."""
    file, data = tmp_path / "queues.toml", tmp_path / "data"
    arguments = ("--queues", str(file), "--data", str(data), "--log-json")
    file.write_text('[queues.orders]\nDelaySeconds = 7\ntags = { a = "b" }\n')
    with serving(*arguments) as (process, url):
        status, sent = posted(url, "SendMessage", QueueUrl="orders", MessageBody="x", DelaySeconds=0)
        posted(url, "SetQueueAttributes", QueueUrl="orders", Attributes={"VisibilityTimeout": "77"})
        process.kill()
        _, log = process.communicate(timeout=10)
    file.write_text('[queues.orders]\nDelaySeconds = 8\ntags = { c = "d" }\n')
    with serving(*arguments) as (process, url):
        _, received = posted(url, "ReceiveMessage", QueueUrl="orders")
        _, described = posted(url, "GetQueueAttributes", QueueUrl="orders", AttributeNames=["All"])
        _, tags = posted(url, "ListQueueTags", QueueUrl="orders")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)

    assert status == 200
    assert json.loads(log.splitlines()[0])["data"] == str(data)
    assert [message["MessageId"] for message in received["Messages"]] == [sent["MessageId"]]  # type: ignore[index]
    attributes = described["Attributes"]  # type: ignore[index]
    assert (attributes["DelaySeconds"], attributes["VisibilityTimeout"]) == ("8", "77")
    assert tags == {"Tags": {"a": "b", "c": "d"}}
    assert process.returncode == 0
    assert sorted(path.name for path in data.iterdir()) == ["lock", "queues.sqlite3"]


TELLS = """
import os, sys, urllib.request
with urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL_SQS"] + "/health") as answer:
    print(answer.status, *(os.environ.get(name, "-") for name in sys.argv[1:]))
sys.exit(7)
"""


def test_command_runs_another_beside_it_and_exits_as_that_does() -> None:
    """It is told the address, and has credentials and a region where the environment has none."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "messagequeue", "serve", "--region", "eu-west-1", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", TELLS, *names],
        capture_output=True,
        text=True,
        timeout=30,
        env={**kept, "PYTHONPATH": str(ROOT)},
    )

    assert (done.stdout, done.returncode) == ("200 any any eu-west-1\n", 7)


def test_command_passes_sigterm_on_to_the_one_beside_it() -> None:
    """Its end is then the end of both, told as shells tell it; and what cannot be run is 127."""
    prints = "import signal; print('ready', flush=True); signal.pause()"
    with serving("--", sys.executable, "-c", prints) as (process, line):
        assert line == "ready"
        process.terminate()
        assert process.wait(10) == 128 + signal.SIGTERM
    with serving("--", "no-such-program") as (process, _):
        _, log = process.communicate(timeout=10)

    assert process.returncode == 127
    assert "cannot run no-such-program" in log


def test_environment_of_a_command_names_a_key_that_is_known() -> None:
    """Where there are keys, one of them; else the caller's own, and a region that is chosen already stays."""
    own = {"AWS_PROFILE": "mine", "AWS_REGION": "ap-south-1", "AWS_SESSION_TOKEN": "t"}
    given = environment_for("http://here", "us-east-1", None, own)
    keyed = environment_for("http://here", "us-east-1", {"A": "B"}, own)

    address = dict.fromkeys(("AWS_ENDPOINT_URL_SQS", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS"), "http://here")
    assert given == own | address
    assert keyed["AWS_ACCESS_KEY_ID"] == "A"
    assert keyed["AWS_SECRET_ACCESS_KEY"] == "B"
    assert "AWS_SESSION_TOKEN" not in keyed
