"""Samples: every test is in exactly one share, and shares are about equally large."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import Sample, sampled

_NUMBERS = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 40), max_size=60)


@given(files=_NUMBERS, shares=st.integers(1, 6), first=st.integers(0, 10**6))
def test_as_many_seeds_as_shares_run_every_file_once(
    files: dict[str, int], shares: int, first: int
) -> None:
    samples = [Sample(seed=first + n, shares=shares).of(files) for n in range(shares)]
    assert sorted(file for sample in samples for file in sample) == sorted(files)


@given(files=_NUMBERS, shares=st.integers(1, 6))
def test_no_share_is_larger_than_another_by_more_than_one_file(
    files: dict[str, int], shares: int
) -> None:
    sizes = [
        sum(files[file] for file in Sample(seed=seed, shares=shares).of(files))
        for seed in range(shares)
    ]
    assert max(sizes) - min(sizes) <= max(files.values(), default=0)


@pytest.mark.parametrize("text", ["", "7", "7/", "/4", "7/0", "-1/4", "a/b", "7/4/2"])
def test_what_is_no_sample_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="SEED/SHARES"):
        Sample.parse(text)


def test_a_sample_reads_what_it_prints() -> None:
    assert Sample.parse("13/4") == Sample(seed=13, shares=4)
    assert str(Sample.parse("13/4")) == "13/4"


@pytest.mark.parametrize(("profile", "expected"), [("whole", 150), ("sample", 49)])
def test_a_sample_has_a_third_of_the_examples(profile: str, expected: int) -> None:
    loaded = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile(profile)
    try:
        assert sampled(150) == expected
        assert sampled(10) == (10 if profile == "whole" else 8)
    finally:
        hypothesis.settings.load_profile(loaded)
