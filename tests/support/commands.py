"""What tests of the command line share."""

import re

BRIEF = ("--warmup", "5", "--draws", "5", "--chains", "2", "--threads", "1")
FAST = (*BRIEF, "--noise", "unequal")  # without effects, starts are short


def answer_of(out):
    """Split an answer into its lines, seven with row and column effects, and what comes next.

    If chains disagree, a line that says so comes first.
    """
    *lines, empty, following = out.splitlines()
    assert empty == ""
    assert len(lines) in (6, 7, 8)
    return lines, following


def without_time(out):
    """Leave out what differs from run to run."""
    return re.sub(r"sampled in [\d.]+ (s|min)", "sampled", out)
