"""Moves of arrays and of any buffer."""

import gc
import mmap
import threading
import time

import numpy as np
import pytest

import nodeward
from nodeward import InvalidError, UnknownNodeError, UnsupportedError

from conftest import MIB

PAGE = mmap.PAGESIZE


def whole(report):
    """The bytes of all pages of a report."""
    return report.moved + report.already_there + sum(report.skipped.values())


def test_an_array_is_accounted_for(home):
    """Goal: each page of an array is in the report once: of 8 MiB 3 were touched, in base pages."""
    array = nodeward.empty(8 * MIB, "uint8", node=home, huge=False)
    np.asarray(array)[: 3 * MIB] = 7
    for node in nodeward.nodes() + [home]:
        report = nodeward.migrate(array, node)
        assert (report.moved + report.already_there, report.mover) == (3 * MIB, "pager")
        assert report.skipped == {"not-present": 5 * MIB} and report.edge_pages == 0
        assert report.reasons() == {"not-present": report.reasons()["not-present"]}
        assert nodeward.residency(array, exact=True) == {node: 3 * MIB}
    assert (np.asarray(array)[: 3 * MIB] == 7).all()


def test_a_part_of_an_array_moves_by_the_pager(home):
    """Goal: a view of an array is its memory: 100 bytes within the fourth page are that page, which
    they fill in part; two bytes across its end are two pages."""
    array = nodeward.empty(4 * MIB, "uint8", node=home, huge=False)
    view = np.asarray(array)
    view[:] = 1
    for start, end, pages, edges in [(3 * PAGE + 5, 3 * PAGE + 105, 1, 1),
                                     (4 * PAGE - 1, 4 * PAGE + 1, 2, 2),
                                     (2 * PAGE, 4 * PAGE, 2, 0)]:
        report = nodeward.migrate(view[start:end], home)
        assert (report.mover, whole(report)) == ("pager", pages * PAGE), report
        assert report.edge_pages == edges


@pytest.mark.parametrize("kind", ["numpy", "bytearray", "bytes", "mmap", "memoryview", "dlpack"])
def test_memory_of_others_moves(kind, home):
    """Goal: any buffer moves, also one that may not be written, by the kernel; its first and last
    page are told if others are on them."""
    data = np.full(4 * MIB, 3, "uint8")
    buffer = {
        "numpy": lambda: data,
        "bytearray": lambda: bytearray(data),
        "bytes": lambda: bytes(data),
        "mmap": lambda: filled(mmap.mmap(-1, 4 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)),
        "memoryview": lambda: memoryview(data)[MIB + 1 : 3 * MIB],
        "dlpack": lambda: OnlyTensor(data),
    }[kind]()
    report = nodeward.migrate(buffer, home, stall="1ms")
    assert report.mover in ("kernel", "agent")
    start, nbytes = address(buffer)
    first, last = start // PAGE, (start + nbytes - 1) // PAGE
    # In huge pages more may be selected than was asked for, never less.
    assert whole(report) >= (last + 1 - first) * PAGE > 0
    assert report.edge_pages == (start % PAGE != 0) + ((start + nbytes) % PAGE != 0)
    assert sum(nodeward.residency(buffer, exact=True).values()) == (last + 1 - first) * PAGE


def test_base_pages_arrive_as_huge_pages_or_are_counted(home):
    """Goal: of 4 MiB of base pages each of the two blocks of 2 MiB that move is counted once, as a
    huge page or as base pages; what moves nowhere is not, and no content changes. Memory that is not
    the pager's is refused."""
    array = nodeward.empty(4 * MIB, "uint8", node=home, huge=False)
    view = np.asarray(array)
    view[:] = 7
    for node in nodeward.nodes() + [home]:
        report = nodeward.migrate(array, node, huge=True)
        blocks = report.huge_arrivals + report.huge_fallbacks
        if report.moved == 4 * MIB:
            assert blocks == 2, report
        else:
            assert blocks <= 2 and (report.moved > 0 or blocks == 0), report
        assert (view == 7).all()
    with pytest.raises(UnsupportedError, match="nodeward.empty"):
        nodeward.migrate(bytearray(4 * MIB), home, huge=True)


class OnlyTensor:
    """A tensor as torch has them: without the buffer protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()


def address(buffer):
    """Where a buffer is."""
    view = np.from_dlpack(buffer.array) if isinstance(buffer, OnlyTensor) else np.frombuffer(
        buffer, "uint8"
    )
    return view.ctypes.data, view.nbytes


def filled(area):
    area[:] = b"\3" * len(area)
    return area


def test_gaps_are_refused(home):
    """Goal: elements with gaps between them are refused, by the buffer protocol and by DLPack; in
    columns they have none."""
    table = np.zeros((1000, 1000))
    for view in [table[:, ::2], table[::2], OnlyTensor(table[:, ::2]), OnlyTensor(table.T)]:
        with pytest.raises(InvalidError, match="gaps between them"):
            nodeward.migrate(view, home)
        with pytest.raises(InvalidError, match="gaps between them"):
            nodeward.residency(view)
    assert whole(nodeward.migrate(table.T, home)) >= table.nbytes


def test_nothing_is_nothing(home):
    """Goal: no bytes are no pages, whoever has them, and not all memory."""
    for empty in [b"", np.zeros(0), np.zeros((3, 0)), nodeward.empty(0), OnlyTensor(np.zeros(0)),
                  memoryview(b"abc")[1:1]]:
        assert whole(nodeward.migrate(empty, home)) == 0
        assert nodeward.residency(empty) == {}


def test_what_has_no_memory_is_refused(home):
    """Goal: objects without memory, and memory of devices, are refused in words."""

    class Device:
        """A tensor of a graphics processor, as far as it can be told."""

        def __dlpack__(self):
            return "no capsule"

    for wrong in [None, 7, [1, 2], "text", object()]:
        with pytest.raises(InvalidError, match="has no memory that can be found"):
            nodeward.migrate(wrong, home)
    with pytest.raises((ValueError, TypeError)):
        nodeward.migrate(Device(), home)


def test_wrong_nodes_and_limits_are_refused():
    """Goal: a node that does not exist and limits that are none are refused, for every memory, and
    nothing moves."""
    for buffer in [nodeward.empty(10), bytearray(10)]:
        for node in [77, 4_000_000_000, -1, "1", 1.5, None]:
            with pytest.raises(UnknownNodeError, match="no node|has no memory"):
                nodeward.migrate(buffer, node)
        for limit in [{"stall": "1"}, {"stall": 0}, {"stall": -1.0}, {"stall": float("nan")},
                      {"rate": "fast"}, {"rate": 0}, {"rate": -5}, {"rate": "0"}]:
            with pytest.raises(InvalidError, match="give|not a"):
                nodeward.migrate(buffer, nodeward.nodes()[0], **limit)


def test_memory_goes_to_who_touches_it():
    """Goal: lazy pages come back with their content to the thread that reads them; other memory
    than an array's cannot be lazy."""
    array = nodeward.empty(4 * MIB, "uint8", huge=False)
    np.asarray(array)[:] = 5
    with pytest.raises(UnsupportedError, match="only arrays of nodeward.empty"):
        nodeward.migrate(bytearray(100), "touch")
    if nodeward.pager()[0] != "move":
        pytest.skip(f"no lazy pages here: {nodeward.pager()[1]}")
    report = nodeward.migrate(array, "touch")
    assert report.lazy == 4 * MIB
    assert (np.asarray(array) == 5).all()
    assert sum(nodeward.residency(array, exact=True).values()) == 4 * MIB


def test_readers_and_writers_go_on(home):
    """Goal: threads read and write an array while it moves, with the GIL that the move does not
    hold; no word is lost."""
    array = nodeward.empty(2 * MIB, "int64", huge=False)
    view = np.asarray(array)
    view[:] = np.arange(view.size)
    stop, rounds, wrong = threading.Event(), [], []

    def work(part):
        turns = 0
        while not stop.is_set():
            part += 1
            part -= 1
            if part[7] != part[6] + 1:
                wrong.append(part[6:8].tolist())
            turns += 1
        rounds.append(turns)

    threads = [threading.Thread(target=work, args=(part,)) for part in np.split(view, 2)]
    for thread in threads:
        thread.start()
    for turn in range(10):
        how = {} if turn % 2 else {"stall": "1ms"}
        nodeward.migrate(array, nodeward.nodes()[turn % len(nodeward.nodes())], **how)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and min(rounds) > 0
    assert (view == np.arange(view.size)).all()


def test_the_gil_is_free_while_pages_move(slow_move):
    """Goal: other threads run Python while pages move: a thread counts during half a second."""
    array = committed(16 * MIB)
    count, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    while count[0] == 0:
        time.sleep(0.001)
    before = count[0]
    report = slow_move(array, seconds=0.5)
    after = count[0]
    stop.set()
    thread.join()
    assert report.seconds >= 0.2 and after > before + 1


def test_memory_that_is_dropped_while_it_moves_stays(slow_move):
    """Goal: an array, and a view of another, are dropped while they move: the call accounts for all
    of it, and the memory is freed with it."""
    for view in [lambda array: array, lambda array: np.asarray(array)[PAGE:]]:
        held, reports = [view(committed(16 * MIB))], []
        address = np.asarray(held[0]).ctypes.data
        memory = held.pop

        def move():
            reports.append(slow_move(memory(), seconds=0.5))

        thread = threading.Thread(target=move)
        thread.start()
        while held:
            time.sleep(0.001)
        gc.collect()
        assert is_mapped(address)
        thread.join()
        assert whole(reports[0]) + reports[0].lazy >= 16 * MIB - PAGE
        gc.collect()
        assert not is_mapped(address)


def committed(bytes):
    """An array of base pages that are in memory."""
    array = nodeward.empty(bytes, "uint8", huge=False)
    array.commit()
    return array


def is_mapped(address):
    """Whether there is any memory at an address."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ranges = (line.split()[0].split("-") for line in maps)
        return any(int(start, 16) <= address < int(end, 16) for start, end in ranges)


def test_a_buffer_is_not_resized_while_it_moves(home):
    """Goal: a bytearray that moves refuses to grow, as while anybody else holds its buffer."""
    data = bytearray(8 * MIB)
    data[:] = b"\1" * len(data)
    stop, refused = threading.Event(), []

    def grow():
        while not stop.is_set():
            try:
                data.append(1)
            except BufferError as error:
                refused.append(error)

    thread = threading.Thread(target=grow)
    thread.start()
    for _ in range(200):
        nodeward.migrate(data, home)
        if refused:
            break
    stop.set()
    thread.join()
    assert refused


def test_a_signal_ends_a_move(program):
    """Goal: Ctrl-C ends a move that would take 64 s with KeyboardInterrupt; the array is whole."""
    told = program(
        """
        import os, signal, threading, time
        import nodeward

        array = nodeward.empty(64 << 20, "uint8", huge=False)
        view = memoryview(array)
        view[:] = b"\\1" * len(view)
        # A shell starts what runs in the background with the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        began = time.monotonic()

        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            while True:
                for node in [*nodeward.nodes(), "touch"]:
                    nodeward.migrate(array, node, rate="1MiB/s")
        except KeyboardInterrupt:
            print(time.monotonic() - began < 60, view.tobytes() == b"\\1" * len(view))
        """
    )
    assert told == "True True\n"
