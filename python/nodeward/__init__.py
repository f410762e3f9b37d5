"""Memory that moves between NUMA nodes while a program uses it.

>>> import nodeward
>>> home = nodeward.nodes()[-1]
>>> array = nodeward.empty((1024, 1024), "float64", node=home)
>>> memoryview(array)[0, 0] = 1.0
>>> report = nodeward.migrate(array, home)
>>> report.moved + report.already_there + sum(report.skipped.values()) == array.nbytes
True

Any buffer may be moved, and all memory of the process. Sizes are in bytes, times in seconds. Calls
that move or look do so without the GIL. Errors are exceptions below `NodewardError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterable, Literal, Sequence

from . import _native
from ._errors import (
    AgentError,
    DeniedError,
    DeviceError,
    ForkedError,
    InvalidError,
    NoAgentError,
    NodewardError,
    NoRoomError,
    SystemCallError,
    UnknownNodeError,
    UnsupportedError,
)
from ._native import Array, PageRun, __version__

__all__ = [
    "AgentError", "Array", "DeniedError", "DeviceError", "ForkedError", "Group", "InvalidError",
    "NoAgentError", "NoRoomError", "Node", "NodewardError", "PageRun", "Pool", "PoolStats",
    "Report", "Residency", "SystemCallError", "Topology", "UnknownNodeError", "UnsupportedError",
    "empty", "migrate", "near", "nodes", "pager", "rehome", "residency", "topology",
]


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every page of a move, in bytes. Each page is in one of `moved`,
    `already_there` and `skipped`."""

    moved: int
    """On the destination now, and not before."""
    already_there: int
    """On the destination from the start."""
    skipped: dict[str, int]
    """Stayed where they were, or are not in memory, by reason."""
    lazy: int
    """Unmapped, until the next thread touches them and brings them to its node."""
    edge_pages: int
    """Pages that the buffer fills in part. What else is on them moved along."""
    huge_arrivals: int
    """Blocks of 2 MiB that left as base pages and arrived as a huge page (`huge=True`)."""
    huge_fallbacks: int
    """Blocks of 2 MiB that arrived as base pages although `huge=True`."""
    mover: Literal["pager", "kernel", "agent"]
    """Who moved."""
    workers: int
    """Threads that moved."""
    seconds: float
    """From beginning to end."""
    longest_hold: float
    """The longest time that pages were out of sight."""

    def reasons(self) -> dict[str, str]:
        """Returns what each reason of `skipped` means, and what to do."""
        return {reason: _native.advice(reason) for reason in self.skipped}


class Residency(dict[int, int]):
    """Bytes by node. Lazy pages and pages that were never touched are on no node."""

    def __init__(self, by_node: dict[int, int], exact: bool, error: int) -> None:
        super().__init__(by_node)
        self.exact = exact
        """Whether the pages were counted one by one; else they are estimated from samples."""
        self.error = error
        """How many bytes a share may be off, in 95 of 100 cases; 0 if counted."""


@dataclass(frozen=True, slots=True)
class Node:
    """A memory node."""

    id: int
    cpus: list[int]
    """The CPUs that are near; none for a node of memory only."""
    memory: int | None
    """Bytes of memory, if the machine tells."""
    free: int | None
    """Bytes that are free."""
    distances: dict[int, int]
    """Distances to all nodes, 10 to itself; empty if the machine does not tell."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The nodes of the machine."""

    nodes: dict[int, Node]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Bytes of a pool. They agree with each other only while nobody uses it."""

    held: int
    """In memory."""
    in_use: int
    """In runs."""
    listed: int
    """In the lists of CPUs."""
    free: int
    """Free in the zones of the nodes."""
    peak_held: int
    """The most that were ever in memory."""
    allocated: int
    """Allocated since the pool was opened."""
    freed: int
    """Freed since the pool was opened."""


def empty(
    shape: int | Sequence[int],
    dtype: Any = "float64",
    node: int | str | None = None,
    *,
    huge: bool = True,
) -> Array:
    """Makes an array whose pages move while it is used.

    No page is in memory before it is touched, or `commit()` is called, and the elements read as zero. `dtype` is a name, a class, or a dtype
    of numpy or torch. `node` is where pages are placed when they are first touched: a number,
    `"interleave"` for 2 MiB on each node in turn, `"near:gpu:0"` for the node near a device; without
    it that of the thread that touches them. `huge` asks for huge pages, as far as the machine has
    them, in arrays of 2 MiB and more.

    >>> array = nodeward.empty(3, "int32")
    >>> array.shape, array.dtype, array.nbytes
    ((3,), 'int32', 12)
    >>> memoryview(array).tolist()
    [0, 0, 0]
    """
    return _native.empty(shape, dtype, node, huge)


def residency(buffer: Any, *, exact: bool = False) -> Residency:
    """Returns on which nodes the memory of a buffer is, by whole pages.

    A few hundred pages of a large buffer are sampled; `exact` counts each.

    >>> array = nodeward.empty(1 << 20, "uint8", huge=False)
    >>> nodeward.residency(array)
    {}
    >>> memoryview(array)[:4096] = bytes(4096)
    >>> sum(nodeward.residency(array, exact=True).values()) >= 4096
    True
    """
    return Residency(*_native.residency(buffer, exact))


def migrate(
    buffer: Any,
    node: int | str,
    *,
    stall: str | float | None = None,
    rate: str | int | None = None,
    huge: bool = False,
) -> Report:
    """Moves the memory of a buffer to a node, while other threads use it.

    `node` is a number, `"near:gpu:0"`, or `"touch"`: then each part goes to the node of the thread
    that touches it next. The memory of `empty()` is moved by the pager, all other by the kernel, or
    by the agent where the kernel forbids it; `"touch"` is the pager's. Pages that the buffer fills
    in part move with what else is on them. `stall` limits how long a thread waits for a page, such
    as `"1ms"`; `rate` how much moves a second, such as `"500MB/s"`. With `huge` base pages of
    `empty()` arrive as huge pages where 2 MiB are whole and the machine has them (Linux 6.14 or
    newer), else as base pages; until the call returns no other memory may be mapped over them.

    Returns when each page has had its turn. A page that stays is no error, but in the report. The
    memory is kept until then, so it may be dropped meanwhile. Ctrl-C ends the move.

    >>> data = bytearray(1 << 20)
    >>> report = nodeward.migrate(data, nodeward.nodes()[0], stall="1ms")
    >>> report.mover in ("kernel", "agent"), report.edge_pages <= 2
    (True, True)
    """
    return Report(**_native.migrate(buffer, node, stall, rate, huge))


def rehome(
    node: int | str | None = None,
    *,
    near: str | None = None,
    exclude: Iterable[str] = (),
    stall: str | float | None = None,
    rate: str | int | None = None,
) -> Report:
    """Moves all memory of this process to a node, or near a device: what it touched before it was
    bound, for example. Threads and memory policies stay as they are.

    `exclude` has kinds of memory that stay (`heap`, `stack`, `anonymous`, `file`, `shared`,
    `huge`), and `pinned` for memory that devices have pinned, which is then not even tried.

    >>> report = nodeward.rehome(nodeward.nodes()[0], exclude=["file", "shared"])
    >>> report.already_there > 0
    True
    """
    if (node is None) == (near is None):
        raise InvalidError("rehome() takes a node or near=DEVICE; give one of them")
    destination = f"near:{near.removeprefix('near:')}" if near is not None else node
    return Report(**_native.rehome(destination, list(exclude), stall, rate))


def topology() -> Topology:
    """Returns the nodes of the machine, read anew (some milliseconds).

    >>> all(node.id == number for number, node in nodeward.topology().nodes.items())
    True
    """
    nodes = (Node(**fields) for fields in _native.topology())
    return Topology({node.id: node for node in nodes})


def nodes() -> list[int]:
    """Returns the nodes with memory that this process may use, read anew (some milliseconds)."""
    return _native.nodes()


def near(device: str) -> int:
    """Returns the node with CPUs that is nearest to a device: `netdev:NAME`, `ip:ADDRESS`,
    `pci:ADDRESS`, `block:NAME`, `file:PATH` or `gpu:N`.

    >>> nodeward.near("gpu:4095")
    Traceback (most recent call last):
    nodeward._errors.DeviceError: there is no device gpu:4095; nodeward show --devices lists ...
    """
    return _native.near(device)


def pager() -> tuple[str, str | None]:
    """Returns how the pager moves pages here (`"move"`, `"remap"` or `"kernel"`), and why no faster
    method works, with what to do; None for the fastest."""
    return _native.pager()


class Group:
    """Threads and memory that belong together: the agent (`nodeward balance`) places them as one.

    `home` is where: `"auto"` for wherever it is best, nodes such as `"0-1"`, `"spread:0-1"` for
    threads on any of these and memory evenly on all, or `near` a device. At the end of `with` the
    group is deleted, and its members belong to their process again.

        with nodeward.Group("cache", near="gpu:0") as group:
            group.add(array)
            group.add_thread()
    """

    def __init__(self, name: str, home: str = "auto", *, near: str | None = None) -> None:
        if near is not None:
            home = f"near:{near.removeprefix('near:')}"
        self._native = _native.Group(name, home)

    @property
    def id(self) -> int:
        """Its number."""
        return self._native.id

    def add(self, buffer: Any) -> None:
        """Puts the memory of a buffer into the group, by whole pages."""
        self._native.add(buffer)

    def add_thread(self, tid: int | None = None) -> None:
        """Puts a thread into the group (`threading.get_native_id()`), of this process or another;
        without a number the calling one."""
        self._native.add_thread(tid)

    def add_all_threads(self) -> None:
        """Puts all threads of this process into the group, also those that it will start."""
        self._native.add_all_threads()

    def set_home(self, home: str) -> None:
        """Says where the group is to be, from the balancer's next round on."""
        self._native.set_home(home)

    def nodes(self) -> list[int] | None:
        """Returns where its threads belong since the last round; None before the first decision."""
        return self._native.nodes()

    def delete(self) -> None:
        """Deletes the group. In a child of fork(2) it does nothing: the group is its parent's."""
        self._native.delete()

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.delete()


class Pool:
    """Hands out runs of pages on a node, and takes them back: for buffer pools and caches.

    `zone_bytes` limits the pool on each node, `keep_bytes` stay free there when nothing is
    allocated. Pages of a pool do not move.

    >>> pool = nodeward.Pool(zone_bytes="16MiB")
    >>> with pool.run("64KiB", zeroed=True) as run:
    ...     run.nbytes, bytes(memoryview(run)[:2])
    (65536, b'\\x00\\x00')
    >>> pool.stats().in_use
    0
    """

    def __init__(
        self,
        *,
        zone_bytes: str | int | None = None,
        keep_bytes: str | int = 0,
        huge: bool = False,
    ) -> None:
        self._native = _native.Pool(zone_bytes, keep_bytes, huge)

    def run(
        self, size: str | int, *, node: int | str | None = None, zeroed: bool = False
    ) -> PageRun:
        """Allocates a run of pages of at least `size`, 2 MiB at most, on a node or on that of the
        calling thread. Unless `zeroed`, it has any content."""
        return self._native.run(size, node, zeroed)

    def stats(self) -> PoolStats:
        """Returns what it has; zeros in a child of fork(2)."""
        return PoolStats(**self._native.stats())

    def give_back(self) -> int:
        """Gives all free memory to the kernel. Returns how many bytes."""
        return self._native.give_back()

    def close(self) -> None:
        """Refuses further runs. Those that are allocated stay valid."""
        self._native.close()
