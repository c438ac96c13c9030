"""Conv and ConvTranspose with kernel_shape, strides, pads, dilations and group written out, no auto_pad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto

Shape = tuple[int | None, ...]


def write_out(node: NodeProto, shapes: Mapping[str, Shape], *, transposed: bool) -> bool:
    """Write a Conv's or ConvTranspose's attributes out; false where its padding can't be.

    ``shapes`` gives those of weights and, where they are known, of the other values; None stands for an
    open size. What can't be resolved keeps its auto_pad (or output_shape), everything else is written
    anyway. A node whose weight's shape is unknown and that has no kernel_shape stays as it is.
    """
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = _kernel(node, values, shapes)
    if kernel is None:
        return False
    rank = len(kernel)
    attributes: dict[str, object] = {
        "kernel_shape": kernel,
        "strides": list(values.get("strides", [1] * rank)),
        "dilations": list(values.get("dilations", [1] * rank)),
        "group": values.get("group", 1),
    }
    if transposed:
        attributes["output_padding"] = list(values.get("output_padding", [0] * rank))
    pads = _pads(values, attributes, shapes.get(node.input[0], ())[2:], transposed=transposed)
    if pads is not None:
        attributes["pads"] = pads
        values.pop("auto_pad", None)
        values.pop("output_shape", None)
    merged = values | attributes
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(name, merged[name]) for name in sorted(merged))
    return pads is not None


def needs_sizes(node: NodeProto, weights: Mapping[str, Shape]) -> bool:
    """Whether writing this node out takes more than its weight's shape."""
    values = {a.name: a for a in node.attribute}
    if len(node.input) > 1 and node.input[1] not in weights:
        return "kernel_shape" not in values
    return "output_shape" in values or ("auto_pad" in values and values["auto_pad"].s.startswith(b"SAME"))


def _kernel(node: NodeProto, values: Mapping[str, object], shapes: Mapping[str, Shape]) -> list[int] | None:
    written = values.get("kernel_shape")
    if written:
        return list(written)  # type: ignore[call-overload, no-any-return]
    weight = shapes.get(node.input[1], ()) if len(node.input) > 1 else ()
    spatial = [size for size in weight[2:] if size is not None]
    return spatial if len(spatial) == len(weight) - 2 and spatial else None


def _pads(
    values: Mapping[str, object], written: Mapping[str, object], sizes: Shape, *, transposed: bool
) -> list[int] | None:
    """Begins of all axes, then ends; None where they depend on a size that is open, or would be negative.

    The formulas are those of ONNX's Conv and ConvTranspose; ``sizes`` are the input's spatial ones.
    Of negative padding ONNX says nothing, and runtimes differ: some crop, some do not.
    """
    kernel, strides, dilations = (_ints(written[key]) for key in ("kernel_shape", "strides", "dilations"))
    mode = values.get("auto_pad", b"NOTSET")
    wanted = _ints(values.get("output_shape", ())) if transposed else []
    if not wanted and mode in {b"NOTSET", b""}:
        return _ints(values.get("pads", [0] * 2 * len(kernel)))
    if not wanted and mode == b"VALID":
        return [0] * 2 * len(kernel)
    begins, ends = [], []
    for axis, (extent, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        reach = (extent - 1) * dilation + 1
        size = sizes[axis] if axis < len(sizes) else None
        total: int | None
        if transposed:
            reach += _ints(written["output_padding"])[axis]
            total = _cropped(reach, stride, size, wanted[axis - len(kernel)] if wanted else None)
        else:
            total = _padded(reach, stride, size)
        if total is None:
            return None
        small, large = total // 2, total - total // 2
        begins.append(small if mode == b"SAME_UPPER" else large)
        ends.append(large if mode == b"SAME_UPPER" else small)
    return begins + ends


def _padded(reach: int, stride: int, size: int | None) -> int | None:
    """What to add to an input so that the output has its size divided by the stride, rounded up."""
    if stride == 1:
        return reach - 1
    if size is None:
        return None
    total = (-(-size // stride) - 1) * stride + reach - size
    return total if total >= 0 else None


def _cropped(reach: int, stride: int, size: int | None, wanted: int | None) -> int | None:
    """What to take from an output so that it has the size wanted, or else the input's times the stride."""
    if wanted is not None and size is None:
        return None
    total = reach - stride if wanted is None else stride * ((size or 0) - 1) + reach - wanted
    return total if total >= 0 else None


def _ints(value: object) -> list[int]:
    return list(value)  # type: ignore[call-overload, no-any-return]
