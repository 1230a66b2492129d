"""Short chains written down: a change of the random stream is a decision, not an accident."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

import thali
from support.chains import BROAD
from thali.model import Model, PerComponent
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

GOLDEN = Path(__file__).parents[1] / "golden" / "chains.json"
CHAINS = {
    "finite": ((40, 70), Model(3), "parallel"),
    "finite tensor": ((12, 9, 70), Model(3), "parallel"),
    "parallel": ((40, 70), Model(alpha=BROAD), "parallel"),
    "serial": ((40, 70), Model(alpha=BROAD), "serial"),
    "serial-integrated": ((40, 70), Model(alpha=BROAD), "serial-integrated"),
    "tensor": ((12, 9, 70), Model(alpha=BROAD), "parallel"),
    "own densities": (
        (40, 70),
        Model(alpha=BROAD, density=PerComponent(1.0, 1.0, 16, None)),
        "parallel",
    ),
}


def record(shape, model, kind):
    data = thali.simulate(shape, 3, unknown=0.1, seed=5)
    target = Target.prepare(data.tensor, model, Schedule(kind, warmup=4, hold=2), threads=1)
    *_, (state, info) = chain(chain_key(2026), target, 10)
    words = b"".join(f.words.astype("<u8").tobytes() for f in state.factors)
    return {
        "factors": sha256(words).hexdigest(),
        "n_components": info.n_components,
        "log_joint": info.log_joint,
        "rates": list(state.noise),
    }


@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_the_one_written_down(name, request):
    """Ten sweeps give the recorded bits; numbers agree up to the machine's arithmetic."""
    found = record(*CHAINS[name])
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(json.dumps(known | {name: found}, indent=2) + "\n")
        return
    expected = known[name]
    assert found["factors"] == expected["factors"]
    assert found["n_components"] == expected["n_components"]
    assert found["log_joint"] == pytest.approx(expected["log_joint"], rel=1e-9)
    assert found["rates"] == pytest.approx(expected["rates"], rel=1e-9)
