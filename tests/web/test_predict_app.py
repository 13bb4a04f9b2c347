"""The server as programs use it: what is answered, in which dialect, and what is refused and how."""

import asyncio
import json
import re
import shutil
import threading
import time
from functools import cache
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import ASGITransport, AsyncClient, Response
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Recognizer
from lacuner.corpus.display.colors import Palette
from lacuner.corpus.formats.records import entity_to_record
from lacuner.web.access import AccessPolicy
from lacuner.web.batching import BatchLimits
from lacuner.web.predict_app import PAGES, RequestLimits, create_app
from lacuner.web.served_models import ServedModels, version_of
from lacuner.web.server import listen, serve

TOKEN = "a-token-for-tests"
ADDRESS = "http://127.0.0.1:8620"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ADA = "Ada moved 😀 to New York ."
TEXTS = [ADA, "Kurt moved to Oslo .", "", "nobody sleeps", "Grace Hopper moved to Jena . " * 45, "Emmy Noether"]
NAMES = ("one", "other")
CONFIG = """<View><!-- names --><Labels name="ner" toName="body"><Label value="PER"/><Label value="City" alias="LOC"/></Labels>
<Text name="body" value="$article"/></View>"""


@pytest.fixture(scope="module")
def models(model: Recognizer) -> ServedModels:
    return ServedModels.of(toy=model, other=model)


@pytest.fixture(scope="module")
def stranger(models: ServedModels) -> TestClient:
    return TestClient(create_app(models, AccessPolicy(TOKEN, pages=PAGES, api="/")), base_url=ADDRESS)


@pytest.fixture(scope="module")
def client(models: ServedModels) -> TestClient:
    app = create_app(
        models,
        AccessPolicy(TOKEN, pages=PAGES, api="/"),
        BatchLimits(window=0),
        RequestLimits(max_body=20_000, max_texts=5),
    )
    return TestClient(app, base_url=ADDRESS, headers=BEARER)


def records(model: Recognizer, text: str, **options: object) -> list[dict[str, object]]:
    return [entity_to_record(entity) for entity in model.predict(text, **options)]  # type: ignore[call-overload]


def refusal(response: Response) -> tuple[int, str]:
    return response.status_code, response.json()["message"]


# ---------------------------------------------------------------- our own requests


def test_a_text_and_texts_are_answered_as_predict_answers(client: TestClient, model: Recognizer) -> None:
    found = client.post("/predict", json={"text": ADA}).json()
    assert found == {"model": "toy", "version": "unsaved", "entities": records(model, ADA)}
    last = found["entities"][-1]
    assert ADA[last["start"] : last["end"]] == last["text"] == "New York", (
        "characters are counted, not UTF-16 code units"
    )
    several = client.post("/predict", json={"texts": TEXTS[:5]}).json()
    assert several["results"] == [{"entities": records(model, text)} for text in TEXTS[:5]]
    assert client.post("/predict", json={"texts": []}).json()["results"] == []


def test_options_are_those_of_predict(client: TestClient, model: Recognizer) -> None:
    found = client.post("/predict", json={"text": ADA, "nested": True, "min_score": 0.2}).json()["entities"]
    assert found == records(model, ADA, nested=True, min_score=0.2)
    assert client.post("/predict", json={"text": ADA, "min_score": 1}).json()["entities"] == []


def test_a_model_is_named_in_path_query_or_body(client: TestClient) -> None:
    for path, body in (("/models/other/predict", {}), ("/predict?model=other", {}), ("/predict", {"model": "other"})):
        assert client.post(path, json={"text": ADA} | body).json()["model"] == "other"
    assert client.get("/models/other/labels").json() == {
        "model": "other",
        "version": "unsaved",
        "labels": ["LOC", "PER"],
    }
    listed = client.get("/models").json()["models"]
    assert [each["name"] for each in listed] == ["toy", "other"]
    assert listed[0]["colors"] == dict(Palette.of(["LOC", "PER"]).numbers)
    assert refusal(client.get("/models/third/labels")) == (404, "There is no model 'third', only toy, other.")
    assert client.post("/predict", json={"text": ADA, "model": "third"}).status_code == 404


# ---------------------------------------------------------------- dialects


def test_hugging_face_clients_are_understood(client: TestClient, model: Recognizer) -> None:
    expected = [
        {"entity_group": e.label, "score": round(e.score or 0, 6), "word": e.text, "start": e.start, "end": e.end}
        for e in model.predict(ADA)
    ]
    for path in ("/predict", "/", "/models/other/", "/models/other/predict"):
        assert client.post(path, json={"inputs": ADA, "parameters": {}}).json() == expected
    assert client.post("/", json={"inputs": [ADA, ""], "options": {"use_cache": True}}).json() == [expected, []]
    ignoring = client.post("/", json={"inputs": ADA, "parameters": {"ignore_labels": ["PER"]}}).json()
    assert [each["entity_group"] for each in ignoring] == ["LOC"]
    status, message = refusal(client.post("/", json={"inputs": ADA, "parameters": {"aggregation_strategy": "none"}}))
    assert (status, message[:35]) == (422, "parameters.aggregation_strategy: wh")


def test_gliner_shaped_requests_are_understood(client: TestClient, model: Recognizer) -> None:
    found = client.post("/predict", json={"text": ADA, "labels": ["loc"], "threshold": 0.1}).json()["entities"]
    expected = [record | {"label": "loc"} for record in records(model, ADA) if record["label"] == "LOC"]
    assert found == expected
    assert client.post("/predict", json={"texts": [ADA, ""], "labels": ["loc"], "threshold": 0.1}).json() == {
        "entities": [expected, []]
    }
    assert refusal(client.post("/predict", json={"text": ADA, "labels": ["LOC", "date"]})) == (
        422,
        "labels.1: the model finds no 'date', only LOC, PER",
    )
    assert refusal(client.post("/predict", json={"text": ADA, "labels": [], "multi_label": True}))[0] == 422


def test_presidio_clients_are_understood(client: TestClient, model: Recognizer) -> None:
    expected = [
        {
            "analysis_explanation": None,
            "end": e.end,
            "entity_type": e.label,
            "score": round(e.score or 0, 6),
            "start": e.start,
        }
        for e in model.predict(ADA)
    ]
    request = {"text": ADA, "language": "en", "correlation_id": "1", "return_decision_process": False}
    assert client.post("/analyze", json=request).json() == expected
    assert client.post("/analyze", json=request | {"text": [ADA, ""]}).json() == [expected, []]
    assert client.post("/analyze", json=request | {"entities": ["LOC"]}).json() == expected[1:]
    known = client.post("/analyze", json=request | {"entities": ["PHONE_NUMBER", "loc"]}).json()
    assert known == [found | {"entity_type": "loc"} for found in expected[1:]], "unknown ones are skipped"
    assert client.post("/analyze", json=request | {"allow_list": ["Ada"]}).json() == expected[1:]
    assert client.post("/analyze", json=request | {"score_threshold": 1.0}).json() == []
    assert client.get("/supportedentities", params={"language": "en"}).json() == ["LOC", "PER"]
    for unknown in ({"ad_hoc_recognizers": [{"name": "zip"}]}, {"context": ["zip"]}, {"allow_list_match": "regex"}):
        assert client.post("/analyze", json=request | unknown).status_code == 422


def test_label_studio_gets_regions_and_the_chance_that_something_is_missing(client: TestClient, model) -> None:
    tasks = [{"id": 7, "data": {"article": ADA, "title": "x"}}, {"id": 8, "data": {"article": "nobody sleeps"}}]
    tasks.append({"id": 9, "data": {"article": ADA}, "annotations": [{"result": []}]})
    tasks.append({"id": 10, "data": {"article": ADA}, "annotations": [{"result": [], "was_cancelled": True}]})
    request = {"tasks": tasks, "label_config": CONFIG, "project": "1.2", "params": {"context": None}}
    found = client.post("/predict", json=request).json()
    assert found["model_version"] == "toy-unsaved"
    first, empty, annotated, cancelled = found["results"]
    region = first["result"][0]
    assert (region["from_name"], region["to_name"], region["type"]) == ("ner", "body", "labels")
    assert region["value"] == {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    assert region["score"] == round(model.predict(ADA)[0].score, 6)
    assert empty["result"] == []
    assert annotated["score"] > 0.5 > first["score"] == cancelled["score"]
    assert "left_out" not in found


def test_entities_that_a_project_has_no_label_for_are_counted(client: TestClient) -> None:
    config = CONFIG.replace('<Label value="PER"/>', "")
    tasks = [{"data": {"article": ADA}}, {"data": {"article": TEXTS[1]}}]
    found = client.post("/predict", json={"tasks": tasks, "label_config": config}).json()
    assert found["left_out"] == {"PER": 2}
    assert [[region["value"]["labels"] for region in each["result"]] for each in found["results"]] == [[["LOC"]]] * 2


def test_label_studio_connects(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "UP"
    setup = {"project": "1.2", "schema": CONFIG, "hostname": "http://x", "access_token": "y"}
    assert client.post("/setup", json=setup).json() == {"model_version": "toy-unsaved"}
    assert client.post("/models/other/setup", json=setup).json() == {"model_version": "other-unsaved"}
    hook = client.post("/webhook", json={"action": "ANNOTATION_CREATED"})
    assert (hook.status_code, hook.json()) == (201, {})


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"label_config": "<View>"}, "label_config"),
        ({"label_config": "<View><Image name='i' value='$i'/></View>"}, "label_config"),
        ({"label_config": '<!DOCTYPE x [<!ENTITY a "b">]><View>&a;</View>'}, "label_config"),
        ({"tasks": [{"data": {"article": ADA}}, {"data": {}}]}, "tasks.1.data.article"),
        ({"tasks": [{"data": {"article": 3}}]}, "tasks.0.data.article"),
        ({"tasks": [{}]}, "tasks.0.data"),
        ({"tasks": "all"}, "tasks"),
        ({"tasks": [3]}, "tasks.0"),
    ],
)
def test_tasks_that_cannot_be_labeled_are_refused_with_their_place(client: TestClient, change, where: str) -> None:
    request = {"tasks": [{"data": {"article": ADA}}], "label_config": CONFIG} | change
    refused = client.post("/predict", json=request)
    assert (refused.status_code, refused.json()["where"]) == (422, where)


def test_a_task_without_an_interface_has_one_text(client: TestClient) -> None:
    found = client.post("/predict", json={"tasks": [{"data": {"anything": ADA}}]}).json()
    assert found["results"][0]["result"][0]["from_name"] == "label"


def test_all_tasks_of_a_project_come_in_one_request_if_the_limits_are_as_documented(models: ServedModels) -> None:
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    texts, queue, body = (
        int(found) for found in re.findall(r"`--max-texts (\d+) --max-queue (\d+) --max-body (\d+)", page)[0]
    )
    app = create_app(
        models,
        AccessPolicy(None, pages=PAGES, api="/"),
        BatchLimits(max_waiting=queue),
        RequestLimits(max_body=body, max_texts=texts),
    )
    tasks = [{"data": {"text": "Ada"}, "meta": "x" * 4000}] * 300
    assert len(TestClient(app, base_url=ADDRESS).post("/predict", json={"tasks": tasks}).json()["results"]) == 300


def test_the_client_of_hugging_face_itself_understands_the_answer(models: ServedModels, model: Recognizer) -> None:
    hub = pytest.importorskip("huggingface_hub")
    ready, sock = threading.Event(), listen("127.0.0.1", 0)
    app = create_app(models, AccessPolicy(TOKEN, pages=PAGES, api="/"))
    threading.Thread(target=serve, args=(app, sock, ready.set), daemon=True).start()
    assert ready.wait(20)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    for address in (url, f"{url}/models/other"):
        asked = hub.InferenceClient(model=address, token=TOKEN)
        found = asked.token_classification(ADA, aggregation_strategy="simple")
        assert [(each.entity_group, each.word, each.start, each.end) for each in found] == [
            (entity.label, entity.text, entity.start, entity.end) for entity in model.predict(ADA)
        ]
    with pytest.raises(Exception, match="401"):
        hub.InferenceClient(model=url, token="another-token").token_classification(ADA)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "text"),
        ({"text": ADA, "texts": [ADA]}, "text"),
        ({"text": 3}, "text"),
        ({"texts": [ADA, None]}, "texts.1"),
        ({"texts": ADA}, "texts"),
        ({"text": ADA, "min_score": 2}, "min_score"),
        ({"text": ADA, "nested": "perhaps"}, "nested"),
        ({"text": ADA, "minscore": 0.5}, "minscore"),
        ([ADA], ""),
        (3, ""),
        ({"inputs": [1]}, "inputs.0"),
        ({"inputs": 3}, "inputs"),
        ({"inputs": [ADA, {}], "model": 3}, "inputs.1"),
        ({"inputs": ADA, "parameters": {"ignore_labels": [1]}}, "parameters.ignore_labels.0"),
        ({"inputs": ADA, "parameters": 3}, "parameters"),
        ({"text": ADA, "labels": ["PER", None]}, "labels.1"),
    ],
)
def test_invalid_requests_are_told_what_is_wrong_where(client: TestClient, body: object, where: str) -> None:
    refused = client.post("/predict", json=body)
    assert (refused.status_code, refused.json()["where"], refused.json()["reason"]) == (422, where, "invalid")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/predict", {"inputs": [1]}, "inputs.0: it must be a string"),
        ("/predict", {"inputs": 3}, "inputs: it must be a string or a list"),
        ("/predict", {"text": ADA, "min_score": 2}, "min_score: it must be at most 1"),
        ("/predict", {"text": ADA, "nested": "perhaps"}, "nested: it must be true or false"),
        ("/predict", {"tasks": [3]}, "tasks.0: it must be an object"),
        ("/predict", [ADA], "The body must be a JSON object; its fields are text, texts, min_score, nested, model"),
        ("/analyze", {"text": ["a", 1]}, "text.1: it must be a string"),
        ("/analyze", {}, "text: it must be given"),
        ("/analyze", {"text": ADA, "score_threshold": 7}, "score_threshold: it must be at most 1"),
        ("/analyze", {"text": ADA, "entities": ["x", "y"]}, "entities.0: the model finds no 'x', only LOC, PER"),
        (
            "/predict",
            {"inputs": ADA, "parameters": {"aggregation_strategy": "foo"}},
            "parameters.aggregation_strategy: it must be 'none', 'simple', 'first', 'average' or 'max'",
        ),
        ("/analyze", {"text": ADA, "allow_list_match": "regex"}, "allow_list_match: it must be 'exact'"),
        ("/setup", [], "The body must be a JSON object; its fields are schema"),
        ("/setup", {"schema": "x" * 1_000_001}, "schema: it has more than 1,000,000 characters"),
    ],
)
def test_messages_are_plain_and_name_the_field_as_it_was_written(models, path: str, body: object, message: str) -> None:
    app = create_app(models, AccessPolicy(None, pages=PAGES, api="/"), limits=RequestLimits(2_000_000))
    assert refusal(TestClient(app, base_url=ADDRESS).post(path, json=body)) == (422, message)


def test_an_unknown_field_is_answered_with_those_there_are(client: TestClient) -> None:
    message = client.post("/predict", json={"txt": ADA}).json()["message"]
    assert message.startswith("txt: there is no such field (did you mean text?); there are: text, texts, ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"text": "Ada"',
        b"text=Ada",
        b'{"text": "\xff"}',
        b'{"text": NaN}',
        b'{"text": "\\ud800"}',
        b"[" * 9999,
        b'{"text": "a", "text": "b"}',
        b"\x00\x01",
        '{"text": "Ada"}'.encode("utf-16"),
    ],
)
def test_broken_json_is_refused_in_a_sentence(client: TestClient, body: bytes) -> None:
    status, message = refusal(client.post("/predict", content=body))
    assert status == 400
    assert message.startswith("The body ")
    assert message.endswith(".")


def test_a_byte_order_mark_and_other_content_types_do_no_harm(client: TestClient) -> None:
    body = b"\xef\xbb\xbf" + json.dumps({"text": ADA}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d sends
    assert client.post("/predict", content=body, headers=form).status_code == 200


def test_more_texts_or_bytes_than_allowed_are_refused(client: TestClient) -> None:
    assert refusal(client.post("/predict", json={"texts": ["a"] * 6})) == (
        413,
        "The request has 6 texts, but 5 are allowed.",
    )
    assert client.post("/predict", json={"texts": ["a"] * 5}).status_code == 200
    assert refusal(client.post("/predict", json={"text": "a" * 20_000})) == (
        413,
        "The request has more than 20,000 bytes.",
    )


def test_nothing_but_pages_and_health_is_answered_without_the_token(stranger: TestClient) -> None:
    for path in ("/labels", "/models", "/metrics", "/supportedentities", "/nowhere", "/models/toy/labels"):
        assert refusal(stranger.get(path))[0] == 401
    for path in ("/predict", "/", "/analyze", "/setup", "/webhook", "/reload"):
        refused = stranger.post(path, json={"text": ADA}, headers={"Authorization": "Bearer another-token"})
        assert (refused.status_code, refused.json()["reason"]) == (401, "access")
        assert refused.headers["www-authenticate"] == "Bearer"
    for path in PAGES:
        assert stranger.get(path.replace("*", "toy")).status_code == 200
    for path in ("/models/toy/health/labels", "/models/toy/labels/health/x", "/models/toy"):
        assert stranger.get(path).status_code == 401


def test_health_is_answered_for_every_model_and_every_way_to_ask(stranger: TestClient) -> None:
    for path in ("/health", "/models/other/health"):
        assert stranger.get(path).json()["status"] == "UP"
        assert stranger.head(path).status_code == 200


def test_a_path_or_method_that_there_is_not_is_answered_with_those_there_are(client: TestClient) -> None:
    status, message = refusal(client.get("/predictions"))
    assert (status, message[:41]) == (404, "There is no path '/predictions', only /mo")
    assert message.endswith("; /docs describes them.")
    assert ", /predict, " in message
    assert refusal(client.get("/models/toy/metrics"))[0] == 404
    assert refusal(client.get("/predict")) == (405, "/predict takes POST, not GET.")
    assert refusal(client.put("/models/other/labels")) == (405, "/models/other/labels takes GET, not PUT.")
    assert client.get("/predict").headers["allow"] == "POST"
    assert refusal(client.post("/docs", json={})) == (405, "/docs does not take POST.")


def test_label_studio_may_send_the_token_as_a_password(stranger: TestClient) -> None:
    assert stranger.get("/labels", auth=("anybody", TOKEN)).status_code == 200
    assert stranger.get("/labels", auth=(TOKEN, "anything")).status_code == 401
    assert stranger.get("/labels", headers={"Authorization": "Basic ???"}).status_code == 401
    assert stranger.get("/labels", headers={"Authorization": TOKEN}).status_code == 401


def test_pages_of_other_servers_are_refused(client: TestClient) -> None:
    assert client.post("/predict", json={"text": ADA}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/predict", json={"text": ADA}, headers={"Origin": ADDRESS}).status_code == 200
    assert client.get("/labels", headers={"Host": "evil.example"}).status_code == 421


def test_a_server_may_have_more_names_and_no_token(models: ServedModels) -> None:
    policy = AccessPolicy(None, more_names=("ner.example",), pages=PAGES, api="/")
    client = TestClient(create_app(models, policy), base_url="http://ner.example")
    assert client.get("/labels").status_code == 200
    assert client.get("/labels", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/labels", headers={"Host": "evil.example"}).status_code == 421


def slow(model: Recognizer, monkeypatch, limits: BatchLimits) -> AsyncClient:
    models = ServedModels.of(toy=model)
    answer = type(models["toy"]).answer
    monkeypatch.setattr(type(models["toy"]), "answer", lambda *given: (time.sleep(0.3), answer(*given))[1])
    app = create_app(models, AccessPolicy(None, pages=PAGES, api="/"), limits)
    return AsyncClient(transport=ASGITransport(app=app), base_url=ADDRESS)


def together(client: AsyncClient, *bodies: object) -> list[Response]:
    async def everybody() -> list[Response]:
        async with client:
            return await asyncio.gather(*(client.post("/predict", json=body) for body in bodies))

    return asyncio.run(everybody())


def test_a_full_queue_is_said_with_a_time_to_come_again(model: Recognizer, monkeypatch) -> None:
    client = slow(model, monkeypatch, BatchLimits(window=0, max_batch=1, max_waiting=2))
    responses = together(client, *({"text": text} for text in TEXTS[:4] * 2))
    by_status = {response.status_code: response for response in responses}
    assert set(by_status) == {200, 429}
    assert int(by_status[429].headers["retry-after"]) >= 1
    assert "try again in" in by_status[429].json()["message"]


def test_a_request_that_takes_too_long_is_given_up(model: Recognizer, monkeypatch) -> None:
    client = slow(model, monkeypatch, BatchLimits(window=0, max_batch=1, timeout=0.4))
    (late,) = together(client, {"texts": TEXTS[:5]})
    assert (late.status_code, late.json()["reason"]) == (504, "late")


def test_long_texts_that_nobody_gets_do_not_keep_others_waiting(model: Recognizer, monkeypatch) -> None:
    """Each of the long ones takes longer than the time of a request, and all together four times as long."""
    monkeypatch.setattr("lacuner.models.model._BATCH_TOKENS", 300)
    models, encode = ServedModels.of(toy=model), type(model.model).encode
    monkeypatch.setattr(type(model.model), "encode", lambda *given: (time.sleep(0.2), encode(*given))[1])
    app = create_app(models, AccessPolicy(None, pages=PAGES, api="/"), BatchLimits(max_cost=10_000, timeout=2))
    long = "Grace Hopper moved to Jena . " * 1200

    async def everybody() -> tuple[list[Response], Response]:
        async with AsyncClient(transport=ASGITransport(app=app), base_url=ADDRESS) as client:
            asking = [asyncio.ensure_future(client.post("/predict", json={"text": long})) for _ in range(4)]
            await asyncio.sleep(1)
            bystander = await client.post("/predict", json={"text": ADA})
            return await asyncio.gather(*asking), bystander

    crowd, bystander = asyncio.run(everybody())
    assert {response.status_code for response in crowd} == {504}
    assert bystander.status_code == 200


def test_for_a_client_that_leaves_nothing_more_is_computed(model: Recognizer, monkeypatch) -> None:
    models = ServedModels.of(toy=model)
    answer, asked = type(models["toy"]).answer, []
    monkeypatch.setattr(
        type(models["toy"]), "answer", lambda *given: (time.sleep(0.3), asked.append(given[1]), answer(*given))[2]
    )
    app = create_app(models, AccessPolicy(None, pages=PAGES, api="/"), BatchLimits(window=0, max_batch=1))
    scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "root_path": "", "headers": []}
    scope["headers"] = [(b"host", b"127.0.0.1")]
    sent: list[object] = []

    async def leave() -> None:
        messages = [{"type": "http.request", "body": json.dumps({"texts": TEXTS[:5]}).encode(), "more_body": False}]

        async def receive() -> dict[str, object]:
            if messages:
                return messages.pop()
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            sent.append(message)

        await app(scope, receive, send)
        await asyncio.sleep(0.6)

    asyncio.run(leave())
    assert [query.text for batch in asked for query in batch] == TEXTS[:1], "the one that was begun"
    lines = app.state.service.metrics.render().splitlines()
    assert "lacuner_texts_total 0" in lines
    assert 'lacuner_requests_total{status="499"} 1' in lines


def test_a_model_that_fails_is_said_without_a_traceback(models: ServedModels, monkeypatch) -> None:
    app = create_app(models, AccessPolicy(None, pages=PAGES, api="/"))
    monkeypatch.setattr(type(models["toy"]), "answer", lambda *_: 1 / 0)
    client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)
    status, message = refusal(client.post("/predict", json={"text": ADA}))
    assert (status, message) == (500, "The server failed (ZeroDivisionError); this is a bug in Lacuner.")


# ---------------------------------------------------------------- many clients


@pytest.fixture(scope="module")
def versions(model: Recognizer, model_folder: Path, tmp_path_factory) -> dict[str, tuple[Path, Recognizer]]:
    """Three models that find different entities, by version."""
    found = {}
    for number, threshold in enumerate((0.0, 100.0, -2.0)):
        folder = tmp_path_factory.mktemp("versions") / str(number)
        shutil.copytree(model_folder, folder)
        model.model.threshold.fill_(threshold)
        try:
            model.save_pretrained(folder)
        finally:
            model.model.threshold.fill_(0.0)
        found[version_of(folder)] = folder, Recognizer.from_pretrained(folder)
    assert len({len(recognizer.predict(ADA, nested=True)) for _, recognizer in found.values()}) > 1
    return found


@pytest.fixture(scope="module")
def said_of(versions):
    return cache(lambda version, text, nested: records(versions[version][1], text, nested=nested))


@pytest.fixture(scope="module")
def exchanged(versions, tmp_path_factory) -> tuple[ServedModels, dict[str, Path]]:
    """Two models that are loaded from links to folders."""
    paths = {name: tmp_path_factory.mktemp("served") / name for name in NAMES}
    for path, (folder, _) in zip(paths.values(), versions.values(), strict=False):
        path.symlink_to(folder)
    return ServedModels(paths), paths


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
            st.booleans(),
            st.sampled_from(NAMES),
        ),
        min_size=2,
        max_size=10,
    ),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(NAMES), st.integers(0, 2)), max_size=2),
)
def test_any_interleaving_of_requests_and_reloads_gives_each_client_what_predict_says(
    versions, exchanged, said_of, requests, reloads
) -> None:
    """A request names a model; meanwhile, folders are exchanged and loaded again."""
    served, paths = exchanged
    app = create_app(served, AccessPolicy(None, pages=PAGES, api="/"), BatchLimits(window=0.002, max_batch=5))

    async def reload(client: AsyncClient, turn: asyncio.Lock, delay: int, name: str, number: int) -> None:
        await asyncio.sleep(delay / 1000)
        async with turn:
            paths[name].unlink()
            paths[name].symlink_to(list(versions.values())[number][0])
            answer = (await client.post("/reload")).json()
        assert answer["failed"] == {}
        assert answer["models"][name] == version_of(paths[name])

    async def ask(client: AsyncClient, delay: int, texts: list[str], nested: bool, name: str) -> None:
        await asyncio.sleep(delay / 1000)
        before = served[name].version
        response = await client.post("/predict", json={"texts": texts, "nested": nested, "model": name})
        version = response.json()["version"]
        assert version in {before, *(list(versions)[number] for _, given, number in reloads if given == name)}
        results = [{"entities": said_of(version, text, nested)} for text in texts]
        expected = {"model": name, "version": version, "results": results}
        assert response.content == json.dumps(expected, ensure_ascii=False, separators=(",", ":")).encode()

    async def everybody() -> None:
        turn = asyncio.Lock()
        async with AsyncClient(transport=ASGITransport(app=app), base_url=ADDRESS) as client:
            asking = (ask(client, *each) for each in requests)
            await asyncio.gather(*asking, *(reload(client, turn, *each) for each in reloads))

    asyncio.run(everybody())


# ---------------------------------------------------------------- descriptions


def test_figures_are_counted(models: ServedModels) -> None:
    client = TestClient(create_app(models, AccessPolicy(None, pages=PAGES, api="/")), base_url=ADDRESS)
    client.post("/predict", json={"texts": TEXTS[:2]})
    client.post("/predict", json={})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert "lacuner_texts_total 2" in lines
    assert "lacuner_entities_total 4" in lines
    assert 'lacuner_requests_total{status="422"} 1' in lines
    assert 'lacuner_model_info{model="toy",version="unsaved"} 1' in lines
    assert 'lacuner_batch_texts_bucket{le="2"} 1' in lines


def test_every_route_is_described_and_nothing_is_fetched_from_elsewhere(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {"/predict", "/analyze", "/labels", "/health", "/metrics", "/models", "/reload", "/setup"} <= set(
        described["paths"]
    )
    body = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert [each["title"] for each in body["oneOf"]] == ["PredictBody", "GlinerBody", "InputsBody", "TasksBody"]
    assert "$ref" not in json.dumps(body)
    for path in ("/", "/docs"):
        assert "http" not in client.get(path).text


def test_reloading_says_which_versions_are_served(client: TestClient) -> None:
    assert client.post("/reload").json() == {"models": {"toy": "unsaved", "other": "unsaved"}, "failed": {}}
