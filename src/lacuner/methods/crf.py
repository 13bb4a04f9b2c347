"""``crf``: tags are predicted jointly by a CRF, and unlabeled words are ``O``.

Huang, Xu, Yu: *Bidirectional LSTM-CRF Models for Sequence Tagging*, arXiv 2015.
"""

from lacuner.heads import CrfConfig
from lacuner.methods.method import TokenMethod
from lacuner.methods.token import Likelihood, Outside

CRF = TokenMethod(
    name="crf",
    paper="Huang et al. 2015, Bidirectional LSTM-CRF Models for Sequence Tagging (arXiv)",
    summary="A CRF tagger; every untagged word is O.",
    head=CrfConfig(),
    unlabeled=Outside(),
    loss=Likelihood(),
)
METHODS = (CRF,)
