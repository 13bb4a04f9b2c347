"""A linear-chain conditional random field in log space, over the whole batch at once.

A sentence of ``n`` words has a score for each of ``T`` tags at each word (emissions), and one for each pair of neighboring
tags (transitions).
Everything here is one recursion with other scores: minus infinity forbids a tag, so that the sum over the tag sequences that
an annotation allows is the sum over all of them with some forbidden; a word that is not linked takes part in no transition.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lacuner.encoders.device import exact_dtype
from lacuner.features.order import backwards, rearrange

_MIN_SCORE = -1e30
"""Instead of minus infinity, where gradients must flow."""
_MODERATE = 300.0
"""Scores that differ by no more can be added as exponentials: a double holds those of twice as much."""


class ForwardBackward(NamedTuple):
    """For each word and tag, the log of the summed scores of all sequences up to it, and of all from it on."""

    forward: Tensor  # (N, n, T), the word's own emission included
    backward: Tensor  # (N, n, T), the word's own emission included
    total: Tensor  # (N,) log of the sum over all sequences
    moderate: bool  # whether no scores differ by so much that their exponentials could not be added in double precision


def forward_backward(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None = None
) -> ForwardBackward:
    """The forward and the backward recursion, both in one loop.

    Args:
        emissions: ``(N, n, T)`` scores of the tags at each word; those of first and last words include the scores of starting
            and ending a sentence there.
        transitions: ``(T, T)`` scores of each tag after each other one.
        lengths: ``(N,)`` words of each sentence, at least one; padding is not looked at.
        linked: ``(N, n)`` bool, whether there is a transition from the previous word to this one; by default, always.
    """
    turned = backwards(lengths, emissions.shape[1])
    exact = exact_dtype(emissions.device)
    both = torch.stack([emissions, rearrange(emissions, turned)]).to(exact)  # (2, N, n, T)
    directions = torch.stack([transitions, transitions.T]).to(exact)  # (2, T, T)
    links = None
    if linked is not None and not linked.all():
        to_next = torch.nn.functional.pad(linked[:, 1:], (0, 1), value=True)
        links = torch.stack([linked, to_next.gather(1, turned)])[..., None]  # (2, N, n, 1)
    table, moderate = both, exact == torch.float64 and _greatest(transitions) < _MODERATE
    if moderate:
        factors = directions.exp()
        table = _recur(both, links, lambda last, link: _step_as_product(last, factors, link))
        moderate = _spread(table) < _MODERATE
    if not moderate:
        table = _recur(both, links, lambda last, link: _step_in_logs(last, directions, link))
    ends = (lengths - 1)[:, None, None].expand(-1, 1, emissions.shape[2])
    total = table[0].gather(1, ends).squeeze(1).logsumexp(-1)
    forward, backward, total = (part.to(emissions.dtype) for part in (table[0], rearrange(table[1], turned), total))
    return ForwardBackward(forward, backward, total, moderate)


def _recur(both: Tensor, links: Tensor | None, step: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
    """From word to word, in both directions: ``(2, N, n, T)``; ``step`` sums over the tags of the previous word."""
    sums = [both[:, :, 0]]
    for position in range(1, both.shape[2]):
        sums.append(step(sums[-1], None if links is None else links[:, :, position]).add_(both[:, :, position]))
    return torch.stack(sums, dim=2)


def _step_as_product(last: Tensor, factors: Tensor, link: Tensor | None) -> Tensor:
    """The log of summed exponentials as a product of matrices, which with many tags is many times faster."""
    peak = last.amax(-1, keepdim=True).clamp_(min=_MIN_SCORE)  # (2, N, 1)
    weight = (last - peak).exp_()
    reached = torch.bmm(weight, factors)
    if link is not None:
        reached = torch.where(link, reached, weight.sum(-1, keepdim=True))
    return reached.log_().add_(peak)


def _step_in_logs(last: Tensor, directions: Tensor, link: Tensor | None) -> Tensor:
    reached = (last[..., None] + directions[:, None]).logsumexp(-2)
    return reached if link is None else torch.where(link, reached, last.logsumexp(-1, keepdim=True))


def _greatest(scores: Tensor) -> float:
    """The greatest absolute value; what is forbidden does not count."""
    return float(torch.where(scores > float("-inf"), scores.abs(), 0.0).amax())


def _spread(scores: Tensor) -> float:
    """The greatest difference between the tags of a word; what is forbidden does not count."""
    difference = scores.amax(-1, keepdim=True) - scores
    return float(torch.where(scores > float("-inf"), difference, 0.0).amax())


class _LogPartition(torch.autograd.Function):
    """The gradient of the log of a sum of exponentials is the probability of each: no need to differentiate the recursion."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None) -> Tensor:
        sums = forward_backward(emissions, transitions, lengths, linked)
        ctx.save_for_backward(emissions, transitions, lengths, linked, *sums[:3])
        ctx.moderate = sums.moderate
        return sums.total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        emissions, transitions, lengths, linked, forward, backward, total = ctx.saved_tensors
        sums, for_transitions = ForwardBackward(forward, backward, total, ctx.moderate), None
        if ctx.needs_input_grad[1]:
            for_transitions = _transition_counts(emissions, transitions, lengths, sums, linked, gradient)
        for_emissions = gradient[:, None, None] * _marginals(emissions, lengths, sums)
        return for_emissions, for_transitions, None, None


def log_partition(emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Tensor:
    """The log of the summed exponentials of all sequences' scores: ``(N,)``; arguments as in :func:`forward_backward`."""
    return _LogPartition.apply(emissions, transitions, lengths, linked)  # type: ignore[no-any-return, no-untyped-call]


@torch.no_grad()
def marginals(emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Tensor:
    """The probability of each tag at each word: ``(N, n, T)``, 0 in the padding."""
    return _marginals(emissions, lengths, forward_backward(emissions, transitions, lengths, linked))


@torch.no_grad()
def viterbi(emissions: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """The tags of the best sequence of each sentence : ``(N, n)``, 0 in the padding."""
    score, backpointers = emissions[:, 0], []
    length = emissions.shape[1]
    stay = torch.arange(emissions.shape[2], device=emissions.device)
    for position in range(1, length):
        inside = (position < lengths)[:, None]
        reached, backpointer = (score[..., None] + transitions).max(1)  # (N, T)
        score = torch.where(inside, reached + emissions[:, position], score)
        backpointers.append(torch.where(inside, backpointer, stay))
    tag = score.argmax(-1)
    path = [tag]
    for backpointer in reversed(backpointers):
        tag = backpointer.gather(1, tag[:, None]).squeeze(1)
        path.append(tag)
    tags = torch.stack(path[::-1], dim=1)  # (N, n)
    return tags.masked_fill(torch.arange(length, device=emissions.device) >= lengths[:, None], 0)


def expected_count(emissions: Tensor, transitions: Tensor, lengths: Tensor, counted: Tensor) -> Tensor:
    """How many words of each sentence are expected to have one of the ``counted`` tags: ``(N,)``, with gradient.

    Args:
        emissions: as above.
        transitions: as above.
        lengths: as above.
        counted: ``(T,)``, 1 for the tags to count, else 0.
    """
    emissions, transitions = emissions.clamp(min=_MIN_SCORE), transitions.clamp(min=_MIN_SCORE)
    score = emissions[:, 0]
    count = counted.to(emissions.dtype).expand_as(score)  # expected among the words so far, given the tag of the last
    for position in range(1, emissions.shape[1]):
        inside = (position < lengths)[:, None]
        joint = score[..., None] + transitions  # (N, T, T)
        following = (joint.softmax(1) * count[..., None]).sum(1) + counted
        score = torch.where(inside, joint.logsumexp(1) + emissions[:, position], score)
        count = torch.where(inside, following, count)
    return (score.softmax(-1) * count).sum(-1)


def _marginals(emissions: Tensor, lengths: Tensor, sums: ForwardBackward) -> Tensor:
    inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths[:, None]
    probabilities = (sums.forward + sums.backward - emissions - sums.total[:, None, None]).exp()
    possible = inside[..., None] & (
        emissions > float("-inf")
    )  # what is forbidden has no probability, and no number either
    return torch.where(possible, probabilities, torch.zeros_like(probabilities))


def _transition_counts(
    emissions: Tensor,
    transitions: Tensor,
    lengths: Tensor,
    sums: ForwardBackward,
    linked: Tensor | None,
    weight: Tensor,
) -> Tensor:
    """How often each transition is expected, over all sentences, each of which counts ``weight`` times: ``(T, T)``."""
    inside = torch.arange(1, emissions.shape[1], device=emissions.device) < lengths[:, None]  # (N, n - 1)
    if linked is not None:
        inside = inside & linked[:, 1:]
    row, position = inside.nonzero(as_tuple=True)
    forward, backward = sums.forward[row, position] - sums.total[row, None], sums.backward[row, position + 1]  # (M, T)
    if not sums.moderate:
        joint = (forward[:, :, None] + transitions).add_(backward[:, None, :]).exp_()  # (M, T, T)
        counts: Tensor = torch.tensordot(weight[row], joint, dims=1)
        return counts
    peak = forward.amax(-1, keepdim=True).double()
    leaving = (forward - peak).exp_().mul_(weight[row, None])
    entering = (backward + peak).clamp_(max=2 * _MODERATE).exp_()  # more than that only where no transition leads
    return (leaving.T @ entering).mul_(transitions.double().exp()).to(transitions.dtype)
