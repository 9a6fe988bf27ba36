"""``recon4d remote``: a service's work from here."""

from __future__ import annotations

import hashlib
import json as json_
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro
from rich.markup import escape
from rich.table import Table

from recon4d.commands import Painter, print_scores, table_console
from recon4d.errors import ConfigError
from recon4d.events import OnEvent, ignore
from recon4d.files import write_atomic

if TYPE_CHECKING:
    from api.client import Client

T = TypeVar("T")
SERVER = "http://127.0.0.1:8400"
KEY_VARIABLE = "RECON4D_API_KEY"
ERRAND = "remote.json"
"""In the output folder: what was begun where, so that the same command goes on with it."""


@dataclass(frozen=True, kw_only=True)
class _Service:
    server: str = SERVER
    """address of the service."""
    key: str | None = None
    """API key; the variable RECON4D_API_KEY when left out, which other users of this machine cannot see."""

    def connect(self, on_event: OnEvent = ignore) -> Client:
        from api.client import Client

        return Client(self.server, self.key or os.environ.get(KEY_VARIABLE) or None, on_event=on_event)

    def advice(self, job: str) -> str:
        """How to go on with a job that this process leaves alone."""
        where = "" if self.server == SERVER else f" --server {self.server}"
        return f"follow it:  recon4d remote follow {job}{where}\ncancel it:  recon4d remote cancel {job}{where}"


@dataclass(frozen=True, kw_only=True)
class Reconstruct(_Service):
    """Have a capture folder reconstructed by a service, and fetch the scene.

    Ctrl-C lets go of it: what was sent stays there, a job that runs goes on. The same command takes it up again, and
    sends and fetches only what is missing.
    """

    capture: Annotated[Path, tyro.conf.Positional]
    """capture folder."""
    out: Path
    """scene folder to make."""
    preset: Literal["fast", "balanced", "quality"] = "balanced"
    """how many Gaussians, and how long they are fitted."""
    heldout_cameras: tuple[str, ...] | None = None
    """cameras to keep from training and score on, instead of those that the capture names."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """change any configuration value, such as fit.joint.steps=5000."""
    quiet: bool = False
    """say nothing but warnings, errors and the result."""
    json: bool = False
    """print events and the result as JSON lines."""

    def run(self) -> int:
        """Sends, waits, fetches, prints."""
        request = {"preset": self.preset, "options": options(self.set)}
        if self.heldout_cameras is not None:
            request["heldout_cameras"] = list(self.heldout_cameras)
        try:
            with Painter(quiet=self.quiet, as_json=self.json) as on_event, self.connect(on_event) as client:
                job = self._begin(client, request, on_event)
                scene = _fetch(client, job, self.out, on_event)
        except KeyboardInterrupt:
            self._let_go()
            return 130
        _print_result(scene, self.out, as_json=self.json)
        return 0

    def _begin(self, client: Client, request: dict[str, Any], on_event: OnEvent) -> str:
        """The job for this folder and request: the one at work already, that one anew, or a new one."""
        errand = Errand.read(self.out)
        if errand.server != client.url or not _is_there(client.capture, errand.capture):
            name = self.capture.resolve().name
            errand = Errand(server=client.url, capture=client.create_capture(name).id)
            errand.write(self.out)  # Before anything is sent, so that nothing is sent twice.
        client.send_folder(self.capture, capture=errand.capture, on_event=on_event)
        subject = fingerprint(client, str(errand.capture), request)
        job = _is_there(client.job, errand.job) if errand.subject == subject else None
        if job is None:
            job = client.reconstruct(str(errand.capture), **request)
        elif job.over and job.state != "succeeded":
            job = client.restart(job.id)
        replace(errand, job=job.id, subject=subject).write(self.out)
        return job.id

    def _let_go(self) -> None:
        job = Errand.read(self.out).job
        if job is None:
            print(f"stopped; what was sent is kept, and the same command goes on at {self.server}", file=sys.stderr)
        else:
            print(f"let go of job {job}, which goes on at {self.server}\n{self.advice(job)}", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Follow(_Service):
    """Show a job's progress until it ends, and fetch its scene when asked."""

    job: Annotated[str, tyro.conf.Positional]
    """id of the job."""
    out: Path | None = None
    """scene folder to make."""
    quiet: bool = False
    """say nothing but warnings, errors and the result."""
    json: bool = False
    """print events and the result as JSON lines."""

    def run(self) -> int:
        """Waits, fetches, prints."""
        try:
            with Painter(quiet=self.quiet, as_json=self.json) as on_event, self.connect(on_event) as client:
                if self.out is None:
                    ended = client.wait(self.job, on_event=on_event)
                    print(json_.dumps({"event": "result", **(ended.result or {})}))
                    return 0
                scene = _fetch(client, self.job, self.out, on_event)
        except KeyboardInterrupt:
            print(f"let go of job {self.job}\n{self.advice(self.job)}", file=sys.stderr)
            return 130
        _print_result(scene, self.out, as_json=self.json)
        return 0


@dataclass(frozen=True, kw_only=True)
class Cancel(_Service):
    """Ask a job to stop. What it has reached is kept at the service."""

    job: Annotated[str, tyro.conf.Positional]
    """id of the job."""

    def run(self) -> int:
        """Asks."""
        with self.connect() as client:
            print(f"{self.job} is {client.cancel(self.job).state}, and asked to stop")
        return 0


@dataclass(frozen=True, kw_only=True)
class List(_Service):
    """Show a service's scenes and its jobs, newest first."""

    json: bool = False
    """print one JSON line a scene and a job."""

    def run(self) -> int:
        """Prints them."""
        with self.connect() as client:
            scenes, jobs = list(client.scenes()), list(client.jobs())
        if self.json:
            for record in (*scenes, *jobs):
                print(json_.dumps(asdict(record)))
            return 0
        for title, columns, rows in (
            ("scenes", ("id", "name", "made", "seconds", "splats"),
             [(s.id, s.name, s.created_at, f"{s.duration_s:.1f}", f"{s.splats:,}") for s in scenes]),
            ("jobs", ("id", "kind", "name", "made", "state", "stage", "done"),
             [(j.id, j.kind, j.name, j.created_at, j.state, j.stage, f"{100 * j.fraction:.0f} %") for j in jobs]),
        ):  # fmt: skip
            table = Table(title=title, title_justify="left")
            for column in columns:  # An id is to be copied: it stays whole, in a line.
                widest = max((len(row[0]) for row in rows), default=0) if column == "id" else None
                table.add_column(column, overflow="fold", min_width=widest)
            for row in rows:
                table.add_row(*map(escape, row))
            table_console().print(table)
        return 0


@dataclass(frozen=True, kw_only=True)
class Download(_Service):
    """Fetch a scene; a second time only what is missing."""

    scene: Annotated[str, tyro.conf.Positional]
    """id of the scene."""
    out: Path
    """scene folder to make."""
    quiet: bool = False
    """say nothing but warnings, errors and the result."""

    def run(self) -> int:
        """Fetches."""
        with Painter(quiet=self.quiet) as on_event, self.connect(on_event) as client:
            print(f"scene   {client.download(self.scene, self.out, on_event=on_event)}")
        return 0


Action = (
    Annotated[Reconstruct, tyro.conf.subcommand("reconstruct")]
    | Annotated[Follow, tyro.conf.subcommand("follow")]
    | Annotated[Cancel, tyro.conf.subcommand("cancel")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Download, tyro.conf.subcommand("download")]
)


def remote(action: Annotated[Action, tyro.conf.arg(name="")]) -> int:
    """Have a service do the work: send a capture, follow the job, fetch the scene."""
    return action.run()


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What was begun for an output folder."""

    server: str = ""
    capture: str | None = None
    job: str | None = None
    subject: str = ""
    """Fingerprint of files, calibration and request that the job is about."""

    @classmethod
    def read(cls, out: Path) -> Errand:
        """What an earlier run noted; an empty errand where there was none."""
        try:
            return cls(**json_.loads((out / ERRAND).read_text("utf-8")))
        except (OSError, ValueError, TypeError):  # None, or nothing that can be gone on with.
            return cls()

    def write(self, out: Path) -> None:
        write_atomic(out / ERRAND, json_.dumps(asdict(self), indent=1) + "\n")


def fingerprint(client: Client, capture: str, request: dict[str, Any]) -> str:
    """The same for the same files, calibration and request."""
    files = sorted((file.camera, file.kind, file.sha256) for file in client.capture(capture).files)
    text = json_.dumps([files, client.calibration(capture), request], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def options(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Values by dotted name, of ``NAME=VALUE``; the service knows which there are.

    Raises:
        ConfigError: no assignment.
    """
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise ConfigError(f"'{assignment}' is no assignment; write NAME=VALUE, for example fit.joint.steps=5000")
        try:
            found[name.strip()] = json_.loads(text)
        except ValueError:
            found[name.strip()] = text.strip()
    return found


def _fetch(client: Client, job: str, out: Path, on_event: OnEvent) -> str:
    """Waits for a reconstruction and brings its scene here; returns the scene's id."""
    ended = client.wait(job, on_event=on_event)
    scene = (ended.result or {}).get("scene")
    if scene is None:
        raise ConfigError(f"job {job} is a {ended.kind} job and makes no scene; leave --out out")
    client.download(scene, out, on_event=on_event)
    return scene


def _print_result(scene: str, out: Path, *, as_json: bool) -> None:
    scores = json_.loads((out / "scores.json").read_text("utf-8")) if (out / "scores.json").is_file() else {}
    if as_json:
        print(json_.dumps({"event": "result", "id": scene, "scene": str(out), "scores": scores}), flush=True)
    else:
        print_scores(scores)
        print(f"scene   {out}\nreport  {out / 'report.html'}\nat      the service as {scene}")


def _is_there(ask: Callable[[str], T], id: str | None) -> T | None:
    """What the service has by that id; None when it has nothing."""
    from api.client import ServiceError

    if id is None:
        return None
    try:
        return ask(id)
    except ServiceError as error:
        if error.status != 404:
            raise
        return None
