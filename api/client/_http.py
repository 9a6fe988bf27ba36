"""Requests that outlive a lost connection and a restarted service."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from api.client._errors import ServiceError, refusal
from recon4d import __version__

FIRST_S = 5.0
"""How long to look for a service that has not answered yet: an address that is wrong should be told soon."""
_LONGEST_PAUSE_S = 5.0
_BUSY = (502, 503, 504)
"""Answers of a proxy whose service is away, and of a service that is about to go."""
_LATER = (409, 423, 429)
"""Answers that mean "not now" when they carry ``Retry-After``, and "no" when they do not."""


class Patience:
    """Pauses between tries, longer each time; used up when nothing has got on for too long.

    Args:
        seconds: how long to go on trying.
        where: address of the service, for the message.
        on_wait: told the reason of the first pause.
    """

    def __init__(self, seconds: float, where: str, on_wait: Callable[[str], None]) -> None:
        self._seconds, self._where, self._on_wait = seconds, where, on_wait
        self.renew()

    def renew(self) -> None:
        """Something got on: the time runs anew."""
        self._since: float | None = None
        self._tries = 0

    def wait(self, reason: str, at_least_s: float = 0.0) -> None:
        """Pauses before the next try.

        Raises:
            ServiceError: the time is used up.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > self._seconds:
            raise ServiceError(
                f"no useful answer from {self._where} for {self._seconds:.0f} s ({reason}). Is the service running, and"
                " is that its address?"
            )
        if self._tries == 2:  # Once is nothing to talk of.
            self._on_wait(f"{self._where} does not answer ({reason}); trying again for {self._seconds:.0f} s")
        pause = min(0.1 * 2**self._tries, _LONGEST_PAUSE_S) * random.uniform(
            0.5, 1.0
        )  # Clients should not come back all at once.
        self._tries += 1
        time.sleep(max(pause, min(at_least_s, 30.0)))


class Connection:
    """The service at one address, as one caller; may be used from several threads.

    Args:
        url: address of the service, such as ``http://127.0.0.1:8400``.
        key: API key; None while the service asks for none.
        patience_s: how long to go on trying when the service was there and does not answer any more.
        on_wait: told when that happens.
    """

    def __init__(self, url: str, key: str | None, *, patience_s: float, on_wait: Callable[[str], None]) -> None:
        self.url = url.rstrip("/")
        self._patience_s, self._on_wait = patience_s, on_wait
        self._answered = False
        headers = {"User-Agent": f"recon4d/{__version__}", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        timeout = httpx.Timeout(60.0, connect=10.0)  # The service breaks every silence within 15 s.
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise ServiceError(f"'{url}' is no address, or the key has characters that no key has: {error}") from error

    def close(self) -> None:
        self._http.close()

    def join(self, address: str) -> httpx.URL:
        """A whole address, of one that may lack the service's own."""
        return httpx.URL(f"{self.url}/").join(address)

    def patience(self) -> Patience:
        """Fresh patience with the service."""
        seconds = self._patience_s if self._answered else min(FIRST_S, self._patience_s)
        return Patience(seconds, self.url, self._on_wait)

    def ask(self, method: str, path: str, **parts: Any) -> httpx.Response:
        """The answer to a request, which is sent again while there is no connection or the service is busy.

        Args:
            method: GET, POST, …
            path: below the service's address.
            parts: ``json``, ``content``, ``params``, ``headers`` as httpx takes them.

        Raises:
            ServiceError: it was refused, or there was no answer.
        """
        headers = dict(parts.pop("headers", None) or {})
        if method == "POST":
            headers.setdefault("Idempotency-Key", uuid.uuid4().hex)  # Asked twice, done once.
        patience = self.patience()
        while True:
            try:
                response = self.send(method, path, headers=headers, **parts)
            except httpx.TransportError as error:
                patience.wait(cause(error))
                continue
            if not is_later(response):
                return checked(response)
            patience.wait(f"status {response.status_code}", retry_after(response))

    def send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        """The answer to a request that is sent once, whatever it says.

        Raises:
            httpx.TransportError: no connection, or lost on the way.
        """
        try:
            response = self._http.request(method, path, **parts)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ServiceError(f"'{self.url}' is no address of a service: {error}") from error
        self._answered = True
        return response

    @contextmanager
    def stream(self, path: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """An answer to GET whose body is read bit by bit; asked once.

        Raises:
            ServiceError: it was refused; ``status`` 503 and the like may be asked again.
            httpx.TransportError: no connection, or lost on the way.
        """
        with self._http.stream("GET", path, headers=headers) as response:
            self._answered = True
            if response.is_error:
                raise refusal(response.status_code, response.read())
            yield response


def checked(response: httpx.Response) -> httpx.Response:
    """The answer itself.

    Raises:
        ServiceError: it is a refusal.
    """
    if response.is_error:
        raise refusal(response.status_code, response.content)
    return response


def is_later(response: httpx.Response) -> bool:
    """Whether an answer asks for patience and not for something else."""
    asked = response.status_code in _LATER and "Retry-After" in response.headers
    return asked or response.status_code in _BUSY


def is_passing(error: ServiceError) -> bool:
    """Whether a refusal may be gone a moment later."""
    return error.status in _BUSY or error.status == 429


def retry_after(response: httpx.Response) -> float:
    """Seconds that an answer asks to wait; 0 when it does not say."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0


def cause(error: httpx.TransportError) -> str:
    """What happened to a connection, in a few words."""
    return str(error) or type(error).__name__
