"""Options of the test run."""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden after a change of the random stream; name it in the changelog",
    )
