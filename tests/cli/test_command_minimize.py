"""``minimize`` finds what :func:`thali.minimize` finds, and writes it as tables."""

import json

import numpy as np
import pandas as pd

import thali

SHORT = ("--components", 2, "--sweeps", 20, "--seed", 3)


def test_answer_and_tables(run, table, tmp_path):
    """Errors are those of the tables, which have the names of the data."""
    code, out, err = run("minimize", table, *SHORT, "--to", "tables")
    assert (code, err) == (0, "")
    data = np.loadtxt(table, int, delimiter=",", skiprows=1)
    folder = tmp_path / "tables"
    rows, columns = (
        pd.read_csv(folder / f"factor_{mode}.csv", index_col=0) for mode in ("rows", "columns")
    )
    assert columns.index.tolist() == list("abcdefghi")
    wrong = int(((rows.to_numpy() @ columns.to_numpy().T > 0) != data).sum())
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["errors"] == wrong
    assert f"{wrong} known entr" in out
    assert "the 2 components" in out
    found = thali.minimize(data, 2, sweeps=20, seed=3, progress=False)
    assert summary["errors"] == found.errors
    assert pd.read_csv(folder / "trace.csv")["errors"].iloc[-1] == wrong
    sizes = pd.read_csv(folder / "components.csv", index_col=0)
    assert sizes["n_rows"].tolist() == rows.sum().tolist()


def test_options(run, table):
    """Costs and covers without zeros are passed on; a folder is not overwritten."""
    assert "0 zeros covered" in run("minimize", table, *SHORT, "--under")[1]
    assert "0 zeros covered" in run("minimize", table, *SHORT, "--cost", 1000, 1)[1]
    assert run("minimize", table, *SHORT, "--to", "tables")[0] == 0
    code, _, err = run("minimize", table, *SHORT, "--to", "tables")
    assert code == 2
    assert "tables is not empty" in err
    assert run("minimize", table, *SHORT, "--to", "tables", "--force")[0] == 0


def test_exact(run, table):
    """Without errors, the number of components is the answer."""
    code, out, _ = run("minimize", table, "--exact", "--sweeps", 20)
    assert code == 0
    assert "0 known entries (0.00%) contradict the" in out
    code, _, err = run("minimize", table, "--exact", "-k", 3)
    assert code == 2
    assert "--exact finds the number of components" in err


def test_wrong_options(run, table):
    """One sentence, and exit code 2."""
    code, _, err = run("minimize", table)
    assert code == 2
    assert "--components" in err
    code, _, err = run("minimize", table, *SHORT, "--seconds", 3)
    assert code == 2
    assert err == (
        "thali: --seconds 3.0 and --sweeps 20 were given; allowed is one of them; leave the other "
        "out.\n"
    )
