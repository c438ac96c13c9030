// What the parser plugins beside this file share. Written by onnx-fuser.
//
// ATC hands a plugin an ONNX node's attributes as JSON text, {"attribute": [{"name": ..., "ints": [...]}, ...]}, in
// which floats are strings. A plugin hands back a graph of GE operators.
#ifndef ONNX_FUSER_FUSED_OPS_H
#define ONNX_FUSER_FUSED_OPS_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/graph.h"
#include "graph/operator.h"
#include "graph/operator_factory.h"
#include "graph/tensor.h"
#include "register/register.h"

namespace onnx_fuser {

using Ints = std::vector<int64_t>;

// The attributes of one ONNX node.
class Attributes {
 public:
  explicit Attributes(const std::string &json) : text_(json), at_(0), good_(true) {
    if (!json.empty()) ReadModel();
  }
  bool Good() const { return good_; }
  int64_t Int(const char *name, int64_t otherwise) const {
    const std::string *found = Find(name);
    return found == nullptr ? otherwise : std::strtoll(found->c_str(), nullptr, 10);
  }
  float Float(const char *name, float otherwise) const {
    const std::string *found = Find(name);
    return found == nullptr ? otherwise : std::strtof(found->c_str(), nullptr);
  }
  std::string Text(const char *name, const char *otherwise) const {
    const std::string *found = Find(name);
    return found == nullptr ? std::string(otherwise) : *found;
  }
  Ints List(const char *name, const Ints &otherwise) const {
    std::map<std::string, Ints>::const_iterator found = lists_.find(name);
    return found == lists_.end() ? otherwise : found->second;
  }

 private:
  const std::string *Find(const char *name) const {
    std::map<std::string, std::string>::const_iterator found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }
  char Next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    if (at_ < text_.size()) return text_[at_];
    good_ = false;
    return '\0';
  }
  bool Take(char wanted) {
    if (!good_ || Next() != wanted) return false;
    ++at_;
    return true;
  }
  // A string without its quotes, a number, or a word such as true.
  std::string Scalar() {
    std::string read;
    if (Take('"')) {
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        read += text_[at_++];
      }
      good_ = good_ && Take('"');
      return read;
    }
    while (at_ < text_.size() && std::string(",]} \n\t\r").find(text_[at_]) == std::string::npos) read += text_[at_++];
    good_ = good_ && !read.empty();
    return read;
  }
  std::vector<std::string> Scalars() {
    std::vector<std::string> read;
    if (Take(']')) return read;
    do {
      if (Next() == '{' || Next() == '[') {
        Skip();
      } else {
        read.push_back(Scalar());
      }
    } while (Take(','));
    good_ = good_ && Take(']');
    return read;
  }
  // Whatever comes, values of tensors and graphs among it.
  void Skip() {
    if (Take('[')) {
      Scalars();
    } else if (Take('{')) {
      if (Take('}')) return;
      do {
        Scalar();
        good_ = good_ && Take(':');
        if (good_) Skip();
      } while (Take(','));
      good_ = good_ && Take('}');
    } else {
      Scalar();
    }
  }
  void ReadAttribute() {
    std::string name;
    std::map<std::string, std::string> fields;
    Ints ints;
    bool has_ints = false;
    if (Take('}')) return;
    do {
      const std::string key = Scalar();
      good_ = good_ && Take(':');
      if (!good_) return;
      if (key == "ints" && Take('[')) {
        has_ints = true;
        const std::vector<std::string> read = Scalars();
        for (std::size_t i = 0; i < read.size(); ++i) ints.push_back(std::strtoll(read[i].c_str(), nullptr, 10));
      } else if (key == "name") {
        name = Scalar();
      } else if (key == "i" || key == "f" || key == "s") {
        fields[key] = Scalar();
      } else {
        Skip();
      }
    } while (Take(','));
    good_ = good_ && Take('}') && !name.empty();
    if (has_ints) {
      lists_[name] = ints;
    } else if (!fields.empty()) {
      values_[name] = fields.begin()->second;
    }
  }
  void ReadModel() {
    good_ = Take('{') && Scalar() == "attribute" && Take(':') && Take('[');
    if (!good_ || Take(']')) return;
    do {
      good_ = good_ && Take('{');
      if (!good_) return;
      ReadAttribute();
    } while (good_ && Take(','));
    good_ = good_ && Take(']') && Take('}');
  }

  const std::string text_;
  std::size_t at_;
  bool good_;
  std::map<std::string, std::string> values_;
  std::map<std::string, Ints> lists_;
};

inline std::string TextOf(const ge::Operator &op, const char *name) {
  ge::AscendString found;
  if (op.GetAttr(name, found) != ge::GRAPH_SUCCESS || found.GetString() == nullptr) return std::string();
  return std::string(found.GetString());
}

// The first half of a plugin: keep the node's attributes as they are, and say how many inputs and outputs it has.
inline domi::Status Keep(const ge::Operator &node, ge::Operator &op, const char *key, std::size_t least) {
  const std::string attributes = TextOf(node, "attribute");
  std::vector<ge::AscendString> inputs;
  ge::AscendString name;
  if (!Attributes(attributes).Good() || node.GetAttr("input", inputs) != ge::GRAPH_SUCCESS || inputs.size() < least ||
      node.GetName(name) != ge::GRAPH_SUCCESS) {
    return domi::FAILED;
  }
  op.SetAttr("name", name);
  op.SetAttr("original_type", ge::AscendString(key));
  op.SetAttr("onnx_attributes", ge::AscendString(attributes.c_str()));
  op.SetAttr("input_num", static_cast<int64_t>(inputs.size()));
  op.DynamicInputRegister("args", static_cast<uint32_t>(inputs.size()));
  op.DynamicOutputRegister("output", 1U);
  return domi::SUCCESS;
}

// Makes the operators of one node's graph; Good() is false once one could not be made.
class Builder {
 public:
  explicit Builder(const ge::Operator &op) : name_(TextOf(op, "name")), inputs_(0), good_(true) {
    op.GetAttr("input_num", inputs_);
    good_ = !name_.empty();
  }
  bool Good() const { return good_; }
  ge::Operator Make(const char *type, const char *suffix) {
    const std::string name = name_ + "_" + suffix;
    ge::Operator made = ge::OperatorFactory::CreateOperator(name.c_str(), type);
    if (made.IsEmpty()) good_ = false;
    return made;
  }
  // An input of the node; not used where the node has fewer.
  ge::Operator Input(int64_t index, const char *suffix) {
    ge::Operator data = Make("Data", suffix);
    data.SetAttr("index", index);
    data_.push_back(data);
    return data;
  }
  bool Has(int64_t index) const { return index < inputs_; }
  ge::Operator Apply(const char *type, const char *suffix, const char *port, const ge::Operator &value) {
    ge::Operator made = Make(type, suffix);
    made.SetInput(port, value);
    return made;
  }
  ge::Operator Apply(const char *type, const char *suffix, const char *port, const ge::Operator &value,
                     const char *second, const ge::Operator &other) {
    ge::Operator made = Apply(type, suffix, port, value);
    made.SetInput(second, other);
    return made;
  }
  ge::Operator Constant(const char *suffix, const Ints &values) {
    ge::Operator made = Make("Const", suffix);
    const ge::TensorDesc desc(ge::Shape(Ints(1, static_cast<int64_t>(values.size()))), ge::FORMAT_ND, ge::DT_INT64);
    made.SetAttr("value", ge::Tensor(desc, reinterpret_cast<const uint8_t *>(values.data()),
                                     values.size() * sizeof(int64_t)));
    return made;
  }
  domi::Status Finish(const ge::Operator &output, ge::Graph &graph) {
    if (!good_) return domi::FAILED;
    std::vector<std::pair<ge::Operator, std::vector<std::size_t>>> outputs;
    outputs.emplace_back(output, std::vector<std::size_t>(1, 0));
    graph.SetInputs(data_).SetOutputs(outputs);
    return domi::SUCCESS;
  }
  void Fail() { good_ = false; }

 private:
  std::string name_;
  int64_t inputs_;
  bool good_;
  std::vector<ge::Operator> data_;
};

// What Conv and ConvTranspose have in common, in GE's order: batch and channel first, begin and end of each axis
// beside each other. One spatial axis is the second of two.
struct Window {
  std::size_t rank;
  Ints strides, dilations, output_padding, pads;
  int64_t groups;

  Window(const Ints &kernel, const Ints &steps, const Ints &holes, const Ints &edges, const Ints &extra, int64_t group)
      : rank(kernel.size()),
        strides(Axes(steps, kernel.size(), 1)),
        dilations(Axes(holes, kernel.size(), 1)),
        output_padding(Axes(extra, kernel.size(), 0)),
        groups(group) {
    if (rank == 1) pads.assign(2, 0);
    for (std::size_t i = 0; i < rank; ++i) {
      pads.push_back(edges.size() == 2 * rank ? edges[i] : 0);
      pads.push_back(edges.size() == 2 * rank ? edges[i + rank] : 0);
    }
  }
  bool Good() const { return rank >= 1 && rank <= 3; }

 private:
  static Ints Axes(const Ints &given, std::size_t count, int64_t otherwise) {
    Ints all(count == 1 ? 3 : 2, otherwise);
    for (std::size_t i = 0; i < count; ++i) all.push_back(given.size() == count ? given[i] : otherwise);
    return all;
  }
};

inline bool SetFormat(ge::Operator &op, const char *port, bool input, ge::Format format) {
  ge::TensorDesc desc = input ? op.GetInputDescByName(port) : op.GetOutputDescByName(port);
  desc.SetFormat(format);
  desc.SetOriginFormat(format);
  return (input ? op.UpdateInputDesc(port, desc) : op.UpdateOutputDesc(port, desc)) == ge::GRAPH_SUCCESS;
}

// A convolution, or a transposed one, of x with w, and with the bias b where it is not null.
inline ge::Operator Convolve(Builder &build, const char *suffix, bool transposed, const Window &window, ge::Operator x,
                             ge::Operator w, const ge::Operator *b) {
  const bool solid = window.rank == 3;
  const std::string at = suffix;
  if (!window.Good()) build.Fail();
  if (window.rank == 1) {
    x = build.Apply("Unsqueeze", (at + "_UnsqueezeX").c_str(), "x", x);
    w = build.Apply("Unsqueeze", (at + "_UnsqueezeW").c_str(), "x", w);
    x.SetAttr("axes", Ints(1, 2));
    w.SetAttr("axes", Ints(1, 2));
  }
  const char *type = transposed ? (solid ? "Conv3DTranspose" : "Conv2DTranspose") : (solid ? "Conv3D" : "Conv2D");
  ge::Operator conv = build.Apply(type, suffix, "x", x, "filter", w);
  if (b != nullptr) conv.SetInput("bias", *b);
  if (transposed) {
    conv.SetInput("input_size", build.Constant((at + "_size").c_str(), Ints(solid ? 5 : 4, 0)));
    conv.SetAttr("output_padding", window.output_padding);
  }
  conv.SetAttr("strides", window.strides);
  conv.SetAttr("pads", window.pads);
  conv.SetAttr("dilations", window.dilations);
  conv.SetAttr("groups", window.groups);
  conv.SetAttr("data_format", solid ? "NCDHW" : "NCHW");
  const ge::Format format = solid ? ge::FORMAT_NCDHW : ge::FORMAT_NCHW;
  if (!SetFormat(conv, "x", true, format) || !SetFormat(conv, "filter", true, format) ||
      !SetFormat(conv, "y", false, format)) {
    build.Fail();
  }
  if (window.rank != 1) return conv;
  ge::Operator squeezed = build.Apply("Squeeze", (at + "_SqueezeY").c_str(), "x", conv);
  squeezed.SetAttr("axis", Ints(1, 2));
  return squeezed;
}

// alpha * A B + beta * C
inline ge::Operator Multiply(Builder &build, const char *suffix, float alpha, float beta, bool trans_a, bool trans_b,
                             const ge::Operator &a, const ge::Operator &b, const ge::Operator *c) {
  const std::string at = suffix;
  ge::Operator product = build.Apply("MatMulV2", suffix, "x1", a, "x2", b);
  product.SetAttr("transpose_x1", trans_a);
  product.SetAttr("transpose_x2", trans_b);
  if (alpha < 1.0F || alpha > 1.0F) {
    product = build.Apply("Muls", (at + "_alpha").c_str(), "x", product);
    product.SetAttr("value", alpha);
  }
  if (c == nullptr) return product;
  ge::Operator added = *c;
  if (beta < 1.0F || beta > 1.0F) {
    added = build.Apply("Muls", (at + "_beta").c_str(), "x", added);
    added.SetAttr("value", beta);
  }
  return build.Apply("Add", (at + "_sum").c_str(), "x1", product, "x2", added);
}

}  // namespace onnx_fuser

#endif  // ONNX_FUSER_FUSED_OPS_H
