"""One output against another: measures, tolerance, and what no tolerance forgives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fuser.parity.compare import TOLERANCES, Tolerance, compare, worst_first

FLOATS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.float16]),
    hnp.array_shapes(max_dims=3, max_side=5),
    elements=st.floats(-1000, 1000, width=16),
)


@settings(deadline=None)
@given(FLOATS)
def test_a_model_differs_from_itself_by_nothing(a):
    """compare(a, a) is 0 and passes at tolerance 0."""
    found = compare("y", a, a.copy(), tolerance=0.0)
    assert (found.verdict, found.smallest_tolerance, found.max_abs, found.snr_db) == (
        "passed",
        0.0,
        0.0,
        None,
    )
    assert found.reason == "equal"


@settings(deadline=None)
@given(FLOATS, st.integers(0, 2**32 - 1), st.floats(1e-6, 1e-1))
def test_the_smallest_tolerance_is_the_smallest(a, seed, size):
    """It passes; one percent less fails."""
    noise = np.random.default_rng(seed).standard_normal(a.shape) * size
    b = (a.astype(np.float64) + noise).astype(a.dtype)
    least = compare("y", a, b, tolerance=1.0).smallest_tolerance
    assert compare("y", a, b, tolerance=least).verdict == "passed"
    if least:
        assert compare("y", a, b, tolerance=least * 0.99).verdict == "failed"


def test_the_measures_are_what_they_are_called():
    """By hand: one value of four is off by 0.5 on a scale of 4."""
    found = compare("y", np.float32([1, -2, 4, 0]), np.float32([1, -2, 4, 0.5]), tolerance=0.1)
    assert found.max_abs == 0.5
    assert found.smallest_tolerance == 0.5 / 4
    assert found.max_rel == pytest.approx(0.5 / (4 * 1e-3))
    assert found.snr_db == pytest.approx(10 * np.log10(21 / 0.25))
    assert found.cosine == pytest.approx(21 / np.sqrt(21 * 21.25))
    assert found.verdict == "failed"
    assert found.reason == "worst at [3]: A 0, B 0.5, on values up to 4"


def test_differences_are_found_across_blocks(monkeypatch):
    """Large outputs are measured block by block; the worst one wins wherever it is."""
    monkeypatch.setattr("fuser.parity.compare.BLOCK", 7)
    a = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 20)
    b = a.copy()
    b[2, 4] += 1
    b[0, 1] += 0.5
    blocked = compare("y", a, b, tolerance=1e-5)
    monkeypatch.setattr("fuser.parity.compare.BLOCK", 1000)
    whole = compare("y", a, b, tolerance=1e-5)
    assert "[2, 4]" in blocked.reason
    assert blocked.reason == whole.reason
    assert blocked.smallest_tolerance == whole.smallest_tolerance
    assert blocked.cosine == pytest.approx(whole.cosine)


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        (np.float32([1, np.nan]), np.float32([1, 2]), "at [1] A is nan, B is 2"),
        (np.float32([1, 2]), np.float32([1, np.nan]), "at [1] A is 2, B is nan"),
        (np.float32([1, np.inf]), np.float32([1, 3e38]), "at [1] A is inf"),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), "A is inf, B is -inf"),
        (np.float32([np.inf, np.nan]), np.float32([np.nan, np.inf]), "at [0] A is inf, B is nan"),
        (
            np.zeros((2, 3), np.float32),
            np.zeros((3, 2), np.float32),
            "A gives float32[2, 3], B gives float32[3, 2]",
        ),
        (np.zeros(3, np.float32), np.zeros(3, np.float64), "B gives float64[3]"),
        (np.zeros(3, np.int32), np.zeros(3, np.int64), "B gives int64[3]"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "first at [1]: A 'b', B 'c'"),
    ],
)
def test_what_no_tolerance_forgives(a, b, word):
    """NaN and infinity out of place, another shape, another type, another string."""
    found = compare("y", a, b, tolerance=0.999)
    assert found.verdict == "failed"
    assert word in found.reason
    assert found.smallest_tolerance is None


def test_nan_and_infinity_in_the_same_places_are_equal():
    """And do not enter the measures."""
    a = np.float32([np.nan, np.inf, -np.inf, 2])
    found = compare("y", a, a + np.float32(0.5), tolerance=0.2)
    assert (found.verdict, found.smallest_tolerance) == ("passed", 0.125)


@pytest.mark.parametrize(
    "a", [np.full(3, np.nan, np.float32), np.float32([np.inf]), np.zeros((0, 3), np.float32)]
)
def test_no_evidence_is_inconclusive(a):
    """Nothing finite, or nothing at all, was compared."""
    assert compare("y", a, a.copy(), tolerance=1e-5).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("a", "b", "verdict", "units"),
    [
        (np.int8([-128, 5]), np.int8([-127, 5]), "passed", 1),
        (np.uint8([0, 255]), np.uint8([2, 255]), "failed", 2),
        (np.int8([-128]), np.int8([127]), "failed", 255),
        (np.int32([7, 8]), np.int32([7, 9]), "failed", 1),
        (np.int64([-(2**63)]), np.int64([2**63 - 1]), "failed", 2.0**64),
        (np.int64([2**62]), np.int64([2**62 + 1]), "failed", 1),
        (np.array([True, False]), np.array([True, True]), "failed", 1),
        (np.int64([3, 4]), np.int64([3, 4]), "passed", 0),
    ],
)
def test_integers_are_exact_but_one_unit_of_eight_bits(a, b, verdict, units):
    """Whatever the tolerance, and without overflow."""
    found = compare("y", a, b, tolerance=0.9)
    assert (found.verdict, found.smallest_tolerance) == (verdict, units)


def test_huge_values_do_not_overflow():
    """float64 near its limit, with opposite signs."""
    a = np.float64([1.7e308, 1.0])
    assert compare("y", a, -a, tolerance=0.5).verdict == "failed"
    assert compare("y", a, a * (1 + 1e-12), tolerance=1e-9).verdict == "passed"


def test_an_output_of_zeros_has_a_scale():
    """A tiny residue on zeros is judged on a scale of 1e-6."""
    a = np.zeros(4, np.float32)
    assert compare("y", a, a + np.float32(1e-12), tolerance=2e-5).verdict == "passed"
    assert compare("y", a, a + np.float32(1e-9), tolerance=2e-5).verdict == "failed"


def test_bfloat16_complex_and_scalars_are_compared():
    """Types numpy alone does not know, and arrays of rank 0."""
    a = np.array([1, -2], ml_dtypes.bfloat16)
    assert compare("y", a, a * ml_dtypes.bfloat16(2), tolerance=0.02).smallest_tolerance == 0.5
    assert compare("y", np.complex64([1 + 2j]), np.complex64([1 + 3j]), tolerance=0.02).verdict == "failed"
    assert compare("y", np.float32(1), np.float32(1), tolerance=0.0).verdict == "passed"


def test_the_tolerance_of_an_output_is_the_coarser_one():
    """Of its own type and the weights', unless the caller fixed one."""
    assert Tolerance(TOLERANCES["float32"]).of("float16") == TOLERANCES["float16"]
    assert Tolerance(TOLERANCES["float16"]).of("float32") == TOLERANCES["float16"]
    assert Tolerance(1e-7, fixed=True).of("float16") == 1e-7


def test_a_failure_outweighs_a_pass_outweighs_nothing():
    """Over draws, the gravest difference is the one reported."""
    nan, ones = np.full(2, np.nan, np.float32), np.ones(2, np.float32)
    kinds = [
        compare("y", nan, nan, tolerance=1e-5),
        compare("y", ones, ones, tolerance=1e-5),
        compare("y", ones, ones * np.float32(1 + 1e-6), tolerance=1e-5),
        compare("y", ones, ones * 2, tolerance=1e-5),
        compare("y", ones, nan, tolerance=1e-5),
    ]
    assert [worst_first(kind) for kind in kinds] == sorted(worst_first(kind) for kind in kinds)
