"""A client's websocket on one side, its environment's process on the other."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from api.errors import Problem
from api.sessions._channel import Closed, pack
from api.sessions._environments import Over, Session

IDLE, REFUSED = 4408, 4422
"""Codes with which a websocket is closed, beside those of RFC 6455."""
_AHEAD = 8
"""Messages that are read before they can be answered. A client that sends more waits: nothing more is read from it."""

_FAREWELL_S = 5.0


async def relay(websocket: WebSocket, session: Session, idle_s: float) -> None:
    """Accepts a websocket and passes messages on until either side ends it.

    Messages are answered in their order, one at a time. Reading goes on meanwhile, so that a client which goes away
    takes a step that runs for long with it, and signs of life pass through.

    Args:
        websocket: not accepted yet.
        session: not started yet.
        idle_s: how long a client may say nothing, or take nothing of an answer.
    """
    await websocket.accept()
    inbox: asyncio.Queue[Any] = asyncio.Queue(_AHEAD)
    reading = asyncio.create_task(_read(websocket, inbox, session))
    try:
        code, reason = await _answer(websocket, inbox, session, idle_s)
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # It may have gone, or take nothing any more.
            await asyncio.wait_for(websocket.close(code, reason), _FAREWELL_S)
    except WebSocketDisconnect:
        pass
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(websocket: WebSocket, inbox: asyncio.Queue[Any], session: Session) -> None:
    while (message := await websocket.receive())["type"] == "websocket.receive":
        await inbox.put(message.get("bytes"))
    session.leave("the client has gone")


async def _answer(websocket: WebSocket, inbox: asyncio.Queue[Any], session: Session, idle_s: float) -> tuple[int, str]:
    """Answers until it ends; the code and reason to close with."""
    try:
        data, last = (await session.unless_over(session.start()))["hello"], False
        while True:
            # A buffer of bytes is sent as it is, without the copy that making it immutable would be.
            await asyncio.wait_for(websocket.send({"type": "websocket.send", "bytes": data}), idle_s)
            if last:
                return 1000, "closed as the client asked"
            message = await session.unless_over(asyncio.wait_for(inbox.get(), idle_s))
            if not isinstance(message, bytes):
                return 1003, "messages are bytes, not text"
            data, last = await session.unless_over(session.ask(message))
    except Problem as problem:
        await _tell(websocket, problem)
        return REFUSED, problem.kind
    except TimeoutError:
        return IDLE, f"idle for {idle_s:g} s"
    except Over:
        return 1001, session.reason
    except Closed:
        problem = Problem(500, "environment-died", "the environment's process died; the service's log may say why")
        await _tell(websocket, problem)
        return 1011, "the environment's process died"


async def _tell(websocket: WebSocket, problem: Problem) -> None:
    with suppress(RuntimeError):
        await websocket.send_bytes(pack({"op": "problem", "problem": problem.to_json()}))
