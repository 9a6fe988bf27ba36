"""Rasterizers against metal-gauss' PyTorch renderer, forward + backward, in one process.

    python tests/benchmarks/raster.py

100,000 random Gaussians at 640x480, about 8 pixels in radius, seen by one rotated camera. The peer draws rgb and alpha
from ready colours, with 8x8 tiles, its fastest setting on a CPU; the "full" row does more than the peer: spherical
harmonics of degree 3, depth and the pose gradient.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from metal_gauss import torch_ref
from torch import Tensor

from recon4d.geometry import SH_C0
from recon4d.raster import rasterize
from recon4d.raster.cpu import _bins, _project, _tiles
from recon4d.types import Cameras, Splats

COUNT, WIDTH, HEIGHT = 100_000, 640, 480
BACKGROUND = (0.1, 0.2, 0.3)
ROUNDS = 3
"""Times that every contender runs, in turn; medians are compared."""
_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")
_STAGES = (
    (_project, "project"),
    (_bins, "order_by_depth"),
    (_bins, "fill_tiles"),
    (_tiles, "blend"),
    (_tiles, "blend_gradient"),
    (_project, "project_gradient"),
)


def world(degree: int) -> tuple[Splats, Cameras]:
    """Splats spread evenly over the image, a twentieth beyond its border, 2 to 10 m away; and the camera."""
    generator = torch.Generator().manual_seed(0)
    focal = 0.9 * WIDTH
    z = 2 + 8 * torch.rand(COUNT, generator=generator)
    pixels = (torch.rand(COUNT, 2, generator=generator) * 1.1 - 0.05) * torch.tensor([WIDTH, HEIGHT])
    xy = (pixels - torch.tensor([WIDTH, HEIGHT]) / 2) / focal * z[:, None]
    scales = 1.75 * torch.exp(0.45 * torch.randn(COUNT, 3, generator=generator)) * (z / focal)[:, None]
    a, b = 0.3, 0.2
    turn = torch.tensor([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
    tilt = torch.tensor([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    view = torch.eye(4)
    view[:3, :3], view[:3, 3] = turn @ tilt, torch.tensor([0.3, -0.2, 0.5])
    sh = 0.1 * torch.randn(COUNT, (degree + 1) ** 2, 3, generator=generator)
    sh[:, 0] = (torch.rand(COUNT, 3, generator=generator) - 0.5) / SH_C0
    splats = Splats(
        means=(torch.cat([xy, z[:, None]], 1) - view[:3, 3]) @ view[:3, :3],
        quats=torch.randn(COUNT, 4, generator=generator),
        scales=scales,
        opacities=0.1 + 0.85 * torch.rand(COUNT, generator=generator),
        sh=sh,
    )
    K = torch.tensor([[[focal, 0.0, WIDTH / 2], [0.0, focal, HEIGHT / 2], [0.0, 0.0, 1.0]]])
    return splats, Cameras(viewmats=view[None], Ks=K, width=WIDTH, height=HEIGHT)


def ours(backend: str, *, full: bool = False) -> Callable[[], None]:
    """One step of a backend: image, linear loss, gradients."""
    splats, cameras = world(3 if full else 0)
    leaves = [getattr(splats, name).requires_grad_() for name in _ATTRIBUTES]
    if full:
        leaves.append(cameras.viewmats.requires_grad_())
    weights = _weights()

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        outputs = ("rgb", "alpha", "depth") if full else ("rgb", "alpha")
        output = rasterize(splats, cameras, background=BACKGROUND, backend=backend, outputs=outputs)
        assert output.rgb is not None
        loss = (output.rgb[0] * weights).sum()
        if output.depth is not None:
            loss = loss + (output.depth[0] * weights[..., 0]).sum()
        loss.backward()

    return step


def peer() -> Callable[[], None]:
    """One step of metal-gauss on the same scene."""
    splats, cameras = world(0)
    colours = (splats.sh[:, 0] * SH_C0 + 0.5).clamp_min(0)
    leaves = [x.requires_grad_() for x in (splats.means, splats.quats, splats.scales, splats.opacities, colours)]
    weights = _weights()

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        image, _, info = torch_ref.render(
            *leaves[:4], splats.sh, cameras.Ks[0], cameras.viewmats[0], WIDTH, HEIGHT,
            tile=8, background=BACKGROUND, colors=colours,
        )  # fmt: skip
        assert info["isect_dropped"] == 0
        (image * weights).sum().backward()

    return step


def rows() -> list[dict]:
    """name, ours_ms, peer, peer_ms, ratio of each comparison."""
    contenders = {
        "raster_cpu_vs_metal_gauss": ours("cpu"),
        "raster_cpu_full_vs_metal_gauss": ours("cpu", full=True),
        "raster_torch_vs_metal_gauss": ours("torch"),
    }
    other = peer()
    for name in list(contenders)[:2]:
        contenders[name]()  # Compiles.
    times: dict[str, list[float]] = {name: [] for name in contenders}
    peer_times: list[float] = []
    for _ in range(ROUNDS):
        for name, step in contenders.items():
            # Short steps are repeated, for a median that one interruption does not move.
            times[name] += [_milliseconds(step) for _ in range(1 if "torch" in name else 9)]
        peer_times.append(_milliseconds(other))
    peer_ms = statistics.median(peer_times)
    return [
        {
            "name": name,
            "ours_ms": statistics.median(times[name]),
            "peer": "metal-gauss 0.2 torch_ref, tile=8",
            "peer_ms": peer_ms,
            "ratio": peer_ms / statistics.median(times[name]),
        }
        for name in contenders
    ]


def stages(*, full: bool, repeats: int = 15) -> dict[str, float]:
    """Median milliseconds of each kernel in one cpu step, and of the whole step."""
    step = ours("cpu", full=full)
    step()
    with _timed() as times:
        whole = [_milliseconds(step) for _ in range(repeats)]
    return {name: statistics.median(t) for name, t in times.items()} | {"step": statistics.median(whole)}


def _weights() -> Tensor:
    return torch.randn(HEIGHT, WIDTH, 3, generator=torch.Generator().manual_seed(1)) / (HEIGHT * WIDTH)


def _milliseconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - start)


@contextmanager
def _timed() -> Iterator[dict[str, list[float]]]:
    """Puts a clock around every kernel of the cpu backend."""
    times: dict[str, list[float]] = {name: [] for _, name in _STAGES}
    kernels = [(module, name, getattr(module, name)) for module, name in _STAGES]

    def clocked(name: str, kernel: Callable) -> Callable:
        def run(*args: object) -> object:
            start = time.perf_counter()
            result = kernel(*args)
            times[name].append(1e3 * (time.perf_counter() - start))
            return result

        return run

    for module, name, kernel in kernels:
        setattr(module, name, clocked(name, kernel))
    try:
        yield times
    finally:
        for module, name, kernel in kernels:
            setattr(module, name, kernel)


def main() -> None:
    for row in rows():
        print(f"{row['name']:34s} {row['ours_ms']:8.1f} ms   {row['peer_ms']:8.1f} ms   {row['ratio']:6.1f}x")
    for full in (False, True):
        print("cpu full" if full else "cpu", {name: round(ms, 2) for name, ms in stages(full=full).items()})


if __name__ == "__main__":
    main()
