"""How cost grows, counted and not timed: the same on every machine, however busy."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(run: Callable[[], object]) -> int:
    """The bytecode instructions that Python executes in ``run`` and in all that it calls; loops inside of C count as one."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return steps


def assert_linear(prepare: Callable[[int], Callable[[], object]], size: int, more: float = 0.01) -> None:
    """Twice the size may take twice the steps, and a little more.

    A quadratic part of the cost shows even if it is small: of ``a n + b n²``, it leaves ``2 b n²`` over.

    Args:
        prepare: makes what is run, for a size; making it does not count.
        size: the smaller one.
        more: the fraction that is allowed on top; sorting needs some.
    """
    one, two = (prepare(n) for n in (size, 2 * size))
    one()  # what is remembered, or imported, is so before anything is counted
    small, large = count_steps(one), count_steps(two)
    assert small > size, "so few steps say nothing"
    assert large <= 2 * (1 + more) * small, f"{small:,} steps become {large:,}"
