"""A queue in front of a model: whatever comes when, everybody gets their own answers, in their order."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner.web.batching import Batcher, BatchLimits, IsWanted, QueueFullError, TooLateError

REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 4),  # milliseconds until it comes
        st.lists(st.sampled_from(["a", "b", "broken", "slow"]), max_size=5),
        st.booleans(),  # whether the client leaves in the middle
    ),
    min_size=1,
    max_size=12,
)


class Recorder:
    """Answers each query with itself, and remembers the batches."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[list[tuple[int, int, str]]] = []
        self.threads: set[int] = set()
        self.seconds = seconds

    def __call__(self, queries: Sequence[tuple[int, int, str]], is_wanted: IsWanted) -> list[object]:
        self.batches.append(list(queries))
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds + 0.003 * sum(kind == "slow" for _, _, kind in queries))
        return [ValueError(query) if query[2] == "broken" else ("answer to", query) for query in queries]


def cost_of(query: tuple[int, int, str]) -> int:
    return {"a": 1, "b": 2, "broken": 3, "slow": 7}[query[2]]


@settings(max_examples=60)
@given(REQUESTS, st.integers(1, 7), st.integers(1, 9), st.sampled_from([0.0, 0.001, 0.005]))
def test_any_interleaving_of_requests_gives_each_client_its_own_answer(requests, max_batch, max_cost, window) -> None:
    recorder = Recorder()
    batcher: Batcher = Batcher(recorder, BatchLimits(window, max_batch, max_cost, timeout=20), cost_of)

    async def client(number: int, delay: int, kinds: list[str], leaves: bool) -> None:
        await asyncio.sleep(delay / 1000)
        queries = [(number, place, kind) for place, kind in enumerate(kinds)]
        running = asyncio.ensure_future(batcher.run(queries))
        if leaves:
            await asyncio.sleep(0.001)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        elif "broken" in kinds:
            with pytest.raises(ValueError, match=rf"\({number}, {kinds.index('broken')}, 'broken'\)"):
                await running
        else:
            assert await running == [("answer to", query) for query in queries]

    async def everybody() -> None:
        await asyncio.gather(*(client(number, *request) for number, request in enumerate(requests)))

    asyncio.run(everybody())
    asked = [query for batch in recorder.batches for query in batch]
    assert len(asked) == len(set(asked)), "nothing is computed twice"
    assert all(len(batch) <= max_batch for batch in recorder.batches)
    assert all(len(batch) == 1 or sum(map(cost_of, batch)) <= max_cost for batch in recorder.batches)
    assert batcher.waiting == 0
    stayed = {(n, p, k) for n, (_, kinds, left) in enumerate(requests) if not left for p, k in enumerate(kinds)}
    assert stayed <= set(asked), "everything is computed"
    assert len(recorder.threads) <= 1


def run_all(batcher: Batcher, *requests: list[tuple[int, int, str]]) -> list[object]:
    async def everybody() -> list[object]:
        return await asyncio.gather(*map(batcher.run, requests), return_exceptions=True)

    return asyncio.run(everybody())


def one(number: int, kind: str = "a") -> list[tuple[int, int, str]]:
    return [(number, 0, kind)]


def test_what_comes_within_the_window_is_computed_together() -> None:
    recorder = Recorder()
    run_all(Batcher(recorder, BatchLimits(window=0.2)), *(one(number) for number in range(5)))
    assert [len(batch) for batch in recorder.batches] == [5]


def test_a_full_batch_does_not_wait_for_the_window() -> None:
    recorder, began = Recorder(), time.monotonic()
    run_all(Batcher(recorder, BatchLimits(window=5, max_batch=2)), one(1), one(2))
    assert time.monotonic() - began < 4
    assert [len(batch) for batch in recorder.batches] == [2]


def test_without_batching_each_is_computed_alone_and_at_once() -> None:
    recorder, began = Recorder(), time.monotonic()
    run_all(Batcher(recorder, BatchLimits(window=5, max_batch=1)), one(1), one(2), one(3))
    assert time.monotonic() - began < 4
    assert [len(batch) for batch in recorder.batches] == [1, 1, 1]


def test_what_comes_while_the_model_works_is_the_next_batch() -> None:
    recorder = Recorder(seconds=0.05)
    batcher: Batcher = Batcher(recorder, BatchLimits(window=0))

    async def late() -> None:
        first = asyncio.ensure_future(batcher.run(one(0)))
        await asyncio.sleep(0.02)
        await asyncio.gather(first, *(batcher.run(one(number)) for number in range(1, 6)))

    asyncio.run(late())
    assert [len(batch) for batch in recorder.batches] == [1, 5]


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    batcher: Batcher = Batcher(Recorder(seconds=0.02), BatchLimits(window=0.05, max_batch=1, max_waiting=3))
    results = run_all(batcher, *(one(number) for number in range(8)))
    refused = [result for result in results if isinstance(result, QueueFullError)]
    assert len(refused) == 5
    assert all(1 <= error.seconds <= 60 for error in refused)
    assert "try again in 1 second" in str(refused[0])
    assert run_all(batcher, one(9)) == [[("answer to", (9, 0, "a"))]], "afterwards there is room again"


def test_one_large_request_is_taken_by_an_empty_queue() -> None:
    many = [(0, place, "a") for place in range(50)]
    (found,) = run_all(Batcher(Recorder(), BatchLimits(max_waiting=3, max_batch=8)), many)
    assert found == [("answer to", query) for query in many]


def test_a_request_that_takes_too_long_is_given_up_and_its_rest_is_not_computed() -> None:
    recorder = Recorder(seconds=0.1)
    batcher: Batcher = Batcher(recorder, BatchLimits(window=0, max_batch=1, timeout=0.15))
    (error,) = run_all(batcher, [(0, place, "a") for place in range(20)])
    assert isinstance(error, TooLateError)
    assert "within 0.15 seconds" in str(error)
    assert len(recorder.batches) <= 3


def test_a_batch_has_no_more_work_than_allowed_and_small_queries_do_not_wait_for_many_large_ones() -> None:
    recorder = Recorder()
    batcher: Batcher = Batcher(recorder, BatchLimits(window=0.05, max_cost=5), cost_of)
    large = [(0, place, "slow") for place in range(4)]
    found = run_all(batcher, large, one(1), one(2, "b"), [(3, place, "b") for place in range(3)])
    assert not [result for result in found if isinstance(result, Exception)]
    shown = ["".join(kind[0] for _, _, kind in batch) for batch in recorder.batches]
    assert shown == ["abb", "s", "bb", "s", "s", "s"]


def test_small_queries_fill_what_a_larger_one_leaves() -> None:
    recorder = Recorder()
    batcher: Batcher = Batcher(recorder, BatchLimits(window=0.05, max_cost=5), cost_of)
    run_all(batcher, [(0, place, "broken") for place in range(3)], one(1, "b"))
    assert [[kind for _, _, kind in batch] for batch in recorder.batches] == [["broken", "b"], ["broken"], ["broken"]]


def test_a_model_is_told_what_nobody_waits_for_any_more() -> None:
    wanted: list[list[bool]] = []

    def compute(queries: Sequence[tuple[int, int, str]], is_wanted: IsWanted) -> list[object]:
        before = [is_wanted(index) for index in range(len(queries))]
        time.sleep(0.3)
        wanted.extend([before, [is_wanted(index) for index in range(len(queries))]])
        return list(queries)

    batcher: Batcher = Batcher(compute, BatchLimits(window=0.05))

    async def some_leave() -> object:
        leaving, staying = (asyncio.ensure_future(batcher.run(one(number))) for number in (1, 2))
        await asyncio.sleep(0.2)
        leaving.cancel()
        return await staying

    assert asyncio.run(some_leave()) == one(2)
    assert wanted == [[True, True], [False, True]]


def test_a_model_that_fails_as_a_whole_fails_everybody_and_works_on() -> None:
    answers = iter([RuntimeError("out of memory"), None])

    def compute(queries: Sequence[object], is_wanted: IsWanted) -> list[object]:
        if error := next(answers):
            raise error
        return list(queries)

    batcher: Batcher = Batcher(compute, BatchLimits(window=0.05))
    assert [str(error) for error in run_all(batcher, one(1), one(2))] == ["out of memory"] * 2
    assert run_all(batcher, one(3)) == [one(3)]


def test_batches_are_observed() -> None:
    seen: list[tuple[int, float]] = []
    run_all(Batcher(Recorder(), BatchLimits(window=0.1), observe=lambda *what: seen.append(what)), one(1), one(2))
    assert [size for size, _ in seen] == [2]
    assert 0 <= seen[0][1] < 5


def test_a_request_without_texts_waits_for_nothing() -> None:
    assert run_all(Batcher(Recorder()), []) == [[]]
