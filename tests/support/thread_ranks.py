"""The processes of a job as threads of this process: the same messages, without MPI."""

import pickle
from threading import Barrier, Thread

import numpy as np

from thali.engines.cluster.ranks import Ranks

_PATIENCE = 300  # seconds: another thread may have to compile first


class ThreadRanks(Ranks):
    """One of several threads, each of which takes itself for a process."""

    def __init__(self, number, n, barrier, board):
        self.number, self.n = number, n
        self.seconds = self.n_bytes = self.n_messages = 0
        self._barrier, self._board = barrier, board

    def objects(self, thing):
        self._board[self.number] = pickle.loads(pickle.dumps(thing))
        self._barrier.wait(_PATIENCE)
        found = list(self._board)
        self._barrier.wait(_PATIENCE)  # before anybody writes again
        return found

    def gather(self, part, sizes=None):
        found = self.objects(np.array(part).reshape(-1))
        assert sizes is None or [one.size for one in found] == list(sizes)
        return np.concatenate(found)

    def exchange(self, make, take, size):
        sent = self.objects([np.array(make(number)).reshape(-1) for number in range(self.n)])
        for number, blocks in enumerate(sent):
            assert blocks[self.number].size == size(number)
            take(number, blocks[self.number])

    def add(self, numbers):
        return np.sum(self.objects(numbers), axis=0, dtype=numbers.dtype)

    def largest(self, number):
        return max(self.objects(number))

    def of_first(self, thing):
        return self.objects(thing)[0]

    def to_first(self, thing):
        found = self.objects(thing)
        return found if self.number == 0 else None

    def threads(self, asked):
        return asked or 1


def on_ranks(n, act):
    """Call ``act(ranks)`` in ``n`` threads; return the results, or raise the first error."""
    barrier, board = Barrier(n), [None] * n
    results, errors = [None] * n, [None] * n

    def run(number):
        try:
            results[number] = act(ThreadRanks(number, n, barrier, board))
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors[number] = error
            barrier.abort()

    threads = [Thread(target=run, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own = [e for e in errors if e is not None and type(e).__name__ != "BrokenBarrierError"]
    if own:
        raise own[0]
    return results
