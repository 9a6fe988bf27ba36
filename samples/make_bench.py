"""Draws a synthetic bench capture: ``python samples/make_bench.py --out DIR --seed N``.

Needs the extra ``sim`` (MuJoCo) and an OpenGL that draws off screen: EGL on Linux, or set ``MUJOCO_GL=osmesa``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench_generator import BenchConfig, NoGraphicsError, generate

NO_GRAPHICS = 3
"""Exit status where there is no MuJoCo or no OpenGL, so that callers can tell it from a fault."""


def size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"a size looks like 320x240; got '{text}'")
    return int(width), int(height)


def main() -> int:
    defaults = BenchConfig()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help=f"default {defaults.seconds}")
    parser.add_argument("--size", type=size, default=(defaults.width, defaults.height), help="default 320x240")
    parser.add_argument("--fps", type=float, default=defaults.fps, help=f"default {defaults.fps:g}")
    arguments = parser.parse_args()
    width, height = arguments.size
    try:
        config = BenchConfig(
            seed=arguments.seed, seconds=arguments.seconds, width=width, height=height, fps=arguments.fps
        )
        print(generate(arguments.out, config, report=print))
    except (NoGraphicsError, ValueError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_GRAPHICS if isinstance(error, NoGraphicsError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
