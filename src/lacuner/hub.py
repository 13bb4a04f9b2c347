"""Models on the Hugging Face hub: model folders of JSON, safetensors and ONNX, without executable content.

``huggingface_hub.ModelHubMixin`` is not used: its ``save_pretrained`` writes into the target after deleting the old
configuration, whereas ours replaces a model atomically; and its ``from_pretrained`` passes an untrusted configuration to the
constructor. So only downloads and uploads are handled here; folders are read and written by the same code as all others.
"""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.model_card import ModelCard
from lacuner.model_folder import CARD, CONFIG, ModelFolder, is_model_folder, write_model_folder
from lacuner.storage import recover_folder
from lacuner.training.settings import RunSettings
from lacuner.version import __version__

logger = logging.getLogger(__name__)

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_FILES = ["*.json", "*.jsonl", "*.safetensors", "*.onnx", CARD]
_NOT_IN_FOLDERS = ["*/*", "*\\*"]
"""Model folders contain no subfolders; a name with a slash could lead anywhere."""


def find_model_folder(name: str | Path, revision: str | None = None, token: str | bool | None = None) -> Path:
    """The folder of a model, downloaded from the hub if there is no local one of this name.

    Args:
        name: a folder, or a name on the hub such as ``user/model``. A folder takes precedence; a ``Path`` is always one.
        revision: a branch, tag or commit on the hub.
        token: for private models; by default the one stored by ``hf auth login``.
    """
    recover_folder(name)
    if Path(name).is_dir():
        if revision is not None:
            raise ConfigError(f"{name} is a folder, which has no revision {revision!r} — leave revision out")
        return Path(name)
    if isinstance(name, Path) or not _NAME.fullmatch(name):
        raise ModelError(
            f"there is no folder {name} — check the path (a model on the hub has a name such as user/model)"
        )
    return _fetch(name, revision, token)


def push_to_hub(
    content: ModelFolder,
    name: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    revision: str | None = None,
    message: str = "Upload a Lacuner model",
    language: str | Sequence[str] | None = None,
    license: str | None = None,
) -> str:
    """Upload a model to the hub in one commit, and return the URL of that commit.

    Args:
        content: the model.
        name: repository, such as ``user/model``; created if it does not exist.
        private: whether a new repository is private; by default the account's setting.
        token: with write permission; by default the one stored by ``hf auth login``.
        revision: a branch, created if needed; the main one by default.
        message: of the commit.
        language: for the model card, such as ``en``.
        license: for the model card, such as ``apache-2.0``.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a name on the hub; give one such as user/model")
    content = replace(content, settings=_without_paths(content.settings))
    card = ModelCard(content.model.labels[1:], content.settings, content.record, name, language, license)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "model")
        write_model_folder(folder, content)
        (folder / CARD).write_text(str(card), encoding="utf-8")
        with _errors_about(name, writing=True):
            api = _api(token)
            api.create_repo(name, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(name, branch=revision, exist_ok=True)
            commit = api.upload_folder(
                repo_id=name, folder_path=folder, revision=revision, commit_message=message, allow_patterns=_FILES
            )
    logger.info("%s is on the hub: %s", name, commit.commit_url)
    return str(commit.commit_url)


def _fetch(name: str, revision: str | None, token: str | bool | None) -> Path:
    """Download to the hub's cache; the configuration comes first, to check that the model is one of ours."""
    from huggingface_hub.errors import HfHubHTTPError

    with _errors_about(name, revision):
        try:
            files = {file.rfilename for file in _api(token).model_info(name, revision=revision).siblings or ()}
        except HfHubHTTPError:
            raise
        except Exception as error:  # the library may raise anything if there is no connection
            return _from_cache(name, revision, error)
        if CONFIG not in files or not is_model_folder(_snapshot(name, [CONFIG], revision, token)):
            raise ModelError(f"{name} on the hub is not a Lacuner model — check the name")
        logger.info("Fetching %s from the hub.", name)
        return _snapshot(name, _FILES, revision, token)


def _from_cache(name: str, revision: str | None, reason: Exception) -> Path:
    """The cached download, if the hub is unreachable."""
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else _first_line(reason)
    try:
        folder = _snapshot(name, _FILES, revision, cached=True)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"there is no folder {name}, no copy of such a model was fetched before, and the hub cannot be reached "
            f"({why}) — check the path, or the connection"
        ) from error
    logger.warning("The hub cannot be reached (%s); using the copy of %s that was fetched earlier.", why, name)
    return folder


def _snapshot(
    name: str, files: list[str], revision: str | None, token: str | bool | None = None, cached: bool = False
) -> Path:
    """A folder in the hub's cache with files of a model, downloading only missing ones."""
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        name,
        revision=revision,
        token=token,
        allow_patterns=files,
        ignore_patterns=_NOT_IN_FOLDERS,
        local_files_only=cached,
        library_name="lacuner",
        library_version=__version__,
    )
    return Path(folder)


def _api(token: str | bool | None) -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=token, library_name="lacuner", library_version=__version__)


@contextmanager
def _errors_about(name: str, revision: str | None = None, writing: bool = False) -> Iterator[None]:
    """Translate errors of the hub to one sentence."""
    try:
        yield
    except LacunerError:
        raise
    except Exception as error:  # of the hub's library, or its HTTP client
        _raise_about(error, name, revision, writing)


def _raise_about(error: Exception, name: str, revision: str | None, writing: bool) -> NoReturn:
    from huggingface_hub.errors import (  # fmt: skip
        GatedRepoError,
        HfHubHTTPError,
        LocalTokenNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    login = "log in with hf auth login, or give token=…"
    if writing and (isinstance(error, LocalTokenNotFoundError) or status in (401, 403, 404)):
        what = f"the hub does not let you write {name} — check the name, and {login}"
    elif isinstance(error, GatedRepoError):
        what = f"{name} on the hub is given only to those who have asked for it — ask on its page, and {login}"
    elif isinstance(error, RevisionNotFoundError):
        what = f"{name} on the hub has no revision {revision!r} — give a branch, tag or commit that it has"
    elif isinstance(error, RepositoryNotFoundError | LocalTokenNotFoundError) or status in (401, 403):
        what = f"there is no folder {name}, and no such model on the hub that you may read — check the name"
        what += f"; if it is private, {login}"
    elif status is not None:
        what = f"the hub answers {status} to the request for {name} — try again later"
    else:
        done = "sent to" if writing else "fetched from"
        what = f"{name} could not be {done} the hub ({_first_line(error)}) — check the connection, and try again"
    raise ModelError(what) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _without_paths(settings: RunSettings) -> RunSettings:
    """Settings without local folders: paths are replaced by the name of the file or folder."""
    local = {
        key: Path(value).name for key, value in settings.encoder if isinstance(value, str) and os.path.exists(value)
    }
    local.pop("name", None)
    return settings.model_copy(update={"encoder": settings.encoder.model_copy(update=local)})
