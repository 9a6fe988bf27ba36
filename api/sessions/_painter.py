"""Orders for pictures, brought to the process that draws."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from api.errors import Problem
from api.sessions._channel import Closed, pack, unpack
from api.sessions._child import Child, Nursery

_LONGEST_QUEUE = 100
_PATIENCE_S = 300.0  # The first picture on a machine waits for kernels to be compiled.


@dataclass(frozen=True, kw_only=True)
class View:
    """Where to look from: a rig camera; or through the lens of one (its first when unnamed), from elsewhere."""

    camera: str | None = None
    pose: tuple[float, ...] | None = None
    """16 numbers, ``T_cam_world`` row by row, OpenCV axes, metres."""
    position: tuple[float, ...] | None = None
    """3 numbers, metres; with ``look_at``, +Z upwards."""
    look_at: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    """One picture, or one file in another program's format."""

    scene: str
    folder: Path
    format: Literal["png", "jpeg", "depth", "ply"]
    t: float | None = None
    """Seconds; the middle of the clip when None."""
    view: View = View()
    width: int | None = None
    height: int | None = None
    file: Path | None = None
    """Where to write the other program's file; a picture comes back instead."""


class Painter:
    """Holds the process that draws: started when there is something to draw, ended when there has not been for a while.

    Args:
        nursery: where it comes from.
        idle_s: how long it is kept without use.
    """

    def __init__(self, nursery: Nursery, idle_s: float) -> None:
        self._nursery = nursery
        self._idle_s = idle_s
        self._child: Child | None = None
        self._turn = asyncio.Lock()
        self._orders = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._child is None else self._child.pid

    async def draw(self, order: Order) -> bytes:
        """Carries out an order, after those that came before it.

        Raises:
            Problem: 422 the engine refuses it; 429 too many wait; 503 the process died over it, or took too long.
        """
        if self._orders >= _LONGEST_QUEUE:
            hint = "ask again in a moment, for fewer pictures at a time"
            detail = f"{self._orders} pictures are waiting to be drawn"
            raise Problem(429, "too-many-renders", detail, hint=hint, headers={"Retry-After": "2"})
        self._orders += 1
        try:
            async with self._turn:
                return await self._carry_out(order)
        finally:
            self._orders -= 1

    async def close(self) -> None:
        """Ends the process."""
        if self._ending is not None:
            self._ending.cancel()
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    async def _carry_out(self, order: Order) -> bytes:
        data = pack({**asdict(order), "folder": str(order.folder), "file": order.file and str(order.file)})
        for _ in range(2):  # A process that had died meanwhile is no fault of the order.
            answer = await self._exchange(data)
            if answer is not None:
                break
        else:
            raise Problem(503, "renderer-died", "the process that draws has died twice over this picture")
        if "refused" in answer:
            raise Problem(422, "bad-render", answer["refused"])
        if "failed" in answer:
            raise Problem(500, "render-failed", "drawing failed; the service's log says why")
        return answer["data"]

    async def _exchange(self, data: bytes) -> dict | None:
        """The answer; None when the process has died."""
        if self._ending is not None:
            self._ending.cancel()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if self._child is None:
                    self._child = await self._nursery.begin("paint")
                answer, _ = await self._child.exchange(data)
        except Closed:
            await self.close()
            return None
        except TimeoutError:
            await self.close()
            detail = f"the picture was not drawn within {_PATIENCE_S:.0f} s"
            raise Problem(503, "render-timeout", detail, hint="ask for a smaller one") from None
        except BaseException:  # Cancelled: an answer may still come that nobody waits for.
            await self.close()
            raise
        self._ending = asyncio.create_task(self._end_when_idle())
        return unpack(answer)

    async def _end_when_idle(self) -> None:
        await asyncio.sleep(self._idle_s)
        self._ending = None  # It is this very task, which must not cancel itself.
        async with self._turn:
            await self.close()
