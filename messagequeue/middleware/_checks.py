"""What the settings of middleware have to be; not what they mean."""

from __future__ import annotations

import math

from .._errors import ConfigurationError
from .._options import as_float


def positive(name: str, value: object, what: str) -> float:
    """Return *value* as a float.  Raises `ConfigurationError` where it is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < as_float(value) < math.inf:
        raise ConfigurationError(f"{name}={_shown(value)}: give {what}, a number above 0")
    return float(value)


def whole(name: str, value: object, what: str) -> int:
    """Return *value*.  Raises `ConfigurationError` where it is no whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name}={_shown(value)}: give {what}, a whole number of 1 or more")
    return value


def _shown(value: object) -> str:
    """A number as it is (one beyond all floats as infinity), anything else by its type."""
    if isinstance(value, int | float):
        return repr(value if math.isfinite(size := as_float(value)) else size)
    return f"<{type(value).__qualname__}>"
