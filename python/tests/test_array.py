"""Arrays: what they are to Python, numpy and DLPack."""

import ctypes
import gc

import numpy as np
import pytest

import nodeward
from nodeward import InvalidError, UnknownNodeError

from conftest import MIB

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_sees_the_same_elements_by_every_way(dtype, home):
    """Goal: buffer, array interface and DLPack give one memory with the right type and shape; what
    is written by one is read by the others."""
    array = nodeward.empty((3, 5), np.dtype(dtype), node=home)
    views = [
        np.asarray(array),
        np.asarray(type("Interface", (), {"__array_interface__": array.__array_interface__})()),
        np.from_dlpack(array),
    ]
    views[0][2, 4] = 1
    for view in views:
        assert (view.dtype, view.shape, view[2, 4], view[0, 0]) == (np.dtype(dtype), (3, 5), 1, 0)
        assert view.ctypes.data == array.address
    assert array.nbytes == 15 * np.dtype(dtype).itemsize


@pytest.mark.parametrize("shape", [(), 0, 7, (0, 3), (2, 3, 4), [1, 5]])
def test_shapes(shape):
    """Goal: every shape is that of numpy, without dimensions, without elements, by a list."""
    array = nodeward.empty(shape, "float32")
    assert np.asarray(array).shape == np.empty(shape).shape == array.shape
    assert array.nbytes == np.empty(shape, "float32").nbytes


def test_types_are_named_as_people_name_them():
    """Goal: names, codes, classes and dtypes stand for a type; others are refused with the list."""
    for name, dtype in [(float, "float64"), (int, "int64"), (bool, "bool"), ("<f4", "float32"),
                        ("f2", "float16"), (np.uint8, "uint8"), (complex, "complex128")]:
        assert nodeward.empty(1, name).dtype == dtype
    for wrong in ["float128", ">f4", "O", object, None, "datetime64[s]"]:
        with pytest.raises(InvalidError, match="name one of bool, int8"):
            nodeward.empty(1, wrong)


def test_wrong_shapes_and_nodes_are_refused():
    """Goal: what no array can be is refused in words, before anything is made."""
    for shape, words in [(-1, "a dimension of -1"), ((1 << 40, 1 << 40), "no address space"),
                         ("abc", "neither a length"), (1.5, "neither a length"),
                         (1 << 70, "neither a length")]:
        with pytest.raises(InvalidError, match=words):
            nodeward.empty(shape)
    for node in [4_000_000_000, 77, -1, "1", "left", 1.5, 1 << 80]:
        with pytest.raises(UnknownNodeError, match="no node|has no memory"):
            nodeward.empty(1, node=node)
    with pytest.raises(nodeward.DeviceError, match="there is no device gpu:4095"):
        nodeward.empty(1, node="near:gpu:4095")
    with pytest.raises(nodeward.DeviceError, match="'what:0' is no device"):
        nodeward.empty(1, node="near:what:0")


def test_memory_is_placed(home):
    """Goal: touched memory is on the node that was named, or on all in turn."""
    array = nodeward.empty(4 * MIB, "uint8", node=home)
    np.asarray(array)[:] = 1
    assert nodeward.residency(array, exact=True) == {home: 4 * MIB}
    spread = nodeward.empty(8 * MIB, "uint8", node="interleave", huge=False)
    np.asarray(spread)[:] = 1
    found = nodeward.residency(spread, exact=True)
    nodes = nodeward.nodes()
    assert sum(found.values()) == 8 * MIB and set(found) == set(nodes[:4])


def test_views_keep_the_memory():
    """Goal: an array that was dropped stays as long as somebody has a view, by every way."""
    for way in [np.asarray, np.from_dlpack, memoryview]:
        array = nodeward.empty(MIB, "uint8")
        view = way(array)
        view[5] = 9
        del array
        gc.collect()
        assert view[5] == 9


def test_a_tensor_that_nobody_takes_is_freed():
    """Goal: 1000 capsules of 64 MiB of addresses are made and dropped: none is left, or the
    mappings of the process would grow by one each."""
    array = nodeward.empty(64 * MIB, "uint8")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        before = len(maps.readlines())
    for _ in range(1000):
        array.__dlpack__()
        nodeward.empty(64 * MIB, "uint8").__dlpack__()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert len(maps.readlines()) < before + 500
    assert array.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="copy it first"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="machine's memory"):
        array.__dlpack__(dl_device=(2, 0))


def test_columns_are_refused():
    """Goal: who asks for elements in columns does not get rows; of one dimension both are alike."""
    view = (ctypes.c_char * 256)()
    ask = ctypes.pythonapi.PyObject_GetBuffer
    ask.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    in_columns = 0x40 | 0x10 | 0x08  # PyBUF_F_CONTIGUOUS
    table = nodeward.empty((3, 4), "uint8")
    assert memoryview(table).c_contiguous and not memoryview(table).f_contiguous
    with pytest.raises(BufferError, match="in rows"):
        ask(table, view, in_columns)
    assert ask(nodeward.empty(12, "uint8"), view, in_columns) == 0
    ctypes.pythonapi.PyBuffer_Release(view)


def test_numpy_is_not_needed(program):
    """Goal: without numpy arrays are made, filled, counted and moved through a memoryview."""
    told = program(
        """
        import sys
        sys.modules["numpy"] = None  # an import of it fails

        import nodeward

        array = nodeward.empty((2, 1 << 19), "uint8")
        memoryview(array)[1, 7] = 5
        report = nodeward.migrate(array, nodeward.nodes()[-1])
        told = report.moved + report.already_there + sum(report.skipped.values())
        assert told == array.nbytes, report
        print(memoryview(array)[1, 7], sum(nodeward.residency(array, exact=True).values()) > 0)
        """
    )
    assert told == "5 True\n"
