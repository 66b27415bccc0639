"""Which method to trust on a run of one's own: from signs that need no truth, or from a few audited labels."""

from errata.advising.advice import Advice, advise
from errata.advising.audits import draw

__all__ = ["Advice", "advise", "draw"]
