# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""How lists of records are divided into slots, each counted by one warp or team of warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index


@jit
def divide(
    starts: Index, n_components: int, most: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Index]:
    """Divide lists of records, as many per component, into slots of about equal length.

    Parameters
    ----------
    starts
        The first record of every list, and the end of the last one.
    n_components
        Number of components.
    most
        Largest length of a slot.

    Returns
    -------
    ranges
        ``(n_slots, 3)``: first record, end and number of every slot, by component and then by
        decreasing length.
    of_lists
        ``(n_components, n_lists + 1)``: first slot of every list of a component, and the end.
    firsts
        The first range of every component, and the end of the last one.
    """
    n_lists = (starts.shape[0] - 1) // max(1, n_components)
    of_lists = np.zeros((n_components, n_lists + 1), np.uint32)
    firsts = np.zeros(n_components + 1, np.int64)
    for component in range(n_components):
        n = 0
        for k in range(n_lists):
            at = component * n_lists + k
            n += (starts[at + 1] - starts[at] + most - 1) // most
            of_lists[component, k + 1] = n
        firsts[component + 1] = firsts[component] + n
    ranges = np.empty((firsts[n_components], 3), np.uint32)
    places = np.empty(most + 1, np.int64)  # of the next slot of every length
    for component in range(n_components):
        # Two passes over the same slots: count how many have every length, then put them there.
        places[:] = 0
        for is_counted in (False, True):
            if is_counted:
                place = firsts[component]
                for length in range(most, -1, -1):
                    n = places[length]
                    places[length] = place
                    place += n
            for k in range(n_lists):
                start = starts[component * n_lists + k]
                n_records = starts[component * n_lists + k + 1] - start
                n = (n_records + most - 1) // most
                for number in range(n):
                    first = start + number * n_records // n
                    end = start + (number + 1) * n_records // n
                    if is_counted:
                        place = places[end - first]
                        ranges[place, 0] = first
                        ranges[place, 1] = end
                        ranges[place, 2] = of_lists[component, k] + number
                    places[end - first] += 1
    return ranges, of_lists, firsts
