"""Conv and ConvTranspose with kernel_shape, strides, pads, dilations and group written out, no auto_pad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import NodeProto

Shape = tuple[int | None, ...]


def write_out(node: NodeProto, shapes: Mapping[str, Shape]) -> bool:
    """Write a Conv's or ConvTranspose's attributes out; false where its padding depends on unknown sizes.

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
    if node.op_type == "ConvTranspose":
        attributes["output_padding"] = list(values.get("output_padding", [0] * rank))
    pads = _pads(node, values, attributes, shapes)
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
    node: NodeProto, values: Mapping[str, object], written: Mapping[str, object], shapes: Mapping[str, Shape]
) -> list[int] | None:
    """Begins of all axes, then ends; None where they depend on a size that is open."""
    kernel, strides, dilations = (_ints(written[key]) for key in ("kernel_shape", "strides", "dilations"))
    transposed = node.op_type == "ConvTranspose"
    mode = values.get("auto_pad", b"NOTSET")
    if transposed and "output_shape" in values:
        return None
    if mode in {b"NOTSET", b""}:
        return _ints(values.get("pads", [0] * 2 * len(kernel)))
    if mode == b"VALID":
        return [0] * 2 * len(kernel)
    sizes: Sequence[int | None] = shapes.get(node.input[0], ())[2:] or [None] * len(kernel)
    begins, ends = [], []
    for axis, (extent, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        reach = (extent - 1) * dilation + 1
        size = sizes[axis]
        if transposed:  # the output is the input times the stride
            total = reach - stride + _ints(written["output_padding"])[axis]
        elif stride == 1:
            total = reach - 1
        elif size is None:
            return None
        else:
            total = (-(-size // stride) - 1) * stride + reach - size
        total = max(total, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == b"SAME_UPPER" else large)
        ends.append(large if mode == b"SAME_UPPER" else small)
    return begins + ends


def _ints(value: object) -> list[int]:
    return list(value)  # type: ignore[call-overload, no-any-return]
