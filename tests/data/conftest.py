import numpy as np
import pytest


@pytest.fixture
def codes():
    return np.array([[0, 1, 2, 1], [1, 0, 0, 2], [1, 1, 1, 0]])
