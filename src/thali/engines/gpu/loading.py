"""Copies of data to the device and back, through buffers in page-locked memory.

The threads of the host fill one buffer while another is copied. A copy from ordinary memory goes
through such a buffer, too, but one thread fills it and nothing else happens meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.threads import parallel_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Words

BLOCK = 1 << 26
"""Bytes per buffer: 64 MB are copied in 2 ms. Waking 16 threads took half a millisecond, so with
buffers of 4 MB the copy took six times as long."""

N_BUFFERS = 2

_PART = 1 << 20  # least number of bytes that pays for a thread


class TransferBuffer:
    """Buffers for copies between the host and the device.

    Parameters
    ----------
    device
        The device.
    total
        Total number of bytes to copy; a small total needs no large buffers.
    piece
        Number of bytes that must fit into one buffer.
    threads
        Number of threads that fill and empty the buffers.
    """

    def __init__(self, device: Any, total: int, piece: int, threads: int) -> None:
        self.n_bytes = max(min(BLOCK, total), piece)
        self.threads = threads
        self._buffers = [(device.pinned(self.n_bytes), device.event()) for _ in range(N_BUFFERS)]
        self._next = 0

    def buffer(self) -> tuple[NDArray[np.uint8], Any]:
        """Return a buffer that is free again, and the event to record after its next copy."""
        buffer, mark = self._buffers[self._next]
        self._next = (self._next + 1) % N_BUFFERS
        mark.synchronize()
        return buffer, mark

    def wait(self) -> None:
        """Wait until all copies are complete."""
        for _, mark in self._buffers:
            mark.synchronize()


def send_rows(device: Any, words: Words, out: Any, threads: int) -> None:
    """Copy packed rows to the device, where rows are longer and padded with zeros."""
    stride, width = out.shape[1], words.shape[1]
    buffers = TransferBuffer(device, out.nbytes, 8 * stride, threads)

    def fill(lo: int, hi: int, part: Words, rows: Words) -> None:
        part[lo:hi, :width] = rows[lo:hi]
        part[lo:hi, width:] = 0

    for start, stop in _blocks(len(words), buffers.n_bytes // (8 * stride)):
        buffer, mark = buffers.buffer()
        part = _rows_of(buffer, stop - start, stride)
        parallel_for(fill, len(part), buffers.threads, part, words[start:stop], step=_step(stride))
        device.send(part, out[start:stop])
        mark.record()
    buffers.wait()


def fetch_rows(device: Any, source: Any, width: int, threads: int) -> Words:
    """Copy rows back to the host without their padding."""
    n_rows, stride = source.shape
    buffers = TransferBuffer(device, source.nbytes, 8 * stride, threads)
    out = np.empty((n_rows, width), np.uint64)
    under_way: deque[tuple[int, Words, Any]] = deque()

    def take(lo: int, hi: int, rows: Words, part: Words) -> None:
        rows[lo:hi] = part[lo:hi, :width]

    def land() -> None:
        start, part, mark = under_way.popleft()
        mark.synchronize()
        rows = out[start : start + len(part)]
        parallel_for(take, len(part), buffers.threads, rows, part, step=_step(stride))

    for start, stop in _blocks(n_rows, buffers.n_bytes // (8 * stride)):
        if len(under_way) == N_BUFFERS:
            land()
        buffer, mark = buffers.buffer()
        part = _rows_of(buffer, stop - start, stride)
        device.fetch(source[start:stop], part)
        mark.record()
        under_way.append((start, part, mark))
    while under_way:
        land()
    return out


def send_listed(device: Any, indices: NDArray[Any], threads: int) -> Iterator[tuple[int, Any]]:
    """Copy the columns of listed entries in blocks; yield the start of each block and its copy.

    The caller must launch its work on a copy before it asks for the next one.
    """
    buffers = TransferBuffer(device, 4 * len(indices), 4, threads)
    there = [device.xp.empty(buffers.n_bytes // 4, np.uint32) for _ in range(N_BUFFERS)]

    def fill(lo: int, hi: int, part: Any, columns: Any) -> None:
        part[lo:hi] = columns[lo:hi]

    for number, (start, stop) in enumerate(_blocks(len(indices), buffers.n_bytes // 4)):
        buffer, mark = buffers.buffer()
        part = buffer[: 4 * (stop - start)].view(np.uint32)
        columns = indices[start:stop]
        if columns.dtype == np.int32:  # the bits are the same, so nothing is converted
            columns = columns.view(np.uint32)
        parallel_for(fill, len(part), buffers.threads, part, columns, step=_PART // 4)
        copy = there[number % N_BUFFERS][: len(part)]
        device.send(part, copy)
        mark.record()
        yield start, copy
    buffers.wait()


def _blocks(n: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, n, step):
        yield start, min(start + step, n)


def _rows_of(buffer: NDArray[np.uint8], n: int, stride: int) -> Words:
    return buffer[: 8 * n * stride].view(np.uint64).reshape(n, stride)


def _step(stride: int) -> int:
    return max(1, _PART // (8 * stride))
