"""Numbers that no float holds, wherever a number is taken."""

from __future__ import annotations

import pytest

from messagequeue import Config, ConfigurationError, InvalidMessageError, PublishOptions, RetryLater
from messagequeue._options import delay_seconds

HUGE = [10**400, -(10**400), 10**5000]


@pytest.mark.parametrize("number", HUGE, ids=["large", "low", "unprintable"])
def test_option_beyond_any_float_is_out_of_range(number: int) -> None:
    """As every other number that is too large; whether it came from code or from a table."""
    with pytest.raises(ConfigurationError, match="linger"):
        PublishOptions(linger=number)
    with pytest.raises(ConfigurationError, match="max_pending"):
        PublishOptions(max_pending=-abs(number))
    with pytest.raises(ConfigurationError, match="linger"):
        Config.from_mapping({"provider": "noop", "noop": {"publish": {"linger": number}}})


@pytest.mark.parametrize("number", HUGE, ids=["large", "low", "unprintable"])
def test_delay_beyond_any_float_is_refused(number: int) -> None:
    """So that in a publish_many() it fails alone."""
    with pytest.raises(InvalidMessageError, match="delay"):
        delay_seconds(number)


@pytest.mark.parametrize("number", HUGE, ids=["large", "low", "unprintable"])
def test_retry_beyond_any_float_is_refused(number: int) -> None:
    """With what to give."""
    with pytest.raises(ValueError, match="give seconds"):
        RetryLater(number)
