"""What tests of the command line share."""

import re

FAST = ("--warmup", "5", "--draws", "5", "--chains", "2", "--threads", "1")


def answer_of(out):
    """Split an answer into its five lines and what comes next."""
    *lines, empty, following = out.splitlines()
    assert empty == ""
    assert len(lines) == 5
    return lines, following


def without_time(out):
    """Leave out what differs from run to run."""
    return re.sub(r"sampled in [\d.]+ (s|min)", "sampled", out)
