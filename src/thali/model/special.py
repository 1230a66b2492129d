# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Functions of SciPy for compiled code: the very same functions, with the same results.

SciPy offers them to compiled code as addresses. These differ between processes, so that addresses
are an argument of every kernel that needs them, and never a part of a compiled one. Only functions
belong here that SciPy has compiled once: others, such as ``gammaincinv``, may round differently.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from scipy.special import betainc, betaincinv, cython_special

from thali._jit import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Addresses: TypeAlias = tuple[int, int]


def _address(name: str) -> int:
    """Return the address of a function of three doubles; SciPy has others of that name."""
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    wanted = b"double (double, double, double, int"
    for own_name, capsule in cython_special.__pyx_capi__.items():
        signature = python.PyCapsule_GetName(capsule)
        if own_name.endswith(name) and signature.startswith(wanted):
            return int(python.PyCapsule_GetPointer(capsule, signature))
    msg = f"This SciPy has no {name} for compiled code; update SciPy."
    raise ImportError(msg)


ADDRESSES: Addresses = _address("betaincinv"), _address("betainc")
"""Where this process has the functions below, in their order."""


@intrinsic
def _call(_context: Any, _address: Any, _a: Any, _b: Any, _p: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        double, flag = ir.DoubleType(), ir.IntType(32)  # the flag is Cython's
        kind = ir.FunctionType(double, [double, double, double, flag])
        function = builder.inttoptr(args[0], kind.as_pointer())
        return builder.call(function, [*args[1:], ir.Constant(flag, 0)])

    return types.float64(types.int64, types.float64, types.float64, types.float64), generate


def inverse_beta(addresses: Addresses, a: float, b: float, p: float) -> float:  # noqa: ARG001
    """Return where the distribution function of Beta(a, b) has the value p."""
    return float(betaincinv(a, b, p))


def below_beta(addresses: Addresses, a: float, b: float, x: float) -> float:  # noqa: ARG001
    """Return the distribution function of Beta(a, b)."""
    return float(betainc(a, b, x))


@overload(inverse_beta, inline="always")
def _compiled_inverse_beta(addresses, a, b, p):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda addresses, a, b, p: _call(addresses[0], a, b, p)  # type: ignore[call-arg]


@overload(below_beta, inline="always")
def _compiled_below_beta(addresses, a, b, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda addresses, a, b, x: _call(addresses[1], a, b, x)  # type: ignore[call-arg]


@inner
def invert_some(
    lo: int, hi: int, addresses: Addresses, tails: NDArray[np.float64], found: NDArray[np.float64]
) -> None:
    """Do what ``betaincinv(*tails)`` does, for some columns of an array with its arguments."""
    for i in range(lo, hi):
        found[i] = inverse_beta(addresses, tails[0, i], tails[1, i], tails[2, i])
