"""The loss and its gradient, every backend against a plain float64 reference."""

from __future__ import annotations

import math
from itertools import product

import numba
import pytest
import torch
from numba.np.ufunc.parallel import get_thread_count
from torch import Tensor

from recon4d.errors import BackendError
from recon4d.loss import LossTerms, backends, image_loss

BACKENDS = pytest.mark.parametrize("backend", backends())
MIXED = LossTerms(l1=0.8, ssim=0.2, l2=3.0)


def reference_ssim(a: Tensor, b: Tensor) -> Tensor:
    """SSIM [H, W, 3] by its definition: for each pixel, moments under a 2-D window that hangs over into zeros."""
    taps = torch.exp(-((torch.arange(11.0, dtype=torch.float64) - 5) ** 2) / (2 * 1.5**2))
    window = torch.outer(taps, taps) / taps.sum() ** 2

    def mean(image: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(image, (0, 0, 5, 5, 5, 5))
        return torch.einsum("hwcij,ij->hwc", padded.unfold(0, 11, 1).unfold(1, 11, 1), window)

    mean_a, mean_b = mean(a), mean(b)
    variance_a, variance_b = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2
    covariance = mean(a * b) - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
    return luminance * (2 * covariance + 9e-4) / (variance_a + variance_b + 9e-4)


def reference_loss(rgb: Tensor, target: Tensor, weight: Tensor, terms: LossTerms, pixels: int) -> Tensor:
    difference = rgb - target
    cost = terms.l1 * difference.abs() + terms.l2 * difference**2 + terms.ssim * (1 - reference_ssim(rgb, target))
    return (weight[..., None] * cost).sum() / (3 * pixels)


def images(height: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A smooth picture with noise as rendering, the picture as uint8 target, and weights; all differ everywhere."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(height) / 9.0, torch.arange(width) / 7.0, indexing="ij")
    picture = 0.5 + 0.4 * torch.stack([torch.sin(x + y), torch.cos(x - 2 * y), torch.sin(3 * x) * torch.cos(y)], -1)
    rendered = (picture + 0.1 * torch.randn(height, width, 3, generator=generator)).clamp(0, 1)
    target = (255 * picture).to(torch.uint8)
    return rendered + 1e-4, target, 0.1 + torch.rand(height, width, generator=generator)


def value_and_gradient(rgb: Tensor, target: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    rgb = rgb.clone().requires_grad_()
    loss = image_loss(rgb, target, **options)  # type: ignore[arg-type]
    loss.backward()
    assert rgb.grad is not None
    return loss.detach(), rgb.grad


def check(height: int, width: int, terms: LossTerms, backend: str, *, weighted: bool, as_float: bool) -> None:
    rgb, target, weight = images(height, width)
    exact = rgb.double().requires_grad_()
    counted = weight.double() if weighted else torch.ones(height, width, dtype=torch.float64)
    expected = reference_loss(exact, target.double() / 255, counted, terms, 1000)
    expected.backward()
    assert exact.grad is not None
    given = target.float() / 255 if as_float else target
    loss, gradient = value_and_gradient(
        rgb, given, weight=weight if weighted else None, terms=terms, pixels=1000, backend=backend
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)  # Worst seen 1.2e-7 in cpu, 4e-7 in torch.
    error = (gradient.double() - exact.grad).norm() / exact.grad.norm()
    assert error < 1e-5  # Worst seen 8e-7 in cpu, 2.5e-6 in torch.


@BACKENDS
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (5, 7), (11, 11), (16, 16), (33, 50), (150, 21), (64, 107)])
def test_against_reference(size: tuple[int, int], backend: str) -> None:
    check(*size, MIXED, backend, weighted=True, as_float=False)


@BACKENDS
@pytest.mark.parametrize(("weighted", "as_float"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize(
    "terms", [LossTerms(), LossTerms(ssim=0.0, l2=1.0), LossTerms(l1=0.0, ssim=1.0), LossTerms(l1=1.0, ssim=0.0)]
)
def test_terms_and_inputs(terms: LossTerms, weighted: bool, as_float: bool, backend: str) -> None:
    check(24, 30, terms, backend, weighted=weighted, as_float=as_float)


@BACKENDS
def test_flat_bright_images_keep_their_digits(backend: str) -> None:
    """Nearly constant images, where variance is a small difference of large numbers in float32."""
    generator = torch.Generator().manual_seed(4)
    rgb = 0.95 + 0.002 * torch.randn(30, 30, 3, generator=generator)
    target = 0.95 + 0.002 * torch.randn(30, 30, 3, generator=generator)
    exact = rgb.double().requires_grad_()
    terms = LossTerms(l1=0.0, ssim=1.0)
    reference_loss(exact, target.double(), torch.ones(30, 30, dtype=torch.float64), terms, 900).backward()
    assert exact.grad is not None
    gradient = value_and_gradient(rgb, target, terms=terms, backend=backend)[1]
    # Worst seen 1.3e-5 in cpu, which holds values about one half, and 6.7e-5 in torch.
    assert (gradient.double() - exact.grad).norm() / exact.grad.norm() < 3e-4


@BACKENDS
def test_known_values(backend: str) -> None:
    """0.25 off everywhere, by hand."""
    rgb, target = torch.full((4, 6, 3), 0.75), torch.full((4, 6, 3), 0.5)
    l1 = image_loss(rgb, target, terms=LossTerms(l1=1.0, ssim=0.0), backend=backend)
    l2 = image_loss(rgb, target, terms=LossTerms(l1=0.0, ssim=0.0, l2=1.0), backend=backend)
    crop = image_loss(rgb, target, terms=LossTerms(l1=1.0, ssim=0.0), pixels=4 * 4 * 6, backend=backend)
    assert [l1.item(), l2.item(), crop.item()] == pytest.approx([0.25, 0.0625, 0.0625])
    same = image_loss(target, target, backend=backend)
    assert same.item() == pytest.approx(0, abs=1e-6)


@BACKENDS
def test_batch_is_the_mean_of_its_images(backend: str) -> None:
    singles = [images(20, 26, seed) for seed in range(3)]
    rgb, target, weight = (torch.stack(parts) for parts in zip(*singles, strict=True))
    loss, gradient = value_and_gradient(rgb, target, weight=weight, terms=MIXED, backend=backend)
    shared = value_and_gradient(rgb, target, weight=weight[0], terms=MIXED, backend=backend)[1]
    each = [value_and_gradient(r, t, weight=w, terms=MIXED, backend=backend) for r, t, w in singles]
    assert loss.item() == pytest.approx(sum(value.item() for value, _ in each) / 3, rel=1e-6)
    for i, (_, own) in enumerate(each):
        torch.testing.assert_close(gradient[i], own / 3, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(shared[0], gradient[0], rtol=1e-5, atol=1e-9)


@BACKENDS
def test_crop_with_full_count_has_full_gradient(backend: str) -> None:
    """Away from its border, a crop's gradient is that of the whole image."""
    rgb, target, weight = images(48, 60)
    whole = value_and_gradient(rgb, target, weight=weight, terms=MIXED, backend=backend)[1]
    rows, columns = slice(8, 40), slice(12, 50)
    part = (image[rows, columns] for image in (rgb, target, weight))
    cropped_rgb, cropped_target, cropped_weight = part
    crop = value_and_gradient(
        cropped_rgb, cropped_target, weight=cropped_weight, terms=MIXED, pixels=48 * 60, backend=backend
    )[1]
    inner = slice(10, -10)
    torch.testing.assert_close(crop[inner, inner], whole[rows, columns][inner, inner], rtol=1e-4, atol=1e-9)


@BACKENDS
def test_weight_zero_takes_a_pixel_out(backend: str) -> None:
    rgb, target, weight = images(30, 30)
    weight[:] = 0
    weight[15, 15] = 1
    loss, gradient = value_and_gradient(rgb, target, weight=weight, terms=LossTerms(l1=1.0, ssim=0.0), backend=backend)
    assert loss.item() > 0
    assert gradient[15, 15].abs().min() > 0
    gradient[15, 15] = 0
    assert not gradient.any()


@BACKENDS
@pytest.mark.parametrize("terms", [LossTerms(), LossTerms(ssim=0.0)])
def test_nan_propagates_and_stays_local(terms: LossTerms, backend: str) -> None:
    rgb, target, _ = images(40, 40)
    rgb[20, 20, 1] = float("nan")
    loss, gradient = value_and_gradient(rgb, target, terms=terms, backend=backend)
    assert math.isnan(loss.item())
    if terms.ssim > 0:  # The derivative of |NaN| alone is whatever a backend makes of it.
        assert gradient[20, 20, 1].isnan()
    assert torch.isfinite(gradient[:9]).all()
    assert torch.isfinite(gradient[:, 31:]).all()


@BACKENDS
def test_gradient_scales_with_what_comes_from_above(backend: str) -> None:
    rgb, target, _ = images(20, 20)
    once = value_and_gradient(rgb, target, backend=backend)[1]
    doubled = rgb.clone().requires_grad_()
    (2.5 * image_loss(doubled, target, backend=backend)).backward()
    torch.testing.assert_close(doubled.grad, 2.5 * once)


@BACKENDS
def test_without_gradient_the_value_is_the_same(backend: str) -> None:
    rgb, target, weight = images(90, 31)
    loss, _ = value_and_gradient(rgb, target, weight=weight, terms=MIXED, backend=backend)
    plain = image_loss(rgb, target, weight=weight, terms=MIXED, backend=backend)
    assert not plain.requires_grad
    assert torch.equal(plain, loss)


@BACKENDS
def test_views_of_other_images_are_taken(backend: str) -> None:
    """A crop is no contiguous tensor, and a channel-first rendering neither."""
    rgb, target, weight = images(30, 40)
    expected = value_and_gradient(
        rgb[4:24, 6:30].clone(), target[4:24, 6:30].clone(), weight=weight[4:24, 6:30].clone(), backend=backend
    )
    channel_first = rgb.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    whole = channel_first.requires_grad_()
    loss = image_loss(whole[4:24, 6:30], target[4:24, 6:30], weight=weight[4:24, 6:30], backend=backend)
    loss.backward()
    assert whole.grad is not None
    torch.testing.assert_close(loss.detach(), expected[0])
    torch.testing.assert_close(whole.grad[4:24, 6:30], expected[1])


def test_cpu_takes_other_float_types() -> None:
    rgb, target, _ = images(20, 20)
    expected, gradient = value_and_gradient(rgb, target, backend="cpu")
    loss, double = value_and_gradient(rgb.double(), target.double() / 255, backend="cpu")
    assert loss.dtype == double.dtype == torch.float64
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(double.float(), gradient, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("terms", [MIXED, LossTerms(ssim=0.0)])
def test_threads_do_not_change_a_bit(terms: LossTerms) -> None:
    rgb, target, weight = images(300, 23)
    results = []
    before = numba.get_num_threads()
    for threads in (1, get_thread_count()):
        numba.set_num_threads(threads)
        try:
            results.append(value_and_gradient(rgb, target, weight=weight, terms=terms, backend="cpu"))
        finally:
            numba.set_num_threads(before)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_scratch_of_another_size_leaves_no_trace() -> None:
    rgb, target, weight = images(30, 50)
    small = tuple(image[:13, :9].contiguous() for image in (rgb, target, weight))
    first = value_and_gradient(small[0], small[1], weight=small[2], terms=MIXED, backend="cpu")
    value_and_gradient(rgb + float("nan"), target, terms=MIXED, backend="cpu")
    again = value_and_gradient(small[0], small[1], weight=small[2], terms=MIXED, backend="cpu")
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


@pytest.mark.parametrize(
    ("rgb", "target", "options", "message"),
    [
        (torch.zeros(4, 4, 4), torch.zeros(4, 4, 4), {}, "rgb must be float"),
        (torch.zeros(4, 4, 3, dtype=torch.uint8), torch.zeros(4, 4, 3), {}, "rgb must be float"),
        (torch.zeros(0, 4, 3), torch.zeros(0, 4, 3), {}, "not empty"),
        (torch.zeros(4, 4, 3), torch.zeros(4, 5, 3), {}, "target must be"),
        (torch.zeros(4, 4, 3), torch.zeros(4, 4, 3, dtype=torch.int64), {}, "int64"),
        (torch.zeros(4, 4, 3), torch.zeros(4, 4, 3), {"weight": torch.zeros(4, 3)}, "weight must be"),
        (torch.zeros(4, 4, 3), torch.zeros(4, 4, 3), {"pixels": 0}, "pixels"),
        (torch.zeros(4, 4, 3), torch.zeros(4, 4, 3, device="meta"), {}, "must be on cpu"),
    ],
)
def test_bad_input_is_named(rgb: Tensor, target: Tensor, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_loss(rgb, target, **options)


def test_unknown_and_unfit_backends() -> None:
    rgb = torch.zeros(4, 4, 3)
    with pytest.raises(BackendError, match="did you mean 'torch'"):
        image_loss(rgb, rgb, backend="troch")
    with pytest.raises(BackendError, match="serves cpu, not tensors on 'meta'"):
        image_loss(rgb.to("meta"), rgb.to("meta"), backend="cpu")


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_terms_are_checked(value: float) -> None:
    with pytest.raises(ValueError, match=r"LossTerms\.l2"):
        LossTerms(l2=value)
