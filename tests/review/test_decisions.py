import json
import multiprocessing
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

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
    write_audit,
)
from lacuner import Corpus, Entity
from lacuner.audit.folder import AuditFolder
from lacuner.errors import DataError
from lacuner.review.conflicts import ConflictError
from lacuner.review.decisions import LEASE, Decisions, Wanted

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
def decisions(folder: Path, clock: Clock):
    with Decisions(AuditFolder.open(folder), clock) as opened:
        yield opened


def statuses(decisions: Decisions) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tally in decisions.tallies():
        counts[tally.status] = counts.get(tally.status, 0) + tally.count
    return counts


def number_of(shown) -> int | None:
    return None if shown[0] is None else shown[0].case.number


def test_the_best_open_finding_comes_first(decisions: Decisions) -> None:
    shown, elsewhere = decisions.next(ADA)
    assert shown is not None
    assert (shown.case.number, shown.case.text, shown.status, shown.version, elsewhere) == (
        TURIN,
        "Turin",
        "open",
        0,
        0,
    )
    decisions.decide(ADA, TURIN, 0, "accept")
    assert number_of(decisions.next(ADA)) == NEWSPAPER


def test_findings_can_be_filtered_by_label_kind_and_status(decisions: Decisions) -> None:
    assert number_of(decisions.next(ADA, Wanted(label="O"))) == MONTH
    assert number_of(decisions.next(ADA, Wanted(kind="label"))) == TEAM
    assert number_of(decisions.next(ADA, Wanted(kind="boundary", label="LOC"))) is None
    decisions.decide(ADA, MAY, 0, "skip")
    assert number_of(decisions.next(ADA, Wanted("skipped"))) == MAY
    assert number_of(decisions.next(ADA, Wanted("accepted"))) is None


def test_one_can_look_on_and_back_without_deciding(decisions: Decisions) -> None:
    assert number_of(decisions.next(ADA, after=TURIN)) == NEWSPAPER
    assert number_of(decisions.next(ADA, after=NEWSPAPER, backwards=True)) == TURIN
    assert number_of(decisions.next(ADA, after=MAY)) == TURIN
    assert number_of(decisions.next(ADA, after=TURIN, backwards=True)) == MAY


def test_what_is_decided_survives_closing(folder: Path, decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept")
    decisions.decide(ADA, TEAM, 0, "reject")
    decisions.decide(ADA, MAY, 0, "skip")
    with Decisions(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "rejected": 1, "skipped": 1, "open": 4}


def test_two_reviewers_do_not_get_the_same_finding(decisions: Decisions, clock: Clock) -> None:
    assert number_of(decisions.next(ADA)) == TURIN
    assert number_of(decisions.next(GRACE)) == NEWSPAPER
    assert number_of(decisions.next(ADA)) == TURIN
    clock.now += LEASE / 2
    decisions.renew(ADA, TURIN)
    clock.now += LEASE / 2 + 1
    assert number_of(decisions.next(GRACE)) == NEWSPAPER  # Ada still looks
    clock.now += LEASE
    assert number_of(decisions.next(GRACE)) == TURIN  # Ada has gone


def test_who_finds_nothing_free_hears_how_many_others_look_at(decisions: Decisions) -> None:
    decisions.next(ADA, Wanted(label="O"))
    assert decisions.next(GRACE, Wanted(label="O")) == (None, 1)


def test_a_decision_about_what_was_decided_meanwhile_is_refused_and_says_by_whom(decisions: Decisions) -> None:
    decisions.rename(GRACE, "Grace")
    decisions.decide(GRACE, TURIN, 0, "reject")
    with pytest.raises(
        ConflictError, match="Grace rejected “Turin” meanwhile, so your decision was not stored"
    ) as refused:
        decisions.decide(ADA, TURIN, 0, "accept")
    assert refused.value.reason == "decided"
    assert statuses(decisions) == {"rejected": 1, "open": 6}


def test_whoever_has_seen_a_decision_may_change_it(decisions: Decisions) -> None:
    decisions.decide(GRACE, TURIN, 0, "reject")
    shown, _ = decisions.next(ADA, Wanted("rejected"))
    assert shown is not None
    assert (shown.reviewer, shown.version) == (GRACE, 1)
    decisions.decide(ADA, TURIN, 1, "accept")
    assert statuses(decisions) == {"accepted": 1, "open": 6}
    decisions.undo(ADA)
    assert statuses(decisions) == {"rejected": 1, "open": 6}


def test_undo_takes_back_ones_own_last_decision_and_nobody_elses(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept")
    decisions.decide(ADA, TEAM, 0, "accept")
    decisions.decide(GRACE, MONTH, 0, "accept")
    shown, undone, kept = decisions.undo(ADA)
    assert (shown.case.number, shown.status, undone, kept) == (TEAM, "open", 1, 0)
    assert decisions.undo(ADA)[0].case.number == TURIN
    with pytest.raises(ConflictError, match="no decision of yours"):
        decisions.undo(ADA)
    assert statuses(decisions) == {"accepted": 1, "open": 6}


def test_undo_leaves_what_somebody_else_has_decided_since(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept")
    decisions.decide(GRACE, TURIN, 1, "reject")
    shown, undone, kept = decisions.undo(ADA)
    assert (shown.status, undone, kept) == ("rejected", 0, 1)


def test_undo_does_not_bring_back_what_its_author_has_taken_back(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept")
    decisions.decide(GRACE, TURIN, 1, "reject")
    decisions.undo(ADA)
    shown, undone, kept = decisions.undo(GRACE)
    assert (shown.status, shown.decision, undone, kept) == ("open", None, 1, 0)
    assert statuses(decisions) == {"open": 7}


def test_undo_goes_back_to_the_last_decision_that_nobody_has_taken_back(decisions: Decisions) -> None:
    decisions.decide(BOB, TURIN, 0, "skip")
    decisions.decide(ADA, TURIN, 1, "accept")
    decisions.decide(GRACE, TURIN, 2, "reject")
    decisions.undo(ADA)
    shown, _, _ = decisions.undo(GRACE)
    assert (shown.status, shown.reviewer) == ("skipped", BOB)
    assert decisions.undo(BOB)[0].status == "open"


def test_all_occurrences_are_one_step(decisions: Decisions) -> None:
    shown, _ = decisions.next(ADA)
    assert shown is not None
    assert shown.same == 2
    outcome = decisions.decide(ADA, TURIN, 0, "accept", everywhere=True)
    assert (outcome.decided, outcome.left_out) == (3, {})
    assert statuses(decisions) == {"accepted": 3, "open": 4}
    assert decisions.undo(ADA)[1:] == (3, 0)
    assert statuses(decisions) == {"open": 7}


def test_occurrences_that_somebody_else_looks_at_stay_open(decisions: Decisions) -> None:
    decisions.next(GRACE, after=MONTH)
    outcome = decisions.decide(ADA, TURIN, 0, "reject", everywhere=True)
    assert (outcome.decided, outcome.left_out) == (2, {"elsewhere": 1})
    assert statuses(decisions) == {"rejected": 2, "open": 5}


def test_borders_move_everywhere_only_where_they_enclose_the_same_words(decisions: Decisions) -> None:
    outcome = decisions.decide(ADA, TURIN_AGAIN, 0, "accept", start=4, everywhere=True)  # "love Turin"
    assert (outcome.decided, outcome.left_out) == (1, {"different": 2})


def test_occurrences_that_would_overlap_stay_open(decisions: Decisions) -> None:
    decisions.decide(GRACE, MAY, 0, "accept", start=3, end=6, label="MISC")  # "May in Turin"
    outcome = decisions.decide(ADA, TURIN, 0, "accept", everywhere=True)
    assert (outcome.decided, outcome.left_out) == (2, {"overlap": 1})


def test_an_overlap_is_a_question(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN_THIRD, 0, "accept")
    with pytest.raises(
        ConflictError, match=r"“May in Turin” \(MISC\) overlaps “Turin” \(LOC\), which is annotated or accepted already"
    ) as refused:
        decisions.decide(GRACE, MAY, 0, "accept", start=3, end=6, label="MISC")
    assert refused.value.reason == "overlap"
    assert statuses(decisions) == {"accepted": 1, "open": 6}


def test_what_was_decided_in_another_finding_is_a_question_too(decisions: Decisions) -> None:
    decisions.decide(ADA, MAY, 0, "accept", start=0, end=4, label="MISC", overlaps="replace")  # "Arsenal won in May"
    with pytest.raises(ConflictError, match=r"“Arsenal” \(LOC\) overlaps “Arsenal won in May” \(MISC\), which is"):
        decisions.decide(GRACE, TEAM, 0, "reject")  # Arsenal would be there again
    decisions.decide(ADA, TURIN_AGAIN, 0, "reject")
    with pytest.raises(ConflictError, match="“Turin” was rejected before"):
        decisions.decide(ADA, NEWSPAPER, 0, "accept", start=5, end=6, overlaps="keep")  # it cannot be both
    decisions.decide(ADA, TEAM, 0, "accept", start=5, end=6, overlaps="replace")
    with pytest.raises(
        ConflictError, match=r"What you are about to reject is “Turin” \(ORG\), which is .* accepted already"
    ):
        decisions.decide(ADA, TURIN_THIRD, 0, "reject")


def entities_of(decisions: Decisions, number: int) -> tuple[Entity, ...]:
    return decisions.show(ADA, number).sentence.entities


def test_an_overlap_can_be_replaced_or_kept(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN_THIRD, 0, "accept")
    wide = {"start": 3, "end": 6, "label": "MISC"}
    decisions.decide(ADA, MAY, 0, "accept", **wide, overlaps="replace")
    assert entities_of(decisions, MAY) == (Entity(0, 1, "LOC"), Entity(3, 6, "MISC"))
    decisions.undo(ADA)
    assert entities_of(decisions, MAY) == (Entity(0, 1, "LOC"), Entity(5, 6, "LOC"))
    decisions.decide(ADA, MAY, 2, "accept", **wide, overlaps="keep")
    assert entities_of(decisions, MAY) == (Entity(0, 1, "LOC"), Entity(3, 6, "MISC"), Entity(5, 6, "LOC"))


def test_undoing_does_not_let_entities_overlap_silently(decisions: Decisions) -> None:
    decisions.decide(ADA, TEAM, 0, "accept", label="O")  # Arsenal is removed
    decisions.decide(GRACE, MAY, 0, "accept", start=0, end=4, label="MISC")  # "Arsenal won in May"
    with pytest.raises(ConflictError, match="Undoing this would let"):
        decisions.undo(ADA)
    assert statuses(decisions) == {"accepted": 2, "open": 5}


def test_nonsense_is_refused(decisions: Decisions) -> None:
    for wrong in ({"start": 5, "end": 5}, {"end": 7}, {"start": -1}, {"label": ""}, {"label": "A B"}):
        with pytest.raises(ConflictError) as refused:
            decisions.decide(ADA, TURIN, 0, "accept", **wrong)
        assert refused.value.reason == "wrong"
    with pytest.raises(ConflictError, match="no finding 99"):
        decisions.decide(ADA, 99, 0, "accept")


def test_labels_that_reviewers_make_up_come_behind_the_known_ones(decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept", label="CITY")
    assert decisions.labels() == ["LOC", "ORG", "PER", "CITY"]


def test_what_is_expected_follows_the_probabilities(decisions: Decisions) -> None:
    expected = {(t.kind, t.label): t.expected for t in decisions.tallies()}
    assert expected[("missing", "LOC")] == pytest.approx(0.95 + 0.6 + 0.5)


def test_threads_that_decide_at_once_never_overwrite_each_other(folder: Path) -> None:
    won: list[str] = []
    lost: list[str] = []

    def race(opened: Decisions, name: str) -> None:
        for number in range(7):
            try:
                opened.decide(name, number, 0, "accept", overlaps="keep")
                won.append(name)
            except ConflictError as refused:
                lost.append(refused.reason)

    with Decisions(AuditFolder.open(folder)) as one, Decisions(AuditFolder.open(folder)) as other:
        racers = [
            threading.Thread(target=race, args=(opened, name))
            for opened, name in ((one, ADA), (one, GRACE), (other, GRACE))
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert len(won) == 7
        assert lost == ["decided"] * 14
        assert statuses(one) == {"accepted": 7}


def _decide_and_die(folder: Path, ready) -> None:
    import os
    import signal

    opened = Decisions(AuditFolder.open(folder))
    opened.decide(ADA, TURIN, 0, "accept")
    opened.decide(ADA, TEAM, 0, "reject")
    opened._connection.execute("BEGIN IMMEDIATE")  # the next one is half stored
    opened._connection.execute("UPDATE findings SET status = 'accepted' WHERE number = 3")
    ready.send(True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_kill_loses_nothing_and_leaves_nothing_half_done(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_decide_and_die, args=(folder, there))
    process.start()
    assert here.recv()
    process.join()
    assert process.exitcode == -9
    with Decisions(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "rejected": 1, "open": 5}


def test_an_audit_that_changed_under_decisions_is_refused(folder: Path) -> None:
    with Decisions(AuditFolder.open(folder)) as opened:
        opened.decide(ADA, TURIN, 0, "accept")
    kept = (folder / "findings.jsonl").read_text(encoding="utf-8")
    (folder / "findings.jsonl").write_text(kept.replace("Arsenal", "Chelsea"), encoding="utf-8")
    with pytest.raises(DataError, match=r"findings.jsonl changed after 1 findings .* put the old files back, or move"):
        Decisions(AuditFolder.open(folder))
    (folder / "findings.jsonl").write_text(kept, encoding="utf-8")
    with Decisions(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"accepted": 1, "open": 6}


def test_a_new_audit_takes_the_place_of_one_that_nobody_has_reviewed(folder: Path) -> None:
    Decisions(AuditFolder.open(folder)).close()
    corpus = small_corpus()
    write_audit(folder, corpus, [finding(corpus, 3, 4, 5, "LOC")])
    with Decisions(AuditFolder.open(folder)) as again:
        assert statuses(again) == {"open": 1}


def test_files_that_cannot_be_used_are_named_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"this is no audit \(summary.json is not there\) — give the folder"):
        AuditFolder.open(tmp_path)
    (folder / "review.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataError, match=r"review.sqlite: the decisions cannot be opened"):
        Decisions(AuditFolder.open(folder))
    (folder / "review.sqlite").unlink()
    with sqlite3.connect(folder / "review.sqlite") as stranger:
        stranger.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(DataError, match="another program's file"):
        Decisions(AuditFolder.open(folder))
    (folder / "review.sqlite").unlink()
    Decisions(AuditFolder.open(folder)).close()
    with sqlite3.connect(folder / "review.sqlite") as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="format version 99"):
        Decisions(AuditFolder.open(folder))


def test_findings_that_do_not_belong_to_the_corpus_are_refused(folder: Path) -> None:
    corpus = small_corpus()
    broken = finding(corpus, 0, 4, 5, "LOC")
    for wrong, message in (
        ({"end": 60}, "points behind the words of line 1 of corpus.jsonl"),
        ({"sentence": 60}, "points behind the words of line 61 of corpus.jsonl"),
        ({"start": 5}, "offsets or a probability"),
        ({"kind": "odd"}, r"findings.jsonl:1: this is not a finding .* there is no kind 'odd'"),
        ({"kind": "label"}, "kind label needs annotated"),
    ):
        shutil.rmtree(folder)
        write_audit(folder, corpus, [broken | wrong])
        with pytest.raises(DataError, match=message):
            Decisions(AuditFolder.open(folder))


def test_fifty_thousand_findings_are_no_burden(tmp_path: Path) -> None:
    import time

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
    Decisions(AuditFolder.open(folder)).close()
    began = time.perf_counter()
    with Decisions(AuditFolder.open(folder)) as opened:
        assert opened.next(ADA)[0] is not None
        ready = time.perf_counter()
        for _ in range(20):
            shown, _ = opened.next(ADA, Wanted(kind="boundary"))
            assert shown is not None
            opened.decide(ADA, shown.case.number, shown.version, "accept", overlaps="keep")
            opened.tallies()
        done = time.perf_counter()
        shown, _ = opened.next(ADA, Wanted(label="PER"))
        assert shown is not None
        assert opened.decide(ADA, shown.case.number, 0, "reject", everywhere=True).decided == 2_000
    assert ready - began < 3  # generous: the machine may be busy
    assert (done - ready) / 20 < 0.5


def test_records_of_the_database_are_json_that_anybody_can_read(folder: Path, decisions: Decisions) -> None:
    decisions.decide(ADA, TURIN, 0, "accept")
    with sqlite3.connect(folder / "review.sqlite") as reader:
        (record,) = reader.execute("SELECT record FROM sentences WHERE number = 0").fetchone()
    assert json.loads(record)["tokens"][4] == "Turin"
