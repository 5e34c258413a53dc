"""Receipt handles: the broker's, sealed, so that nobody can make one up; not who may use them."""

from __future__ import annotations

import binascii
import hashlib
import hmac

_SEAL_BYTES = 12
#: Characters; a longer text cannot be one of ours.
_LONGEST = 200


class Handles:
    """
    Args:
        secret: Keys the seals.  Handles are good for as long as it stays the same.
    """

    def __init__(self, secret: bytes) -> None:
        self._keyed = hashlib.blake2b(key=secret[:64], digest_size=_SEAL_BYTES)

    def seal(self, handle: str) -> str:
        data = handle.encode()
        return binascii.b2a_base64(self._seal(data) + data, newline=False).decode()

    def open(self, text: str) -> str | None:
        """Return the broker's handle; None where this server never gave out *text*."""
        if len(text) > _LONGEST or not text.isascii():
            return None
        try:
            sealed = binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error:
            return None
        seal, data = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        return data.decode("latin-1") if hmac.compare_digest(seal, self._seal(data)) else None

    def _seal(self, data: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(data)
        return keyed.digest()
