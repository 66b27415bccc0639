"""Decisions about labels, written into a corrected copy of the data; the data itself is never touched."""

from errata.review.applying.applied import Applied, apply
from errata.review.applying.decisions import Decision, Decisions
from errata.review.applying.planning import Plan, plan

__all__ = ["Applied", "Decision", "Decisions", "Plan", "apply", "plan"]
