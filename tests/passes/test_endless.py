"""A user's rule that feeds itself is refused, with the rule named, instead of running for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuser
from tests.builders import conv_bn_leaky

AGAIN = """<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1]>
main (float[2,3] x) => (float[2,3] again_p, float[2,3] again_r)
{
  again_p = pattern.LeakyRelu:again <alpha = 0.2> (x)
  again_r = rewrite.LeakyRelu:again <alpha = 0.2> (x)
}
<domain: "pattern", overload: "again", opset_import: ["" : 17]>
LeakyRelu <alpha> (x) => (y) { [act] y = LeakyRelu <alpha: float = @alpha> (x) }
<domain: "rewrite", overload: "again", opset_import: ["" : 17]>
LeakyRelu <alpha> (x) => (y) { [act] y = LeakyRelu <alpha: float = @alpha> (x) }
"""


def test_a_rule_that_rewrites_what_it_makes_is_refused(tmp_path: Path) -> None:
    """The sentence names file, line and rule."""
    file = tmp_path / "again.onnxtxt"
    file.write_text(AGAIN)
    with pytest.raises(fuser.PatternError, match=r"again\.onnxtxt:8: rule LeakyRelu:again goes on rewriting"):
        fuser.fuse(conv_bn_leaky(), patterns=[tmp_path], parity=False)
