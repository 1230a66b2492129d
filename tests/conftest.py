"""Options of the test run."""

import signal


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden after a change of the random stream; name it in the changelog",
    )


def pytest_configure():
    """Let Ctrl-C be tested also where the tests run in the background, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
