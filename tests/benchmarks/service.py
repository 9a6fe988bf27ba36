"""The service under load: many listen to a training job, many ask for pictures, and it still answers at once.

    python -m tests.benchmarks.service --listeners 200 --renders 50

Prints the delay of ``/livez`` beside an idle service's, and how many events and pictures there were.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from api.client import Client
from tests.api.service import Service, running

PROBE_EVERY_S = 0.02
TINY = {
    "fit.static.steps": 60,
    "fit.joint.steps": 220,
    "fit.static.count": 800,
    "fit.seeds.count": 400,
    "videos": False,
}
LONGER = TINY | {"fit.joint.steps": 1500, "fit.static.count": 5000}


@dataclass(frozen=True, kw_only=True)
class Load:
    """What was seen while a job trained."""

    events: int
    """That the job said."""
    wrong: int
    """Listeners that heard anything else than all of them once and in order."""
    reconnections: int
    pictures: int
    refused: int
    """Pictures that were put off by 429 or 503."""
    faults: list[str]
    """Whatever else went wrong with a picture."""
    training_s: float
    idle_ms: dict[str, float]
    """Delay of ``/livez`` before: median, p99, largest."""
    loaded_ms: dict[str, float]


def measure(server: Service, listeners: int, renders: int) -> Load:
    """Trains the sample while others listen and look at an earlier scene.

    Args:
        server: a service with one slot.
        listeners: streams of events; every second one hangs up now and then, and goes on where it was.
        renders: pictures in flight at any time.
    """
    with Client(server.url) as client:
        capture = client.send_folder(Path("samples/bench")).id
        first = client.reconstruct(capture, "fast", TINY)
        scene = client.scene(str((client.wait(first.id).result or {})["scene"]))
        idle = probe(server.url, seconds=5)
        began = time.monotonic()
        job = client.reconstruct(capture, "fast", LONGER).id
        probing = start_probe(server.url)
        try:
            heard, answers = asyncio.run(_crowd(server.url, job, scene.id, scene.cameras, listeners, renders))
        finally:
            loaded = end_probe(probing)
        seconds = time.monotonic() - began
        said = [event.seq for event in client.events(job)]
        ended = client.job(job)
    assert ended.state == "succeeded", ended.error
    return Load(
        events=len(said),
        wrong=sum(seqs != said for seqs, _ in heard),
        reconnections=sum(count for _, count in heard),
        pictures=answers.count("200"),
        refused=sum(answer in ("429", "503") for answer in answers),
        faults=sorted({answer for answer in answers if answer not in ("200", "429", "503")}),
        training_s=seconds,
        idle_ms=idle,
        loaded_ms=loaded,
    )


async def _crowd(
    url: str, job: str, scene: str, cameras: tuple[str, ...], listeners: int, renders: int
) -> tuple[list[tuple[list[int], int]], list[str]]:
    over, answers = asyncio.Event(), []
    looking = [asyncio.create_task(_look(url, scene, cameras, n, answers, over)) for n in range(renders)]
    heard = await asyncio.gather(*(listen(url, job, 30 if n % 2 else None) for n in range(listeners)))
    over.set()
    await asyncio.gather(*looking)
    return heard, answers


async def listen(url: str, job: str, hang_up: int | None) -> tuple[list[int], int]:
    """The numbers of all events that a listener hears until the job ends, and how often it came back.

    Args:
        url: the service.
        job: id.
        hang_up: closes the connection after so many events, and asks for those after the last one it has.
    """
    place, seqs, times = urlsplit(url), [], 0
    while True:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        last = f"Last-Event-ID: {seqs[-1]}\r\n" if seqs else ""
        writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: {place.netloc}\r\n"
                     f"Accept: text/event-stream\r\n{last}\r\n".encode())  # fmt: skip
        heard, seq, data = 0, 0, {}
        with suppress(ConnectionError):
            while (line := await reader.readline()) and heard != hang_up:
                if line.startswith(b"id: "):
                    seq = int(line[4:])
                elif line.startswith(b"data: "):
                    data = json.loads(line[6:])["data"]
                elif not line.strip() and data:
                    seqs.append(seq)
                    if data["event"] == "state" and data["state"] in ("succeeded", "failed", "cancelled"):
                        writer.close()
                        return seqs, times
                    heard, data = heard + 1, {}
        writer.close()
        times += 1


async def _look(
    url: str, scene: str, cameras: tuple[str, ...], number: int, answers: list[str], over: asyncio.Event
) -> None:
    """Asks for one picture after the other."""
    place = urlsplit(url)
    while not over.is_set():
        camera, t = cameras[number % len(cameras)], round((len(answers) * 0.07) % 2.0, 2)
        query = f"/v1/scenes/{scene}/render?camera={camera}&t={t}&width=160&format=jpeg"
        try:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(f"GET {query} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n".encode())
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            answers.append(answer.split(b" ", 2)[1].decode() if answer else "no answer")
            if answers[-1] != "200":
                await asyncio.sleep(0.5)
        except (OSError, TimeoutError) as error:
            answers.append(type(error).__name__)


def probe(url: str, seconds: float) -> dict[str, float]:
    """Delays of an idle service."""
    probing = start_probe(url)
    time.sleep(seconds)
    return end_probe(probing)


def start_probe(url: str) -> subprocess.Popen[str]:
    """A process of its own that asks ``/livez`` again and again: this one is busy with the crowd."""
    command = [sys.executable, "-m", "tests.benchmarks.service", "--probe", url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end_probe(probing: subprocess.Popen[str]) -> dict[str, float]:
    text, _ = probing.communicate("\n", timeout=60)
    return json.loads(text)


def _probe(url: str) -> None:
    """Until a line comes on stdin."""
    import select

    connection, delays = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60), []
    while not select.select([sys.stdin], [], [], PROBE_EVERY_S)[0]:
        began = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        delays.append(1000 * (time.perf_counter() - began))
    values = {"median": np.median(delays), "p99": np.percentile(delays, 99), "largest": np.max(delays)}
    print(json.dumps({name: round(float(value), 1) for name, value in values.items()} | {"asked": len(delays)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--renders", type=int, default=50)
    parser.add_argument("--probe", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        _probe(given.probe)
        return
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        print(json.dumps(asdict(measure(server, given.listeners, given.renders)), indent=1))


if __name__ == "__main__":
    main()
