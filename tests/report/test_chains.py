"""What the page says about the chains: how they started, and which moves were accepted."""

import re

import thali
from thali.report.sections import chains
from thali.sampler import Attempted, Tried


def test_moves_are_on_the_page(build):
    """Tries, acceptances and acceptances by chain; nothing if the run counted none."""
    data = thali.simulate((12, 9), 2, seed=1)
    posterior = build(data.tensor, data.factors)
    assert "Moves of whole components" not in chains(posterior)
    for chain, accepted in zip(posterior._chains, (3, 4), strict=True):
        chain.draws[0] = chain.draws[0]._replace(moves={"split_merge": (10, accepted)})
    posterior = thali.Posterior(
        posterior.settings, posterior.tensor, (posterior.mode_names, posterior.row_names),
        posterior._chains,
    )  # fmt: skip
    table = chains(posterior).split("Moves of whole components")[1].split("</table>")[0]
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    assert lines == [
        ["move", "proposed", "accepted", "share", "in chain 1", "in chain 2"],
        ["split_merge", "20", "7", "35%", "3", "4"],
    ]
    one = chains(posterior.chain(1)).split("Moves of whole components")[1]
    assert "in chain" not in one
    assert "<td>10</td><td>4</td><td>40%</td></tr>" in one


def test_starts_are_on_the_page(build):
    """What each chain reached before its first sweep, in a line per kind of stage."""
    data = thali.simulate((12, 9), 2, seed=1)
    posterior = build(data.tensor, data.factors)
    assert "What the chains began with" not in chains(posterior)
    posterior._chains[0].start = (
        Attempted("grown", 3, -1259.13),
        Attempted("grown", 2, -1300.0),
        Attempted("pooled", 2, -1246.1),
        Attempted("regrown", 4, -1246.0),
        Attempted("regrown", 4, -1246.0),
    )
    table = chains(posterior).split("What the chains began with")[1].split("</table>")[0]
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    assert lines == [
        ["chain", "stage", "components", "log evidence"],
        ["1", "best of 2 starts", "3", "-1,259.1"],
        ["1", "all together", "2", "-1,246.1"],
        ["1", "after 2 rounds of removing and regrowing", "4", "-1,246.0"],
    ]


def test_starts_on_trial_are_on_the_page(build):
    """With effects: what was tried on hidden entries, and last what was chosen."""
    data = thali.simulate((12, 9), 2, seed=1)
    posterior = build(data.tensor, data.factors)
    posterior._chains[0].start = (
        Attempted("grown", 2, -1300.0, "fitted"),
        Attempted("grown", 3, -1259.13, "flat"),
        Attempted("tried", 0, -1400.0, "none", Tried(-0.5, 0.001, 0.002, 300)),
        Attempted("tried", 2, -1300.0, "fitted", Tried(-0.41, 0.09, 0.01, 300)),
        Attempted("tried", 3, -1259.13, "flat", Tried(-0.4, 0.1, 0.01, 300)),
        Attempted("chosen", 2, -1300.0, "fitted", Tried(-0.41, 0.09, 0.01, 300)),
    )
    told, table = chains(posterior).split("What the chains began with")
    assert "A higher log score is better" in told
    table = table.split("</table>")[0]
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    assert lines == [
        ["chain", "stage", "components", "log evidence", "log score", "gain"],
        ["1", "effects first: best of 1 start", "2", "-1,300.0", "", ""],
        ["1", "components first: best of 1 start", "3", "-1,259.1", "", ""],
        ["1", "no component: on trial", "0", "-1,400.0", "-0.5000", "+0.0010 ± 0.0020"],
        ["1", "components first: on trial", "3", "-1,259.1", "-0.4000", "+0.1000 ± 0.0100"],
        ["1", "effects first: on trial, and chosen", "2", "-1,300.0", "-0.4100",
         "+0.0900 ± 0.0100"],
    ]  # fmt: skip
