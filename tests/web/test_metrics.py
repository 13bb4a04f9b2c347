import re

from lacuner.web.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z]+="([^"\\\n]|\\.)*"(,[a-z]+="([^"\\\n]|\\.)*")*\})? [0-9.e+-]+')


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines)
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_every_figure_is_described_before_its_values() -> None:
    text = Metrics().render({"news": "1"})
    described = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.add(line.split()[2])
        elif not line.startswith("#"):
            name = re.sub(r"(_bucket|_sum|_count)?([{ ].*)$", "", line)
            assert name in described or line.split("{")[0].split()[0] in described, line
    assert text.endswith("\n")


def test_a_histogram_counts_everything_below_its_bounds() -> None:
    metrics = Metrics()
    for seconds in (0.004, 0.02, 0.02, 99):
        metrics.observe("request_seconds", seconds)
    found = values(metrics.render())
    assert found['lacuner_request_seconds_bucket{le="0.005"}'] == 1
    assert found['lacuner_request_seconds_bucket{le="0.025"}'] == 3
    assert found['lacuner_request_seconds_bucket{le="30"}'] == 3
    assert found['lacuner_request_seconds_bucket{le="+Inf"}'] == found["lacuner_request_seconds_count"] == 4
    assert abs(found["lacuner_request_seconds_sum"] - 99.044) < 1e-9


def test_a_value_on_a_bound_is_below_it() -> None:
    metrics = Metrics()
    metrics.observe("batch_texts", 8)
    found = values(metrics.render())
    assert found['lacuner_batch_texts_bucket{le="4"}'] == 0
    assert found['lacuner_batch_texts_bucket{le="8"}'] == 1


def test_processes_count_in_one_table() -> None:
    table = Metrics.shared_table(2)
    one, other = Metrics(table, 0), Metrics(table, 1)
    one.count("texts_total", 3)
    other.count("texts_total", 4)
    for metrics, status in ((one, 200), (other, 200), (other, 418)):
        metrics.count_request(status)
    for metrics in (one, other):
        found = values(metrics.render())
        assert found["lacuner_texts_total"] == 7
        assert found['lacuner_requests_total{status="200"}'] == 2
        assert found['lacuner_requests_total{status="other"}'] == 1


def test_many_requests_are_counted_exactly_and_names_are_escaped() -> None:
    metrics = Metrics()
    metrics.count("texts_total", 123_456_789)
    text = metrics.render({'a"b\\c': "x"})
    assert values(text)["lacuner_texts_total"] == 123_456_789
    assert 'lacuner_model_info{model="a\\"b\\\\c",version="x"} 1' in text


def test_a_gauge_is_set() -> None:
    metrics = Metrics()
    for value in (5, 2):
        metrics.set("waiting_texts", value)
    assert values(metrics.render())["lacuner_waiting_texts"] == 2
