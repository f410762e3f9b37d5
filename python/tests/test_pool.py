"""Pools and their runs."""

import gc

import numpy as np
import pytest

import nodeward
from nodeward import InvalidError, NodewardError, NoRoomError, UnknownNodeError


def test_a_run_is_memory(home):
    """Goal: a run has the bytes that were asked for, rounded up to a power of two of pages, on the
    node that was named, and goes back when nobody has it any more."""
    pool = nodeward.Pool(zone_bytes="16MiB")
    run = pool.run("9KiB", node=home, zeroed=True)
    view = np.frombuffer(run, "uint8")
    assert (run.nbytes, view.nbytes, int(view.sum())) == (16 << 10, 16 << 10, 0)
    view[:] = 1
    assert nodeward.residency(run) == {home: 16 << 10}
    assert pool.stats().in_use == 16 << 10
    del run
    gc.collect()
    assert pool.stats().in_use == 16 << 10, "the view has it"
    del view
    gc.collect()
    assert pool.stats().in_use == 0 and pool.stats().freed == 16 << 10
    assert pool.give_back() >= 16 << 10


def test_a_run_is_freed_once(home):
    """Goal: a run that somebody views is not freed; one that was freed has no memory any more."""
    pool = nodeward.Pool(zone_bytes="16MiB")
    with pool.run(1) as run:
        view = memoryview(run)
        with pytest.raises(BufferError, match="a view of the run"):
            run.free()
        view.release()
    run.free()
    with pytest.raises(InvalidError, match="the run was freed"):
        memoryview(run)
    with pytest.raises(InvalidError, match="the run was freed"):
        nodeward.migrate(run, home)


def test_wrong_runs_are_refused():
    """Goal: sizes, nodes, a pool that is full or closed: each is refused, and the pool goes on."""
    pool = nodeward.Pool(zone_bytes="2MiB")
    for size in [0, "3MiB", 1 << 70, "much", -4, None]:
        with pytest.raises(InvalidError):
            pool.run(size)
    with pytest.raises(UnknownNodeError):
        pool.run(4096, node=77)
    kept = []
    with pytest.raises(NoRoomError, match="no memory for a run"):
        for _ in range(1024 * len(nodeward.nodes())):
            kept.append(pool.run("64KiB"))
    kept.clear()
    gc.collect()
    pool.run(4096)
    pool.close()
    with pytest.raises(NodewardError, match="the pool is closed"):
        pool.run(4096)
    with pytest.raises(InvalidError):
        nodeward.Pool(zone_bytes="much")
