"""The kernels of a captured graph, read from the driver."""

import ctypes

KERNEL, CHILD = 0, 4  # CU_GRAPH_NODE_TYPE_*


class Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h."""

    _fields_ = ([("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                 ("shared", ctypes.c_uint)]
                + [(n, ctypes.c_void_p) for n in ("params", "extra", "kern", "ctx")])


def of(graph):
    """(name, thread blocks) of each kernel node of a CUgraph and of its child graphs."""
    driver = ctypes.CDLL("libcuda.so.1")

    def ask(name, *arguments):
        result = getattr(driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} returned {result}")
    n = ctypes.c_size_t()
    ask("cuGraphGetNodes", ctypes.c_void_p(graph), None, ctypes.byref(n))
    nodes = (ctypes.c_void_p * n.value)()
    ask("cuGraphGetNodes", ctypes.c_void_p(graph), nodes, ctypes.byref(n))
    found = []
    for node in map(ctypes.c_void_p, nodes):
        kind = ctypes.c_int()
        ask("cuGraphNodeGetType", node, ctypes.byref(kind))
        if kind.value == CHILD:
            child = ctypes.c_void_p()
            ask("cuGraphChildGraphNodeGetGraph", node, ctypes.byref(child))
            found += of(child.value)
        elif kind.value == KERNEL:
            p, name = Params(), ctypes.c_char_p()
            ask("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(p))
            if p.func:
                ask("cuFuncGetName", ctypes.byref(name), ctypes.c_void_p(p.func))
            else:
                ask("cuKernelGetName", ctypes.byref(name), ctypes.c_void_p(p.kern))
            found.append((name.value.decode(), p.grid[0] * p.grid[1] * p.grid[2]))
    return found
