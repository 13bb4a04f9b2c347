"""The examples of how a server is run: no engine for containers, and no systemd, is needed to check them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lacuner.cli import app
from lacuner.web.server import DEFAULT_PORT

DEPLOY = Path(__file__).parents[1] / "deploy"
CONTAINER = DEPLOY / "Containerfile"
SERVICE = DEPLOY / "lacuner.service"


def options(verb: str = "serve") -> set[str]:
    from typer.main import get_command

    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


def test_the_container_file_has_no_known_faults() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed; make setup installs it")
    checked = subprocess.run([linter, "--no-color", str(CONTAINER)], capture_output=True, text=True, check=False)
    assert (checked.stdout, checked.returncode) == ("", 0)


def test_what_the_container_file_copies_is_there_and_what_it_runs_exists() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (DEPLOY.parent / name).exists(), name
    assert set(re.findall(r'"(--[a-z-]+)"', text.split("ENTRYPOINT")[1])) <= options()
    assert f"EXPOSE {DEFAULT_PORT}" in text
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)


def test_the_options_that_the_page_about_servers_names_exist() -> None:
    page = (DEPLOY.parent / "docs" / "serve.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<=[ `])--[a-z][a-z-]+", page))
    assert {"--max-texts", "--max-queue", "--timeout"} <= named <= options()


def engine() -> str | None:
    """A program that can build images here, and not only be called."""
    for name in ("podman", "docker"):
        if shutil.which(name) is not None:
            try:
                informed = subprocess.run([name, "info"], capture_output=True, timeout=20, check=False)
            except subprocess.TimeoutExpired:
                continue
            if informed.returncode == 0:
                return name
    return None


@pytest.mark.slow
def test_the_container_is_built_and_serves() -> None:
    program = engine()
    if program is None:
        pytest.skip("there is no engine that builds images (podman info, docker info)")
    build = [program, "build", "--quiet", "-t", "lacuner-test", "-f", str(CONTAINER), str(DEPLOY.parent)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    run = [program, "run", "--rm", "lacuner-test", "--help"]
    said = subprocess.run(run, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "--max-texts" in said.stdout


def test_the_service_is_one_that_systemd_understands() -> None:
    text = SERVICE.read_text(encoding="utf-8")
    command = re.search(r"^ExecStart=\S+ serve (.*)$", text, re.MULTILINE)
    assert command is not None
    assert set(re.findall(r"--[a-z-]+", command[1])) <= options()
    analyzer = shutil.which("systemd-analyze")
    if analyzer is None:
        pytest.skip("there is no systemd-analyze")
    said = subprocess.run([analyzer, "verify", str(SERVICE)], capture_output=True, text=True, check=False).stderr
    if "Failed to" in said:
        pytest.skip(f"systemd-analyze does not run here: {said.splitlines()[0]}")
    assert [line for line in said.splitlines() if "is not executable" not in line] == []


def test_the_cluster_files_are_whole_and_their_commands_exist() -> None:
    yaml = pytest.importorskip("yaml")
    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text(encoding="utf-8"))
    assert cluster["max_workers"] == len(cluster["provider"]["worker_ips"])
    assert any("lacuner[ray]" in command for command in cluster["setup_commands"])
    docs = (DEPLOY.parent / "docs" / "scale.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"ray exec ray-cluster.yaml '(\S+) predict ", docs)
    assert any(program.rpartition("/")[0] + "/pip" in command for command in cluster["setup_commands"])
    job = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    program, verb, *given = job["spec"]["entrypoint"].split()
    assert program == "lacuner"
    assert {option for option in given if option.startswith("--")} <= options(verb)
    pods = [job["spec"]["rayClusterSpec"]["headGroupSpec"], *job["spec"]["rayClusterSpec"]["workerGroupSpecs"]]
    for pod in pods:
        (container,) = pod["template"]["spec"]["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["template"]["spec"]["volumes"]}


def test_rays_own_schema_accepts_the_cluster_file() -> None:
    ray_private = pytest.importorskip("ray.autoscaler._private.util")
    yaml = pytest.importorskip("yaml")
    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text(encoding="utf-8"))
    ray_private.validate_config(ray_private.prepare_config(cluster))
