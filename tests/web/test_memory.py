"""Memory of a server stays what it is, whatever shapes its batches have."""

import os
import subprocess
import sys

import pytest

from lacuner.web.memory import MemoryRelease, release_free_memory

GROWTH = """
import ctypes, random
from lacuner.cli.serve import bound_kernel_caches
bound_kernel_caches()
import torch

class Allocated(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks used free keep".split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Allocated
convolution, draw = torch.nn.Conv1d(30, 50, 3, padding=1), random.Random(0)

def ask(times):
    for _ in range(times):
        convolution(torch.zeros(draw.randint(1, 400), 30, draw.randint(1, 8)))

with torch.inference_mode():
    ask(200)
    before = mallinfo().used
    ask(300)
    print(mallinfo().used - before)
"""
"""Bytes by which 300 batches of new shapes increase what is allocated, after 200 others."""


def test_kernels_for_new_shapes_of_batches_are_not_kept() -> None:
    import ctypes

    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("another C library")
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    found = subprocess.run(
        [sys.executable, "-c", GROWTH], env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, check=True
    )
    assert int(found.stdout) < 2**20  # without a bound, some 6 MB


def test_free_memory_is_given_back_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, released = [100.0], []
    monkeypatch.setattr("lacuner.web.memory.time.monotonic", lambda: now[0])
    release = MemoryRelease(5.0, lambda: released.append(now[0]))
    for now[0] in (101.0, 105.0, 106.0, 109.9, 200.0, 204.0):
        release()
    assert released == [105.0, 200.0]


def test_giving_back_free_memory_harms_nothing() -> None:
    release_free_memory()
