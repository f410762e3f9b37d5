"""Moves an array from node to node while a thread reads it with numpy.

Each element is its own index, so a word that is lost, or read half-way, is seen. Ends with 1 if there
was one.

    python move_under_reader.py [SIZE]
"""

import sys
import threading

import numpy as np

import nodeward


def read_until(stop: threading.Event, view: np.ndarray, found: list[int]) -> None:
    """Compares all elements with their indexes, again and again."""
    expected = np.arange(view.size)
    reads = wrong = 0
    while reads == 0 or not stop.is_set():
        wrong += int((view != expected).sum())
        reads += 1
    found += [reads, wrong]


def main(size: int) -> int:
    nodes = nodeward.nodes()
    array = nodeward.empty(size // 8, "int64", node=nodes[0])
    view = np.asarray(array)
    view[:] = np.arange(view.size)
    stop = threading.Event()
    found: list[int] = []
    reader = threading.Thread(target=read_until, args=(stop, view, found))
    reader.start()
    moved = 0
    for node in 4 * (nodes[1:] + nodes[:1]):
        report = nodeward.migrate(array, node, stall="1ms")
        moved += report.moved
        for reason, bytes in report.skipped.items():
            print(f"{bytes} bytes stayed: {reason}")
    stop.set()
    reader.join()
    reads, wrong = found
    print(f"{moved >> 20} MiB moved, {reads} reads of {size >> 20} MiB, {wrong} wrong elements")
    return 1 if wrong else 0


if __name__ == "__main__":
    mebibytes = sys.argv[1].removesuffix("MiB") if len(sys.argv) > 1 else "256"
    sys.exit(main(int(mebibytes) << 20))
