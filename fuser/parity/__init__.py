"""The parity check: does model B compute what model A computes, judged with optimizations off?"""

from fuser.parity.check import check_parity
from fuser.parity.result import Draw, OutputDifference, Parity, Site, SiteDifference, Verdict

__all__ = ["Draw", "OutputDifference", "Parity", "Site", "SiteDifference", "Verdict", "check_parity"]
