"""What reviewers decide about findings: stored at once, never overwritten by somebody else, and undone step by step."""

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from lacuner.audit.folder import CORPUS, AuditFolder
from lacuner.corpus import OUTSIDE, Entity, Sentence
from lacuner.corpus.formats.records import sentence_from_record
from lacuner.review.conflicts import ConflictError, refuse_clash, refuse_new_overlaps, refuse_nonsense
from lacuner.review.items import STATUS_OF, Action, Case, Decision, Status, apply_decisions, clash_of
from lacuner.review.store import open_database, transaction

LEASE = 60.0
"""Seconds for which a finding belongs to the one who looks at it, unless the page renews that."""

LARGEST = 2**63 - 1
"""The largest number that SQLite knows."""

Overlaps = Literal["ask", "replace", "keep"]
"""What to do about entities that overlap the accepted one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which findings are asked for; ``None``: any."""

    status: Status = "open"
    label: str | None = None
    kind: str | None = None


ANYTHING_OPEN = Wanted()


@dataclass(frozen=True, slots=True)
class Shown:
    """A case as a reviewer sees it.

    Attributes:
        case: the finding.
        sentence: with everything that is decided about it so far.
        status: of the finding.
        version: grows with each decision; whoever decides says which one was seen.
        decision: that holds, if there is one.
        reviewer: whose decision it is.
        same: how many other open findings are about the same words in the same way.
    """

    case: Case
    sentence: Sentence
    status: Status
    version: int
    decision: Decision | None
    reviewer: str | None
    same: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision came to.

    Attributes:
        status: that the finding has now.
        decided: how many findings were decided.
        left_out: how many others with the same words were not, by reason: ``overlap``, ``elsewhere`` (somebody else looks
            at them now) or ``different`` (moved in the same way, the borders enclose other words).
    """

    status: Status
    decided: int
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """How many findings have a status, a kind and a label, and how many of them are expected to be right."""

    status: Status
    kind: str
    label: str
    count: int
    expected: float


class Decisions:
    """The findings of an audit with everything that was decided about them.

    Several threads, and several processes, may use the same folder at once.

    Args:
        folder: the audit.
        clock: tells the time in seconds.
    """

    def __init__(self, folder: AuditFolder, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._lock = threading.RLock()
        self._connection = open_database(folder)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "Decisions":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tallies(self) -> list[Count]:
        """How far the review has come."""
        query = "SELECT status, kind, label, count(*), sum(probability) FROM findings GROUP BY 1, 2, 3"
        with self._lock:
            return [Count(*row) for row in self._connection.execute(query)]

    def labels(self) -> list[str]:
        """Labels to choose from: those of the corpus in alphabetical order, then those that reviewers have made up."""
        known = set(self.folder.summary.get("estimated_missing", {}).get("labels", {}))
        with self._lock:
            run = self._connection.execute
            known |= {row[0] for row in run("SELECT label FROM findings UNION SELECT old_label FROM findings")}
            made_up = {row[0] for row in run("SELECT DISTINCT label FROM decisions")} - known
        return [*sorted(known - {OUTSIDE, None}), *sorted(made_up - {OUTSIDE})]

    def rename(self, reviewer: str, name: str) -> None:
        """Call a reviewer by a name."""
        with self.at_once():
            self._connection.execute("INSERT OR REPLACE INTO reviewers VALUES (?, ?)", (reviewer, name))

    def name_of(self, reviewer: str) -> str:
        """What a reviewer is called; empty if nobody has said."""
        with self._lock:
            row = self._connection.execute("SELECT name FROM reviewers WHERE id = ?", (reviewer,)).fetchone()
        return str(row["name"]) if row else ""

    def next(
        self, reviewer: str, wanted: Wanted = ANYTHING_OPEN, after: int = -1, backwards: bool = False
    ) -> tuple[Shown | None, int]:
        """The best finding behind ``after`` at which nobody else is looking, and how many others are looking at.

        Behind the last one comes the first one again. The finding is the reviewer's for a minute.
        """
        condition, values = _condition(wanted)
        now = self._clock()
        taken = "number IN (SELECT finding FROM leases WHERE reviewer <> ? AND until > ?)"
        free = f"SELECT number FROM findings WHERE {condition} AND NOT {taken}"
        ways = ("number < ? ORDER BY number DESC", "number >= ? ORDER BY number DESC")
        ways = ways if backwards else ("number > ? ORDER BY number", "number <= ? ORDER BY number")
        with self.at_once():
            for way in ways:
                row = self._connection.execute(f"{free} AND {way} LIMIT 1", (*values, reviewer, now, after)).fetchone()
                if row is not None:
                    break
            count = f"SELECT count(*) FROM findings WHERE {condition} AND {taken}"
            elsewhere = int(self._connection.execute(count, (*values, reviewer, now)).fetchone()[0])
            if row is None:
                return None, elsewhere
            self._lease(reviewer, row["number"])
            return self._show(row["number"]), elsewhere

    def show(self, reviewer: str, number: int) -> Shown:
        """A certain finding, whoever looks at it."""
        with self.at_once():
            shown = self._show(number)
            self._lease(reviewer, number)
            return shown

    def renew(self, reviewer: str, number: int) -> None:
        """The reviewer is still looking."""
        with self.at_once():
            self._connection.execute(
                "UPDATE leases SET until = ? WHERE finding = ? AND reviewer = ?",
                (self._clock() + LEASE, number, reviewer),
            )

    def decide(
        self,
        reviewer: str,
        number: int,
        version: int,
        action: Action,
        start: int | None = None,
        end: int | None = None,
        label: str | None = None,
        overlaps: Overlaps = "ask",
        everywhere: bool = False,
    ) -> Outcome:
        """Store a decision.

        Args:
            reviewer: who decides.
            number: of the finding.
            version: of the finding when the reviewer saw it. If it is another one now, nothing is stored.
            action: to accept, to reject or to skip.
            start: first word, if it is not that of the finding.
            end: behind the last word, if it is not that of the finding.
            label: if it is not that of the finding; ``O``: no entity.
            overlaps: what to do about entities that overlap the accepted one.
            everywhere: decide the same about all open findings with the same words, too, as one step.
        """
        with self.at_once():
            shown = self._show(number)
            if shown.version != version:
                raise ConflictError("decided", self._who_decided(shown, reviewer))
            case = shown.case
            start, end = case.start if start is None else start, case.end if end is None else end
            decision = Decision.about(case, action, start, end, case.label if label is None else label)
            refuse_nonsense(decision, shown.sentence)
            before = self._sentence(case.sentence, leave_out=number)
            decision = self._settle(before, case, decision, overlaps)
            step = self._connection.execute(
                "INSERT INTO steps (reviewer, time) VALUES (?, ?)", (reviewer, datetime.now(UTC).isoformat())
            ).lastrowid
            assert step is not None
            self._store(step, case, decision)
            others: Counter[str] = Counter()
            if everywhere:
                others = self._decide_same(reviewer, step, case, decision, before)
            decided = 1 + others.pop("decided", 0)
            return Outcome(STATUS_OF[decision.action], decided, dict(others))

    def undo(self, reviewer: str) -> tuple[Shown, int, int]:
        """Take back the reviewer's own last step: the finding to look at, how many were taken back, how many were not.

        What somebody has decided anew since stays as it is. A decision that its author has undone meanwhile does not come
        back.
        """
        with self.at_once():
            run = self._connection.execute
            step = run("SELECT max(id) FROM steps WHERE reviewer = ? AND NOT undone", (reviewer,)).fetchone()[0]
            if step is None:
                raise ConflictError("nothing", "There is no decision of yours left to undo.")
            query = (
                "SELECT d.*, f.sentence, f.decision = d.id AS holds FROM decisions d JOIN findings f"
                " ON f.number = d.finding WHERE d.step = ? ORDER BY d.id"
            )
            rows = run(query, (step,)).fetchall()
            holding = [row for row in rows if row["holds"]]
            touched = {row["sentence"]: self._sentence(row["sentence"]) for row in holding}
            for row in holding:
                decision, status = self._standing(row["previous"])
                run(
                    "UPDATE findings SET decision = ?, status = ?, version = version + 1 WHERE number = ?",
                    (decision, status, row["finding"]),
                )
            for number, before in touched.items():
                refuse_new_overlaps(before, self._sentence(number))
            run("UPDATE steps SET undone = 1 WHERE id = ?", (step,))
            self._lease(reviewer, rows[0]["finding"])
            return self._show(rows[0]["finding"]), len(holding), len(rows) - len(holding)

    def all_decided(self) -> Iterator[tuple[int, list[tuple[Case, Decision]]]]:
        """Numbers of the sentences about which something is decided, in order, with the decisions in theirs."""
        with self._lock:
            rows = self._connection.execute(f"{_DECIDED} ORDER BY f.sentence, d.id").fetchall()
        for number, group in groupby(rows, key=lambda row: int(row["sentence"])):
            yield number, [(_case(row), _decision(row)) for row in group]

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is done inside is stored as a whole or not at all, by one thread at a time."""
        with self._lock:
            if self._connection.in_transaction:  # this is part of something larger
                yield
                return
            with transaction(self._connection):
                yield

    def _lease(self, reviewer: str, number: int) -> None:
        """The finding, and only this one, is the reviewer's."""
        now = self._clock()
        self._connection.execute("DELETE FROM leases WHERE reviewer = ? OR until <= ?", (reviewer, now))
        self._connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (number, reviewer, now + LEASE))

    def _standing(self, decision: int | None) -> tuple[int | None, Status]:
        """A decision, or the last one before it, whose step is not undone, and the status that it gives the finding."""
        query = "SELECT d.action, d.previous, s.undone FROM decisions d JOIN steps s ON s.id = d.step WHERE d.id = ?"
        while decision is not None:
            row = self._connection.execute(query, (decision,)).fetchone()
            if not row["undone"]:
                return decision, STATUS_OF[row["action"]]
            decision = row["previous"]
        return None, "open"

    def _show(self, number: int) -> Shown:
        row = self._connection.execute(
            "SELECT f.*, d.action, d.start AS d_start, d.end AS d_end, d.label AS d_label, d.replaced, s.reviewer"
            " FROM findings f LEFT JOIN decisions d ON d.id = f.decision LEFT JOIN steps s ON s.id = d.step"
            " WHERE f.number = ?",
            (number if abs(number) <= LARGEST else -1,),
        ).fetchone()
        if row is None:
            raise ConflictError("unknown", f"There is no finding {number}.")
        case = _case(row)
        decision = None if row["action"] is None else _decision(row)
        same = self._connection.execute(f"SELECT count(*) FROM findings WHERE {_SAME}", _same_as(case)).fetchone()[0]
        sentence = self._sentence(case.sentence)
        return Shown(case, sentence, row["status"], row["version"], decision, row["reviewer"], int(same))

    def _sentence(self, number: int, leave_out: int = -1) -> Sentence:
        """A sentence after everything that is decided about it, except for one finding."""
        record = self._connection.execute("SELECT record FROM sentences WHERE number = ?", (number,)).fetchone()
        sentence = sentence_from_record(json.loads(record["record"]), self.folder.path / CORPUS, number + 1)
        query = f"{_DECIDED} WHERE f.sentence = ? AND f.number <> ? ORDER BY d.id"
        rows = self._connection.execute(query, (number, leave_out)).fetchall()
        return apply_decisions(sentence, [(_case(row), _decision(row)) for row in rows]) if rows else sentence

    def _settle(self, sentence: Sentence, case: Case, decision: Decision, overlaps: Overlaps) -> Decision:
        """The decision with what it replaces, or a refusal."""
        clash = clash_of(sentence, case, decision)
        if overlaps == "replace":
            return replace(decision, replaced=(*clash.overlapping, *clash.denied))
        if clash and (overlaps == "ask" or clash.only_one):
            refuse_clash(sentence, case, decision, clash)
        return decision

    def _store(self, step: int, case: Case, decision: Decision) -> None:
        replaced = json.dumps([[e.start, e.end, e.label] for e in decision.replaced], ensure_ascii=False)
        values = (
            step,
            case.number,
            decision.action,
            decision.start,
            decision.end,
            decision.label,
            replaced,
            case.number,
        )
        made = self._connection.execute(
            "INSERT INTO decisions (step, finding, action, start, end, label, replaced, previous)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT decision FROM findings WHERE number = ?))",
            values,
        ).lastrowid
        self._connection.execute(
            "UPDATE findings SET decision = ?, status = ?, version = version + 1 WHERE number = ?",
            (made, STATUS_OF[decision.action], case.number),
        )

    def _decide_same(
        self, reviewer: str, step: int, case: Case, decision: Decision, sentence: Sentence
    ) -> Counter[str]:
        """The same decision about the same words elsewhere; what is not clear there is left open."""
        first, last = decision.start - case.start, decision.end - case.end
        words = sentence.text_of(decision.start, decision.end)
        elsewhere = self._connection.execute(
            "SELECT finding FROM leases WHERE reviewer <> ? AND until > ?", (reviewer, self._clock())
        )
        taken = {row["finding"] for row in elsewhere}
        counts: Counter[str] = Counter()
        rows = self._connection.execute(
            f"SELECT * FROM findings WHERE {_SAME} ORDER BY number", _same_as(case)
        ).fetchall()
        for row in rows:
            other = _case(row)
            here = self._sentence(other.sentence)
            moved = Decision(decision.action, other.start + first, other.end + last, decision.label)
            if other.number in taken:
                counts["elsewhere"] += 1
            elif not 0 <= moved.start < moved.end <= len(here) or here.text_of(moved.start, moved.end) != words:
                counts["different"] += 1
            elif clash_of(here, other, moved):
                counts["overlap"] += 1
            else:
                self._store(step, other, moved)
                counts["decided"] += 1
        return counts

    def _who_decided(self, shown: Shown, reviewer: str) -> str:
        words = f"“{shown.case.text}”"
        if shown.decision is None or shown.reviewer is None:
            return f"A decision about {words} was undone meanwhile, so yours was not stored. Look at it again."
        who = "You" if shown.reviewer == reviewer else self.name_of(shown.reviewer) or "Another reviewer"
        where = " (in another window)" if shown.reviewer == reviewer else ""
        return f"{who}{where} {shown.status} {words} meanwhile, so your decision was not stored."


_DECIDED = (
    "SELECT f.*, d.action, d.start AS d_start, d.end AS d_end, d.label AS d_label, d.replaced"
    " FROM findings f JOIN decisions d ON d.id = f.decision"
)
_SAME = (
    "text = ? AND kind = ? AND label = ? AND status = 'open' AND number <> ?"
    " AND old_start - start IS ? AND old_end - end IS ? AND old_label IS ?"
)
"""Other open findings with the same words, annotated in the same way."""


def _same_as(case: Case) -> tuple[object, ...]:
    old = case.annotated
    how = (None, None, None) if old is None else (old.start - case.start, old.end - case.end, old.label)
    return case.text, case.kind, case.label, case.number, *how


def _condition(wanted: Wanted) -> tuple[str, list[str]]:
    conditions, values = ["status = ?"], [str(wanted.status)]
    for name, value in (("label", wanted.label), ("kind", wanted.kind)):
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    return " AND ".join(conditions), values


def _case(row: sqlite3.Row) -> Case:
    old = None if row["old_label"] is None else Entity(row["old_start"], row["old_end"], row["old_label"])
    names = ("number", "sentence", "start", "end", "label", "probability", "kind", "text")
    return Case(**{name: row[name] for name in names}, annotated=old)


def _decision(row: sqlite3.Row) -> Decision:
    replaced = tuple(Entity(*entity) for entity in json.loads(row["replaced"]))
    return Decision(row["action"], row["d_start"], row["d_end"], row["d_label"], replaced)
