// The calls our generated plugins make, with implementations that record what was built. Written for these tests; the
// real declarations are CANN's, on the machine the plugin is built for.
#ifndef FAKE_GE_H
#define FAKE_GE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0U;
constexpr graphStatus GRAPH_FAILED = 1U;
enum Format { FORMAT_NCHW = 0, FORMAT_ND = 2, FORMAT_NCDHW = 30 };
enum DataType { DT_FLOAT = 0, DT_INT64 = 9 };

class AscendString {
 public:
  AscendString() {}
  AscendString(const char *text) : text_(std::make_shared<std::string>(text)) {}
  const char *GetString() const { return text_ ? text_->c_str() : nullptr; }

 private:
  std::shared_ptr<std::string> text_;
};

class Shape {
 public:
  explicit Shape(const std::vector<int64_t> &dims) : dims(dims) {}
  std::vector<int64_t> dims;
};

class TensorDesc {
 public:
  TensorDesc() : format(FORMAT_ND) {}
  explicit TensorDesc(Shape, Format given = FORMAT_ND, DataType = DT_FLOAT) : format(given) {}
  void SetFormat(Format given) { format = given; }
  void SetOriginFormat(Format) {}
  Format format;
};

class Tensor {
 public:
  Tensor(const TensorDesc &, const uint8_t *data, std::size_t size) : bytes(data, data + size) {}
  std::vector<uint8_t> bytes;
};

struct Recorded {
  std::string name, type;
  std::map<std::string, std::string> attributes;
  std::vector<AscendString> strings;
  std::map<std::string, std::shared_ptr<Recorded>> inputs;
  std::map<std::string, Format> formats;
};

class Operator {
 public:
  Operator() {}
  Operator(const std::string &name, const std::string &type) : node(std::make_shared<Recorded>()) {
    node->name = name;
    node->type = type;
  }
  bool IsEmpty() const { return node == nullptr; }
  graphStatus GetName(AscendString &name) const {
    name = AscendString(node->name.c_str());
    return GRAPH_SUCCESS;
  }
  Operator &SetInput(const char *port, const Operator &source) {
    if (node) node->inputs[port] = source.node;
    return *this;
  }
  Operator &SetAttr(const char *name, int64_t value) { return Write(name, value); }
  Operator &SetAttr(const char *name, float value) { return Write(name, value); }
  Operator &SetAttr(const char *name, bool value) { return Write(name, value ? "true" : "false"); }
  Operator &SetAttr(const char *name, const char *value) { return Write(name, value); }
  Operator &SetAttr(const char *name, const AscendString &value) { return Write(name, value.GetString()); }
  Operator &SetAttr(const char *name, const std::vector<int64_t> &values) {
    std::ostringstream text;
    for (std::size_t i = 0; i < values.size(); ++i) text << (i ? "," : "") << values[i];
    return Write(name, text.str());
  }
  Operator &SetAttr(const char *name, const std::vector<AscendString> &values) {
    node->strings = values;
    return Write(name, values.size());
  }
  Operator &SetAttr(const char *name, const Tensor &value) { return Write(name, value.bytes.size()); }
  graphStatus GetAttr(const char *name, int64_t &value) const {
    std::map<std::string, std::string>::const_iterator found = node->attributes.find(name);
    if (found == node->attributes.end()) return GRAPH_FAILED;
    value = std::stoll(found->second);
    return GRAPH_SUCCESS;
  }
  graphStatus GetAttr(const char *name, AscendString &value) const {
    std::map<std::string, std::string>::const_iterator found = node->attributes.find(name);
    if (found == node->attributes.end()) return GRAPH_FAILED;
    value = AscendString(found->second.c_str());
    return GRAPH_SUCCESS;
  }
  graphStatus GetAttr(const char *name, std::vector<AscendString> &values) const {
    if (node->attributes.count(name) == 0) return GRAPH_FAILED;
    values = node->strings;
    return GRAPH_SUCCESS;
  }
  void DynamicInputRegister(const char *name, uint32_t count, bool = true) { Write(name, count); }
  void DynamicOutputRegister(const char *name, uint32_t count, bool = true) { Write(name, count); }
  TensorDesc GetInputDescByName(const char *) const { return TensorDesc(); }
  TensorDesc GetOutputDescByName(const char *) const { return TensorDesc(); }
  graphStatus UpdateInputDesc(const char *port, const TensorDesc &desc) { return Keep(port, desc); }
  graphStatus UpdateOutputDesc(const char *port, const TensorDesc &desc) { return Keep(port, desc); }
  std::shared_ptr<Recorded> node;

 private:
  graphStatus Keep(const char *port, const TensorDesc &desc) {
    if (!node) return GRAPH_FAILED;
    node->formats[port] = desc.format;
    return GRAPH_SUCCESS;
  }
  template <typename T>
  Operator &Write(const char *name, const T &value) {
    std::ostringstream text;
    text << value;
    if (node) node->attributes[name] = text.str();
    return *this;
  }
};

struct OperatorFactory {
  static Operator CreateOperator(const char *name, const char *type);  // the test says which types there are
};

class Graph {
 public:
  Graph &SetInputs(const std::vector<Operator> &given) {
    inputs = given;
    return *this;
  }
  Graph &SetOutputs(const std::vector<std::pair<Operator, std::vector<std::size_t>>> &given) {
    outputs = given;
    return *this;
  }
  std::vector<Operator> inputs;
  std::vector<std::pair<Operator, std::vector<std::size_t>>> outputs;
};

}  // namespace ge

namespace domi {

using Status = uint32_t;
constexpr Status SUCCESS = 0U;
constexpr Status FAILED = 1U;
enum FrameworkType { CAFFE = 0, ONNX = 5 };
enum class ImplyType : uint32_t { BUILDIN = 0, TVM = 1 };

class OpRegistrationData {
 public:
  explicit OpRegistrationData(const char *type) : om_type(type), framework(CAFFE) {}
  OpRegistrationData &FrameworkType(const domi::FrameworkType &given) {
    framework = given;
    return *this;
  }
  OpRegistrationData &OriginOpType(const std::vector<ge::AscendString> &given) {
    keys = given;
    return *this;
  }
  OpRegistrationData &ParseParamsByOperatorFn(const std::function<Status(const ge::Operator &, ge::Operator &)> &given) {
    parse = given;
    return *this;
  }
  OpRegistrationData &ParseOpToGraphFn(const std::function<Status(const ge::Operator &, ge::Graph &)> &given) {
    expand = given;
    return *this;
  }
  OpRegistrationData &ImplyType(const domi::ImplyType &) { return *this; }
  std::string om_type;
  domi::FrameworkType framework;
  std::vector<ge::AscendString> keys;
  std::function<Status(const ge::Operator &, ge::Operator &)> parse;
  std::function<Status(const ge::Operator &, ge::Graph &)> expand;
};

class OpReceiver {
 public:
  OpReceiver(const OpRegistrationData &data) { All().push_back(data); }
  static std::vector<OpRegistrationData> &All();
};

}  // namespace domi

#define REGISTER_CUSTOM_OP(name) REGISTER_HELPER(__COUNTER__, name)
#define REGISTER_HELPER(number, name) REGISTER_UNIQUE(number, name)
#define REGISTER_UNIQUE(number, name) static OpReceiver receiver##number __attribute__((unused)) = OpRegistrationData(name)

#endif  // FAKE_GE_H
