"""fork(2), the end of the interpreter, subinterpreters, threads."""

import sys
import threading

import numpy as np
import pytest

import nodeward

from conftest import MIB, in_child


def test_a_child_is_told(home):
    """Goal: in a child of fork(2) the parent's arrays, pools and runs refuse, and can be read; what
    the child makes is its own; the parent goes on."""
    array, pool = nodeward.empty(MIB, "uint8", huge=False), nodeward.Pool(zone_bytes="8MiB")
    np.asarray(array)[:] = 4
    run = pool.run(4096)
    for act in [
        lambda: nodeward.migrate(array, home),
        lambda: nodeward.migrate(array, "touch"),
        lambda: pool.run(4096),
        lambda: run.free(),
    ]:
        told = in_child(lambda: str(act()))
        assert told.startswith("ForkedError: this p") and "after fork(2)" in told, told
    assert in_child(lambda: str(int(np.asarray(array).sum()))) == str(4 * MIB)
    own = in_child(lambda: str(nodeward.migrate(nodeward.empty(MIB, "uint8"), home).mover))
    assert own == "pager"
    other = in_child(lambda: str(nodeward.migrate(np.ones(MIB, "uint8"), home).mover))
    assert other in ("kernel", "agent")
    assert in_child(lambda: str(nodeward.rehome(home, exclude=["file"]).already_there > 0)) == "True"
    run.free()
    assert nodeward.migrate(array, home).mover == "pager"


def test_children_are_made_while_pages_move():
    """Goal: fork(2) waits for the pages in flight while it holds the GIL, and the moves, of an array
    by the lanes and of a small one by its thread, end without it: ten children are made meanwhile."""
    stop, rounds = threading.Event(), []

    def work(array):
        view, turns = memoryview(array), 0
        to = "touch" if nodeward.pager()[0] == "move" else nodeward.nodes()[-1]
        while not stop.is_set():
            nodeward.migrate(array, to)
            view[:] = bytes(len(view))
            turns += 1
        rounds.append(turns)

    arrays = [nodeward.empty(bytes, "uint8", huge=False) for bytes in (8 * MIB, 65536)]
    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for child in range(10):
        assert in_child(lambda: f"child {child}") == f"child {child}"
    stop.set()
    for thread in threads:
        thread.join()
    assert len(rounds) == 2


def test_python_ends_while_pages_move(program):
    """Goal: a program ends at once, with its own code, while daemon threads move an array and a
    buffer at a rate at which that takes minutes."""
    told = program(
        """
        import threading, time
        import nodeward

        array = nodeward.empty(64 << 20, "uint8", huge=False)
        memoryview(array)[:] = b"\\1" * (64 << 20)
        data = bytearray(b"\\1") * (64 << 20)
        began = threading.Barrier(3)

        def move(what):
            began.wait()
            while True:
                for node in nodeward.nodes() + (["touch"] if what is array else []):
                    nodeward.migrate(what, node, rate="100KiB/s")

        for what in [array, data]:
            threading.Thread(target=move, args=(what,), daemon=True).start()
        began.wait()
        time.sleep(0.2)
        print("end", flush=True)
        raise SystemExit(7)
        """,
        code=7,
    )
    assert told == "end\n"


def test_a_subinterpreter_is_refused(program):
    """Goal: the module says in a subinterpreter that it does not work there; the main interpreter
    goes on."""
    if sys.version_info >= (3, 13):
        pytest.skip("the module of the standard library has another name in each version")
    told = program(
        """
        import _xxsubinterpreters as interpreters
        import nodeward

        other = interpreters.create()
        try:
            interpreters.run_string(other, "import nodeward")
        except interpreters.RunFailedError as error:
            print(error)
        interpreters.destroy(other)
        print(nodeward.nodes() != [])
        """
    )
    assert "ImportError" in told and "subinterpreter" in told and told.endswith("True\n"), told


def test_threads_move_at_once(home):
    """Goal: threads move the same array, their own, and buffers of others at once, while others
    look where they are."""
    array = nodeward.empty(4 * MIB, "uint8", huge=False)
    np.asarray(array)[:] = 6
    failures = []

    def work():
        try:
            own = np.full(MIB, 2, "uint8")
            for _ in range(5):
                for node in nodeward.nodes():
                    nodeward.migrate(array, node)
                    nodeward.migrate(own, node)
                    nodeward.residency(array)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and (np.asarray(array) == 6).all()
