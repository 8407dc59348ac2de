"""Percentiles and medians."""

import pytest

from catchment.bench.measure import percentile


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0), (0.0, 1.0)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 101)], share) == expected


def test_percentile_of_one_sample_is_that_sample() -> None:
    assert percentile([3.5], 0.99) == 3.5


def test_percentile_of_no_samples_is_rejected() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)
