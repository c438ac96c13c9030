"""The spatial dims that Conv and ConvTranspose give, by the formulas of their operator definitions.

A dim that is not known is FREE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import AttributeProto

FREE = -1
_SAME = (b"SAME_UPPER", b"SAME_LOWER")
_VALID = b"VALID"


def convolved(
    given: Mapping[str, AttributeProto], x: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[int, ...]:
    """floor((x + pads - dilation * (kernel - 1) - 1) / stride) + 1; with auto_pad SAME ceil(x / stride)."""
    n = len(x)
    auto = given["auto_pad"].s if "auto_pad" in given else b""
    strides, dilations = _ints(given, "strides", [1] * n), _ints(given, "dilations", [1] * n)
    pads = [0] * 2 * n if auto == _VALID else _ints(given, "pads", [0] * 2 * n)
    if _contradicts(given, (strides, n), (dilations, n), (pads, 2 * n)) or 0 in strides:
        return (FREE,) * n
    if auto in _SAME:
        return tuple([-(-d // s) if d >= 0 else FREE for d, s in zip(x, strides, strict=True)])
    sizes = zip(x, pads[:n], pads[n:], dilations, kernel, strides, strict=True)
    return tuple([(d + a + b - e * (k - 1) - 1) // s + 1 if d >= 0 else FREE for d, a, b, e, k, s in sizes])


def transposed(
    given: Mapping[str, AttributeProto], x: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[int, ...]:
    """stride * (x - 1) + output_padding + dilation * (kernel - 1) + 1 - pads; with auto_pad SAME stride * x;
    output_shape where it is given.
    """
    n = len(x)
    auto = given["auto_pad"].s if "auto_pad" in given else b""
    strides, dilations = _ints(given, "strides", [1] * n), _ints(given, "dilations", [1] * n)
    extra, size = _ints(given, "output_padding", [0] * n), _ints(given, "output_shape", [FREE] * n)
    pads = [0] * 2 * n if auto == _VALID else _ints(given, "pads", [0] * 2 * n)
    if _contradicts(given, (strides, n), (dilations, n), (extra, n), (size, n), (pads, 2 * n)):
        return (FREE,) * n
    if "output_shape" in given:
        return tuple(size)
    sizes = zip(x, kernel, strides, dilations, extra, pads[:n], pads[n:], strict=True)
    if auto in _SAME:  # where it would have to crop or to add, onnx's shape inference and onnxruntime differ
        return tuple(
            [s * d if d >= 0 and not e and t * (k - 1) + 1 >= s else FREE for d, k, s, t, e, *_ in sizes]
        )
    return tuple(
        [s * (d - 1) + e + t * (k - 1) + 1 - a - b if d >= 0 else FREE for d, k, s, t, e, a, b in sizes]
    )


def _ints(given: Mapping[str, AttributeProto], name: str, default: list[int]) -> list[int]:
    return list(given[name].ints) if name in given else default


def _contradicts(given: Mapping[str, AttributeProto], *lengths: tuple[list[int], int]) -> bool:
    """An attribute has a length that its operator does not allow, or is the caller's to give."""
    return any(len(v) != n for v, n in lengths) or any(a.ref_attr_name for a in given.values())
