"""A web server for tests, which is late, refuses, breaks off, and counts: as it was planned."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aiohttp import web

Fault: TypeAlias = Literal[401, 403, 404, 429, 500, 503, "drop", "truncate", "stall"]

STALL = 30.0
"""How many seconds a stalled answer takes; clients give up before."""


@dataclass
class Plan:
    """What goes wrong at some keys."""

    always: Mapping[str, Fault] = field(default_factory=dict)
    """Faults by how a path ends."""

    def fault(self, path: str) -> Fault | None:
        """What goes wrong with a request."""
        return next((self.always[end] for end in self.always if path.endswith(end)), None)


@dataclass
class Server:
    """Keys and bytes, as a web server shows them."""

    files: Mapping[str, bytes]
    latency: float = 0.0
    plan: Plan = field(default_factory=Plan)
    counts: Counter[str] = field(default_factory=Counter)
    """Requests by their method, and faults by what they were."""
    asked: list[str] = field(default_factory=list)
    """The paths of requests, with what stood behind them."""
    under_way: int = 0
    most: int = 0
    """How many requests were under way at once."""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """What stands above each answer."""
    connections: set[asyncio.Transport] = field(default_factory=set)
    """Those over which requests came."""

    def reset(self) -> None:
        """Count anew."""
        self.counts.clear()
        self.asked.clear()
        self.most = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or fail to."""
        from aiohttp import web

        self.counts[request.method] += 1
        self.asked.append(request.path_qs)
        if request.transport is not None:
            self.connections.add(request.transport)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.latency)
            fault = self.plan.fault(request.path)
            if fault is not None:
                self.counts[str(fault)] += 1
            if isinstance(fault, int):
                return web.Response(status=fault)
            if fault == "stall":
                await asyncio.sleep(STALL)
            if fault == "drop" and request.transport is not None:
                request.transport.abort()
            data = self.files.get(request.path.lstrip("/"))
            if data is None:
                return web.Response(status=404)
            if fault != "truncate":
                return web.Response(body=data, headers=self.headers)
            response = web.StreamResponse()
            response.content_length = len(data)
            await response.prepare(request)
            await response.write(data[: len(data) // 2])
            if request.transport is not None:
                request.transport.close()
            return response
        finally:
            self.under_way -= 1


@contextmanager
def serving(
    files: Mapping[str, bytes], *, latency: float = 0.0, plan: Plan | None = None
) -> Iterator[Server]:
    """Serve keys by HTTP, from a thread of its own; nothing is listed."""
    web = pytest.importorskip("aiohttp.web")
    server = Server(files, latency, plan or Plan())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Any:
        runner = web.ServerRunner(web.Server(server.answer), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def stop() -> None:
        handlers = runner.server
        await runner.cleanup()
        for _ in range(3):
            # Connections that were being accepted meanwhile, and tasks of those that are gone.
            await asyncio.sleep(0.02)
            await handlers.shutdown(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for connection in server.connections:
            connection.abort()  # of whom nothing was heard any more
        server.connections.clear()
        await asyncio.sleep(0.01)

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
