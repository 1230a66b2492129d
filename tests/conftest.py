"""Options of the test run."""

import os
import signal

# Workers are as many as cores: if products of matrices took all cores in each of them, they would
# wait for each other. NumPy reads this when it is imported, also in processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from support.compile_once import compile_once


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden after a change of the random stream; name it in the changelog",
    )


def pytest_configure(config):
    """Let workers share what they compile, and Ctrl-C be tested in the background, too."""
    if hasattr(config, "workerinput"):
        compile_once()
    # A process in the background ignores Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
