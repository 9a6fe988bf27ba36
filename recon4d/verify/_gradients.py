"""Images and gradients on the device beside the float64 reference on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon4d.loss import LossTerms, image_loss
from recon4d.model import Gaussians4D, Layout, view_vector
from recon4d.raster import make_plans, rasterize, survey, uncertain_pixels
from recon4d.types import Cameras, Splats
from recon4d.verify import _limits, _scenes, _suspects
from recon4d.verify._report import Finding

_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")
_OUTPUTS = ("rgb", "alpha", "depth")
_BACKGROUND, _WHITE = (0.1, 0.2, 0.3), (1.0, 1.0, 1.0)
_THICK = 0.1
"""Alpha from which a pixel's depth takes part in the gradient: division by a small one enlarges what float32 rounds."""
_TERMS = LossTerms(l1=0.8, ssim=0.2, l2=10.0)
"""Those of a fit."""


@dataclass(frozen=True)
class Drawn:
    """Images and gradients by name, on the CPU."""

    images: dict[str, Tensor]
    gradients: dict[str, Tensor]


def images_and_gradients(device: torch.device, backend: str, seed: int) -> Iterator[Finding]:
    """Draws two scenes, and compares every image and the gradient in every attribute and in the camera's pose."""
    yield from _probed(device, backend)
    splats = replace(_scenes.cloud(seed).at(_scenes.INSTANT_S), rows=None)
    cameras = Cameras.of(_scenes.off_centre())
    for scene, drawn in (("translucent", splats), ("opaque", _scenes.opaque(splats))):
        limits = _limits.limits(backend, scene)
        sure = ~uncertain_pixels(drawn, cameras)
        weights = _weights(drawn, cameras, sure, seed)
        wanted = _draw(drawn, cameras, weights, "reference")
        found = _draw(_on(device, drawn), _cameras_on(device, cameras), _moved(weights, device), backend)
        for name, image in wanted.images.items():
            error = (found.images[name] - image).abs()[sure]
            mean, largest = float(error.mean()), float(error.flatten().quantile(0.999))
            what, why = f"{name} of the {scene} scene", limits.reason
            if name == "rgb" and not mean <= limits.image_mean:
                why = _suspects.suspect(found.images[name], drawn, cameras, sure) or why
            yield _judged("images", f"{what}, mean error", mean, limits.image_mean, why)
            yield _judged("images", f"{what}, error of 99.9 % at most", largest, limits.image_p999, limits.reason)
        for name, gradient in wanted.gradients.items():
            yield _distance("gradients", f"{name}, {scene} scene", found.gradients[name], gradient, limits)


def _probed(device: torch.device, backend: str) -> Iterator[Finding]:
    """Pictures whose middle shows one thing alone."""
    limits = _limits.limits(backend, "opaque")
    for name, splats, cameras in _suspects.probes():
        with torch.no_grad():
            wanted = rasterize(splats, cameras, background=_WHITE, backend="reference").rgb
            there = _on(device, splats), _cameras_on(device, cameras)
            found = rasterize(*there, background=_WHITE, backend=backend).rgb
        assert wanted is not None
        assert found is not None
        mine, theirs = found[0, 1, 1].cpu(), wanted[0, 1, 1]
        shown = f"rgb is {', '.join(f'{value:.4f}' for value in mine.tolist())}"
        told = f"{shown}, not {', '.join(f'{value:.4f}' for value in theirs.tolist())}"
        error = float((mine - theirs).abs().max())
        yield _judged("images", name, error, limits.image_p999, told if error > limits.image_p999 else limits.reason)


def first_step(device: torch.device, backend: str, seed: int) -> Iterator[Finding]:
    """Makes the first step of a training up to its gradient: the model at an instant, the picture, the loss and back.

    On an accelerator as training does it there: with room fixed ahead.
    """
    model, cameras = _scenes.cloud(seed), Cameras.of(_scenes.off_centre())
    generator = torch.Generator().manual_seed(seed + 1)
    target = torch.randint(0, 256, (_scenes.HEIGHT, _scenes.WIDTH, 3), generator=generator, dtype=torch.uint8)
    seen = replace(model.at(_scenes.INSTANT_S), rows=None)
    sure = ~uncertain_pixels(seen, cameras)[0]
    wanted = _step(model, target, sure, "reference")
    found = _step(model.to(device), target.to(device), sure.to(device), backend)
    limits = _limits.limits(backend, "translucent")
    loss = abs(found[0] - wanted[0]) / abs(wanted[0])
    yield _judged("first step", "loss", loss, limits.image_mean, limits.reason)
    for name, columns in _columns(model.layout).items():
        yield _distance("first step", f"gradient of {name}", found[1][:, columns], wanted[1][:, columns], limits)


def _judged(part: str, name: str, value: float, limit: float, detail: str) -> Finding:
    # Not "value > limit": what is not a number must fail.
    return Finding(part=part, name=name, passed=value <= limit, value=value, limit=limit, detail=detail)


def _distance(part: str, name: str, found: Tensor, wanted: Tensor, limits: _limits.Relaxed) -> Finding:
    """A gradient's L2 distance over the norm of what is wanted."""
    value = float((found.double() - wanted.double()).norm() / wanted.double().norm().clamp_min(1e-30))
    told = limits.reason if value <= limits.gradient else _suspects.likeness(found, wanted) or limits.reason
    return _judged(part, name, value, limits.gradient, told)


def _weights(splats: Splats, cameras: Cameras, sure: Tensor, seed: int) -> dict[str, Tensor]:
    """Weights of a loss that sees only pixels in which rounding does not decide what is drawn."""
    with torch.no_grad():
        alpha = rasterize(splats, cameras, backend="reference", outputs=("alpha",)).alpha
    assert alpha is not None
    generator = torch.Generator().manual_seed(seed)
    return {
        "rgb": torch.randn(*sure.shape, 3, generator=generator) * sure[..., None],
        "alpha": torch.randn(sure.shape, generator=generator) * sure,
        "depth": torch.randn(sure.shape, generator=generator) * (sure & (alpha > _THICK)),
    }


def _draw(splats: Splats, cameras: Cameras, weights: Mapping[str, Tensor], backend: str) -> Drawn:
    leaves = {name: getattr(splats, name).clone().requires_grad_() for name in _ATTRIBUTES}
    viewmats = cameras.viewmats.clone().requires_grad_()
    output = rasterize(
        Splats(**leaves),
        replace(cameras, viewmats=viewmats),
        backend=backend,
        outputs=_OUTPUTS,
    )
    images = {name: getattr(output, name) for name in _OUTPUTS}
    torch.stack([(images[name] * weight).sum() for name, weight in weights.items()]).sum().backward()
    gradients: dict[str, Tensor] = {}
    for name, leaf in leaves.items():
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        bands = _bands(splats.sh_degree) if name == "sh" else {name: slice(None)}
        gradients |= {band: (gradient[:, part] if name == "sh" else gradient).cpu() for band, part in bands.items()}
    turned = torch.zeros_like(viewmats) if viewmats.grad is None else viewmats.grad
    return Drawn({name: image.detach().cpu() for name, image in images.items()}, gradients | {"pose": turned.cpu()})


def _bands(degree: int) -> dict[str, slice]:
    return {f"SH band {band}": slice(band**2, (band + 1) ** 2) for band in range(degree + 1)}


def _step(model: Gaussians4D, target: Tensor, sure: Tensor, backend: str) -> tuple[float, Tensor]:
    """The loss, and the gradient [N, D] of the raw parameters on the CPU."""
    camera, device = _scenes.off_centre(), model.device
    cameras, plans, view, room = Cameras.of(camera, device=device), None, None, None
    if device.type != "cpu":
        view, room = torch.from_numpy(view_vector(camera)).float().to(device), len(model)
        with torch.no_grad():
            whole = model.slice(_scenes.INSTANT_S, view=view, room=room).splats
        counts = survey(whole, cameras, backend=backend)
        plans = None if counts is None else make_plans(list(counts.cpu().numpy()), 1.25, device)
    part = model.slice(_scenes.INSTANT_S, camera if view is None else None, view=view, room=room)
    drawn = rasterize(part.splats, cameras, background=_BACKGROUND, backend=backend, outputs=("rgb",), plans=plans)
    assert drawn.rgb is not None
    # Elsewhere the picture is made right, so that the window of SSIM sees nothing that rounding decides.
    shown = torch.where(sure[..., None], drawn.rgb[0], target.to(drawn.rgb.dtype) / 255)
    loss = image_loss(shown, target, terms=_TERMS)
    loss.backward()
    whole = torch.zeros(model.params.shape)
    whole[part.rows.cpu()] = part.gradient().cpu()
    return float(loss.detach()), whole


def _columns(layout: Layout) -> dict[str, slice]:
    """Columns of the raw parameters by what they are called in a finding."""
    columns = dict(layout.columns)
    start = columns.pop("sh_rest").start - 3
    for name, part in _bands(layout.sh_degree).items():
        columns[name] = slice(start + 3 * part.start, start + 3 * part.stop)
    columns.pop("sh_dc")
    return columns


def _on(device: torch.device, splats: Splats) -> Splats:
    return Splats(**{name: getattr(splats, name).to(device) for name in _ATTRIBUTES})


def _cameras_on(device: torch.device, cameras: Cameras) -> Cameras:
    return replace(cameras, viewmats=cameras.viewmats.to(device), Ks=cameras.Ks.to(device))


def _moved(weights: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: weight.to(device) for name, weight in weights.items()}
