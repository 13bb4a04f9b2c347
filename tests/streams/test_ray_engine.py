"""Ray on this machine, with two CPUs: what local processes do, actors and tasks of Ray do as well."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.streams.engine import LocalEngine
from lacuner.streams.folders import LocalFolder
from lacuner.streams.resumable import Plan, map_to_files
from lacuner.streams.shards import InputFile

psutil = pytest.importorskip("psutil")
ray = pytest.importorskip("ray")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine() -> Iterator[object]:
    from lacuner.streams.ray_engine import RayEngine

    yield RayEngine(2, threads=1)
    ray.shutdown()


def working() -> Callable[[int], int]:
    def work(number: int) -> int:  # functions of a test module are not found in another process, but sent there
        import os
        import signal

        if number == 3:
            raise ValueError("three")
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * number

    return work


class OddError(Exception):
    """Its pickle cannot be read: it would be made with one argument."""

    def __init__(self, what: str, where: int) -> None:
        super().__init__(what)
        self.where = where


class Unreadable:
    """A value whose pickle cannot be read."""

    def __reduce__(self) -> tuple[type[OddError], tuple[str]]:
        return OddError, ("unreadable",)


def failing_oddly() -> Callable[[int], object]:
    def work(number: int) -> object:
        if number == 3:
            raise OddError("three", number)
        return Unreadable() if number == 5 else number

    return work


def broken() -> Callable[[int], int]:
    raise ModelError("there is no such model")


def counting(path: Path) -> Callable[[int], str]:
    import os

    with path.open("a") as file:
        file.write("started\n")
    return lambda number: os.environ["OMP_NUM_THREADS"]


@pytest.fixture(autouse=True)
def _send_by_value() -> Iterator[None]:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_results_come_in_the_order_of_the_items(engine) -> None:
    items = [n for n in range(30) if n not in (3, 5)]
    assert list(engine.map(working, items)) == [2 * n for n in items]
    with pytest.raises(ValueError, match="three") as raised:
        list(engine.map(working, [1, 2, 3]))
    assert raised.value.__notes__ == ["while working on 3"]
    with pytest.raises(LacunerError, match=r"^5: 3 workers died while processing it; .*use fewer --workers"):
        list(engine.map(working, [5]))


def test_independent_items_do_not_harm_each_other(engine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(working, range(8))}
    assert [outcomes[n].result for n in range(8)] == [None if n in (3, 5) else 2 * n for n in range(8)]
    assert isinstance(outcomes[3].error, ValueError)
    assert str(outcomes[5].error).startswith("3 workers died while processing it; the last one died (")


def test_an_error_that_cannot_be_sent_is_told_in_words(engine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.map_each(failing_oddly, range(8))}
    assert [outcomes[n].result for n in range(8)] == [None if n in (3, 5) else n for n in range(8)]
    assert str(outcomes[3].error) == "OddError: three"
    assert str(outcomes[5].error).startswith("its answer is lost (")


def test_a_worker_that_cannot_begin_says_why(engine) -> None:
    for run in (engine.map, engine.map_each):
        with pytest.raises(ModelError, match="there is no such model"):
            list(run(broken, range(5)))


def test_the_model_is_loaded_once_an_actor_and_threads_are_divided(engine, tmp_path: Path) -> None:
    outcomes = list(engine.map_each(partial(counting, tmp_path / "log"), range(20)))
    assert {outcome.result for outcome in outcomes} == {"1"}
    assert 1 <= len((tmp_path / "log").read_text().splitlines()) <= 2


def test_workers_for_which_there_is_no_place_keep_nothing_back(
    engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from lacuner.streams import ray_engine

    monkeypatch.setattr(ray_engine, "_LATE", 0.5)
    larger = ray_engine.RayEngine(3, threads=int(ray.cluster_resources()["CPU"]))  # one of them takes the whole machine
    assert list(larger.map(sleeping_a_little, range(10))) == list(range(10))
    assert "of 3 workers are waiting for free cores on the cluster" in caplog.text
    outcomes = larger.map_each(working, range(8))  # the one that works dies three times
    assert sorted(outcome.result for outcome in outcomes if outcome.error is None) == [0, 2, 4, 8, 12, 14]


def sleeping_a_little() -> Callable[[int], int]:
    import time

    def work(number: int) -> int:
        time.sleep(0.2)
        return number

    return work


def collected() -> Callable[[int], int]:
    import gc

    loaded = [[number] for number in range(100_000)]
    return lambda number: len(gc.get_objects()) + loaded[number][0] - number


def test_what_a_worker_has_loaded_is_not_collected_again_and_again(engine) -> None:
    assert all(outcome.result < 50_000 for outcome in engine.map_each(collected, range(4)))


def test_shares_of_the_cores_fit_into_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    from lacuner.streams.ray_engine import RayEngine

    for machines, workers, expected in [([8, 8], 3, 4), ([8, 8], 2, 8), ([2], 4, 1), ([0], 2, 1), ([4, 16], 4, 4)]:
        monkeypatch.setattr(RayEngine, "_machines", lambda self, found=machines: found)
        assert RayEngine(workers).threads == expected


def priority() -> Callable[[int], int]:
    import os

    return lambda number: os.nice(0)


def test_workers_have_the_priority_of_the_command(engine) -> None:
    assert [outcome.result for outcome in engine.map_each(priority, range(2))] == [os.nice(0)] * 2


def test_tasks_have_processes_of_their_own(engine) -> None:
    outcomes = {outcome.item: outcome for outcome in engine.run_each(working(), [1, 3, 5])}
    assert outcomes[1].result == 2
    assert isinstance(outcomes[3].error, ValueError)
    assert str(outcomes[5].error).startswith("its process died")


def test_tasks_are_watched_and_ended_when_nobody_wants_their_results(engine) -> None:
    watched: list[float] = []
    began = time.monotonic()
    outcomes = engine.run_each(time.sleep, [0.1, 120.0], watched.append)
    assert next(outcomes).item == 0.1
    outcomes.close()
    assert time.monotonic() - began < 60
    assert [outcome.error for outcome in engine.run_each(time.sleep, [2.0], watched.append)] == [None]
    assert 2.0 in watched


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_does_not_answer_is_one_sentence(address: str) -> None:
    code = (
        f"from lacuner.streams.engine import make_engine\nlist(make_engine('ray', 1, address='{address}').map(int, []))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert f"no Ray cluster answers at {address} ([Errno 111] Connection refused) — see docs/scale.md" in done.stderr


def doubling_lines() -> Callable[[object, TextIO], int]:
    def work(shards, file) -> int:  # type: ignore[no-untyped-def]
        from lacuner.errors import DataError
        from lacuner.streams.shards import read_shard

        lines = [line for shard in shards for line in read_shard(shard)]
        if "poison" in lines:
            raise DataError("it is poison", "do not drink it")
        file.writelines(f"{line}{line}\n" for line in lines)
        return len(lines)

    return work


def test_a_poison_file_is_named_and_the_others_are_done(engine, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:02}.txt" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_text("poison\n" if number == 13 else f"{number}\n")
    plan = Plan([InputFile.of(path) for path in paths], {}, suffix=".txt")
    parts = list(map_to_files(engine, doubling_lines, plan, LocalFolder(tmp_path / "out")))
    (failed,) = [part for part in parts if part.error is not None]
    assert (str(failed.batch), str(failed.error)) == (f"{paths[13]}, bytes 0 to 7", "it is poison — do not drink it")
    written = "".join(path.read_text() for path in sorted((tmp_path / "out").glob("part-*")))
    assert written == "".join(f"{number}{number}\n" for number in range(20) if number != 13)


def test_predictions_are_those_of_one_process(engine, model_folder: Path, tmp_path: Path) -> None:
    from lacuner.cli.predict import _load
    from lacuner.inference.files import ShardPredictor
    from lacuner.inference.output import OutputOptions

    (tmp_path / "in.txt").write_text("".join(f"Ada {number} slept in Turin .\n" for number in range(300)))
    plan = Plan([InputFile.of(tmp_path / "in.txt")], {}, 2000)
    work = ShardPredictor(partial(_load, model_folder, "cpu", None, False), OutputOptions("jsonl"))
    for out, other in (("ray", engine), ("here", LocalEngine(1))):
        assert [part.error for part in map_to_files(other, work, plan, LocalFolder(tmp_path / out)) if part.error] == []
    names = sorted(path.name for path in (tmp_path / "here").glob("part-*"))
    assert len(names) > 3
    for name in names:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_what_is_to_be_done_if_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lacuner.streams import ray_cluster

    class Ray:
        """Refuses to connect, or connects to what one command has started for itself."""

        def __init__(self, error: Exception | None = None) -> None:
            self.error, self.is_shut_down = error, False

        def init(self, **options: object) -> None:
            if self.error is not None:
                raise self.error

        def cluster_resources(self) -> dict[str, float]:
            return {"CPU": 2.0, "lacuner_private": 1.0}

        def shutdown(self) -> None:
            self.is_shut_down = True

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        here, gone = (f"127.0.0.1:{each.getsockname()[1]}" for each in (server, nobody))
        token = "if it wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN; see docs/scale.md"
        start = "start one with: ray start --head; or leave --address out; see docs/scale.md"
        form = "an address is auto, HOST:6379 or ray://HOST:10001; see docs/scale.md"
        for address, latest, remedy in [
            (here, here, token),
            ("auto", here, token),
            ("auto", gone, start),  # Ray keeps the address of a cluster that was killed
            ("nonsense", here, form),
            (gone, here, "see docs/scale.md"),
        ]:
            monkeypatch.setattr("ray._private.services.get_ray_address_from_environment", lambda *_, at=latest: at)
            with pytest.raises(ConfigError, match=rf"^no Ray cluster answers at {address} \(.*\) — ") as raised:
                ray_cluster.connect(Ray(ConnectionError("refused")), address, 1)
            assert str(raised.value).endswith(f") — {remedy}")
        mine = Ray()
        with pytest.raises(ConfigError, match=r"is that of another command, and ends with it — start a cluster with"):
            ray_cluster.connect(mine, here, 1)
        assert mine.is_shut_down
        monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"needs the client of Ray, .* pip install 'ray\[client\]'"):
            ray_cluster.connect(Ray(), f"ray://{here}", 1)


def test_a_command_does_not_attach_to_the_ray_of_another_one(engine) -> None:
    ray_is_here = ray.get_runtime_context().gcs_address
    code = f"from lacuner.streams.engine import make_engine\nmake_engine('ray', 1, address='{ray_is_here}').threads"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert f"the Ray at {ray_is_here} is that of another command, and ends with it" in done.stderr
    assert list(engine.map(sleeping_a_little, [1])) == [1]


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from lacuner.streams.engine import make_engine

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"the engine ray needs Ray — install it with: pip install ray"):
        make_engine("ray", 2)


def command(folder: Path, *others: object) -> list[str]:
    given = ["annotate", folder / "in.txt", "--dictionary", folder / "names.tsv", *others]
    return [sys.executable, "-m", "lacuner", *map(str, given)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "names.tsv").write_text("Ada\tPER\nTurin\tLOC\n")
    (tmp_path / "in.txt").write_text("".join(f"Ada {number} slept in Turin .\n" for number in range(60_000)))
    subprocess.run(command(tmp_path, "--out", tmp_path / "one.jsonl"), check=True, capture_output=True)
    return tmp_path


def test_kills_of_driver_worker_and_head_lose_nothing(corpus: Path) -> None:
    generator, out = random.Random(1), corpus / "out"
    options = ["--out", f"{out}/", "--shard-size", "0.001", "--engine", "ray", "--workers", 2, "--json"]
    options += ["--merge", corpus / "two.jsonl"]
    for victim in ("driver", "raylet", "gcs_server", "ray::_Worker"):
        target = len(list(out.glob("part-*"))) + generator.randrange(3, 20)
        with subprocess.Popen(command(corpus, *options), stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while len(list(out.glob("part-*"))) < target and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGSTOP)  # it gives out no more work while its family is looked up
            family = psutil.Process(process.pid).children(recursive=True)
            if victim == "driver":
                process.kill()
            else:
                (found, *_) = [each for each in family if victim in " ".join(each.cmdline()[:1] or [each.name()])]
                os.kill(found.pid, signal.SIGKILL)
                os.kill(process.pid, signal.SIGCONT)
                if victim != "ray::_Worker":
                    time.sleep(generator.random())
                    process.kill()  # Ray gives up after minutes
            output, _ = process.communicate(timeout=200)
        ours = [each for each in family if each.is_running() and each.name().startswith("ray::_Worker")]
        _, alive = psutil.wait_procs(ours, timeout=60)
        assert not alive, "workers are left"
    assert process.returncode == 0  # another worker has taken the place of the last one
    assert json.loads(output)["texts"] == 60_000
    assert (corpus / "two.jsonl").read_bytes() == (corpus / "one.jsonl").read_bytes()
    assert not list(out.rglob("*.lacuner"))


def shards_of(name: str) -> int:
    first, *last = re.findall(r"\d+", name)
    return int((last or [first])[0]) - int(first) + 1


def test_ctrl_c_leaves_whole_parts_only_and_counts_all_of_them(corpus: Path) -> None:
    out = corpus / "out"
    options = ["--out", f"{out}/", "--shard-size", "0.05", "--engine", "ray", "--workers", 2]
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom lacuner.cli import main; main()"
    )
    given = [sys.executable, "-c", code, *command(corpus, *options)[3:]]
    with subprocess.Popen(given, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        deadline = time.monotonic() + 120
        while len(list(out.glob("part-*"))) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 130, log
    assert not list(out.rglob("*.lacuner"))
    done = sum(map(shards_of, (path.stem for path in out.glob("part-*"))))
    assert f"Stopped. {done:,} of " in log
    time.sleep(1)
    assert not list(out.rglob("*.lacuner")), "nobody writes any more"
    assert sum(map(shards_of, (path.stem for path in out.glob("part-*")))) == done


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster that runs by itself, wants a token, and was started in a folder of its own."""
    (tmp_path / "cluster").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--disable-usage-stats"]
    started += ["--port", str(port), "--num-cpus", "2", "--include-dashboard", "false"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(started, cwd=tmp_path / "cluster", env=os.environ | TOKEN, **quiet) as process:
        family: list[psutil.Process] = []
        deadline = time.monotonic() + 60
        while not any("raylet" in each.name() for each in family) or not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.2)
            family = psutil.Process(process.pid).children(recursive=True)
        try:
            yield f"127.0.0.1:{port}"
            assert process.poll() is None, "a cluster goes on when a command ends"
        finally:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def test_commands_come_and_go_on_a_cluster_that_is_running(corpus: Path, cluster: str) -> None:
    options = ["--out", "out/", "--shard-size", "0.01", "--engine", "ray", "--address", cluster, "--merge", "two.jsonl"]
    given = [sys.executable, "-m", "lacuner", "annotate", "in.txt", "--dictionary", "names.tsv", *options]
    environment = os.environ | TOKEN
    deadline = time.monotonic() + 120
    with subprocess.Popen(given, cwd=corpus, env=environment, stderr=subprocess.DEVNULL) as first:
        while not list(corpus.glob("out/part-*")) and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        first.kill()
    assert list(corpus.glob("out/part-*")), "files are where the command says, not where the cluster is"
    done = subprocess.run(given, cwd=corpus, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "were already done" in done.stderr
    assert (corpus / "two.jsonl").read_bytes() == (corpus / "one.jsonl").read_bytes()
    assert not list((corpus / "cluster").iterdir())
    environment = {name: value for name, value in os.environ.items() if name not in TOKEN}
    elsewhere = ["other/" if each == "out/" else each for each in given[:-2]]
    stranger = subprocess.run(
        elsewhere, cwd=corpus, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert stranger.returncode == 2
    assert "if it wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN; see docs/scale.md" in stranger.stderr
    assert len(stranger.stderr.splitlines()) < 5, stranger.stderr


def test_a_bench_runs_as_tasks(tmp_path: Path, data: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    given = ["bench", tmp_path / "recipe.toml", "--data", data, "--out", tmp_path / "results", "--no-figures", "--json"]
    command = [sys.executable, "-m", "lacuner", *map(str, given), "--engine", "ray", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == 0
    results = (tmp_path / "results" / "results.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["seed"] for line in results) == [1, 2]


RECIPE = """
title = "Two seeds"
data = ["toy"]
methods = ["full"]
hidden = [0.3]
seeds = [1, 2]
baseline = "full"

[settings]
encoder = { vectors = "none", word_size = 8, hidden = 8 }
training = { epochs = 1 }
"""
