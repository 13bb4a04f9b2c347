"""How many small changes to the code make a test fail, and which do not.

A seeded sample of changes (`mutants.py`) is made one after the other in a copy of the repository. For each one those tests
are run that call the changed function, the quick ones first, until one fails or a budget of seconds is spent. They run in a
process that is forked from one which has loaded torch, but not Lacuner, so that a mutant costs seconds.

    python benchmarks/mutation.py [--count N] [--seed N] [--budget SECONDS] [--again] [--out FILE] [PACKAGE…]

Every mutant is a line of ``--out``, and is not tried again by a second run. After tests were added, ``--again`` tries those
once more that no test had noticed.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from mutants import Mutant, find_mutants

ROOT = Path(__file__).parents[1]
PACKAGES = ("heads", "methods", "supervision", "corpus", "audit", "review", "web")
OTHER_TESTS = (
    "test_cli_audit.py",
    "test_cli_review.py",
    "test_fields_travel.py",
    "test_taggers.py",
    "models/*.py",
    "inference/*.py",
)
LEFT_OUT = ("tests/web/test_review_in_browser.py",)
LOADED = (
    "numpy",
    "torch",
    "torch.optim",
    "transformers",
    "transformers.models.bert.modeling_bert",
    "accelerate",
    "pydantic",
    "fastapi",
    "fastapi.testclient",
    "uvicorn",
    "typer",
    "rich.console",
    "safetensors.torch",
    "hypothesis",
    "seqeval.metrics",
)
PATIENCE = 4
"""How many times as long as without a mutant tests may take before they count as failed."""
NOTICED = "noticed"

Called = dict[str, dict[str, float]]
"""Test by test, how long it takes (under ``seconds``) and which functions it calls, as ``path:name``."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing of a seeded sample")
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=15.0, help="seconds that the tests of one mutant may take")
    parser.add_argument("--again", action="store_true", help="also the mutants that no test has noticed before")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.jsonl")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HYPOTHESIS_PROFILE="mutants")
    os.environ["LACUNER_DATA"] = "absent"
    for name in LOADED:
        importlib.import_module(name)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "repository"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "results", "__pycache__"))
        os.environ["PYTHONPATH"] = str(copy / "src")
        sample = draw(copy, options.packages, options.count, options.seed)
        found = _read(options.out)
        tests = watch_tests(copy, options.packages, options.out.with_name("tests_of_mutants.json"))
        for number, mutant in enumerate(sample, start=1):
            before = found.get(_key(asdict(mutant)))
            if before is not None and not (options.again and before["result"] != NOTICED):
                continue
            result = try_mutant(copy, mutant, tests, options.budget)
            print(f"{number}/{len(sample)} {result['result']} {result['seconds']} s  {mutant}", flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                print(json.dumps(result, ensure_ascii=False), file=file)
        found = _read(options.out)
    print(table(found[_key(asdict(mutant))] for mutant in sample))


def draw(root: Path, packages: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """A sample of all mutants, which depends on nothing but the sources and the seed."""
    paths = [path for package in packages for path in sorted((root / "src" / "lacuner" / package).rglob("*.py"))]
    every = [mutant for path in paths for mutant in find_mutants(root, str(path.relative_to(root)))]
    print(f"{len(every)} mutants in {len(paths)} modules", flush=True)
    shuffled = random.Random(seed).sample(every, len(every))
    compiling = (mutant for mutant in shuffled if mutant.compiles((root / mutant.path).read_bytes()))
    return sorted(islice(compiling, count))


def watch_tests(root: Path, packages: Iterable[str], cache: Path) -> Called:
    """Runs all tests once, without a mutant, to see which functions each one calls. All must pass.

    Files of tests that have not changed since the last time are not run again.
    """
    folders = [f"{kind}/{package}" for package in packages for kind in ("src/lacuner", "tests")]
    found = [path for name in folders for path in (root / name).rglob("*.py")]
    found += [path for name in OTHER_TESTS for path in sorted((root / "tests").glob(name))]
    files = {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    files = {path: digest for path, digest in files.items() if path not in LEFT_OUT and _has_tests(root / path)}
    known = json.loads(cache.read_text()) if cache.exists() else {}
    changed = [path for path, digest in files.items() if known.get(path, {}).get("digest") != digest]
    begin = time.monotonic()
    if changed:
        record = root / "called.json"

        def run() -> int:
            watcher = _Watcher(root)
            code = int(pytest.main(["-m", "not slow and not data", *changed], plugins=[watcher]))
            record.write_text(json.dumps(watcher.called))
            return code

        if _in_a_fork(root, run, seconds=3600, quiet=False) != 0:
            raise SystemExit("the tests fail without any mutant: see above")
        known |= {path: {"digest": files[path], "tests": {}} for path in changed}
        for test, functions in json.loads(record.read_text()).items():
            known[_file_of(test)]["tests"][test] = functions
        cache.write_text(json.dumps(known))
    _in_a_fork(root, lambda: int(pytest.main(["--collect-only", *files])), seconds=600)  # compiles everything
    called: Called = {test: functions for path in files for test, functions in known[path]["tests"].items()}
    print(f"{len(called)} tests, watched for {time.monotonic() - begin:.0f} s", flush=True)
    return called


def try_mutant(root: Path, mutant: Mutant, called: Called, budget: float) -> dict[str, Any]:
    """Whether one of the tests that call the changed function fails."""
    tests, seconds = choose_tests(root, mutant, called, budget)
    path = root / mutant.path
    source, times = path.read_bytes(), path.stat()
    failed = root / "failed.txt"
    failed.unlink(missing_ok=True)

    def run() -> int:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        return int(pytest.main(["-x", "-p", "no:cacheprovider", *tests], plugins=[_FirstFailure(failed)]))

    begin = time.monotonic()
    try:
        path.write_bytes(mutant.apply(source))
        code = _in_a_fork(root, run, seconds=30 + PATIENCE * seconds) if tests else 0
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was compiled before is that of this file again
    return {
        "mutant": str(mutant),
        "result": "survived" if code == 0 else NOTICED,
        "by": failed.read_text()
        if failed.exists()
        else None
        if code == 0
        else "time"
        if code is None
        else f"exit {code}",
        "tests": len(tests),
        "seconds": round(time.monotonic() - begin, 1),
        **asdict(mutant),
    }


def choose_tests(root: Path, mutant: Mutant, called: Called, budget: float) -> tuple[list[str], float]:
    """Tests that call the function, those of the module itself and quick ones first.

    What is in the body of a class or of the module, or in a function that only other processes call, concerns all tests that
    call something in the module, or that import it.
    """
    module = Path(mutant.path)
    own = {f"test_{module.stem}.py", f"test_{module.parent.name}_{module.stem}.py", module.name}
    name = ".".join(module.with_suffix("").parts[1:])

    def concerns(test: str, functions: dict[str, float]) -> bool:
        if any(function.startswith(f"{mutant.path}:") for function in functions):
            return True
        file = root / _file_of(test)
        return file.name in own or name in file.read_text()

    function = f"{mutant.path}:{mutant.scope}"
    tests = [test for test, functions in called.items() if mutant.scope and function in functions]
    if not tests:
        tests = [test for test, functions in called.items() if concerns(test, functions)]
    tests.sort(key=lambda test: (Path(_file_of(test)).name not in own, called[test]["seconds"]))
    chosen: list[str] = []
    seconds = 0.0
    for test in tests:
        if not chosen or seconds + called[test]["seconds"] <= budget:
            chosen.append(test)
            seconds += called[test]["seconds"]
    return chosen, seconds


def table(results: Iterable[dict[str, Any]]) -> str:
    """Package by package, how many were noticed; then those that were not."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for result in results:
        package = Path(result["path"]).parts[2]
        for row in (package, "all"):
            counts[row][result["result"]] += 1
        if result["result"] != NOTICED:
            survivors.append(f"* {result['mutant']} (of {result['tests']} tests)")
    lines = ["| package | mutants | noticed | % |", "| --- | --: | --: | --: |"]
    for row in [*sorted(set(counts) - {"all"}), *(["all"] if counts else [])]:
        total, noticed = counts[row].total(), counts[row][NOTICED]
        lines.append(f"| {row} | {total} | {noticed} | {100 * noticed / total:.0f} |")
    return "\n".join([*lines, "", *survivors])


def _in_a_fork(root: Path, run: Callable[[], int], seconds: float, quiet: bool = True) -> int | None:
    """The exit code of ``run`` in a process of its own in the folder ``root``; none if it took too long."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(root)
        sys.path[:0] = [str(root / "src")]
        if quiet:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
        code = 99
        try:
            code = run()
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _Watcher:
    """Notes which functions of the package each test calls, in whichever thread."""

    def __init__(self, root: Path) -> None:
        self.called: Called = {}
        self.prefix = f"{root}{os.sep}"
        self.source = f"{root / 'src'}{os.sep}"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        seen: dict[int, CodeType] = {}

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                seen[id(frame.f_code)] = frame.f_code

        threading.settrace(note)
        sys.settrace(note)
        begin = time.monotonic()
        yield
        seconds = time.monotonic() - begin
        sys.settrace(None)
        threading.settrace(None)
        ours = [code for code in list(seen.values()) if code.co_filename.startswith(self.source)]
        names = {f"{code.co_filename.removeprefix(self.prefix)}:{_function(code)}": 1.0 for code in ours}
        self.called[item.nodeid] = {**names, "seconds": seconds}


class _FirstFailure:
    """Writes down which test has noticed the mutant."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def _function(code: CodeType) -> str:
    """The name of the function that a code object belongs to: comprehensions and lambdas are part of the one around them."""
    parts = code.co_qualname.split(".")
    while parts and parts[-1].startswith("<"):
        parts.pop()
    return ".".join(parts)


def _read(path: Path) -> dict[tuple[str, int, str, str], dict[str, Any]]:
    """What earlier runs have found out, of each mutant the last."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {_key(result): result for result in map(json.loads, lines)}


def _has_tests(path: Path) -> bool:
    return path.name.startswith("test_") or ">>>" in path.read_text(encoding="utf-8")


def _file_of(test: str) -> str:
    return test.split("::", maxsplit=1)[0]


def _key(mutant: dict[str, Any]) -> tuple[str, int, str, str]:
    return mutant["path"], mutant["start"], mutant["original"], mutant["replacement"]


if __name__ == "__main__":
    main()
