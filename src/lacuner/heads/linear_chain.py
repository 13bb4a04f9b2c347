"""A linear-chain conditional random field in log space, batched.

A sentence of ``n`` words has a score for each of ``T`` tags at each word (emissions), and one for each pair of adjacent tags
(transitions). All quantities come from one recursion over different scores: minus infinity forbids a tag, so the sum over the
tag sequences consistent with an annotation is a full sum with some tags forbidden. A word that is not linked takes part in no
transition.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lacuner.encoders.device import exact_dtype
from lacuner.features.order import backwards, rearrange

_MIN_SCORE = -1e30
"""Replaces minus infinity where gradients must flow."""
_MODERATE = 300.0
"""Scores that differ by no more than this can be summed as exponentials: a double can represent twice that exponent."""


class ForwardBackward(NamedTuple):
    """For each word and tag, the log-sums over all sequences ending, and starting, there."""

    forward: Tensor  # (N, n, T), including the word's own emission
    backward: Tensor  # (N, n, T), including the word's own emission
    total: Tensor  # (N,) log partition function
    moderate: bool  # whether score differences are small enough to sum their exponentials in double precision


def forward_backward(
    emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None = None
) -> ForwardBackward:
    """Forward and backward recursions, in a single loop.

    Args:
        emissions: ``(N, n, T)`` scores of the tags at each word, with start and end scores already added at the first and
            last word.
        transitions: ``(T, T)`` scores from tag to tag.
        lengths: ``(N,)`` sentence lengths in words, at least one; padding is ignored.
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
    """Recur over the words in both directions, ``(2, N, n, T)``; ``step`` sums over the tags of the previous word."""
    sums = [both[:, :, 0]]
    for position in range(1, both.shape[2]):
        sums.append(step(sums[-1], None if links is None else links[:, :, position]).add_(both[:, :, position]))
    return torch.stack(sums, dim=2)


def _step_as_product(last: Tensor, factors: Tensor, link: Tensor | None) -> Tensor:
    """Log-sum-exp as a matrix product, which is many times faster for many tags."""
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
    """The greatest finite absolute value."""
    return float(torch.where(scores > float("-inf"), scores.abs(), 0.0).amax())


def _spread(scores: Tensor) -> float:
    """The greatest finite score difference between tags of one word."""
    difference = scores.amax(-1, keepdim=True) - scores
    return float(torch.where(scores > float("-inf"), difference, 0.0).amax())


class _LogPartition(torch.autograd.Function):
    """Log partition function whose gradient is given by the marginals, so that autograd need not unroll the recursion."""

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
    """Log partition function: ``(N,)``; arguments as in :func:`forward_backward`."""
    return _LogPartition.apply(emissions, transitions, lengths, linked)  # type: ignore[no-any-return, no-untyped-call]


@torch.no_grad()
def marginals(emissions: Tensor, transitions: Tensor, lengths: Tensor, linked: Tensor | None = None) -> Tensor:
    """Marginal probability of each tag at each word: ``(N, n, T)``, 0 in the padding."""
    return _marginals(emissions, lengths, forward_backward(emissions, transitions, lengths, linked))


@torch.no_grad()
def viterbi(emissions: Tensor, transitions: Tensor, lengths: Tensor) -> Tensor:
    """Tags of the best sequence of each sentence: ``(N, n)``, 0 in the padding."""
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
    """Expected number of words per sentence with one of the ``counted`` tags: ``(N,)``, differentiable.

    Args:
        emissions: as above.
        transitions: as above.
        lengths: as above.
        counted: ``(T,)``, 1 for the tags to count, else 0.
    """
    emissions, transitions = emissions.clamp(min=_MIN_SCORE), transitions.clamp(min=_MIN_SCORE)
    score = emissions[:, 0]
    count = counted.to(emissions.dtype).expand_as(score)  # expected count so far, given the last word's tag
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
    possible = inside[..., None] & (emissions > float("-inf"))  # forbidden tags have probability 0 instead of NaN
    return torch.where(possible, probabilities, torch.zeros_like(probabilities))


def _transition_counts(
    emissions: Tensor,
    transitions: Tensor,
    lengths: Tensor,
    sums: ForwardBackward,
    linked: Tensor | None,
    weight: Tensor,
) -> Tensor:
    """Expected transition counts, summed over all sentences, each with its ``weight``: ``(T, T)``."""
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
    entering = (backward + peak).clamp_(max=2 * _MODERATE).exp_()  # only exceeded where no transition leads
    return (leaving.T @ entering).mul_(transitions.double().exp()).to(transitions.dtype)
