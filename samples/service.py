"""A capture folder becomes a scene and an environment, all of it by a service.

    recon4d serve
    python samples/service.py samples/bench --bundle samples/bench_sim --out build/remote

With a key in RECON4D_API_KEY when the service asks for one. Needs the extra ``remote``.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from api.client import Client
from recon4d.events import Event, Finished, Progress, Warned


def tell(event: Event) -> None:
    """One line an event, of those that a person wants to see."""
    if isinstance(event, Progress):
        print(f"\r{event.stage}: {100 * event.step / max(event.total, 1):.0f} %  ", end="", flush=True)
    elif isinstance(event, Finished):
        print(f"\r{event.stage}: done  ")
    elif isinstance(event, Warned):
        print(f"\nwarning: {event.message}")


def make_scene(client: Client, given: argparse.Namespace) -> str:
    """Sends the capture, has it checked and reconstructed, fetches the scene; returns the scene's id."""
    capture = client.send_folder(given.capture, on_event=tell)
    findings = client.wait(client.check(capture.id).id).result or {}
    for finding in findings.get("findings", []):
        print(f"{finding['severity']}: {finding['message']}")
    options = dict(assignment.split("=", 1) for assignment in given.set)
    job = client.reconstruct(capture.id, given.preset, options)
    scene = (client.wait(job.id, on_event=tell).result or {})["scene"]
    client.download(scene, given.out / "scene", on_event=tell)
    look = client.render(scene, camera=client.scene(scene).cameras[0], t=1.0, width=320, format="png")
    (given.out / "look.png").write_bytes(look)
    return scene


def drive(client: Client, scene: str, given: argparse.Namespace) -> None:
    """Puts a robot into the scene and moves it at random, in four worlds."""
    config = json.loads((given.bundle / "config.json").read_text("utf-8"))
    files = {path.name: path.read_text("utf-8") for path in given.bundle.glob("*.xml")}
    job = client.build_bundle(scene, config, files)
    bundle = (client.wait(job.id, on_event=tell).result or {})["bundle"]
    cameras = list(client.scene(scene).cameras[:2])
    environment = client.create_environment(bundle, "reach", cameras=cameras, width=128, height=128)
    envs = client.connect(environment.id, num_envs=4)
    observation, _ = envs.reset(seed=0)
    print({name: pictures.shape for name, pictures in observation["images"].items()})
    for _ in range(given.steps):
        observation, rewards, *_ = envs.step(envs.action_space.sample())
    print(f"rewards after {given.steps} steps: {rewards.round(2).tolist()}")
    envs.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture")
    parser.add_argument("--bundle", type=Path, help="folder with config.json and the MJCF that it names")
    parser.add_argument("--server", default="http://127.0.0.1:8400")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="configuration values")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("build/remote"))
    given = parser.parse_args()
    with Client(given.server, os.environ.get("RECON4D_API_KEY"), on_event=tell) as client:
        scene = make_scene(client, given)
        if given.bundle:
            drive(client, scene, given)


if __name__ == "__main__":
    main()
