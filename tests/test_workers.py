"""When further processes begin."""

from types import SimpleNamespace

import pytest

from thali import workers
from thali.workers import COMPILED, _Workers


class Chain:
    """A chain that compiles something in its first slices of time."""

    now, number, is_starting = None, 0, False

    def __init__(self, n_compiled, log):
        self.left, self.n_compiled, self.log = 5, n_compiled, log

    def advance(self, stop):
        assert not stop.is_set()
        self.left -= 1
        self.log.append(self.left)
        if self.n_compiled:
            self.n_compiled -= 1
            COMPILED.n_functions += 1
        elif self.left == 1:
            self.begun.wait(10.0)  # the process begins before this chain has ended
        return self.left > 0


@pytest.mark.parametrize("n_compiled", [0, 2])
def test_processes_begin_once_nothing_is_compiled(n_compiled, monkeypatch):
    """Whatever was compiled before, in an earlier call, does not keep them waiting."""
    monkeypatch.setattr(workers, "COMPILED", SimpleNamespace(n_functions=7))
    monkeypatch.setitem(Chain.advance.__globals__, "COMPILED", workers.COMPILED)
    log = []
    chain = Chain(n_compiled, log)

    class Process:
        left = ()

        def run(self, exchange, stop):
            log.append("process")
            chain.begun.set()

        def dismiss(self):
            pass

        stop = dismiss

    running = _Workers([chain], 1, [Process()])
    chain.begun = running._ended[1].__class__()
    running.run(lambda: None)
    assert not running.failures
    assert log.index("process") > n_compiled
    assert log.index("process") < log.index(0)
