"""The scene page in a real browser, against this package's own renders."""

from __future__ import annotations

import base64
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest
import torch

from recon4d.model import Gaussians4D
from recon4d.page import page_files, page_headers
from recon4d.raster import rasterize
from recon4d.show import view_server, write_view
from recon4d.types import Cameras, DynamicPool, Scene4D, StaticPool
from tests.browser import chromium, quiet_page, until
from tests.recon4d.show.world import NAMES, cameras
from tests.recon4d.show.world import scene as tiny_scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def served(scene: Scene4D, folder: Path) -> Iterator[str]:
    server = view_server(write_view(scene, folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def crowded(coefficients: int, *, antialiased: bool) -> Scene4D:
    """Gaussians of all kinds around the place that three cameras look at, half of them moving; lenses off their
    centre, and an exposure."""
    generator = torch.Generator().manual_seed(coefficients)

    def pool(n: int) -> dict[str, torch.Tensor]:
        return {
            "means": 0.25 * torch.randn(n, 3, generator=generator),
            "quats": torch.randn(n, 4, generator=generator),
            "scales": 0.12 * torch.rand(n, 3, generator=generator) + 2e-3,
            "opacities": 0.98 * torch.rand(n, generator=generator) + 0.01,
            "sh": 0.5 * torch.randn(n, coefficients, 3, generator=generator) / coefficients**0.5,
        }

    lives = {
        "velocities": torch.randn(150, 3, generator=generator),
        "centers_s": torch.rand(150, generator=generator),
        "radii_s": 0.2 * torch.rand(150, generator=generator),
        "tails_s": 0.1 * torch.rand(150, generator=generator) + 0.01,
    }
    first, second, third = cameras(width=160, height=120)
    shifted = first.K + np.array([[90.0, 0, 11], [0, 80, -7], [0, 0, 0]])
    rig = (replace(first, K=shifted), replace(second, exposure=0.7), third)
    static, dynamic = StaticPool(**pool(150)), DynamicPool(**pool(150), **lives)
    return tiny_scene(static=static, dynamic=dynamic, cameras=rig, antialiased=antialiased)


def rendered(scene: Scene4D, camera: str, t: float) -> np.ndarray:
    (seen,) = (each for each in scene.cameras if each.name == camera)
    splats = Gaussians4D.from_scene(scene).at(t)
    drawn = rasterize(splats, Cameras.of(seen), background=scene.background, antialiased=scene.antialiased)
    assert drawn.rgb is not None
    return drawn.rgb[0].numpy().clip(0, 1) * 255


def pictured(page: Page, camera: str, t: float) -> np.ndarray:
    """[H, W, 3] what the page saves as the camera's picture."""
    data = page.evaluate(
        """async ([camera, time]) => {
          const bytes = new Uint8Array(await (await player.viewer.picture(camera, time)).arrayBuffer());
          return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        }""",
        [camera, t],
    )
    image = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image[..., ::-1].astype(np.float64)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((a - b) ** 2)))


@pytest.mark.parametrize(("coefficients", "antialiased"), [(1, False), (4, True), (16, False)])
def test_the_browser_draws_what_this_package_draws(
    coefficients: int, antialiased: bool, browser: Browser, tmp_path: Path
) -> None:
    scene = crowded(coefficients, antialiased=antialiased)
    instants = (0.1, 0.8)
    with served(scene, tmp_path) as address, quiet_page(browser, 640, 480) as page:
        page.goto(address)
        page.wait_for_selector(".player.ready")
        for camera in NAMES:
            drawn = {t: pictured(page, camera, t) for t in instants}
            for t in instants:
                # Blending in eight bits a channel, as a canvas does, leaves about this much.
                assert psnr(drawn[t], rendered(scene, camera, t)) > 48
            assert psnr(drawn[0.1], rendered(scene, camera, 0.8)) < 40  # The measure tells instants apart.


def test_the_player_is_operated_by_mouse_and_by_keys(browser: Browser, tmp_path: Path) -> None:
    with served(crowded(4, antialiased=False), tmp_path) as address, quiet_page(browser, 640, 480) as page:
        page.goto(address)
        page.wait_for_selector(".player.ready")
        stage, slider = page.locator("canvas"), page.get_by_role("slider", name="Time")
        assert page.get_by_role("radio", name=NAMES[0]).is_checked()
        before = stage.screenshot()
        slider.fill("0.8")
        page.evaluate("player.viewer.settle()")
        moved = stage.screenshot()
        assert moved != before
        page.get_by_text(NAMES[2], exact=True).click()
        assert page.evaluate("player.viewer.standing") == NAMES[2]
        page.keyboard.press("2")
        assert page.get_by_role("radio", name=NAMES[1]).is_checked()
        until(page, "!player.viewer.flight")
        stage.focus()
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("player.viewer.time") == pytest.approx(0.8 - 1 / 30)
        page.keyboard.press("Space")
        until(page, "player.viewer.playing && player.viewer.time !== 0.8 - 1 / 30")
        page.get_by_role("button", name="Pause").click()
        assert not page.evaluate("player.viewer.playing")
        box = stage.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 100, box["y"] + 90)
        page.mouse.down()
        page.mouse.move(box["x"] + 200, box["y"] + 100, steps=4)
        page.mouse.up()
        assert page.evaluate("player.viewer.standing") is None
        assert page.get_by_role("radio", name="Free").is_checked()
        until(page, "player.viewer.awake === null && !player.viewer.spark.sorting")
        drawn = page.evaluate("player.viewer.renderer.info.render.frame")
        page.wait_for_timeout(500)
        assert page.evaluate("player.viewer.renderer.info.render.frame") == drawn  # At rest nothing is drawn.


def test_saving_a_picture_downloads_the_cameras_own_size(browser: Browser, tmp_path: Path) -> None:
    with served(crowded(1, antialiased=False), tmp_path) as address, quiet_page(browser, 390, 844) as page:
        page.goto(address)
        page.wait_for_selector(".player.ready")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        with page.expect_download() as download:
            page.get_by_role("button", name="Save picture").click()
        image = cv2.imread(str(download.value.path()))
        assert image.shape == (120, 160, 3)


def test_a_scene_without_motion_or_rig_is_shown(browser: Browser, tmp_path: Path) -> None:
    empty = {name: value[:0] for name, value in vars(tiny_scene().dynamic).items()}
    scene = tiny_scene(dynamic=DynamicPool(**empty), cameras=(), plane=None, duration_s=0.0)
    with served(scene, tmp_path) as address, quiet_page(browser, 640, 480) as page:
        page.goto(address)
        page.wait_for_selector(".player.ready")
        colours = cv2.imdecode(np.frombuffer(page.locator("canvas").screenshot(), np.uint8), cv2.IMREAD_COLOR)
        assert colours is not None
        assert colours.std() > 1


def test_what_cannot_be_shown_is_said(browser: Browser, tmp_path: Path) -> None:
    with served(tiny_scene(), tmp_path) as address:
        (tmp_path / "splats.bin").write_bytes((tmp_path / "splats.bin").read_bytes()[:-4])
        page = browser.new_page()
        page.goto(address)
        page.get_by_text("came only in part").wait_for()
        page.close()


def test_the_server_gives_the_page_and_the_view_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    with served(tiny_scene(), tmp_path / "view") as address:
        host, port = address.removeprefix("http://").rstrip("/").split(":")
        status = {}
        for path in ("/", "/view/view.json", "/view/../secret.txt", "/view/%2e%2e/secret.txt", "/view/", "/vendor/"):
            connection = http.client.HTTPConnection(host, int(port))
            connection.request("GET", path)
            response = connection.getresponse()
            status[path] = response.status
            assert b"secret" not in response.read()
            assert "script-src 'self'" in response.headers["Content-Security-Policy"]
            connection.close()
    assert status.pop("/") == status.pop("/view/view.json") == 200
    assert set(status.values()) == {404}


def test_every_file_that_a_page_names_is_there_and_only_its_import_map_is_inline() -> None:
    html = (page_files() / "index.html").read_text()
    named = [part.split('"')[0] for part in html.replace('href="', 'src="').split('src="')[1:]]
    named += [part.split('"')[0] for part in html.split('": "./')[1:]]
    assert len(named) == 7
    assert [name for name in named if not (page_files() / name).is_file()] == []
    assert page_headers(html)["Content-Security-Policy"].count("sha256-") == html.count("<script type=") - 1 == 1
