"""Names of things: a prefix that says what it is, and enough chance that nobody guesses one."""

from __future__ import annotations

import secrets

_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"
LENGTH = 20


def fresh(prefix: str) -> str:
    """A new name such as ``cap_7k2m…``.

    Args:
        prefix: ``cap`` captures, ``fil`` their files, ``upl`` uploads, ``job`` jobs, ``scn`` scenes, ``bun`` bundles,
            ``env`` environments, ``key`` keys.
    """
    return f"{prefix}_" + "".join(secrets.choice(_LETTERS) for _ in range(LENGTH))
