"""Which module may import which, and how long modules and functions may be; read from the source, nothing imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("messagequeue", "messagequeue_sqs")

#: The layer of a module, or of every module of a package; the longest match counts.  What is not named is a composition
#: (4): it may import everything, and only its like may import it.
LAYERS = {
    "messagequeue._batch": 0,
    "messagequeue._codec": 0,
    "messagequeue._errors": 0,
    "messagequeue._message": 0,
    "messagequeue._options": 0,
    "messagequeue._protocols": 0,
    "messagequeue._version": 0,
    "messagequeue.driver": 0,
    "messagequeue.telemetry._names": 0,
    "messagequeue.telemetry._protocol": 0,
    "messagequeue._compression": 1,
    "messagequeue._trace_header": 1,
    "messagequeue.broker": 1,
    "messagequeue_sqs._api": 1,
    "messagequeue_sqs._claim_items": 1,
    "messagequeue_sqs._fast._breaker": 1,
    "messagequeue_sqs._fast._drawing": 1,
    "messagequeue_sqs._fast._http": 1,
    "messagequeue_sqs._json": 1,
    "messagequeue_sqs._fast._sigv4": 1,
    "messagequeue_sqs._fast._stats": 1,
    "messagequeue_sqs._faults": 1,
    "messagequeue_sqs._limits": 1,
    "messagequeue_sqs._md5": 1,
    "messagequeue_sqs._envelope": 1,
    "messagequeue_sqs._opening": 1,
    "messagequeue_sqs.events": 1,
    "messagequeue_sqs._pointer": 1,
    "messagequeue_sqs._queue": 1,
    "messagequeue_sqs._s3_api": 1,
    "messagequeue_sqs._wire": 1,
    "messagequeue_sqs.server._http": 1,
    "messagequeue_sqs.sns._api": 1,
    "messagequeue_sqs.sns._policy": 1,
    "messagequeue_sqs.sns._topic": 1,
    "messagequeue_sqs.sns._wire": 1,
    "messagequeue_sqs.server._signing": 1,
    "messagequeue_sqs.server.engine": 1,
    "messagequeue_sqs.server.wire": 1,
    "messagequeue.embedded._commit": 2,
    "messagequeue.embedded._config": 2,
    "messagequeue.embedded._durable": 2,
    "messagequeue.embedded._hub": 2,
    "messagequeue.embedded._sender": 2,
    "messagequeue.embedded._source": 2,
    "messagequeue.handlers": 2,
    "messagequeue.idempotency": 2,
    "messagequeue.idempotency._errors": 1,
    "messagequeue.idempotency._keys": 1,
    "messagequeue.idempotency._records": 1,
    "messagequeue.idempotency._results": 1,
    "messagequeue.idempotency._store": 1,
    "messagequeue.idempotency.redis": 3,
    "messagequeue._log_events": 2,
    "messagequeue.middleware": 2,
    "messagequeue.runtime": 2,
    "messagequeue_sqs._config": 2,
    "messagequeue_sqs._dead_letter": 2,
    "messagequeue_sqs._facts": 2,
    "messagequeue_sqs._fast._answers": 2,
    "messagequeue_sqs._fast._connection": 2,
    "messagequeue_sqs._fast._pool": 2,
    "messagequeue_sqs._fetching": 2,
    "messagequeue_sqs._offloading": 2,
    "messagequeue_sqs._s3_config": 2,
    "messagequeue_sqs._sender": 2,
    "messagequeue_sqs._settling": 2,
    "messagequeue_sqs._source": 2,
    "messagequeue_sqs._telemetry": 2,
    "messagequeue_sqs.server._clock": 2,
    "messagequeue_sqs.sns._config": 2,
    "messagequeue_sqs.sns._sender": 2,
    "messagequeue_sqs.server._connection": 2,
    "messagequeue_sqs.server._parking": 2,
    "messagequeue_sqs.server._service": 2,
    "messagequeue_sqs.server._troubles": 2,
    "messagequeue.broker.storage.sqlite": 3,
    "messagequeue.telemetry._otel": 3,
    "messagequeue_sqs._client": 3,
    "messagequeue_sqs.sns._client": 3,
    "messagequeue_sqs.sns._subscribing": 3,
    "messagequeue_sqs._dynamodb": 3,
    "messagequeue_sqs._s3_client": 3,
    "messagequeue_sqs._fast._sdk": 3,
    "messagequeue_sqs._fast._transport": 3,
}
COMPOSITION = 4

#: What values and pure cores cannot do: wait, log, look at the clock, roll dice, touch the system.
IMPURE = frozenset({"asyncio", "logging", "os", "random", "time"})
PURE_LAYERS = (0, 1)

#: The modules, or packages, that a third-party package may be imported in.
THIRD_PARTY = {
    "aioboto3": ("messagequeue_sqs._client", "messagequeue_sqs._dynamodb"),
    "aiobotocore": ("messagequeue_sqs._client", "messagequeue_sqs._dynamodb", "messagequeue_sqs._fast._sdk"),
    "backports": ("messagequeue._compression",),
    "botocore": ("messagequeue_sqs._client", "messagequeue_sqs._fast._sdk"),
    "compression": ("messagequeue._compression",),  # of the standard library from Python 3.14 on
    "msgspec": ("messagequeue.handlers._foreign",),
    "opentelemetry": ("messagequeue.telemetry._otel",),
    "orjson": ("messagequeue_sqs._json",),
    "pydantic": ("messagequeue.handlers._foreign",),
    "pytest": ("messagequeue.testing.conformance",),
    "redis": ("messagequeue.idempotency.redis",),
    "tenacity": ("messagequeue.runtime.backoff",),
}

MODULE_LINES = 450
FUNCTION_LINES = 60


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module imports when it runs."""

    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


class Sources:
    """
    The modules of some packages by their dotted names.

    Args:
        texts: Source by module; a package's own source under `<package>.__init__`.
    """

    def __init__(self, texts: dict[str, str]) -> None:
        self.trees = {name: ast.parse(text) for name, text in texts.items()}

    @classmethod
    def of(cls, root: Path, packages: tuple[str, ...]) -> Sources:
        paths = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
        return cls({".".join(path.relative_to(root).with_suffix("").parts): path.read_text() for path in paths})

    def imports(self) -> Iterator[Import]:
        """Every import of every module, except those for type checkers only."""
        for name, tree in self.trees.items():
            module = name.removesuffix(".__init__")
            package = module if name.endswith(".__init__") else module.rpartition(".")[0]
            for node in _running(tree):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        yield Import(module, alias.name, node.lineno)
                elif isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        yield Import(module, self._origin(_absolute(node, package), alias.name), node.lineno)

    def _origin(self, module: str, name: str) -> str:
        """Return the module that `from module import name` is about, through packages that only pass the name on."""
        if self._is_module(f"{module}.{name}"):
            return f"{module}.{name}"
        tree = self.trees.get(f"{module}.__init__")
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ImportFrom) and any(name == (alias.asname or alias.name) for alias in node.names):
                return self._origin(_absolute(node, module), name)
        return module

    def _is_module(self, name: str) -> bool:
        return name in self.trees or f"{name}.__init__" in self.trees


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs: all but `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield other
                yield from _running(other)
            continue
        yield node
        yield from _running(node)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def layer(module: str) -> int:
    """Return the layer of one of our modules."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((LAYERS[prefix] for prefix in prefixes if prefix in LAYERS), COMPOSITION)


def upward(sources: Sources) -> list[str]:
    """Imports of a higher layer, and of the SQS package by the broker-neutral one."""
    wrong = []
    for item in sources.imports():
        if item.target.partition(".")[0] not in PACKAGES:
            continue
        neutral = item.importer.partition(".")[0] == "messagequeue" and item.target.startswith("messagequeue_sqs")
        if neutral or layer(item.target) > layer(item.importer):
            wrong.append(f"{item} (layer {layer(item.importer)} -> {layer(item.target)})")
    return wrong


def impure(sources: Sources) -> list[str]:
    """Imports by values and pure cores of what they must not do."""
    return [
        str(item)
        for item in sources.imports()
        if layer(item.importer) in PURE_LAYERS and item.target.partition(".")[0] in IMPURE
    ]


def foreign(sources: Sources) -> list[str]:
    """Imports of third-party packages outside of their one module."""
    wrong = []
    for item in sources.imports():
        top = item.target.partition(".")[0]
        if top in PACKAGES or top in sys.stdlib_module_names:
            continue
        homes = THIRD_PARTY.get(top, ())
        if not any(f"{item.importer}.".startswith(f"{home}.") for home in homes):
            wrong.append(f"{item}; allowed in {', '.join(homes) or 'no module'}")
    return wrong


def too_long(sources: Sources) -> list[str]:
    """Functions whose code, without its docstring, has too many lines."""
    return [
        f"{name}:{node.lineno} {node.name} has {_length(node)} lines"
        for name, tree in sources.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > FUNCTION_LINES
    ]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is None:
        return total
    docstring = node.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


@pytest.fixture(scope="module")
def ours() -> Sources:
    """The packages as they are."""
    return Sources.of(ROOT, PACKAGES)


def test_no_module_imports_a_higher_layer(ours: Sources) -> None:
    """Values, pure cores, runtime, edges, compositions: each builds on those before it; SQS is never built upon."""
    assert upward(ours) == []


def test_values_and_pure_cores_do_nothing_but_compute(ours: Sources) -> None:
    """They take `now` and return what to do; waiting, logging, clocks, chance and the system are the runtime's."""
    assert impure(ours) == []


def test_each_third_party_package_has_one_home(ours: Sources) -> None:
    """So that it can be replaced, and so that `import messagequeue` loads none."""
    assert foreign(ours) == []


def test_no_function_is_too_long(ours: Sources) -> None:
    """60 lines, docstring not counted."""
    assert too_long(ours) == []


def test_no_module_is_too_long() -> None:
    """450 lines."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}

    assert {path: length for path, length in lengths.items() if length > MODULE_LINES} == {}


def test_every_named_module_that_exists_is_seen(ours: Sources) -> None:
    """The packages are really read: the table's own modules are among them."""
    seen = {name.removesuffix(".__init__") for name in ours.trees}

    assert {"messagequeue._errors", "messagequeue.driver", "messagequeue.runtime", "messagequeue_sqs"} <= seen


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("messagequeue._errors", "from ._config import Config"),
        ("messagequeue._errors", "def f():\n    from messagequeue._open import run"),
        ("messagequeue.runtime.publisher", "from .._config import Config"),
        ("messagequeue.runtime.publisher", "import messagequeue._config"),
        ("messagequeue.runtime.publisher", "from messagequeue import Config"),
        ("messagequeue.runtime.publisher", "from .. import _config"),
        ("messagequeue.cli", "import messagequeue_sqs"),
        ("messagequeue.cli", "from messagequeue_sqs import SQSConfig"),
        ("messagequeue_sqs._wire", "from ._client import connect"),
    ],
)
def test_the_check_sees_an_import_of_a_higher_layer(module: str, text: str) -> None:
    """Relative, absolute, inside of functions, and through a package that passes the name on."""
    sources = Sources(
        {
            "messagequeue.__init__": "from ._config import Config",
            "messagequeue._config": "",
            "messagequeue._open": "",
            "messagequeue_sqs.__init__": "",
            "messagequeue_sqs._client": "",
            module: text,
        }
    )

    assert len(upward(sources)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from messagequeue import ConfigurationError",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ._config import Config",
    ],
)
def test_the_check_lets_pass_what_only_looks_like_one(text: str) -> None:
    """A value taken from the public namespace, and an import for type checkers."""
    sources = Sources(
        {
            "messagequeue.__init__": "from ._errors import ConfigurationError",
            "messagequeue._config": "",
            "messagequeue._errors": "",
            "messagequeue.runtime": text,
        }
    )

    assert upward(sources) == []


def test_the_check_sees_impurity_foreign_packages_and_length() -> None:
    """Each of the other checks can fail."""
    body = "\n".join(["    x = 1"] * FUNCTION_LINES)
    sources = Sources({"messagequeue.broker.core": f"import time\nfrom tenacity import retry\ndef f():\n{body}\n"})

    assert len(impure(sources)) == len(foreign(sources)) == len(too_long(sources)) == 1
