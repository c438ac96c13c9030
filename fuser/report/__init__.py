"""The report: everything that was found, as plain data; renderers turn it into text, JSON and more."""

from fuser.report.model import Declined, Fusion, ModelFacts, Report, Rewrite, RuleCount

__all__ = ["Declined", "Fusion", "ModelFacts", "Report", "Rewrite", "RuleCount"]
