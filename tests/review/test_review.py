import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handmade_audit import (
    MAY,
    MONTH,
    NEWSPAPER,
    TEAM,
    TURIN,
    TURIN_AGAIN,
    TURIN_THIRD,
    finding,
    small_audit,
    small_corpus,
    statuses,
    write_audit,
)
from lacuner import Corpus, Entity, Sentence
from lacuner.audit.folder import AuditFolder
from lacuner.review.conflicts import ConflictError
from lacuner.review.items import LEASE_SECONDS, Filter
from lacuner.review.review import Review
from lacuner.review.store import StorageError

ADA, GRACE, BOB = "ada-12345678", "grace-12345678", "bob-12345678"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_audit(tmp_path / "audit")


@pytest.fixture
def review(folder: Path, clock: Clock):
    with Review(AuditFolder.open(folder), clock) as opened:
        yield opened


def number_of(view) -> int | None:
    return None if view[0] is None else view[0].item.number


def test_the_best_open_finding_comes_first(review: Review) -> None:
    view, elsewhere = review.next(ADA)
    assert view is not None
    assert (view.item.number, view.item.text, view.status, view.version, elsewhere) == (
        TURIN,
        "Turin",
        "open",
        0,
        0,
    )
    review.decide(ADA, TURIN, 0, "accept")
    assert number_of(review.next(ADA)) == NEWSPAPER


def test_findings_can_be_filtered_by_label_kind_and_status(review: Review) -> None:
    assert number_of(review.next(ADA, Filter(label="O"))) == MONTH
    assert number_of(review.next(ADA, Filter(kind="label"))) == TEAM
    assert number_of(review.next(ADA, Filter(kind="boundary", label="LOC"))) is None
    review.decide(ADA, MAY, 0, "skip")
    assert number_of(review.next(ADA, Filter("skipped"))) == MAY
    assert number_of(review.next(ADA, Filter("accepted"))) is None


def test_one_can_look_on_and_back_without_deciding(review: Review) -> None:
    assert number_of(review.next(ADA, after=TURIN)) == NEWSPAPER
    assert number_of(review.next(ADA, after=NEWSPAPER, backwards=True)) == TURIN
    assert number_of(review.next(ADA, after=MAY)) == TURIN
    assert number_of(review.next(ADA, after=TURIN, backwards=True)) == MAY


def test_what_is_decided_survives_closing(folder: Path, review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept")
    review.decide(ADA, TEAM, 0, "reject")
    review.decide(ADA, MAY, 0, "skip")
    with Review(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "rejected": 1, "skipped": 1, "open": 4}


def test_two_reviewers_do_not_get_the_same_finding(review: Review, clock: Clock) -> None:
    assert number_of(review.next(ADA)) == TURIN
    assert number_of(review.next(GRACE)) == NEWSPAPER
    assert number_of(review.next(ADA)) == TURIN
    clock.now += LEASE_SECONDS / 2
    review.heartbeat(ADA, TURIN)
    clock.now += LEASE_SECONDS / 2 + 1
    assert number_of(review.next(GRACE)) == NEWSPAPER  # Ada still looks
    clock.now += LEASE_SECONDS
    assert number_of(review.next(GRACE)) == TURIN  # Ada has gone


def test_whoever_goes_to_another_finding_gives_the_last_one_back(review: Review) -> None:
    assert number_of(review.next(ADA)) == TURIN
    assert number_of(review.next(GRACE)) == NEWSPAPER
    assert number_of(review.next(ADA, after=NEWSPAPER)) == TEAM
    assert number_of(review.next(BOB)) == TURIN, "Ada has left it, and need not wait for her lease to end"
    review.decide(GRACE, NEWSPAPER, 0, "skip")
    review.view(GRACE, MONTH)
    assert number_of(review.next(ADA, Filter("skipped"))) == NEWSPAPER
    assert review._store.held_by_others("nobody-at-all", 1000.0) == {MONTH, NEWSPAPER, TURIN}


@pytest.mark.parametrize("jump", [-86_400.0, -LEASE_SECONDS - 1, LEASE_SECONDS + 1, 86_400.0])
def test_a_clock_that_is_set_back_or_forward_holds_no_finding_back(review: Review, clock: Clock, jump: float) -> None:
    clock.now = 1e6
    assert number_of(review.next(ADA)) == TURIN
    clock.now += jump
    assert review.next(GRACE).held_by_others == 0
    assert number_of(review.next(GRACE)) == TURIN
    assert number_of(review.next(ADA)) == NEWSPAPER, "leases are given out as before"


def test_the_clock_of_a_review_does_not_follow_the_time_of_day(folder: Path) -> None:
    with Review(AuditFolder.open(folder)) as review:
        before = time.monotonic()
        review.next(ADA)
        (until,) = review._store._connection.execute("SELECT until FROM leases").fetchone()
    assert before <= until - LEASE_SECONDS <= time.monotonic()


def test_pieces_of_work_that_are_stored_together_fail_alone(review: Review) -> None:
    results = review.together(
        [
            lambda: review.decide(ADA, TURIN, 0, "accept"),
            lambda: review.decide(GRACE, TURIN, 0, "reject"),
            lambda: review.decide(GRACE, MAY, 0, "reject"),
        ]
    )
    assert [getattr(result, "status", None) or result.reason for result in results] == [
        "accepted", "already_decided", "rejected",
    ]  # fmt: skip
    assert statuses(review) == {"accepted": 1, "rejected": 1, "open": 5}


def test_pieces_of_work_whose_commit_fails_all_fail(review: Review, folder: Path) -> None:
    works = [lambda: review.decide(ADA, TURIN, 0, "accept"), lambda: (folder / "review.sqlite").rename(folder / "gone")]
    with pytest.raises(StorageError):
        review.together(works)
    (folder / "gone").rename(folder / "review.sqlite")
    assert statuses(review) == {"open": 7}


def test_who_finds_nothing_free_hears_how_many_others_look_at(review: Review) -> None:
    review.next(ADA, Filter(label="O"))
    assert review.next(GRACE, Filter(label="O")) == (None, 1)


def test_a_decision_about_what_was_decided_meanwhile_is_refused_and_says_by_whom(review: Review) -> None:
    review.rename(GRACE, "Grace")
    review.decide(GRACE, TURIN, 0, "reject")
    with pytest.raises(
        ConflictError, match="Grace rejected “Turin” meanwhile, so your decision was not stored"
    ) as refused:
        review.decide(ADA, TURIN, 0, "accept")
    assert refused.value.reason == "already_decided"
    assert statuses(review) == {"rejected": 1, "open": 6}


def test_whoever_has_seen_a_decision_may_change_it(review: Review) -> None:
    review.decide(GRACE, TURIN, 0, "reject")
    view, _ = review.next(ADA, Filter("rejected"))
    assert view is not None
    assert (view.reviewer, view.version) == (GRACE, 1)
    review.decide(ADA, TURIN, 1, "accept")
    assert statuses(review) == {"accepted": 1, "open": 6}
    review.undo(ADA)
    assert statuses(review) == {"rejected": 1, "open": 6}


def test_undo_takes_back_ones_own_last_decision_and_nobody_elses(review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept")
    review.decide(ADA, TEAM, 0, "accept")
    review.decide(GRACE, MONTH, 0, "accept")
    view, undone, kept = review.undo(ADA)
    assert (view.item.number, view.status, undone, kept) == (TEAM, "open", 1, 0)
    assert review.undo(ADA)[0].item.number == TURIN
    with pytest.raises(ConflictError, match="no decision of yours"):
        review.undo(ADA)
    assert statuses(review) == {"accepted": 1, "open": 6}


def test_undo_leaves_what_somebody_else_has_decided_since(review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept")
    review.decide(GRACE, TURIN, 1, "reject")
    view, undone, kept = review.undo(ADA)
    assert (view.status, undone, kept) == ("rejected", 0, 1)


def test_undo_does_not_bring_back_what_its_author_has_taken_back(review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept")
    review.decide(GRACE, TURIN, 1, "reject")
    review.undo(ADA)
    view, undone, kept = review.undo(GRACE)
    assert (view.status, view.decision, undone, kept) == ("open", None, 1, 0)
    assert statuses(review) == {"open": 7}


def test_undo_goes_back_to_the_last_decision_that_nobody_has_taken_back(review: Review) -> None:
    review.decide(BOB, TURIN, 0, "skip")
    review.decide(ADA, TURIN, 1, "accept")
    review.decide(GRACE, TURIN, 2, "reject")
    review.undo(ADA)
    view, _, _ = review.undo(GRACE)
    assert (view.status, view.reviewer) == ("skipped", BOB)
    assert review.undo(BOB)[0].status == "open"


def test_all_occurrences_are_one_step(review: Review) -> None:
    view, _ = review.next(ADA)
    assert view is not None
    assert view.other_occurrences == 2
    outcome = review.decide(ADA, TURIN, 0, "accept", all_occurrences=True)
    assert (outcome.decided, outcome.left_open) == (3, {})
    assert statuses(review) == {"accepted": 3, "open": 4}
    assert review.undo(ADA)[1:] == (3, 0)
    assert statuses(review) == {"open": 7}


def test_occurrences_that_somebody_else_looks_at_stay_open(review: Review) -> None:
    review.next(GRACE, after=MONTH)
    outcome = review.decide(ADA, TURIN, 0, "reject", all_occurrences=True)
    assert (outcome.decided, outcome.left_open) == (2, {"held_by_others": 1})
    assert statuses(review) == {"rejected": 2, "open": 5}


def test_borders_move_everywhere_only_where_they_enclose_the_same_words(review: Review) -> None:
    outcome = review.decide(ADA, TURIN_AGAIN, 0, "accept", start=4, all_occurrences=True)  # "love Turin"
    assert (outcome.decided, outcome.left_open) == (1, {"different_words": 2})


def test_occurrences_that_would_overlap_stay_open(review: Review) -> None:
    review.decide(GRACE, MAY, 0, "accept", start=3, end=6, label="MISC")  # "May in Turin"
    outcome = review.decide(ADA, TURIN, 0, "accept", all_occurrences=True)
    assert (outcome.decided, outcome.left_open) == (2, {"overlap": 1})


def test_an_overlap_is_a_question(review: Review) -> None:
    review.decide(ADA, TURIN_THIRD, 0, "accept")
    with pytest.raises(
        ConflictError, match=r"“May in Turin” \(MISC\) overlaps “Turin” \(LOC\), which is annotated or accepted already"
    ) as refused:
        review.decide(GRACE, MAY, 0, "accept", start=3, end=6, label="MISC")
    assert refused.value.reason == "overlap"
    assert statuses(review) == {"accepted": 1, "open": 6}


def test_several_overlaps_are_one_question(review: Review) -> None:
    review.decide(ADA, TURIN_THIRD, 0, "accept")
    with pytest.raises(ConflictError) as refused:
        review.decide(GRACE, MAY, 0, "accept", start=0, end=6, label="MISC")
    assert refused.value.message == (
        "“Arsenal won in May in Turin” (MISC) overlaps “Arsenal” (LOC), “Turin” (LOC), which are annotated or accepted already."
    )


def test_what_was_decided_in_another_finding_is_a_question_too(review: Review) -> None:
    review.decide(ADA, MAY, 0, "accept", start=0, end=4, label="MISC", on_overlap="replace")  # "Arsenal won in May"
    with pytest.raises(ConflictError, match=r"“Arsenal” \(LOC\) overlaps “Arsenal won in May” \(MISC\), which is"):
        review.decide(GRACE, TEAM, 0, "reject")  # Arsenal would be there again
    review.decide(ADA, TURIN_AGAIN, 0, "reject")
    with pytest.raises(ConflictError, match="“Turin” was rejected before"):
        review.decide(ADA, NEWSPAPER, 0, "accept", start=5, end=6, on_overlap="keep")  # it cannot be both
    review.decide(ADA, TEAM, 0, "accept", start=5, end=6, on_overlap="replace")
    with pytest.raises(
        ConflictError, match=r"What you are about to reject is “Turin” \(ORG\), which is .* accepted already"
    ):
        review.decide(ADA, TURIN_THIRD, 0, "reject")


def entities_of(review: Review, number: int) -> tuple[Entity, ...]:
    return review.view(ADA, number).sentence.entities


def test_an_overlap_can_be_replaced_or_kept(review: Review) -> None:
    review.decide(ADA, TURIN_THIRD, 0, "accept")
    wide = {"start": 3, "end": 6, "label": "MISC"}
    review.decide(ADA, MAY, 0, "accept", **wide, on_overlap="replace")
    assert entities_of(review, MAY) == (Entity(0, 1, "LOC"), Entity(3, 6, "MISC"))
    review.undo(ADA)
    assert entities_of(review, MAY) == (Entity(0, 1, "LOC"), Entity(5, 6, "LOC"))
    review.decide(ADA, MAY, 2, "accept", **wide, on_overlap="keep")
    assert entities_of(review, MAY) == (Entity(0, 1, "LOC"), Entity(3, 6, "MISC"), Entity(5, 6, "LOC"))


def test_undoing_does_not_let_entities_overlap_silently(review: Review) -> None:
    review.decide(ADA, TEAM, 0, "accept", label="O")  # Arsenal is removed
    review.decide(GRACE, MAY, 0, "accept", start=0, end=4, label="MISC")  # "Arsenal won in May"
    with pytest.raises(ConflictError, match="Undoing this would let"):
        review.undo(ADA)
    assert statuses(review) == {"accepted": 2, "open": 5}


def nested_review(folder: Path) -> Review:
    corpus = Corpus((Sentence(("New", "York", "Times", "readers"), (Entity(0, 2, "LOC"), Entity(0, 3, "ORG"))),))
    findings = [finding(corpus, 0, 0, 2, "O", old=Entity(0, 2, "LOC")), finding(corpus, 0, 2, 4, "MISC", 0.5)]
    return Review(AuditFolder.open(write_audit(folder, corpus, findings)))


def test_undoing_brings_back_entities_that_overlapped_before(tmp_path: Path) -> None:
    with nested_review(tmp_path / "nested") as review:
        review.decide(ADA, 0, 0, "accept")  # "New York" inside "New York Times" is no entity
        assert review.undo(ADA).view.sentence.entities == (Entity(0, 2, "LOC"), Entity(0, 3, "ORG"))
        review.decide(ADA, 1, 0, "accept", on_overlap="keep")
        review.decide(ADA, 1, 1, "reject")
        assert len(review.undo(ADA).view.sentence.entities) == 3


def test_nonsense_is_refused(review: Review) -> None:
    for wrong in ({"start": 5, "end": 5}, {"end": 7}, {"start": -1}, {"label": ""}, {"label": "A B"}):
        with pytest.raises(ConflictError) as refused:
            review.decide(ADA, TURIN, 0, "accept", **wrong)
        assert refused.value.reason == "invalid"
    with pytest.raises(ConflictError, match="no finding 99"):
        review.decide(ADA, 99, 0, "accept")


def test_labels_that_reviewers_make_up_come_after_the_known_ones(review: Review) -> None:
    review.decide(ADA, TURIN, 0, "accept", label="CITY")
    assert review.labels() == ["LOC", "ORG", "PER", "CITY"]


def test_what_is_expected_follows_the_probabilities(review: Review) -> None:
    expected = {(t.kind, t.label): t.expected for t in review.counts()}
    assert expected[("missing", "LOC")] == pytest.approx(0.95 + 0.6 + 0.5)


def test_threads_that_decide_at_once_never_overwrite_each_other(folder: Path) -> None:
    won: list[str] = []
    lost: list[str] = []

    def race(opened: Review, name: str) -> None:
        for number in range(7):
            try:
                opened.decide(name, number, 0, "accept", on_overlap="keep")
                won.append(name)
            except ConflictError as refused:
                lost.append(refused.reason)

    with Review(AuditFolder.open(folder)) as one, Review(AuditFolder.open(folder)) as other:
        racers = [
            threading.Thread(target=race, args=(opened, name))
            for opened, name in ((one, ADA), (one, GRACE), (other, GRACE))
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert len(won) == 7
        assert lost == ["already_decided"] * 14
        assert statuses(one) == {"accepted": 7}


def test_fifty_thousand_findings_are_no_burden(tmp_path: Path) -> None:
    corpus = Corpus(small_corpus().sentences * 8_000)
    findings = [
        finding(corpus, number, 5 if number % 4 else 4, 6 if number % 4 else 5, "LOC", 0.5)
        for number in range(len(corpus))
        if number % 4 != 3
    ]
    findings += [finding(corpus, number, 0, 1, "O", 0.4, Entity(0, 1, "PER")) for number in range(3, len(corpus), 4)]
    findings += [finding(corpus, number, 4, 5, "LOC", 0.3) for number in range(3, len(corpus), 4)]
    findings += [finding(corpus, number, 3, 4, "PER", 0.2) for number in range(2, len(corpus), 4)][:2_000]
    findings += [finding(corpus, number, 0, 3, "ORG", 0.2, Entity(0, 2, "LOC")) for number in range(1, len(corpus), 4)]
    assert len(findings) == 50_000
    folder = write_audit(tmp_path / "audit", corpus, findings)
    Review(AuditFolder.open(folder)).close()
    began = time.perf_counter()
    with Review(AuditFolder.open(folder)) as opened:
        assert opened.next(ADA)[0] is not None
        ready = time.perf_counter()
        for _ in range(20):
            view, _ = opened.next(ADA, Filter(kind="boundary"))
            assert view is not None
            opened.decide(ADA, view.item.number, view.version, "accept", on_overlap="keep")
            opened.counts()
        done = time.perf_counter()
        view, _ = opened.next(ADA, Filter(label="PER"))
        assert view is not None
        assert opened.decide(ADA, view.item.number, 0, "reject", all_occurrences=True).decided == 2_000
    assert ready - began < 3  # generous: the machine may be busy
    assert (done - ready) / 20 < 0.5


def steps_of_answers(folder: Path, size: int) -> int:
    """The instructions that SQLite executes for some answers of a review with this many findings."""
    corpus = Corpus(Sentence((f"w{number}", "is", "here")) for number in range(size))
    findings = [finding(corpus, number, 0, 1, ("LOC", "PER")[number % 2], 0.5) for number in range(size)]
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with Review(AuditFolder.open(write_audit(folder / str(size), corpus, findings))) as opened:
        for reviewer in (ADA, GRACE):
            opened.next(reviewer)
        opened._store._connection.set_progress_handler(count, 1)
        for action in ("accept", "reject", "skip"):
            view, _ = opened.next(ADA, Filter(label="PER"), after=size // 2)
            assert view is not None
            opened.decide(ADA, view.item.number, view.version, action)
            opened.counts()
            opened.labels()
        opened.heartbeat(GRACE, 0)
        opened.undo(ADA)
    return steps


def test_an_answer_costs_no_more_the_more_findings_there_are(tmp_path: Path) -> None:
    """Fifty reviewers of tens of thousands of findings would wait for each other otherwise."""
    few, many = (steps_of_answers(tmp_path, size) for size in (100, 3_200))
    assert many < 1.1 * few


OPERATIONS = st.tuples(
    st.sampled_from((ADA, GRACE, BOB)),
    st.integers(0, 6),
    st.sampled_from(("accept", "reject", "skip")),
    st.sampled_from((None, (0, 1), (0, 4), (3, 6), (5, 6))),
    st.sampled_from((None, "LOC", "MISC", "O")),
    st.sampled_from(("ask", "replace", "keep")),
    st.booleans(),
)


@settings(max_examples=settings().max_examples // 4)  # each one writes a database
@given(st.lists(st.one_of(OPERATIONS, st.sampled_from((ADA, GRACE, BOB))), max_size=12))
def test_whoever_decides_and_undoes_whatever_everything_can_be_undone(tmp_path_factory, operations) -> None:
    folder = small_audit(tmp_path_factory.mktemp("audits") / "audit")
    with Review(AuditFolder.open(folder)) as review:
        original = [review.view(ADA, number).sentence for number in range(7)]
        for operation in operations:
            with suppress(ConflictError):
                if isinstance(operation, str):
                    review.undo(operation)
                else:
                    decide(review, *operation)
            assert sum(statuses(review).values()) == 7
        while undo_one(review, (ADA, GRACE, BOB)):
            pass
        assert statuses(review) == {"open": 7}
        assert [review.view(ADA, number).sentence for number in range(7)] == original


def decide(review: Review, reviewer: str, number: int, action, span, label, on_overlap, all_occurrences) -> None:
    start, end = span or (None, None)
    version = review.view(reviewer, number).version
    review.decide(reviewer, number, version, action, start, end, label, on_overlap, all_occurrences)


def undo_one(review: Review, reviewers: tuple[str, ...]) -> bool:
    """Whether one of them could undo a step."""
    for reviewer in reviewers:
        with suppress(ConflictError):
            review.undo(reviewer)
            return True
    return False
