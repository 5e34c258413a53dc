"""The tests.  Fixtures and doubles that several areas share are in `tests.support`."""
