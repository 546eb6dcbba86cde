"""Asks for memory before it is read.

A block's channels in the next frame lie a whole frame away, and what a CPU fetches by
itself ends with the block.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import jit

LINE = 64  # bytes that come at once, on most CPUs
FLAGS = 0, 3, 1  # of LLVM's prefetch: to read, soon, data


@intrinsic
def _fetch_line(context, array, index):
    """Starts to load the line of array[index], and does not wait for it."""

    def code(context, builder, signature, arguments):
        array, index = arguments
        array = context.make_array(signature.args[0])(context, builder, array)
        address = builder.gep(array.data, [index])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        flags = [ir.IntType(32)(flag) for flag in FLAGS]
        kinds = [operand.type for operand in (address, *flags)]
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", kinds[:1], ir.FunctionType(ir.VoidType(), kinds)
        )
        builder.call(prefetch, [address, *flags])
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@jit
def fetch(array):
    """Starts to load a contiguous array of one dimension."""
    for i in range(0, array.size, LINE // array.itemsize):
        _fetch_line(array, i)
