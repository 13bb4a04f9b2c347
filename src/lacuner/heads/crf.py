"""A linear-chain conditional random field in log space, over the whole batch at once.

A sentence of ``n`` words has a score for each of ``T`` tags at each word, and one for each step from a tag to the next.
Everything here is one recursion with other scores: minus infinity forbids a tag, so that the sum over the tag sequences that
an annotation allows is the sum over all of them with some forbidden; a word that is cut loose takes no part in any step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lacuner.features.order import backwards, rearrange

_LEAST = -1e30
"""Instead of minus infinity, where gradients must flow."""
_MODERATE = 300.0
"""Scores that differ by no more can be added as exponentials: a double holds those of twice as much."""


class Sums(NamedTuple):
    """For each word and tag, the log of the summed scores of all sequences up to it and from it on, itself in both."""

    before: Tensor  # (N, n, T)
    behind: Tensor  # (N, n, T)
    total: Tensor  # (N,) log of the sum over all sequences
    moderate: bool  # whether no scores differ by so much that their exponentials could not be added


def sum_sequences(unary: Tensor, steps: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Sums:
    """The forward and the backward recursion, both in one loop.

    Args:
        unary: ``(N, n, T)`` scores of the tags at each word; of the first and last words with what it scores to begin and
            to end there.
        steps: ``(T, T)`` scores of stepping from a tag to the next.
        lengths: ``(N,)`` words of each sentence, at least one; what stands behind them is not looked at.
        linked: ``(N, n)`` bool, whether there is a step from the word before to this one; by default, there always is.
    """
    turned = backwards(lengths, unary.shape[1])
    both = torch.stack([unary, rearrange(unary, turned)]).double()  # (2, N, n, T)
    directions = torch.stack([steps, steps.T]).double()  # (2, T, T)
    links = None
    if linked is not None and not linked.all():
        behind = torch.nn.functional.pad(linked[:, 1:], (0, 1), value=True)  # is there a step to the next word?
        links = torch.stack([linked, behind.gather(1, turned)])[..., None]  # (2, N, n, 1)
    table, moderate = both, float(torch.where(steps > float("-inf"), steps.abs(), 0.0).amax()) < _MODERATE
    if moderate:
        factors = directions.exp()
        table = _recur(both, links, lambda last, link: _step_as_product(last, factors, link))
        moderate = _spread(table) < _MODERATE
    if not moderate:
        table = _recur(both, links, lambda last, link: _step_in_logs(last, directions, link))
    ends = (lengths - 1)[:, None, None].expand(-1, 1, unary.shape[2])
    total = table[0].gather(1, ends).squeeze(1).logsumexp(-1)
    before, behind, total = (part.to(unary.dtype) for part in (table[0], rearrange(table[1], turned), total))
    return Sums(before, behind, total, moderate)


def _recur(both: Tensor, links: Tensor | None, step: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
    """From word to word, in both directions: ``(2, N, n, T)``; ``step`` sums over the tags of the word before."""
    sums = [both[:, :, 0]]
    for place in range(1, both.shape[2]):
        sums.append(step(sums[-1], None if links is None else links[:, :, place]).add_(both[:, :, place]))
    return torch.stack(sums, dim=2)


def _step_as_product(last: Tensor, factors: Tensor, link: Tensor | None) -> Tensor:
    """The log of summed exponentials as a product of matrices, which with many tags is many times faster."""
    peak = last.amax(-1, keepdim=True).clamp_(min=_LEAST)  # (2, N, 1)
    weight = (last - peak).exp_()
    reached = torch.bmm(weight, factors)
    if link is not None:
        reached = torch.where(link, reached, weight.sum(-1, keepdim=True))
    return reached.log_().add_(peak)


def _step_in_logs(last: Tensor, directions: Tensor, link: Tensor | None) -> Tensor:
    reached = (last[..., None] + directions[:, None]).logsumexp(-2)
    return reached if link is None else torch.where(link, reached, last.logsumexp(-1, keepdim=True))


def _spread(scores: Tensor) -> float:
    """The greatest difference between the tags of a word; what is forbidden does not count."""
    difference = scores.amax(-1, keepdim=True) - scores
    return float(torch.where(scores > float("-inf"), difference, 0.0).amax())


class _LogPartition(torch.autograd.Function):
    """The gradient of the log of a sum of exponentials is the share of each: no need to go back through the recursion."""

    @staticmethod
    def forward(ctx: Any, unary: Tensor, steps: Tensor, lengths: Tensor, linked: Tensor | None) -> Tensor:
        sums = sum_sequences(unary, steps, lengths, linked)
        ctx.save_for_backward(unary, steps, lengths, linked, *sums[:3])
        ctx.moderate = sums.moderate
        return sums.total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        unary, steps, lengths, linked, before, behind, total = ctx.saved_tensors
        sums, for_steps = Sums(before, behind, total, ctx.moderate), None
        if ctx.needs_input_grad[1]:
            for_steps = _step_counts(unary, steps, lengths, sums, linked, gradient)
        for_unary = gradient[:, None, None] * _shares(unary, lengths, sums)
        return for_unary, for_steps, None, None


def log_partition(unary: Tensor, steps: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Tensor:
    """The log of the summed exponentials of all sequences' scores: ``(N,)``. The arguments are :func:`sum_sequences`'."""
    return _LogPartition.apply(unary, steps, lengths, linked)  # type: ignore[no-any-return, no-untyped-call]


@torch.no_grad()
def marginals(unary: Tensor, steps: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Tensor:
    """The probability of each tag at each word: ``(N, n, T)``, 0 behind the ends."""
    return _shares(unary, lengths, sum_sequences(unary, steps, lengths, linked))


@torch.no_grad()
def best_sequences(unary: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
    """The tags of the best sequence of each sentence (Viterbi): ``(N, n)``, 0 behind the ends."""
    score, arrows = unary[:, 0], []
    places = unary.shape[1]
    stay = torch.arange(unary.shape[2], device=unary.device)
    for place in range(1, places):
        inside = (place < lengths)[:, None]
        reached, arrow = (score[..., None] + steps).max(1)  # (N, T)
        score = torch.where(inside, reached + unary[:, place], score)
        arrows.append(torch.where(inside, arrow, stay))
    tag = score.argmax(-1)
    path = [tag]
    for arrow in reversed(arrows):
        tag = arrow.gather(1, tag[:, None]).squeeze(1)
        path.append(tag)
    tags = torch.stack(path[::-1], dim=1)  # (N, n)
    return tags.masked_fill(torch.arange(places, device=unary.device) >= lengths[:, None], 0)


def expected_count(unary: Tensor, steps: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
    """How many words of each sentence are expected to have one of the ``counted`` tags: ``(N,)``, with gradient.

    Args:
        unary: as above.
        steps: as above.
        lengths: as above.
        counted: ``(T,)``, 1 for the tags to count, else 0.
    """
    unary, steps = unary.clamp(min=_LEAST), steps.clamp(min=_LEAST)
    score = unary[:, 0]
    count = counted.to(unary.dtype).expand_as(score)  # expected among the words so far, given the tag of the last
    for place in range(1, unary.shape[1]):
        inside = (place < lengths)[:, None]
        joint = score[..., None] + steps  # (N, T, T)
        behind = (joint.softmax(1) * count[..., None]).sum(1) + counted
        score = torch.where(inside, joint.logsumexp(1) + unary[:, place], score)
        count = torch.where(inside, behind, count)
    return (score.softmax(-1) * count).sum(-1)


def _shares(unary: Tensor, lengths: Tensor, sums: Sums) -> Tensor:
    inside = torch.arange(unary.shape[1], device=unary.device) < lengths[:, None]
    shares = (sums.before + sums.behind - unary - sums.total[:, None, None]).exp()
    possible = inside[..., None] & (unary > float("-inf"))  # what is forbidden has no share, and no number either
    return torch.where(possible, shares, torch.zeros_like(shares))


def _step_counts(
    unary: Tensor, steps: Tensor, lengths: Tensor, sums: Sums, linked: Tensor | None, weight: Tensor
) -> Tensor:
    """How often each step is expected, over all sentences, each of which counts ``weight`` times: ``(T, T)``."""
    inside = torch.arange(1, unary.shape[1], device=unary.device) < lengths[:, None]  # (N, n - 1)
    if linked is not None:
        inside = inside & linked[:, 1:]
    row, place = inside.nonzero(as_tuple=True)
    before, behind = sums.before[row, place] - sums.total[row, None], sums.behind[row, place + 1]  # (M, T)
    if not sums.moderate:
        joint = (before[:, :, None] + steps).add_(behind[:, None, :]).exp_()  # (M, T, T)
        counts: Tensor = torch.tensordot(weight[row], joint, dims=1)
        return counts
    peak = before.amax(-1, keepdim=True).double()
    come = (before - peak).exp_().mul_(weight[row, None])
    go = (behind + peak).clamp_(max=2 * _MODERATE).exp_()  # more than that only where no step leads
    return (come.T @ go).mul_(steps.double().exp()).to(steps.dtype)
