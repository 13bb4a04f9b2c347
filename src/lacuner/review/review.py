"""A review: assigns items to reviewers, stores decisions at once, never overwrites others' decisions, and undoes steps."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from lacuner.audit.folder import AuditFolder
from lacuner.corpus import Sentence
from lacuner.review.conflicts import ConflictError, check_decision, check_undo, find_conflict, overlap_error
from lacuner.review.decisions import STATUS_AFTER, Action, Decision, apply_decisions
from lacuner.review.items import ALL_OPEN, MAX_NUMBER, Count, Filter, ReviewItem, Status
from lacuner.review.store import ReviewStore, StorageError

OnOverlap = Literal["ask", "replace", "keep"]
"""What to do about entities that overlap the accepted one."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item as shown to a reviewer.

    Attributes:
        item: the finding.
        sentence: with all decisions about it so far.
        status: of the item.
        version: increases with each change of the decision; a decision must name the version that it is based on.
        decision: the one in force, if any.
        reviewer: who made it.
        other_occurrences: number of other open items with the same words and annotation.
    """

    item: ReviewItem
    sentence: Sentence
    status: Status
    version: int
    decision: Decision | None
    reviewer: str | None
    other_occurrences: int


class Next(NamedTuple):
    """The next free item, if any, and how many matching items are held by other reviewers."""

    view: ItemView | None
    held_by_others: int


class Undone(NamedTuple):
    """The first item of the undone step, and how many decisions were undone or kept."""

    view: ItemView
    undone: int
    kept: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a decision.

    Attributes:
        status: of the item now.
        decided: number of items decided.
        left_open: number of other occurrences left open, by reason: ``overlap``, ``held_by_others`` or ``different_words``
            (the changed span has other words there).
    """

    status: Status
    decided: int
    left_open: dict[str, int] = field(default_factory=dict)


class Review:
    """The items of an audit and the decisions about them.

    Several threads and processes may review the same folder concurrently.

    Args:
        folder: the audit.
        clock: time in seconds, shared by all processes. The default is monotonic.
        read_only: do not write to the folder; decisions are lost on exit.
    """

    def __init__(
        self, folder: AuditFolder, clock: Callable[[], float] = time.monotonic, read_only: bool = False
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._store = ReviewStore(folder, read_only)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> "Review":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Transaction: everything in this context is stored, or nothing; one thread at a time."""
        return self._store.transaction()

    def together(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """Store several pieces of work in one transaction, to wait for the disk only once.

        Returns:
            The result of each, or the exception that it raised; then nothing of it is stored.

        Raises:
            StorageError: nothing of any of them is stored.
        """
        results: list[Any] = []
        with self.transaction():
            for work in works:
                try:
                    with self._store.part():
                        results.append(work())
                except StorageError:
                    raise
                except Exception as error:
                    results.append(error)
        return results

    def counts(self) -> list[Count]:
        """Number of items by status, kind and label."""
        with self._store.reading():
            return self._store.counts()

    def labels(self) -> list[str]:
        """Labels to choose from: those of the corpus in alphabetical order, then those added by reviewers."""
        known = set(self.folder.summary.get("estimated_missing", {}).get("labels", {}))
        with self._store.reading():
            known |= self._store.suggested_labels()
            return [*sorted(known), *sorted(self._store.chosen_labels() - known)]

    def rename(self, reviewer: str, name: str) -> None:
        """Set the name that other reviewers see."""
        with self.transaction():
            self._store.set_name(reviewer, name)

    def name_of(self, reviewer: str) -> str:
        """The name of a reviewer; empty if none was set."""
        with self._store.reading():
            return self._store.name_of(reviewer)

    def next(self, reviewer: str, filter: Filter = ALL_OPEN, after: int = -1, backwards: bool = False) -> Next:
        """The first item after ``after`` (or the last one before it) that no other reviewer holds, most probable first.

        The order is cyclic. The reviewer holds the item from now on.
        """
        now = self._clock()
        with self.transaction():
            number = self._store.next_free(reviewer, now, filter, after, backwards)
            held = self._store.count_held_by_others(reviewer, now, filter)
            return Next(None if number is None else self.view(reviewer, number), held)

    def view(self, reviewer: str, number: int) -> ItemView:
        """A specific item, even if others hold it. The reviewer holds it from now on."""
        with self.transaction():
            view = self._view(number)
            self._store.lease(reviewer, number, self._clock())
            return view

    def heartbeat(self, reviewer: str, number: int) -> None:
        """Extend the reviewer's hold on the item."""
        with self.transaction():
            self._store.extend_lease(reviewer, number, self._clock())

    def decide(
        self,
        reviewer: str,
        number: int,
        version: int,
        action: Action,
        start: int | None = None,
        end: int | None = None,
        label: str | None = None,
        on_overlap: OnOverlap = "ask",
        all_occurrences: bool = False,
    ) -> Outcome:
        """Store a decision.

        Args:
            reviewer: who decides.
            number: of the item.
            version: of the item as seen by the reviewer. If it has changed since, nothing is stored.
            action: accept, reject or skip.
            start: first word, if it differs from the item's.
            end: end of the span (exclusive), if it differs from the item's.
            label: if it differs from the item's; ``O``: no entity.
            on_overlap: what to do about entities that overlap the accepted one.
            all_occurrences: apply the decision to all open items with the same words, as one step.

        Raises:
            ConflictError: nothing was stored; it says why.
        """
        with self.transaction():
            view = self._view(number)
            if view.version != version:
                raise ConflictError("already_decided", self._who_decided(view, reviewer))
            item = view.item
            start, end = item.start if start is None else start, item.end if end is None else end
            decision = Decision.about(item, action, start, end, item.label if label is None else label)
            check_decision(decision, view.sentence)
            sentence = self._sentence(item.sentence, without=number)
            decision = _resolve(sentence, item, decision, on_overlap)
            step = self._store.add_step(reviewer)
            self._store.add_decision(step, item, decision)
            others: Counter[str] = Counter()
            if all_occurrences:
                others = self._decide_occurrences(reviewer, step, item, decision, sentence)
            decided = 1 + others.pop("decided", 0)
            return Outcome(STATUS_AFTER[decision.action], decided, dict(others))

    def undo(self, reviewer: str) -> Undone:
        """Undo the reviewer's own last step.

        Items decided again by someone since keep that decision. A decision that its author has undone meanwhile is not
        restored.

        Raises:
            ConflictError: there is no step to undo, or undoing it would make entities overlap.
        """
        with self.transaction():
            step = self._store.last_step(reviewer)
            if step is None:
                raise ConflictError("nothing_to_undo", "There is no decision of yours left to undo.")
            decisions = self._store.decisions_of(step)
            in_force = [decision for decision in decisions if decision.in_force]
            before = {decision.sentence: self._sentence(decision.sentence) for decision in in_force}
            for decision in in_force:
                self._store.restore(decision.number, decision.previous)
            for index, sentence in before.items():
                check_undo(self._sentence(index, before=decisions[0].id), sentence, self._sentence(index))
            self._store.mark_undone(step)
            view = self.view(reviewer, decisions[0].number)
            return Undone(view, len(in_force), len(decisions) - len(in_force))

    def decisions_by_sentence(self) -> Iterator[tuple[int, list[tuple[ReviewItem, Decision]]]]:
        """Yield the index of each sentence with decisions, in order, with its decisions in order."""
        with self._store.reading():
            return iter(list(self._store.decisions_by_sentence()))

    def _view(self, number: int) -> ItemView:
        stored = self._store.item(number)
        if stored is None:
            raise ConflictError("unknown_item", f"There is no finding {number}.")
        item = stored.item
        sentence = self._sentence(item.sentence)
        others = self._store.count_occurrences(item)
        return ItemView(item, sentence, stored.status, stored.version, stored.decision, stored.reviewer, others)

    def _sentence(self, index: int, without: int = -1, before: int = MAX_NUMBER) -> Sentence:
        """A sentence with all decisions applied, except that about one item, or those since a given one."""
        decided = self._store.decisions_in(index, without, before)
        sentence = self._store.sentence(index)
        return apply_decisions(sentence, decided) if decided else sentence

    def _decide_occurrences(
        self, reviewer: str, step: int, item: ReviewItem, decision: Decision, sentence: Sentence
    ) -> Counter[str]:
        """Apply the same decision to other occurrences; unclear ones are left open."""
        start_shift, end_shift = decision.start - item.start, decision.end - item.end
        words = sentence.text_of(decision.start, decision.end)
        held = self._store.held_by_others(reviewer, self._clock())
        counts: Counter[str] = Counter()
        for other in self._store.occurrences(item):
            here = self._sentence(other.sentence)
            moved = Decision(decision.action, other.start + start_shift, other.end + end_shift, decision.label)
            if other.number in held:
                counts["held_by_others"] += 1
            elif not 0 <= moved.start < moved.end <= len(here) or here.text_of(moved.start, moved.end) != words:
                counts["different_words"] += 1
            elif find_conflict(here, other, moved):
                counts["overlap"] += 1
            else:
                self._store.add_decision(step, other, moved)
                counts["decided"] += 1
        return counts

    def _who_decided(self, view: ItemView, reviewer: str) -> str:
        words = f"“{view.item.text}”"
        if view.decision is None or view.reviewer is None:
            return f"A decision about {words} was undone meanwhile, so yours was not stored. Look at it again."
        who = "You" if view.reviewer == reviewer else self.name_of(view.reviewer) or "Another reviewer"
        where = " (in another window)" if view.reviewer == reviewer else ""
        return f"{who}{where} {view.status} {words} meanwhile, so your decision was not stored."


def _resolve(sentence: Sentence, item: ReviewItem, decision: Decision, on_overlap: OnOverlap) -> Decision:
    """The decision with the entities that it replaces; raises an error if the reviewer must be asked about them."""
    conflict = find_conflict(sentence, item, decision)
    if on_overlap == "replace":
        return replace(decision, replaced=(*conflict.overlapping, *conflict.contradicted))
    if conflict and (on_overlap == "ask" or not conflict.can_keep_both):
        raise overlap_error(sentence, item, decision, conflict)
    return decision
