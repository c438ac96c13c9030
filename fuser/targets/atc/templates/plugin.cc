// @NAME@ for ATC, as the ONNX parser looks it up at opset @OPSET@. Written by onnx-fuser from the operator's definition:
@BODY@
#include "fused_ops.h"

namespace {

const char kKey[] = "@KEY@";

domi::Status ParseParams(const ge::Operator &node, ge::Operator &op) {
  return onnx_fuser::Keep(node, op, kKey, @LEAST@);
}

domi::Status ToGraph(const ge::Operator &op, ge::Graph &graph) {
  const onnx_fuser::Attributes attributes(onnx_fuser::TextOf(op, "onnx_attributes"));
  onnx_fuser::Builder build(op);
  if (!attributes.Good() || !build.Good()) return domi::FAILED;
@STATEMENTS@
  return build.Finish(@OUTPUT@, graph);
}

}  // namespace

namespace domi {
REGISTER_CUSTOM_OP("PartitionedCall")
    .FrameworkType(ONNX)
    .OriginOpType(std::vector<ge::AscendString>(1, ge::AscendString(kKey)))
    .ParseParamsByOperatorFn(ParseParams)
    .ParseOpToGraphFn(ToGraph)
    .ImplyType(ImplyType::TVM);
}  // namespace domi
