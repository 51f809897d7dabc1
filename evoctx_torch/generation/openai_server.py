"""What is checked about a server before anything is sent to it: its address, and the key that it alone may see."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from evoctx_torch.errors import UsageError


def check_url(
    base_url: str, option: str = "--base-url", example: str = "http://127.0.0.1:8000/v1", variable: str = "OPENAI_API_KEY"
) -> str:
    """The host of an http(s) address, which `option` gives; the key belongs into the environment's `variable`.

    Raises `UsageError` for anything else, and for an address that holds a password.
    """
    try:
        url = urlsplit(base_url)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0 and not re.search(r"\s", base_url)
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"{option} is {base_url!r}; expected an address like {example}")
    if url.username is not None or url.password is not None:
        raise UsageError(f"{option} holds a user name or password, which would stand in the run's files: put the key into {variable}")
    return str(url.hostname)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine: `localhost` or an address of the loopback network."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def api_key(variable: str = "OPENAI_API_KEY") -> str:
    """The key in an environment variable, "" if unset. Raises `UsageError`, without showing it, for a key that no HTTP header can hold."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and (key.isprintable() or not key)):
        raise UsageError(f"{variable} holds characters that cannot be sent; expected printable ASCII in one line")
    return key


def without_key(message: str, key: str) -> str:
    """The message with the key blotted out; a word of less than 8 characters (`EMPTY`, `none`) is no secret."""
    return message.replace(key, "***") if len(key) >= 8 else message
