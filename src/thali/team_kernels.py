# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, call-arg, var-annotated"
# ruff: noqa: ANN001, ANN202, ARG001
"""Compiled functions done in parts by several threads, none of which waits for the interpreter.

A thread that calls a compiled function from Python needs the interpreter's lock for some 25
microseconds. Threads wait for one another there, so that a call of sixteen takes half a
millisecond. The members of a team stay inside compiled code instead, where they look for work.
Whoever has some publishes it in the memory of the team: the address of a compiled function, that
of its arguments, and the number of parts. Everyone, the caller included, takes one part after
another. So nobody waits for a member that sleeps or that the operating system has stopped, unless
it has taken a part.

The parts that were taken, how many there are, and the number of the work are one word of memory,
which changes by one instruction. A part can therefore not be taken with the arguments of other
work: they stay as they are until all parts are done.
"""

from __future__ import annotations

import sys
from platform import machine
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload

from thali._jit import inner, jit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali._jit import Kernel

    Words: TypeAlias = NDArray[np.uint64]

N_WORDS = 32
AWAKE, FAILED = 24, 18
"""Where a team's memory says how many members look for work, and whether a part has failed."""

_WORK, _DONE, _ENTRY, _JOB = 0, 8, 16, 17  # what changes is a line of the processor's cache apart

_PAUSES = 16
"""How often a thread that waits looks again before it steps aside, which takes longer."""

N_RESULTS = 4
"""Most integers that a compiled function returns for its rows."""

MOST_PARTS = (1 << 20) - 1
_PARTS, _TO_LIMIT, _TO_NUMBER = np.uint64(MOST_PARTS), np.uint64(20), np.uint64(40)
_0, _1 = np.uint64(0), np.uint64(1)
_MINUS_ONE = ~_0

_WORD = ir.IntType(64)
_PART = ir.FunctionType(ir.VoidType(), [_WORD, _WORD, _WORD])


# --- single instructions -------------------------------------------------------------------


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def _load(typing, memory, index):
    """Read a word after what its writer has written before it."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(place, "acquire", 8)

    return types.uint64(memory, types.int64), generate


@intrinsic
def _store(typing, memory, index, value):
    """Write a word after everything that was written before."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", 8)

    return types.void(memory, types.int64, types.uint64), generate


@intrinsic
def _add(typing, memory, index, value):
    """Add to a word that others change, too; return what it was."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", place, arguments[2], "acq_rel")

    return types.uint64(memory, types.int64, types.uint64), generate


@intrinsic
def _replace(typing, memory, index, old, new):
    """Replace a word if nobody has changed it; return whether that was so."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        both = builder.cmpxchg(place, *arguments[2:], "acq_rel", "acquire")
        is_done = builder.zext(builder.extract_value(both, 1), _WORD)
        return context.cast(builder, is_done, types.int64, types.boolean)

    return types.boolean(memory, types.int64, types.uint64, types.uint64), generate


def set_bits(words: Words, line: int, at: int, value: np.uint64) -> None:
    """Set bits of a word of a table, in which other threads may set other bits."""
    words[line, at] |= value


@overload(set_bits, inline="always")
def _set_bits_typed(words, line, at, value):
    return lambda words, line, at, value: _set_bits(words, line, at, value)  # noqa: PLW0108


@intrinsic
def _set_bits(typing, words, line, at, value):
    def generate(context, builder, signature, arguments):
        table, line, at, value = arguments
        array = context.make_array(signature.args[0])(context, builder, table)
        width = builder.extract_value(array.shape, 1)
        place = builder.gep(array.data, [builder.add(builder.mul(line, width), at)])
        builder.atomic_rmw("or", place, value, "monotonic")

    return types.void(words, types.int64, types.int64, types.uint64), generate


@intrinsic
def _place(typing, job):
    """Put the arguments of a function into memory; return where."""

    def generate(context, builder, signature, arguments):
        given = _borrowed(context, builder, job, arguments[0])
        return builder.ptrtoint(cgutils.alloca_once_value(builder, given), _WORD)

    return types.uint64(job), generate


def _borrowed(context: Any, builder: Any, of_type: Any, value: Any) -> Any:
    """Return arrays, also those in tuples, without the counters of their users.

    Numba counts who uses an array, by an instruction that all threads wait for. But the arrays
    stay until all parts are done.
    """
    if isinstance(of_type, types.Array):
        array = context.make_array(of_type)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()  # noqa: SLF001 - no other way
    if isinstance(of_type, types.BaseTuple):
        for i, inside in enumerate(of_type):
            part = _borrowed(context, builder, inside, builder.extract_value(value, i))
            value = builder.insert_value(value, part, i)
    return value


@intrinsic
def _entry(typing, one_part, job):
    """Return the address of a function that does one part, given where its arguments are."""
    inside = typing.resolve_function_type(one_part, (types.int64, job), {})

    def generate(context, builder, signature, arguments):
        module = builder.module
        function = ir.Function(module, _PART, name=module.get_unique_name("thali_part"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        at, part, failed = function.args
        given = body.load(body.inttoptr(at, context.get_value_type(job).as_pointer()))
        compiled = one_part.dispatcher.get_compile_result(inside)
        context.active_code_library.add_linking_library(compiled.library)
        status, _ = context.call_internal_no_propagate(
            body, compiled.fndesc, inside, [part, given]
        )
        with body.if_then(status.is_error):
            place = body.inttoptr(failed, _WORD.as_pointer())
            body.store_atomic(ir.Constant(_WORD, 1), place, "release", 8)
        body.ret_void()
        return builder.ptrtoint(function, _WORD)

    return types.uint64(one_part, job), generate


@intrinsic
def _call(typing, entry, job, part, memory, failed):
    """Do one part of a work."""

    def generate(context, builder, signature, arguments):
        entry, job, part, *place = arguments
        failed = builder.ptrtoint(_pointer(context, builder, signature.args[3], *place), _WORD)
        builder.call(builder.inttoptr(entry, _PART.as_pointer()), [job, part, failed])

    return types.void(types.uint64, types.uint64, types.int64, memory, types.int64), generate


_step_aside = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)


@intrinsic
def _pause(typing):
    """Do nothing for a moment, in which another thread of the same core has all of it."""
    kind = machine().lower()

    def generate(context, builder, signature, arguments):
        if kind in {"x86_64", "amd64"}:
            name, given = "llvm.x86.sse2.pause", []
        elif kind in {"aarch64", "arm64"}:  # its instruction for this purpose does not wait at all
            name, given = "llvm.aarch64.isb", [ir.Constant(ir.IntType(32), 15)]
        else:
            return
        kinds = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(cgutils.get_or_insert_function(builder.module, kinds, name), given)

    return types.void(), generate


# --- work of a team ------------------------------------------------------------------------


@inner
def _do_one(memory: Words) -> bool:
    """Take a part of the present work and do it; return whether there may be more."""
    work = _load(memory, _WORK)
    part = work & _PARTS
    if part >= (work >> _TO_LIMIT) & _PARTS:
        return False
    if _replace(memory, _WORK, work, work + _1):
        _call(memory[_ENTRY], memory[_JOB], np.int64(part), memory, FAILED)
        _add(memory, _DONE, _1)
    return True


@inner
def _rest(n_pauses: int) -> int:
    """Pause, or step aside for whoever needs this core after a few pauses; return their number."""
    if n_pauses < _PAUSES:
        _pause()
        return n_pauses + 1
    _step_aside()
    return 0


@jit
def serve(memory: Words, patience: int) -> None:
    """Take parts of work, until there has been none while this has stepped aside so often."""
    left = patience
    n_pauses = 0
    while left > 0:
        if _do_one(memory):
            left = patience
        else:
            n_pauses = _rest(n_pauses)
            left -= n_pauses == 0
    _add(memory, AWAKE, _MINUS_ONE)


@jit
def invite(memory: Words, n_members: int) -> int:
    """Return how many members must be woken, so that so many look for work; count them in."""
    while True:
        awake = _load(memory, AWAKE)
        if awake >= np.uint64(n_members):
            return 0
        if _replace(memory, AWAKE, awake, np.uint64(n_members)):
            return n_members - np.int64(awake)


@inner
def _publish(memory: Words, n_parts: int, entry: np.uint64, job: np.uint64) -> None:
    """Have all parts of a work done."""
    number = (_load(memory, _WORK) >> _TO_NUMBER) + _1
    memory[_ENTRY] = entry
    memory[_JOB] = job
    _store(memory, _DONE, _0)
    n = np.uint64(n_parts)
    _store(memory, _WORK, (number << _TO_NUMBER) | (n << _TO_LIMIT))
    while _do_one(memory):
        pass
    n_pauses = 0
    while _load(memory, _DONE) < n:
        n_pauses = _rest(n_pauses)


# --- functions in parts --------------------------------------------------------------------


def _kernel(lo: int, hi: int, *arguments: Any) -> Any:
    """Stand for a compiled function over rows, in the two functions that follow."""


def _one_part(part: int, job: Any) -> None:
    """Do one part of the rows, and keep what the function returns."""
    first, n_rows, n_parts, step, results, arguments = job
    n_steps = (n_rows + step - 1) // step
    lo = first + step * (n_steps * part // n_parts)
    hi = first + min(n_rows, step * (n_steps * (part + 1) // n_parts))
    _keep(results, part, _kernel(lo, hi, *arguments))


def _in_parts(
    memory: Words, first: int, n_rows: int, n_parts: int, step: int, results: Any,
    *arguments: Any,
) -> None:  # fmt: skip
    """Do a function on rows ``first … first + n_rows - 1``, a part for a multiple of ``step``.

    ``results`` has a line per part, for the integers that the function returns.
    """
    job = (first, n_rows, n_parts, step, results, arguments)
    _publish(memory, n_parts, _entry(_one_part, job), _place(job))


def in_parts(kernel: Any, declare: Callable[[Any], Kernel] = jit) -> Kernel:
    """Return a compiled function over rows, whose first arguments are a range, as one in parts.

    Numba keeps compiled functions by file and name, so these get those of the kernel. Functions
    that compiled functions call are declared as inner ones.
    """
    if not isinstance(kernel, CPUDispatcher):  # nothing is compiled
        one_part = _copy(_one_part, kernel, "part", _kernel=kernel)
        return _copy(_one_by_one, kernel, "in_parts", _one_part=one_part)
    one_part = inner(_copy(_one_part, kernel, "part", _kernel=kernel))
    return declare(_copy(_in_parts, kernel, "in_parts", _one_part=one_part))


def _copy(function: Any, kernel: Any, name: str, **names: Any) -> FunctionType:
    python = getattr(kernel, "py_func", kernel)
    code = python.__code__
    # Compiled functions of one name could be taken for each other if they come from the cache.
    full = f"{python.__module__}.{python.__qualname__}_{name}".replace(".", "_")
    return FunctionType(
        function.__code__.replace(
            co_name=full, co_qualname=full, co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
        ),
        {**globals(), **names},
    )  # fmt: skip


def _one_by_one(
    _memory: Words, first: int, n_rows: int, n_parts: int, step: int, results: Any,
    *arguments: Any,
) -> None:  # fmt: skip
    """Do the same where nothing is compiled."""
    for part in range(n_parts):
        _one_part(part, (first, n_rows, n_parts, step, results, arguments))


def _keep(results: Any, part: int, found: Any) -> None:
    """Keep the integers that a part has returned."""
    if found is not None:
        results[part, : len(found)] = found


@overload(_keep)
def _keep_typed(results, part, found):
    if isinstance(found, types.NoneType):
        return lambda results, part, found: None  # noqa: ARG005

    if len(found) > N_RESULTS:
        msg = f"A function in parts returns at most {N_RESULTS} integers."
        raise TypingError(msg)

    def keep(results, part, found):
        for i in range(len(found)):
            results[part, i] = found[i]

    return keep
