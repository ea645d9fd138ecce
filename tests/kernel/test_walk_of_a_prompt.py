"""One scripted prompt with one approved call passes few files and functions; counts, not times."""

from pathlib import Path

from walk import walk


def test_the_second_prompt_of_a_kernel_passes_few_files_and_functions(tmp_path: Path) -> None:
    """Each limit is some 5 % above what `python tests/walk.py` counts; lower them with it."""
    whole = walk(tmp_path, warm=True)
    before = whole.before_first_event()
    counts = len(whole.files), len(whole.calls), len(before.files), len(before.calls)
    assert all(
        count <= limit for count, limit in zip(counts, (112, 5_200, 75, 710), strict=True)
    ), counts
