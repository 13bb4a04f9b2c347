import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from lacuner.errors import DataError, LacunerError, ModelError
from lacuner.streams.engine import LocalEngine, available_cores

ENGINES = [LocalEngine(1), LocalEngine(2, "fork"), LocalEngine(2, "spawn")]
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=["here", "fork", "spawn"])
other_processes = pytest.mark.parametrize("engine", ENGINES[1:], ids=["fork", "spawn"])


def doubling() -> Callable[[int], int]:
    return _double


def _double(number: int) -> int:
    time.sleep(0.02 if number % 3 == 0 else 0)  # later items are done first
    return 2 * number


def failing(error: type[Exception]) -> Callable[[int], int]:
    return partial(_fail_at_seven, error)


def _fail_at_seven(error: type[Exception], number: int) -> int:
    if number == 7:
        raise error("seven", "leave it out") if error is DataError else error("seven")
    return number


def broken() -> Callable[[int], int]:
    raise ModelError("there is no such model")


def counting_starts(path: Path) -> Callable[[int], int]:
    with path.open("a") as file:
        file.write("started\n")
    return lambda number: number


def sleeping() -> Callable[[int], int]:
    return _sleep


def _sleep(number: int) -> int:
    time.sleep(60 if number else 0)
    return number


def threads() -> Callable[[int], str]:
    return _threads


def _threads(number: int) -> str:
    return os.environ["OMP_NUM_THREADS"]


@every_engine
def test_results_come_in_the_order_of_the_items(engine: LocalEngine) -> None:
    assert list(engine.map(doubling, range(50))) == list(range(0, 100, 2))


@every_engine
def test_nothing_gives_nothing(engine: LocalEngine) -> None:
    assert list(engine.map(doubling, [])) == []


@every_engine
def test_an_endless_stream_is_read_a_few_items_ahead_and_no_further(engine: LocalEngine) -> None:
    read = []
    results = engine.map(doubling, (read.append(number) or number for number in count()))  # type: ignore[func-returns-value]
    assert [next(results) for _ in range(10)] == list(range(0, 20, 2))
    assert len(read) <= 10 + 2 * engine.workers
    results.close()  # type: ignore[attr-defined]


@every_engine
def test_what_a_worker_needs_is_loaded_once_in_each(engine: LocalEngine, tmp_path: Path) -> None:
    list(engine.map(partial(counting_starts, tmp_path / "log"), range(20)))
    assert 1 <= len((tmp_path / "log").read_text().splitlines()) <= engine.workers


@every_engine
def test_an_unexpected_error_says_what_was_worked_on(engine: LocalEngine) -> None:
    results = engine.map(partial(failing, ValueError), range(20))
    with pytest.raises(ValueError, match="seven") as raised:
        list(results)
    assert raised.value.__notes__ == ["while working on 7"]


@every_engine
def test_an_error_for_the_user_is_raised_as_it_is(engine: LocalEngine) -> None:
    with pytest.raises(DataError, match=r"^seven — leave it out$") as raised:
        list(engine.map(partial(failing, DataError), range(20)))
    assert not hasattr(raised.value, "__notes__")


@every_engine
def test_a_worker_that_cannot_begin_says_why(engine: LocalEngine, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match="there is no such model"):
        list(engine.map(broken, range(20)))
    assert "Traceback" not in capfd.readouterr().err


@other_processes
def test_nobody_waits_for_work_that_is_not_wanted_any_more(engine: LocalEngine) -> None:
    results = engine.map(sleeping, [0, 1, 2, 3, 4, 5, 6])
    began = time.monotonic()
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 30


@other_processes
def test_a_worker_that_is_killed_is_noticed(engine: LocalEngine) -> None:
    with pytest.raises(LacunerError, match=r"^a worker process was killed at about \d+ — if memory ran out, use fewer"):
        list(engine.map(dying, range(20)))


def dying() -> Callable[[int], int]:
    return _die_at_seven


def _die_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@every_engine
def test_independent_items_do_not_harm_each_other(engine: LocalEngine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(partial(failing, ValueError), range(20))}
    assert [outcomes[number].result for number in range(20) if number != 7] == [n for n in range(20) if n != 7]
    assert isinstance(outcomes[7].error, ValueError)


class OddError(Exception):
    """Its pickle cannot be read: it would be made with one argument."""

    def __init__(self, what: str, where: int) -> None:
        super().__init__(what)
        self.where = where


def oddly_failing() -> Callable[[int], int]:
    return _fail_oddly_at_seven


def _fail_oddly_at_seven(number: int) -> int:
    if number == 7:
        raise OddError("seven", number)
    return number


def odd_start() -> Callable[[int], int]:
    raise OddError("no start", 0)


class Unreadable:
    """A value whose pickle cannot be read."""

    def __reduce__(self) -> tuple[type[OddError], tuple[str]]:
        return OddError, ("unreadable",)


def making_unreadable() -> Callable[[int], object]:
    return _make_unreadable


def _make_unreadable(number: int) -> object:
    return Unreadable() if number == 7 else number


@other_processes
def test_an_error_that_cannot_be_sent_is_told_in_words(engine: LocalEngine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(oddly_failing, range(20))}
    assert [outcomes[number].result for number in range(20) if number != 7] == [n for n in range(20) if n != 7]
    assert str(outcomes[7].error) == "OddError: seven"
    assert [str(outcome.error) for outcome in engine.run_each(_fail_oddly_at_seven, [7])] == ["OddError: seven"]
    with pytest.raises(LacunerError, match=r"^OddError: seven$"):
        list(engine.map(oddly_failing, range(20)))
    for run in (engine.map, engine.map_each):
        with pytest.raises(LacunerError, match=r"^OddError: no start$"):
            list(run(odd_start, range(20)))


@other_processes
def test_a_value_that_cannot_be_read_harms_no_other(engine: LocalEngine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(making_unreadable, range(20))}
    assert [outcomes[number].result for number in range(20) if number != 7] == [n for n in range(20) if n != 7]
    assert "missing 1 required positional argument: 'where'" in str(outcomes[7].error)


@every_engine
def test_an_independent_map_over_nothing_gives_nothing(engine: LocalEngine) -> None:
    assert list(engine.map_each(doubling, [])) == []


@every_engine
def test_a_map_whose_workers_cannot_begin_says_why(engine: LocalEngine, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match="there is no such model"):
        list(engine.map_each(broken, range(20)))
    assert "Traceback" not in capfd.readouterr().err


@other_processes
def test_an_item_that_kills_its_workers_is_given_up_and_the_others_are_done(engine: LocalEngine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(dying, range(20))}
    assert [outcomes[number].result for number in range(20)] == [None if n == 7 else n for n in range(20)]
    assert str(outcomes[7].error) == "3 workers died while processing it; the last one was killed (out of memory?)"


@other_processes
def test_an_item_whose_worker_dies_once_is_tried_again(engine: LocalEngine, tmp_path: Path) -> None:
    outcomes = list(engine.map_each(partial(dying_once, tmp_path / "died"), range(20)))
    assert sorted(outcome.result for outcome in outcomes if outcome.result is not None) == list(range(20))


def dying_once(path: Path) -> Callable[[int], int]:
    return partial(_die_once, path)


def _die_once(path: Path, number: int) -> int:
    if number == 7 and not path.exists():
        path.touch()
        os._exit(3)
    return number


@other_processes
def test_workers_that_die_as_they_start_end_the_map(engine: LocalEngine) -> None:
    with pytest.raises(
        LacunerError, match=r"^3 workers in a row died while starting; .* ended with code 4 — if memory"
    ):
        list(engine.map_each(stillborn, range(20)))


def stillborn() -> Callable[[int], int]:
    os._exit(4)


@other_processes
def test_what_a_worker_needs_is_loaded_once_for_many_independent_items(engine: LocalEngine, tmp_path: Path) -> None:
    list(engine.map_each(partial(counting_starts, tmp_path / "log"), range(20)))
    assert 1 <= len((tmp_path / "log").read_text().splitlines()) <= 2  # the first one may do all of them


@other_processes
@pytest.mark.parametrize(("given", "expected"), [(None, "3"), ("1", "1"), ("64", "3"), ("2,2", "3")])
def test_workers_share_the_cores(
    engine: LocalEngine, given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    shared = LocalEngine(2, engine.start_method, threads=3)
    assert list(shared.map(threads, [1])) == [expected]
    assert [outcome.result for outcome in shared.run_each(_threads, [1])] == [expected]
    assert LocalEngine(2 * available_cores()).threads == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_only_cores_that_may_be_used_are_counted() -> None:
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    code += "from lacuner.streams.engine import available_cores; print(available_cores())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@other_processes
def test_tasks_do_not_harm_each_other(engine: LocalEngine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.run_each(_various, range(5))}
    assert outcomes.keys() == set(range(5))
    assert [outcomes[number].result for number in (0, 4)] == [0, 16]
    assert isinstance(outcomes[1].error, ValueError)
    assert str(outcomes[2].error) == "its process was killed (out of memory?)"
    assert str(outcomes[3].error) == "its process ended with code 5"


def _various(number: int) -> int:
    if number == 1:
        raise ValueError("one")
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        os._exit(5)
    return number**2


@other_processes
def test_every_task_has_a_process_of_its_own(engine: LocalEngine) -> None:
    processes = [outcome.result for outcome in engine.run_each(_process, range(4))]
    assert len({os.getpid(), *processes}) == 5


def _process(number: int) -> int:
    return os.getpid()


def test_what_has_ended_comes_first_and_what_runs_is_watched() -> None:
    watched: list[float] = []
    outcomes = LocalEngine(2).run_each(time.sleep, [1.0, 0.1], watched.append)
    assert [outcome.item for outcome in outcomes] == [0.1, 1.0]
    assert 1.0 in watched


def test_large_results_arrive() -> None:
    (outcome,) = LocalEngine(2).run_each(bytes, [10**7])
    assert outcome.result == bytes(10**7)


def test_a_result_that_cannot_be_sent_is_an_error() -> None:
    (outcome,) = LocalEngine(2).run_each(_unsendable, [1])
    assert outcome.result is None
    assert "of function" in str(outcome.error)


def _unsendable(number: int) -> Callable[[], int]:
    return lambda: number


def test_tasks_are_ended_when_nobody_wants_their_results() -> None:
    began = time.monotonic()
    outcomes = LocalEngine(2).run_each(time.sleep, [0.1, 60.0, 60.0])
    assert next(outcomes).item == 0.1
    outcomes.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 30


SCRIPT = """
import signal, sys, time
from contextlib import closing
from lacuner.streams.engine import LocalEngine

def working():
    return time.sleep

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
    engine = LocalEngine(2, sys.argv[1])
    items = [0, 600, 600]
    results = {
        "map": lambda: engine.map(working, items),
        "pool": lambda: engine.map_each(working, items),
        "each": lambda: engine.run_each(time.sleep, items),
    }[sys.argv[2]]()
    with closing(results):  # a signal may come while nothing is being waited for
        next(results)
        print("ready", flush=True)
        list(results)
"""


def _send_much() -> Callable[[int], bytes]:
    return lambda item: bytes(40_000_000)


@pytest.mark.parametrize("attempt", range(5))
def test_a_map_that_is_left_while_a_result_is_on_its_way_ends(attempt: int) -> None:
    results = LocalEngine(2, "fork").map(_send_much, range(8))
    assert len(next(results)) == 40_000_000
    ended = threading.Thread(target=results.close, daemon=True)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["map", "pool", "each"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(tmp_path: Path, start_method: str, kind: str, sent: signal.Signals) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), start_method, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"  # the others are on their way
        process.send_signal(sent)
        process.stderr.read()  # ends when every process has closed it
        assert process.wait(30) != 0
