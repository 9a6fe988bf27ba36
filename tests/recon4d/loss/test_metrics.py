"""SSIM and PSNR for scoring."""

from __future__ import annotations

import pytest
import torch

from recon4d.loss import psnr, ssim


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(*shape, generator=generator)
    return a, (a + 0.2 * torch.randn(*shape, generator=generator)).clamp(0, 1)


@pytest.mark.parametrize("size", [(11, 11), (32, 45), (20, 64)])
def test_ssim_equals_pytorch_msssim(size: tuple[int, int]) -> None:
    peer = pytest.importorskip("pytorch_msssim")
    a, b = pair(*size, 3)
    channel_first = (image.permute(2, 0, 1)[None] for image in (a, b))
    expected = peer.ssim(*channel_first, data_range=1.0, win_size=11, win_sigma=1.5)
    assert ssim(a, b).item() == pytest.approx(expected.item(), abs=2e-6)  # Worst seen 1.8e-7.


def test_ssim_of_equal_images_is_one_and_of_batches_one_each() -> None:
    a, b = pair(2, 3, 16, 20, 3)
    assert ssim(a, a).tolist() == [pytest.approx([1.0] * 3, abs=1e-6)] * 2
    values = ssim(a, b)
    assert values.shape == (2, 3)
    assert values[1, 2].item() == pytest.approx(ssim(a[1, 2], b[1, 2]).item(), abs=1e-6)


def test_ssim_of_flat_images_by_hand() -> None:
    """Without variance only the luminance term is left."""
    a, b = torch.full((12, 12, 3), 0.2), torch.full((12, 12, 3), 0.6)
    assert ssim(a, b).item() == pytest.approx((2 * 0.12 + 1e-4) / (0.04 + 0.36 + 1e-4), abs=1e-3)


def test_ssim_needs_room_for_its_window() -> None:
    with pytest.raises(ValueError, match="10x30"):
        ssim(torch.zeros(30, 10, 3), torch.zeros(30, 10, 3))


def test_psnr_by_hand() -> None:
    a = torch.zeros(4, 5, 3)
    assert psnr(a, a + 0.1).item() == pytest.approx(20.0, abs=1e-4)
    assert psnr(a, a).item() == float("inf")
    b = a.clone()
    b[0, 0] = 0.1
    mask = torch.zeros(4, 5, dtype=torch.bool)
    mask[0, :2] = True
    assert psnr(a, b, mask).item() == pytest.approx(20 + 10 * torch.log10(torch.tensor(2.0)).item(), abs=1e-4)
    assert torch.isnan(psnr(a, b, torch.zeros_like(mask)))


def test_psnr_ignores_what_the_mask_leaves_out() -> None:
    a, b = pair(6, 7, 3)
    mask = torch.ones(6, 7, dtype=torch.bool)
    mask[2, 3] = False
    expected = psnr(a, b, mask)
    b[2, 3] = float("nan")
    assert torch.equal(psnr(a, b, mask), expected)


def test_bytes_are_levels_of_255() -> None:
    a, b = pair(2, 16, 16, 3)
    levels_a, levels_b = ((255 * image).to(torch.uint8) for image in (a, b))
    for measure in (psnr, ssim):
        exact = measure(levels_a.float() / 255, levels_b.float() / 255)
        assert torch.equal(measure(levels_a, levels_b), exact)
        assert exact.shape == (2,)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="alike"):
        psnr(torch.zeros(4, 4, 3), torch.zeros(4, 5, 3))
    with pytest.raises(ValueError, match="mask must be bool"):
        psnr(torch.zeros(4, 4, 3), torch.zeros(4, 4, 3), torch.zeros(4, 4))
