"""Options of the test run."""

import signal

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
