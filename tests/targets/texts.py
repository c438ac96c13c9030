"""Models of the ATC tests, as text: Conv, BatchNormalization and LeakyRelu, each part exchangeable."""

from __future__ import annotations

from onnx import ModelProto, parser

WEIGHT = "float[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}"
STATISTICS = "float[1] a = {1}, float[1] b = {0}, float[1] m = {0}, float[1] v = {1}"
CONV = "[conv] c = Conv <kernel_shape = [3,3]> (x, w)"
BN = "[bn] d = BatchNormalization (c, a, b, m, v)"
ACT = "[act] y = LeakyRelu <alpha = 0.1> (d)"
ACT_OF_CONV = "[act] y = LeakyRelu <alpha = 0.1> (c)"


def text(
    *nodes: str,
    imports: str = '"" : 11',
    ir: int = 8,
    inputs: str = "float[1,1,8,8] x",
    outputs: str = "float[1,1,6,6] y",
    initializers: str = WEIGHT,
    functions: str = "",
) -> ModelProto:
    """A model of these nodes."""
    held = f"<{initializers}>" if initializers else ""
    return parser.parse_model(
        f"<ir_version: {ir}, opset_import: [{imports}]>\n"
        f"g ({inputs}) => ({outputs}) {held} {{\n" + "\n".join(nodes) + f"\n}}\n{functions}"
    )


def block(imports: str = '"" : 11', ir: int = 8) -> ModelProto:
    """Conv, BatchNormalization, LeakyRelu."""
    return text(CONV, BN, ACT, imports=imports, ir=ir, initializers=f"{WEIGHT}, {STATISTICS}")


def with_domain(model: ModelProto, domain: str) -> ModelProto:
    """The same model with this domain in every node."""
    for node in model.graph.node:
        node.domain = domain
    return model
