"""The service's resources as methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from api.client._download import download
from api.client._errors import JobFailed, said
from api.client._events import engine_event, follow
from api.client._folder import read_folder
from api.client._http import Connection
from api.client._records import Artifact, Bundle, Capture, CaptureFile, Environment, Job, JobEvent, Scene
from api.client._transfer import transfer
from api.client._upload import Source, upload
from recon4d.errors import CaptureError
from recon4d.events import OnEvent, Warned, ignore

if TYPE_CHECKING:
    from simbridge.remote import RemoteEnv

PATIENCE_S = 300.0


class Client:
    """A service, as one caller; may be used from several threads. Use it in ``with``, or call :meth:`close`.

    Every call goes on through lost connections and a service that is started again.

    Args:
        url: address of the service, such as ``http://127.0.0.1:8400``.
        key: API key; None while the service asks for none.
        patience_s: how long to go on trying when a service that was there does not answer any more.
        on_event: told by :class:`recon4d.events.Warned` when that happens.

    Raises:
        ServiceError: of every method: the service refused, does not answer, or was never there.
    """

    def __init__(
        self, url: str, key: str | None = None, *, patience_s: float = PATIENCE_S, on_event: OnEvent = ignore
    ) -> None:
        def on_wait(message: str) -> None:
            on_event(Warned(stage="remote", message=message))

        self._connection = Connection(url, key, patience_s=patience_s, on_wait=on_wait)
        self._key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connection.close()

    @property
    def url(self) -> str:
        """The service's address."""
        return self._connection.url

    def info(self) -> dict[str, Any]:
        """Version, limits and load of the service."""
        return self._get("/v1/info")

    def options(self) -> dict[str, Any]:
        """Presets of a reconstruction, and every value that can be set."""
        return self._get("/v1/options")

    # Captures

    def create_capture(self, name: str, notes: str = "") -> Capture:
        """A new, empty capture."""
        return Capture.of(self._post("/v1/captures", {"name": name, "notes": notes}))

    def captures(self) -> Iterator[Capture]:
        """All captures, newest first."""
        return map(Capture.of, self._items("/v1/captures"))

    def capture(self, id: str) -> Capture:
        """A capture as it is now."""
        return Capture.of(self._get(f"/v1/captures/{id}"))

    def delete_capture(self, id: str) -> None:
        """Removes a capture and its files; refused while a job uses it."""
        self._connection.ask("DELETE", f"/v1/captures/{id}")

    def upload(
        self,
        capture: str,
        path: str | Path,
        *,
        camera: str,
        kind: Literal["video", "timestamps"] = "video",
        on_bytes: Callable[[int], None] = lambda count: None,
    ) -> CaptureFile:
        """Sends a camera's file, or what is missing of it; it takes the place of an earlier one.

        Args:
            capture: id.
            path: the file.
            camera: name in the rig.
            kind: a video, or a time a frame.
            on_bytes: told how many bytes have been sent.

        Raises:
            CaptureError: it cannot be read.
        """
        source = Source(path=Path(path), camera=camera, kind=kind)
        return upload(self._connection, self.capture(capture), source, on_bytes)

    def set_calibration(self, capture: str, rig: Mapping[str, Any], format: str | None = None) -> dict[str, Any]:
        """Says how the cameras stand; returns the rig as the service understands it, and its warnings.

        Args:
            capture: id.
            rig: what ``capture.json`` holds, or another format that the service reads.
            format: its name; found out when left out.
        """
        parameters = {} if format is None else {"format": format}
        answer = self._connection.ask("PUT", f"/v1/captures/{capture}/calibration", json=rig, params=parameters)
        return answer.json()

    def calibration(self, capture: str) -> dict[str, Any]:
        """How the cameras stand, as :meth:`set_calibration` answered."""
        return self._get(f"/v1/captures/{capture}/calibration")

    def send_folder(self, folder: str | Path, *, capture: str | None = None, on_event: OnEvent = ignore) -> Capture:
        """Sends a capture folder: its files, several at once, and the calibration in its ``capture.json``.

        Args:
            folder: capture folder.
            capture: id of one that has some of it already; what is there is not sent again.
            on_event: told of the stage ``upload``, and warned of what the calibration lacks.

        Returns:
            The capture, ready to be reconstructed.

        Raises:
            CaptureError: the folder cannot be read.
        """
        folder = Path(folder)
        rig, sources = read_folder(folder)
        if capture is None:
            capture = self.create_capture(str(rig.get("name") or folder.resolve().name), str(rig.get("notes", ""))).id
        there = self.capture(capture)

        def work(source: Source, on_bytes: Callable[[int], None]) -> CaptureFile:
            return upload(self._connection, there, source, on_bytes)

        transfer("upload", sources, work, [source.path.stat().st_size for source in sources], on_event)
        for warning in self.set_calibration(capture, rig).get("warnings", ()):
            where = f"camera '{warning['camera']}': " if warning.get("camera") else ""
            on_event(Warned(stage="upload", message=where + warning["message"]))
        sent = self.capture(capture)
        if not sent.ready:
            raise CaptureError(f"not whole at the service: {'; '.join(sent.missing)}", file=str(folder))
        return sent

    # Jobs

    def check(self, capture: str) -> Job:
        """Begins to look a capture through; the result holds the findings."""
        return Job.of(self._post(f"/v1/captures/{capture}/check", None))

    def reconstruct(
        self,
        capture: str,
        preset: Literal["fast", "balanced", "quality"] = "balanced",
        options: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        slot: str | None = None,
        heldout_cameras: Sequence[str] | None = None,
    ) -> Job:
        """Begins a reconstruction; its result is ``{"scene": …}``.

        Args:
            capture: id.
            preset: how many Gaussians, and how long they are fitted.
            options: values by dotted name, ``{"fit.joint.steps": 5000}``; see :meth:`options`.
            name: of the scene; the capture's when left out.
            slot: accelerator to compute on; the first that is free when left out.
            heldout_cameras: cameras to score on instead of those that the capture names.
        """
        request = {"capture": capture, "preset": preset, "options": dict(options or {}), "name": name, "slot": slot}
        if heldout_cameras is not None:
            request["heldout_cameras"] = list(heldout_cameras)
        given = {key: value for key, value in request.items() if value is not None}
        return Job.of(self._post("/v1/reconstructions", given))

    def jobs(self, kind: str | None = None, state: str | None = None) -> Iterator[Job]:
        """Jobs, newest first; all, or those of a kind or in a state."""
        return map(Job.of, self._items("/v1/jobs", kind=kind, state=state))

    def job(self, id: str) -> Job:
        """A job as it is now."""
        return Job.of(self._get(f"/v1/jobs/{id}"))

    def events(self, job: str, after: int = 0) -> Iterator[JobEvent]:
        """Every event of a job once and in order, as they come, until it ends.

        Args:
            job: id.
            after: number of the last event that is known already.
        """
        return follow(self._connection, job, after)

    def wait(self, job: str, *, on_event: OnEvent = ignore) -> Job:
        """Waits for a job's result.

        Args:
            job: id.
            on_event: told what the engine says, from the job's beginning.

        Raises:
            JobFailed: it failed or was cancelled.
        """
        for told in self.events(job):
            event = engine_event(told)
            if event is not None:
                on_event(event)
        ended = self.job(job)
        if ended.state == "cancelled":
            raise JobFailed(f"job {job} was cancelled", {})
        if ended.state != "succeeded":
            problem = ended.error or {}
            raise JobFailed(f"job {job} failed: {said(problem, str(problem.get('detail', '')))}", problem)
        return ended

    def log(self, job: str) -> str:
        """What a job's process has printed so far."""
        return self._connection.ask("GET", f"/v1/jobs/{job}/logs").text

    def cancel(self, job: str) -> Job:
        """Asks a job to stop; what it has reached is kept for :meth:`restart`."""
        return Job.of(self._post(f"/v1/jobs/{job}/cancel", None))

    def restart(self, job: str, options: Mapping[str, Any] | None = None, preset: str | None = None) -> Job:
        """A new job that starts from an ended one's finished stages, with the changes given."""
        changes = {"options": None if options is None else dict(options), "preset": preset}
        return Job.of(self._post(f"/v1/jobs/{job}/restart", {k: v for k, v in changes.items() if v is not None}))

    # Scenes

    def scenes(self) -> Iterator[Scene]:
        """All scenes, newest first."""
        return map(Scene.of, self._items("/v1/scenes"))

    def scene(self, id: str) -> Scene:
        """A scene, with its files."""
        return Scene.of(self._get(f"/v1/scenes/{id}"))

    def delete_scene(self, id: str) -> None:
        """Removes a scene."""
        self._connection.ask("DELETE", f"/v1/scenes/{id}")

    def download(self, scene: str, folder: str | Path, *, on_event: OnEvent = ignore) -> Path:
        """Fetches a scene's files into a folder, which is a scene folder then.

        A file that is there already is not fetched again, one that is there in part is gone on with, and every
        file's SHA-256 is checked. ``scene.json`` comes last: a folder that has it is whole.

        Args:
            scene: id.
            folder: where to; made when missing.
            on_event: told of the stage ``download``.

        Raises:
            OutputError: it cannot be written.
        """
        folder = Path(folder)
        artifacts = self.scene(scene).artifacts
        last = [a for a in artifacts if a.name == "scene.json"]
        first = [a for a in artifacts if a not in last]

        def work(artifact: Artifact, on_bytes: Callable[[int], None]) -> Path:
            return download(self._connection, artifact, folder, on_bytes)

        transfer("download", first, work, [a.size for a in first], on_event)
        for artifact in last:
            work(artifact, lambda count: None)
        return folder

    def render(self, scene: str, camera: str | None = None, **parameters: Any) -> bytes:
        """A picture of a scene, as the bytes of a file.

        Args:
            scene: id.
            camera: name of a rig camera.
            parameters: ``t`` seconds, ``width``, ``height``, ``format`` (``png``, ``jpeg``, ``depth``), ``position``
                and ``look_at`` or ``pose`` as comma-separated numbers.
        """
        given = {"camera": camera, **parameters}
        chosen = {key: value for key, value in given.items() if value is not None}
        return self._connection.ask("GET", f"/v1/scenes/{scene}/render", params=chosen).content

    def link(self, scene: str, artifact: str, seconds: int = 600) -> str:
        """An address at which a scene's file can be fetched without a key, for a while."""
        body = {"name": artifact, "seconds": seconds}
        return str(self._connection.join(self._post(f"/v1/scenes/{scene}/links", body)["url"]))

    # Bundles and environments

    def build_bundle(
        self,
        scene: str,
        config: Mapping[str, Any],
        files: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
    ) -> Job:
        """Begins to put a robot and objects into a scene; the job's result is ``{"bundle": …}``.

        Args:
            scene: id.
            config: what ``simbridge bundle`` takes as ``--config``.
            files: texts of the MJCF files that it names, by name.
            name: of the bundle; the scene's when left out.
        """
        request = {"scene": scene, "config": dict(config), "files": dict(files or {})}
        return Job.of(self._post("/v1/bundles", request if name is None else {**request, "name": name}))

    def bundles(self) -> Iterator[Bundle]:
        """All bundles, newest first."""
        return map(Bundle.of, self._items("/v1/bundles"))

    def create_environment(self, bundle: str, task: str, **options: Any) -> Environment:
        """A task in a bundle, ready to be stepped; see :meth:`connect`.

        Args:
            bundle: id.
            task: its name.
            options: ``cameras``, ``width``, ``height`` and so on.
        """
        request = {"bundle": bundle, "task": task, "options": options}
        return Environment.of(self._post("/v1/environments", request))

    def connect(self, environment: str, num_envs: int) -> RemoteEnv:
        """Worlds of an environment at the service, as a Gymnasium VectorEnv. Needs the extra ``remote``."""
        from simbridge.remote import RemoteEnv

        return RemoteEnv(f"{self.url}/v1/environments/{environment}", num_envs=num_envs, key=self._key)

    def _get(self, path: str) -> dict[str, Any]:
        return self._connection.ask("GET", path).json()

    def _post(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        parts = {} if body is None else {"json": body}
        return self._connection.ask("POST", path, **parts).json()

    def _items(self, path: str, **filters: str | None) -> Iterator[dict[str, Any]]:
        parameters = {key: value for key, value in filters.items() if value is not None}
        while True:
            page = self._connection.ask("GET", path, params=parameters).json()
            yield from page["items"]
            if page["next"] is None:
                return
            parameters["cursor"] = page["next"]
