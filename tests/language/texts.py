"""Rule texts that the tests of this folder start from, and how they change and load them."""

from __future__ import annotations

from pathlib import Path

from fuser.language import RewriteRule, load_rules

HEADER = '<ir_version: 10, opset_import: ["" : 17, "pattern": 1, "rewrite": 1, "where": 1, "fuser": 1]>\n'

LEAKY = (
    HEADER
    + """main (float[N, 4] x) => (float[N, 4] found, float[N, 4] put)
{
  found = pattern.Leaky:max <alpha: float = 0.1> (x)
  put = rewrite.Leaky:max <alpha: float = 0.1> (x)
}
# { a comment with a bracket, and a "quote
<domain: "pattern", overload: "max", opset_import: ["" : 17], doc_string: "max(x, a*x)
is # LeakyRelu } for a <= 1">
Leaky <alpha> (x) => (y)
{
  [slope] a = Constant <value_float: float = @alpha> ()   # any constant
  [scaled] s = Mul(a, x)
  y = Max(x, s)
}
<domain: "rewrite", overload: "max", opset_import: ["" : 17]>
Leaky <alpha> (x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x) }
<domain: "where", overload: "max", opset_import: ["" : 17]>
Leaky <alpha> () => (slope_at_most_1)
{
  limit = Constant <value_float: float = @alpha> ()
  one = Constant <value_float = 1.0> ()
  slope_at_most_1 = LessOrEqual(limit, one)
}
"""
)

CONV = (
    HEADER
    + """main (float[2, 4, H, W] x, float[4, 2, 3, 3] w, float[4] b)
  => (float[2, 4, J, K] found, float[2, 4, J, K] put)
{
  found = pattern.Conv <alpha = 0.2, group = 2, pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, b)
  put = rewrite.Conv <alpha = 0.2, group = 2, pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, b)
}
<domain: "fuser", opset_import: ["" : 17, "fuser" : 1]>
TestConv <group, negative_slope, pads, strides> (X, W, B) => (Y)
{
  conv = Conv <group: int = @group, pads: ints = @pads, strides: ints = @strides> (X, W, B)
  Y = fuser.TestLeaky <negative_slope: float = @negative_slope> (conv)
}
<domain: "fuser", opset_import: ["" : 17]>
TestLeaky <negative_slope> (X) => (Y) { Y = LeakyRelu <alpha: float = @negative_slope> (X) }
<domain: "pattern", opset_import: ["" : 17]>
Conv <alpha, group, pads, strides> (x, w, b) => (y)
{
  c = Conv <group: int = @group, pads: ints = @pads,
            strides: ints = @strides> (x, w, b)
  y = LeakyRelu <alpha: float = @alpha> (c)
}
<domain: "rewrite", opset_import: ["" : 17, "fuser" : 1]>
Conv <alpha, group, pads, strides> (x, w, b) => (y)
{
  y = fuser.TestConv <group: int = @group, negative_slope: float = @alpha, pads: ints = @pads,
                      strides: ints = @strides> (x, w, b)
}
"""
)

# BatchNormalization after Gemm becomes a Gemm; `var` is made positive by main.
FOLD = (
    HEADER
    + """main (float[5, 4] a, float[4, 3] w, float[3] c,
      float[3] scale, float[3] bias, float[3] mean, float[3] var0)
  => (float[5, 3] found, float[5, 3] put)
{
  var = Abs(var0)
  found = pattern.Fold <epsilon = 0.01> (a, w, c, scale, bias, mean, var)
  put = rewrite.Fold <epsilon = 0.01> (a, w, c, scale, bias, mean, var)
}
<domain: "pattern", opset_import: ["" : 17]>
Fold <epsilon> (a, w, c, scale, bias, mean, var) => (y)
{
  g = Gemm(a, w, c)
  y = BatchNormalization <epsilon: float = @epsilon> (g, scale, bias, mean, var)
}
<domain: "rewrite", opset_import: ["" : 17]>
Fold <epsilon> (a, w, c, scale, bias, mean, var) => (y)
{
  e = Constant <value_float: float = @epsilon> ()
  ve = Add(var, e)
  d = Sqrt(ve)
  k = Div(scale, d)
  w1 = Mul(w, k)
  c0 = Sub(c, mean)
  c1 = Mul(c0, k)
  c2 = Add(c1, bias)
  y = Gemm(a, w1, c2)
}
"""
)

# The halves of a Split are added: two outputs, in this order.
SPLIT = (
    HEADER
    + """main (float[N, 6] x) => (float[N, 3] p1, float[N, 3] p2, float[N, 3] r1, float[N, 3] r2)
{
  p1, p2 = pattern.Halves <axis = 1> (x)
  r1, r2 = rewrite.Halves <axis = 1> (x)
}
<domain: "pattern", opset_import: ["" : 17]>
Halves <axis> (x) => (low, high)
{
  l, h = Split <axis: int = @axis> (x)
  low = Abs(l)
  high = Abs(h)
}
<domain: "rewrite", opset_import: ["" : 17]>
Halves <axis> (x) => (low, high)
{
  a = Abs(x)
  low, high = Split <axis: int = @axis> (a)
}
"""
)


# The largest is the smallest, negated twice.
LARGEST = (
    HEADER
    + """main (float[4, 4] x) => (float[4, 1] found, float[4, 1] put)
{
  found = pattern.Largest (x)
  put = rewrite.Largest (x)
}
<domain: "pattern", opset_import: ["" : 17]>
Largest (x) => (y)
{
  n = Neg(x)
  m = ReduceMin <axes = [1]> (n)
  y = Neg(m)
}
<domain: "rewrite", opset_import: ["" : 17]>
Largest (x) => (y) { y = ReduceMax <axes = [1]> (x) }
"""
)


def changed(text: str, old: str, new: str, count: int = 1) -> str:
    """The text with the first `count` places of `old` replaced (-1: all); `old` has to be there."""
    assert old in text, old
    return text.replace(old, new, count)


def load(folder: Path, text: str, name: str = "rule.onnxtxt") -> tuple[RewriteRule, ...]:
    """Load the rules of one text."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return load_rules(file)
