"""The one search for roots, on functions whose roots are known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin.metrics import roots

START, END = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
SHAPES = {
    "line": lambda x, root: x - root,
    "cubic": lambda x, root: (x - root) ** 3,
    "step": lambda x, root: torch.where(x >= root, 1.0, -1.0).double(),
    "sudden": lambda x, root: torch.exp(50 * (x - root)) - 1,
    "late": lambda x, root: torch.tanh(1000 * (x - root)),
}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=30, deadline=None)
@given(root=st.floats(0, 60).filter(lambda x: x == 0 or x > 1e-3), tolerance=st.sampled_from([1e-3, 1e-6, 1e-12]))
def test_the_root_is_in_the_bracket(shape, root, tolerance):
    low, high = roots.bracket(lambda x: SHAPES[shape](x, root), START, END, tolerance=tolerance, most=64)
    slack = 1e-6 * root if shape == "cubic" else 1e-14  # where rounding hides the sign
    assert float(low) - slack <= root <= float(high) + slack
    assert float(high - low) <= tolerance * max(1.0, root) + 1e-14


def test_each_line_is_searched_by_itself():
    wanted = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    low, high = roots.bracket(lambda x: x**2 - wanted**2, 0 * wanted, 0 * wanted + 1, tolerance=1e-9)
    torch.testing.assert_close((low + high) / 2, wanted, rtol=0, atol=1e-9)


def test_a_flat_stretch_has_two_ends():
    def flat(x):
        return (x - 0.2).clamp(max=0) + (x - 0.6).clamp(min=0)

    first = roots.bracket(flat, START, END, tolerance=1e-6)
    last = roots.bracket(flat, START, END, tolerance=1e-6, strict=True)
    assert float(first[1]) == pytest.approx(0.2, abs=1e-5)
    assert float(last[0]) == pytest.approx(0.6, abs=1e-5)


def test_roots_outside_of_where_it_looks():
    assert roots.bracket(lambda x: x + 1, START, END, tolerance=1e-6) == (0, 0)
    low, high = roots.bracket(lambda x: x - 1000, START, END, tolerance=1e-6, most=64)
    assert float(high) == 64
    assert float(low) == pytest.approx(64, abs=1e-4)


def test_it_takes_few_steps():
    calls = []

    def counted(x):
        calls.append(x)
        return torch.log(x + 0.1) - math.log(0.4)

    roots.bracket(counted, START, END, tolerance=2.0**-16)
    assert len(calls) <= 12  # halving alone takes 18


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7, 1e-11])
def test_a_steep_function_ends_where_its_excess_is_small(tolerance):
    wanted, calls = torch.linspace(0.001, 0.999, 200, dtype=torch.float64), {False: 0, True: 0}
    for steep in calls:

        def excess(x, steep=steep):
            calls[steep] += 1
            return x - wanted + torch.tanh(3 * (x - wanted))

        low, high = roots.bracket(excess, 0 * wanted, 0 * wanted + 1, tolerance=tolerance, steep=steep)
        torch.testing.assert_close((low + high) / 2, wanted, rtol=0, atol=1.01 * tolerance)
    assert calls[True] <= calls[False]
