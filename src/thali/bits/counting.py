"""The bits of long lines counted byte by byte, for processors that count bits so.

A processor of the ARM family counts the bits of sixteen bytes in one instruction, but those of a
word of 64 bits in four. Left to itself, the compiler takes the four for every word. Here the
counts of bytes are added up as bytes, up to the largest that a byte can hold.
"""

from __future__ import annotations

from platform import machine
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

IN_BYTES = machine().lower() in {"aarch64", "arm64"} and not config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether this processor counts bits so."""

_LONG, _HALF, _BYTE = ir.IntType(64), ir.IntType(16), ir.IntType(8)
_BYTES, _HALVES = ir.VectorType(_BYTE, 16), ir.VectorType(_HALF, 16)
_WORDS = 2  # in sixteen bytes
_MOST = 31  # times eight is the largest multiple of eight in a byte


@intrinsic
def count_in_bytes(_context: Any, code: Any, covered: Any, ones: Any) -> Any:
    """Count the bits of a line that are not covered, and those of them that are one.

    The three lines have as many words, the last of which is left out if their number is odd.
    Returns both counts in one number, the second times two to the power of 32.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lines = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, args, strict=True)
        ]
        pointers = [builder.bitcast(line.data, _BYTES.as_pointer()) for line in lines]
        length = cgutils.unpack_tuple(builder, lines[0].shape, 1)[0]  # type: ignore[no-untyped-call]
        n = builder.udiv(length, _LONG(_WORDS))
        totals = [cgutils.alloca_once_value(builder, _LONG(0)) for _ in range(2)]  # type: ignore[no-untyped-call]
        sums = [cgutils.alloca_once(builder, _BYTES) for _ in range(2)]  # type: ignore[no-untyped-call]
        with cgutils.for_range_slice(builder, _LONG(0), n, _LONG(_MOST), _LONG) as (start, _):
            for one in sums:
                builder.store(ir.Constant(_BYTES, None), one)
            left = builder.sub(n, start)
            is_last = builder.icmp_unsigned("<", left, _LONG(_MOST))
            stop = builder.add(start, builder.select(is_last, left, _LONG(_MOST)))
            with cgutils.for_range_slice(builder, start, stop, _LONG(1), _LONG) as (at, _):
                of_code, of_covered, of_ones = (
                    builder.load(builder.gep(pointer, [at]), align=8) for pointer in pointers
                )
                free = builder.and_(of_code, builder.not_(of_covered))
                for one, some in zip(sums, (free, builder.and_(free, of_ones)), strict=True):
                    counts = _call(builder, "llvm.ctpop.v16i8", _BYTES, some)
                    builder.store(builder.add(builder.load(one), counts), one)
            for one, total in zip(sums, totals, strict=True):
                wide = builder.zext(builder.load(one), _HALVES)
                more = _call(builder, "llvm.vector.reduce.add.v16i16", _HALF, wide)
                builder.store(builder.add(builder.load(total), builder.zext(more, _LONG)), total)
        n_free, n_ones = (builder.load(total) for total in totals)
        return builder.or_(n_free, builder.shl(n_ones, _LONG(32)))

    return types.uint64(code, covered, ones), generate


def _call(builder: Any, name: str, result: Any, value: Any) -> Any:
    """Call a function of one argument that LLVM knows."""
    kind = ir.FunctionType(result, [value.type])
    function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    return builder.call(function, [value])
