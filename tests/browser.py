"""A browser for the tests that drive pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
"""WebGL without a graphics card."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium that can draw in 3D; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs a Chromium on the PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def quiet_page(browser: Browser, width: int = 1100, height: int = 800, *, but: str | None = None) -> Iterator[Page]:
    """A page that must neither log an error, but those with these words, nor ask any other server; both are checked at
    the end."""
    page = browser.new_page(viewport={"width": width, "height": height})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: faults.append(request.url) if not _own(request.url) else None)
    yield page
    page.close()
    left = [fault for fault in faults if but is None or but not in fault]
    assert not left, left


def until(page: Page, condition: str) -> None:
    """Waits for a JavaScript condition; playwright's own way needs `eval`, which the pages forbid."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")


def _own(address: str) -> bool:
    return address.startswith(("http://127.0.0.1:", "blob:", "data:"))
