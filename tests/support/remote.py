"""A far-away object store for tests: a filesystem of fsspec that counts, holds back and fails."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fsspec.asyn import AsyncFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 10.0
"""How many seconds requests are held back for others that never come."""

LOOKS = 20
"""How often the loop looks for other requests before it answers those that have come."""


class Far(AsyncFileSystem):  # type: ignore[misc]
    """Objects by path. Listings are kept for good, and believed, as those of s3fs are."""

    protocol: str | tuple[str, ...] = "far"
    cachable = False

    def __init__(self, objects: dict[str, bytes] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.objects = {} if objects is None else objects
        self.counts: Counter[str] = Counter()
        self.latency = 0.0
        self.together = 0
        """How many requests must be under way before one for a chunk is answered."""
        self.gathers = False
        """Whether requests are answered together, when the loop has looked for others in vain."""
        self.log: list[tuple[int, str, str]] = []
        """The round, the verb and the path of each request."""
        self.most = self.under_way = self._last = self._answered = 0
        self._look: asyncio.Task[bool] | None = None
        self.fails: Callable[[str, str], None] = lambda _verb, _path: None
        """What raises where a request is to fail."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("far://").strip("/")

    def reset(self) -> None:
        """Count anew."""
        self.counts.clear()
        self.log.clear()
        self.most = self._last = self._answered = 0

    def be_far(self, latency: float = 0.02) -> None:
        """Answer late from now on, and requests that do not wait for each other together."""
        self.latency, self.gathers = latency, True
        self.reset()

    def be_near(self) -> None:
        """Answer at once from now on."""
        self.latency, self.gathers = 0.0, False

    @property
    def rounds(self) -> int:
        """How many requests waited for each other: each may need the answers of the one before."""
        return max((number for number, _, _ in self.log), default=0)

    async def _request(self, verb: str, path: str) -> str:
        self.counts[verb] += 1
        number = self._last + 1
        self.log.append((number, verb, path))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(int(PATIENCE / 0.005)):
                if self.most >= self.together or verb != "GET" or path.endswith((".json", ".xn5")):
                    break
                await asyncio.sleep(0.005)
            else:
                raise AssertionError(f"{self.most} requests at once, not {self.together}")
            await asyncio.sleep(self.latency)
            while self.gathers and number > self._answered:
                if self._look is None or self._look.done():  # one for all that wait
                    self._look = asyncio.ensure_future(self._is_quiet())
                if await asyncio.shield(self._look):
                    self._answered = max(self._answered, number)
            self.fails(verb, path)
        finally:
            self.under_way -= 1
            self._last = max(self._last, number)
        return self._strip_protocol(path)

    async def _is_quiet(self) -> bool:
        """Return whether no other request comes.

        Looks are counted, not seconds: a pause of the whole process is no sign that none will come.
        Nor is one of a thread that waits for a processor, and may be about to make requests.
        """
        came = len(self.log)
        for _ in range(LOOKS):
            await asyncio.sleep(self.latency / LOOKS)
            if len(self.log) > came or _others_run():
                return False
        return True

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        name = await self._request("GET", path)
        if name not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[name][start:end]

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        name = await self._request("PUT", path)
        self.objects[name] = value
        self.invalidate_cache(name)
        self.fails("ANSWER", path)

    async def _rm_file(self, path: str, **_: Any) -> None:
        name = await self._request("DELETE", path)
        self.invalidate_cache(name)
        if self.objects.pop(name, None) is None:
            raise FileNotFoundError(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        if path is None:
            self.dircache.clear()
        else:
            self.dircache.pop(self._strip_protocol(path), None)

    def _entry(self, name: str) -> dict[str, Any]:
        return {"name": name, "size": len(self.objects[name]), "type": "file"}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        name = self._strip_protocol(path)
        if name not in self.dircache:
            await self._request("LIST", path)
            below = [key for key in self.objects if key.startswith(f"{name}/")]
            found: dict[str, dict[str, Any]] = {}
            for key in below:
                child, *more = key.removeprefix(f"{name}/").split("/", 1)
                full = f"{name}/{child}"
                folder = {"name": full, "size": 0, "type": "directory"}
                found[full] = folder if more else self._entry(full)
            if not found:
                raise FileNotFoundError(path)
            self.dircache[name] = list(found.values())
        entries = self.dircache[name]
        return entries if detail else [entry["name"] for entry in entries]

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        listed = self.dircache.get(self._parent(name))
        if listed is not None:
            for entry in listed:
                if entry["name"] == name:
                    return dict(entry)
            raise FileNotFoundError(path)
        await self._request("HEAD", path)
        if name in self.objects:
            return self._entry(name)
        if any(key.startswith(f"{name}/") for key in self.objects):
            return {"name": name, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)


def _others_run() -> bool:
    """Return whether another thread of this process runs or could run, where Linux tells."""
    if sys.platform != "linux":
        return False
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - faster, and there are many looks
        if task != str(threading.get_native_id()):
            with suppress(OSError), open(f"/proc/self/task/{task}/stat", "rb", 0) as file:  # noqa: PTH123
                if file.read(400).rpartition(b")")[2].split(maxsplit=1)[0] in {b"R", b"D"}:
                    return True
    return False


class Bucket(Far):
    """An object store as S3 is: a listing names every object, and one lists all below a prefix."""

    protocol = ("s3", "far")

    async def _find(self, path: str, *_: Any, detail: bool = False, **_more: Any) -> Any:
        start = f"{self._strip_protocol(path)}/"
        await self._request("LIST", path)
        found = {key: self._entry(key) for key in sorted(self.objects) if key.startswith(start)}
        return found if detail else list(found)
