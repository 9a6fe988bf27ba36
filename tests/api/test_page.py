"""The service's pages, in a real browser against a real service."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest

from api.database import Database
from api.keys import create_key
from api.settings import Settings
from api.storage import add_scene
from tests.api.scenes import scene_folder
from tests.api.service import Service, running
from tests.browser import chromium, quiet_page, until
from tests.recon4d.show.world import NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SAMPLE = Path(__file__).parents[2] / "samples" / "bench"
PHONE = (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker, that holds one scene."""
    folder = tmp_path_factory.mktemp("service")
    put_scene(folder / "data", scene_folder(folder / "made"))
    with running(folder / "data", worker=False) as started:
        yield started


def put_scene(data_dir: Path, made: Path) -> str:
    settings = Settings(data_dir=data_dir)
    database = Database(settings.database)
    try:
        return add_scene(database, settings, made, name="Bench <i>one</i>")
    finally:
        database.close()


def decoded(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image[..., ::-1].astype(np.float64)


def shown_at(page: Page, seconds: float) -> np.ndarray:
    """What stands on the stage at an instant."""
    page.evaluate("async (t) => { player.viewer.time = t; await player.viewer.settle(); }", seconds)
    return decoded(page.locator("canvas").screenshot())


def choose(page: Page, *files: Path) -> None:
    page.locator("input[type=file]").set_input_files(list(files))


def new_capture(page: Page, service: Service, name: str) -> str:
    """Begins a capture as a person does; returns its id."""
    page.goto(service.url)
    page.get_by_role("link", name="New scene").first.click()
    page.get_by_label("What do you call it?").fill(name)
    page.keyboard.press("Enter")
    page.get_by_text("Drop the files here").wait_for()
    return page.url.rpartition("/")[2]


def fits(page: Page) -> bool:
    """Whether nothing has to be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_scene_is_listed_moves_and_is_downloaded(service: Service, browser: Browser) -> None:
    with quiet_page(browser, 700, 900) as page, service.client() as client:
        (scene,) = client.get("/v1/scenes").json()["items"]
        page.goto(service.url)
        card = page.get_by_role("link", name="Bench <i>one</i>")
        until(page, "document.querySelector('.card img')?.naturalWidth === 65")
        card.click()
        page.wait_for_selector(".player.ready")
        assert page.get_by_role("heading", name="Bench <i>one</i>").is_visible()
        assert page.get_by_text("30.5 dB").is_visible()
        early, late = shown_at(page, 0.1), shown_at(page, 0.9)
        assert np.abs(early - late).max() > 50
        assert np.array_equal(shown_at(page, 0.1), early)
        with page.expect_download() as download:
            row = page.get_by_role("listitem").filter(has_text="scene.safetensors")
            row.get_by_role("button", name="Download").click()
        digest = hashlib.sha256(download.value.path().read_bytes()).hexdigest()
        assert digest in {each["sha256"] for each in scene["artifacts"] if each["name"] == "scene.safetensors"}
        with page.expect_download() as download:
            page.get_by_role("button", name="PLY of the instant shown").click()
        assert download.value.path().read_bytes().startswith(b"ply\n")
        assert download.value.suggested_filename == "scene 0.10 s.ply"


def test_videos_are_sent_over_a_broken_connection_and_what_is_missing_is_told(
    service: Service, browser: Browser
) -> None:
    with quiet_page(browser, but="status of 503") as page, service.client() as client:
        capture = new_capture(page, service, "Eight cameras")
        choose(page, SAMPLE / "cam0.mp4")
        page.get_by_text("320 × 240").wait_for()
        assert page.get_by_text("Still missing").is_visible()
        choose(page, SAMPLE / "capture.json", SAMPLE / "truth.json", SAMPLE / "README.md")
        page.get_by_text("No video yet").last.wait_for()
        assert page.get_by_text("No video yet").count() == 7
        broken = []
        page.route(
            "**/v1/uploads/*",
            lambda route: (
                (broken.append(route.request.url), route.fulfill(status=503, body="{}"))
                if route.request.method == "PATCH" and len(broken) < 2
                else route.continue_()
            ),
        )
        choose(page, *sorted(SAMPLE.glob("cam*")))
        page.get_by_text("Everything is here: 8 cameras.").wait_for()
        assert len(broken) == 2
        files = client.get(f"/v1/captures/{capture}").json()["files"]
        sent = {file["filename"]: file["sha256"] for file in files}
        assert sent == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in SAMPLE.glob("cam*")}
        page.get_by_role("button", name="Remove cam3.mp4").click()
        page.get_by_text("Still missing").wait_for()


def test_an_upload_that_another_page_began_is_gone_on_with(service: Service, browser: Browser) -> None:
    video = SAMPLE / "cam1.mp4"
    data = video.read_bytes()
    words = {"camera": "cam1", "kind": "video", "filename": video.name}
    metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in words.items())
    with quiet_page(browser, *PHONE) as page, service.client(headers={"Tus-Resumable": "1.0.0"}) as client:
        capture = client.post("/v1/captures", json={"name": "Begun before"}).json()["id"]
        client.post(
            f"/v1/captures/{capture}/uploads",
            content=data[: len(data) // 2],
            headers={
                "Upload-Length": str(len(data)),
                "Upload-Metadata": metadata,
                "Content-Type": "application/offset+octet-stream",
            },
        ).raise_for_status()
        page.goto(f"{service.url}/#/capture/{capture}")
        page.get_by_text("cam1.mp4: 50 % are here").wait_for()
        offsets = []
        page.on("request", lambda request: offsets.append(request.headers.get("upload-offset")))
        choose(page, video)
        page.get_by_text("320 × 240").wait_for()
        assert [int(offset) for offset in offsets if offset] == [len(data) // 2]
        (file,) = client.get(f"/v1/captures/{capture}").json()["files"]
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
        assert fits(page)


def test_what_the_service_refuses_is_said_with_what_to_do(service: Service, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "cam0.mp4").write_bytes(b"no video")
    manifest = json.loads((SAMPLE / "capture.json").read_text())
    manifest["cameras"][0]["K"][0][0] = -1
    (tmp_path / "capture.json").write_text(json.dumps(manifest))
    page = browser.new_page()  # The browser logs answers of 4xx by itself.
    new_capture(page, service, "Refused")
    choose(page, tmp_path / "cam0.mp4")
    refused = page.locator(".line.bad")
    refused.wait_for()
    assert "cam0.mp4:" in refused.inner_text()
    choose(page, tmp_path / "capture.json")
    fault = page.get_by_role("alert")
    fault.wait_for()
    assert "cam0" in fault.inner_text()
    refused.get_by_role("button", name="Dismiss").click()
    refused.wait_for(state="detached")
    page.close()


def test_everything_fits_a_phone_and_is_reached_by_keys(service: Service, browser: Browser) -> None:
    with quiet_page(browser, *PHONE) as page:
        page.goto(service.url)
        page.locator(".card").wait_for()
        assert fits(page)
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the content"
        reached = [press_tab(page) for _ in range(4)]
        assert reached[:3] == ["recon4d", "Scenes", "New scene"]
        assert reached[3].startswith("Bench <i>one</i>")
        page.keyboard.press("Enter")
        page.wait_for_selector(".player.ready")
        assert fits(page)
        page.get_by_role("radio", name=NAMES[0]).focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("player.viewer.standing") == NAMES[1]


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.textContent")


def press_tab(page: Page) -> str:
    page.keyboard.press("Tab")
    return focused(page)


def test_a_key_is_asked_for_and_opens_pictures_and_downloads(browser: Browser, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put_scene(data, scene_folder(tmp_path / "made"))
    database = Database(Settings(data_dir=data).database)
    _, secret = create_key(database, "reader", ("read",))
    database.close()
    with running(data, worker=False) as service:
        page = browser.new_page()
        page.goto(service.url)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Key").fill("r4d_wrong_key")
        page.keyboard.press("Enter")
        dialog.get_by_text("not valid").wait_for()
        dialog.get_by_label("Key").fill(secret)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.card img')?.naturalWidth === 65")
        page.locator(".card").click()
        page.wait_for_selector(".player.ready")
        with page.expect_download() as download:
            row = page.get_by_role("listitem").filter(has_text="scores.json")
            row.get_by_role("button", name="Download").click()
        assert json.loads(download.value.path().read_text())["train"] == {"psnr": 30.5}
        assert secret not in page.content() + page.url
        assert page.evaluate("localStorage.length") == 0
        page.get_by_role("button", name="Forget key").click()
        page.get_by_role("dialog").wait_for()
        page.close()


def test_pages_may_run_their_own_scripts_alone_and_libraries_are_kept(service: Service) -> None:
    with service.client() as client:
        for path in ("/", "/scene/scn_none"):
            answer = client.get(path)
            policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
            assert policy["default-src"] == "'self'"
            assert "unsafe-inline" not in policy["script-src"]
            assert policy["frame-ancestors"] == "'none'"
        spark = client.get("/assets/player/vendor/spark-2.2.0/spark.module.min.js")
        assert spark.headers["cache-control"].endswith("immutable")
        assert spark.headers["content-encoding"] == "gzip"
        script = client.get("/assets/main.js")
        assert script.headers["cache-control"] == "no-cache"
        assert client.get("/assets/main.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304
        for path in ("/assets/none.js", "/assets/..%2f_pages.py", "/assets/%2e%2e/_pages.py"):
            missing = client.get(path)
            assert missing.status_code == 404
            assert missing.headers["content-type"] == "application/problem+json"


@pytest.mark.slow
def test_the_sample_becomes_a_scene_that_moves_where_it_should(browser: Browser, tmp_path: Path) -> None:
    """Upload, check, reconstruction followed live, scene, download: all by the page."""
    # There is no picture of the fit at first, which the browser logs by itself.
    with running(tmp_path / "data") as service, quiet_page(browser, 900, 900, but="status of 404") as page:
        new_capture(page, service, "Sample")
        choose(page, *SAMPLE.iterdir())
        page.get_by_text("Everything is here: 8 cameras.").wait_for()
        page.get_by_role("button", name="Check the videos").click()
        page.get_by_text("No findings: all is well.").wait_for(timeout=120_000)
        until(page, "document.querySelector('img.sheet')?.naturalWidth > 1000")
        page.get_by_role("radio", name="fast").check()
        set_options(page, {"fit.static.steps": "200", "fit.joint.steps": "400"})
        page.get_by_role("button", name="Reconstruct").click()
        page.get_by_text("Fitting the still scene").wait_for(timeout=600_000)
        page.locator(".chart .line-0").first.wait_for(timeout=600_000)
        page.get_by_text("Fitting everything, with its motion").wait_for(timeout=600_000)
        page.locator("img.render[src]").wait_for(timeout=600_000)
        assert page.evaluate("document.querySelector('img.render').naturalWidth") == 320
        page.reload()  # Everything is told again to whoever comes later.
        page.locator(".chart .line-0").first.wait_for(timeout=60_000)
        page.get_by_role("link", name="Open the scene").click(timeout=600_000)
        page.wait_for_selector(".player.ready")
        check_motion(page, service)
        assert page.locator("#quality").get_by_text("Cameras never seen, all pixels").is_visible()
        until(
            page, "[...document.querySelectorAll('#comparisons img')].slice(0, 6).every((i) => i.naturalWidth === 320)"
        )
        with page.expect_download() as download:
            page.get_by_role("listitem").filter(has_text="report.html").get_by_role("button").click()
        assert "psnr" in download.value.path().read_text().lower()


def set_options(page: Page, values: dict[str, str]) -> None:
    page.get_by_text("All settings").click()
    for name, value in values.items():
        page.get_by_label("Search the settings").fill(name)
        field: Locator = page.locator(f'[id="{name}"]')
        field.fill(value)
        field.press("Tab")


def check_motion(page: Page, service: Service) -> None:
    """The browser's picture changes between two instants where, and as, the engine's own does."""
    scene = page.url.rpartition("/")[2]
    truth, drawn = [], []
    with service.client() as client:
        for t in (0.3, 2.0):
            address = f"/v1/scenes/{scene}/render"
            truth.append(decoded(client.get(address, params={"camera": "cam1", "t": t}).raise_for_status().content))
            drawn.append(pictured(page, "cam1", t))
    for ours, theirs in zip(truth, drawn, strict=True):
        assert 10 * np.log10(255**2 / np.mean((ours - theirs) ** 2)) > 40
    moved = np.abs(truth[1] - truth[0]).max(-1) > 40
    changed = np.abs(drawn[1] - drawn[0]).max(-1)
    still = cv2.dilate(moved.astype(np.uint8), np.ones((15, 15), np.uint8)) == 0
    assert moved.sum() > 300
    assert (changed[moved] > 25).mean() > 0.95
    assert (changed[still] > 25).mean() < 0.02


def pictured(page: Page, camera: str, t: float) -> np.ndarray:
    data = page.evaluate(
        """async ([camera, time]) => {
          const bytes = new Uint8Array(await (await player.viewer.picture(camera, time)).arrayBuffer());
          return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        }""",
        [camera, t],
    )
    return decoded(base64.b64decode(data))
