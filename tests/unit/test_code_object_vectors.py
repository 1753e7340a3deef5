"""The vectors of AMDGPU code objects, through both readers in Python; ``tests/emulator`` puts them through the third, too."""

from __future__ import annotations

import pytest
from support.amdgpu_elf import write
from support.code_object_readings import build, differences, expected, runtime
from support.code_object_vectors import Vector, load

VECTORS = load()


@pytest.mark.parametrize("vector", VECTORS.vectors, ids=lambda vector: vector.name)
def test_both_readers_read_what_the_vector_says(vector: Vector) -> None:
    assert not differences(vector.name, "build", expected(VECTORS, vector, "build"), build(vector.image))
    assert not differences(
        vector.name, "runtime", expected(VECTORS, vector, "runtime"), runtime(vector.image)
    )


@pytest.mark.parametrize("count", [16, 17])
def test_most_notes_of_metadata(count: int) -> None:
    image = write({"kernels": [], "notes": [{"kernels": [0, 0]}] * count})
    for read in (build, runtime):
        found = read(image)
        if count == 16:
            assert found["kernels"] == {}
        else:
            assert (
                "17 AMDGPU metadata notes" in found["error"]
                or "more than 16 metadata notes" in found["error"]
            )
