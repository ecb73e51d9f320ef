"""Hosts for tests: network namespaces of Linux, a switch between them, and a cluster of Dask."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

HIDDEN = 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"'
"""Runs a command that sees an empty folder where others see a shared one."""


def obstacle() -> str | None:
    """Return why there can be no hosts here, where that can be told beforehand."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    lacking = [name for name in ("ip", "unshare", "mount") if shutil.which(name, path=PATH) is None]
    return f"no {' and no '.join(lacking)} here" if lacking else None


def tool(name: str) -> str:
    return shutil.which(name, path=PATH) or name


def ip(words: str) -> None:
    command = [tool("ip"), *words.split()]
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603


@dataclass(frozen=True, slots=True)
class Hosts:
    """Three hosts on one switch, each a network namespace; the machine's own network is not used.

    Names and addresses hold the process id: other processes may run these tests, too.
    """

    own: int

    @property
    def switch(self) -> str:
        return f"n5-{self.own}-switch"

    def name(self, host: int) -> str:
        return f"n5-{self.own}-{host}"

    def address(self, host: int) -> str:
        return f"10.77.{self.own % 256}.{host}"

    def build(self) -> None:
        """Connect them: a bridge, and a pair of interfaces for each."""
        ip(f"netns add {self.switch}")
        ip(f"-n {self.switch} link add bridge up type bridge forward_delay 0")
        for host in (1, 2, 3):
            name, port = self.name(host), f"port{host}"
            ip(f"netns add {name}")
            ip(f"-n {self.switch} link add {port} type veth peer name eth0 netns {name}")
            ip(f"-n {self.switch} link set {port} master bridge up")
            ip(f"-n {name} address add {self.address(host)}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")

    def remove(self) -> None:
        """Remove what there is of them; interfaces go with their namespaces."""
        for name in (*map(self.name, (1, 2, 3)), self.switch):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(f"netns delete {name}")

    def command(self, host: int, *words: str, hidden: Path | None = None) -> list[str]:
        """Return a command that runs on a host, for which a folder may be `hidden`.

        Each program becomes the next one: whoever ends the process ends the last of them.
        """
        mounts = [tool("unshare"), "-m", "sh", "-c", HIDDEN, str(hidden)] if hidden else []
        return [tool("ip"), "netns", "exec", self.name(host), *mounts, *words]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    why = obstacle()
    if why is not None:
        pytest.skip(why)
    hosts = Hosts(os.getpid())
    try:
        try:
            hosts.build()
            probe = hosts.command(1, "true", hidden=tmp_path_factory.mktemp("probe"))
            subprocess.run(probe, check=True, capture_output=True, text=True)  # noqa: S603
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no namespaces here: {error.cmd} said {error.stderr.strip()!r}")
        yield hosts
    finally:
        hosts.remove()


# A cluster on them


@contextlib.contextmanager
def running(command: Sequence[str], stdout: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the end of the block, at most; what it says is shown if a test fails."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=stdout, text=True)  # noqa: S603
    with process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A scheduler on the first host, workers on the others."""

    hosts: Hosts
    scheduler: subprocess.Popen[str]
    workers: tuple[subprocess.Popen[str], ...]

    def client(self, folder: Path, *, resume: bool = False) -> list[str]:
        """Return the command of a write of which `folder` holds the place and the log."""
        how = "resume" if resume else "anew"
        words = (url(self.hosts), str(folder / "shared"), str(folder / "log"), how)
        return self.hosts.command(
            1, sys.executable, "-m", "tests.writing.test_several_hosts", *words
        )

    def write(self, folder: Path, *, resume: bool = False) -> dict[str, Any]:
        """Write, and return what the client tells."""
        with running(self.client(folder, resume=resume), subprocess.PIPE) as client:
            said, _ = client.communicate(timeout=240)
        assert client.returncode == 0
        return cast("dict[str, Any]", json.loads(said))


def url(hosts: Hosts) -> str:
    return f"tcp://{hosts.address(1)}:8786"


@contextlib.contextmanager
def cluster(hosts: Hosts, folder: Path, *, blind: int | None = None) -> Iterator[Cluster]:
    """Start a cluster by its command lines; the `blind` host has something else mounted."""
    # A scheduler that nobody is left to end, ends.
    own = ("--port", "8786", "--idle-timeout", "300")
    options = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--death-timeout", "240")

    def command(host: int, role: str, *words: str) -> list[str]:
        scratch = f"DASK_TEMPORARY_DIRECTORY={folder / f'scratch{host}'}"
        dask = ("env", scratch, sys.executable, "-m", "dask", role)
        words = (*dask, "--host", hosts.address(host), "--no-dashboard", *words)
        return hosts.command(host, *words, hidden=folder / "shared" if host == blind else None)

    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(running(command(1, "scheduler", *own)))
        commands = [command(host, "worker", *options, url(hosts)) for host in (2, 3)]
        workers = [stack.enter_context(running(each)) for each in commands]
        yield Cluster(hosts, scheduler, tuple(workers))
