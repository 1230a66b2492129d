# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""SciPy's inverse of the incomplete beta function, for compiled code: the very same function.

SciPy offers its functions to compiled code as addresses. They differ between processes, so that
an address is an argument of every kernel that needs it, and never a part of a compiled one.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from scipy.special import betaincinv, cython_special

from thali._jit import inner

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _address(name: str, n_arguments: int) -> int:
    """Return the address of a function of double precision; SciPy has others of that name."""
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    wanted = f"double ({'double, ' * n_arguments}int".encode()
    for own_name, capsule in cython_special.__pyx_capi__.items():
        signature = python.PyCapsule_GetName(capsule)
        if own_name.endswith(name) and signature.startswith(wanted):
            return int(python.PyCapsule_GetPointer(capsule, signature))
    return 0


INVERSE_BETA = _address("betaincinv", 3)
"""Address of the inverse of the incomplete beta function; 0 if SciPy does not tell it."""


@intrinsic
def _call(_context: Any, _address: Any, _a: Any, _b: Any, _p: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double, double, double, ir.IntType(32)])
        function = builder.inttoptr(args[0], kind.as_pointer())
        return builder.call(function, [*args[1:], ir.Constant(ir.IntType(32), 0)])

    return types.float64(types.int64, types.float64, types.float64, types.float64), generate


def inverse_beta(address: int, a: float, b: float, p: float) -> float:  # noqa: ARG001 - compiled
    """Return where the distribution function of Beta(a, b) has the value p."""
    return float(betaincinv(a, b, p))


@overload(inverse_beta, inline="always")
def _compiled_inverse_beta(address, a, b, p):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda address, a, b, p: _call(address, a, b, p)  # type: ignore[call-arg] # noqa: PLW0108


@inner
def invert_all(address: int, tails: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what ``betaincinv(*tails)`` does, given an array with its three arguments."""
    found = np.empty(tails.shape[1])
    for i in range(found.shape[0]):
        found[i] = inverse_beta(address, tails[0, i], tails[1, i], tails[2, i])
    return found
