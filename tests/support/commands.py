"""What tests of the command line share."""

import re

BRIEF = ("--warmup", "5", "--draws", "5", "--chains", "2", "--threads", "1")
FAST = (*BRIEF, "--noise", "unequal")  # without effects, starts are short


def answer_of(out):
    """Split an answer into its lines, six with row and column effects, and what comes next."""
    *lines, empty, following = out.splitlines()
    assert empty == ""
    assert len(lines) in (5, 6)
    return lines, following


def without_time(out):
    """Leave out what differs from run to run."""
    return re.sub(r"sampled in [\d.]+ (s|min)", "sampled", out)
