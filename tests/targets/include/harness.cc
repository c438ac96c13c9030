// Runs a plugin as ATC's parser does and prints the graph it builds:
//   harness KEY INPUTS KNOWN_TYPES < attributes.json
#include <algorithm>
#include <iostream>
#include <iterator>
#include <set>

#include "fake_ge.h"

static std::set<std::string> known;

ge::Operator ge::OperatorFactory::CreateOperator(const char *name, const char *type) {
  return known.count(type) == 0 ? Operator() : Operator(name, type);
}

std::vector<domi::OpRegistrationData> &domi::OpReceiver::All() {
  static std::vector<OpRegistrationData> all;
  return all;
}

static void Print(const std::shared_ptr<ge::Recorded> &node, std::set<std::string> &done) {
  if (!done.insert(node->name).second) return;
  for (const auto &input : node->inputs) {
    if (input.second) Print(input.second, done);
  }
  std::cout << node->type << " " << node->name << "\n";
  for (const auto &input : node->inputs) std::cout << "  " << input.first << " <- " << (input.second ? input.second->name : "?") << "\n";
  for (const auto &attribute : node->attributes) std::cout << "  " << attribute.first << " = " << attribute.second << "\n";
  for (const auto &format : node->formats) std::cout << "  " << format.first << " : " << format.second << "\n";
}

int main(int count, char **words) {
  if (count < 4) return 9;
  const std::string attributes((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  std::istringstream types(words[3]);
  for (std::string type; types >> type;) known.insert(type);
  for (const auto &data : domi::OpReceiver::All()) {
    if (std::string(data.keys.at(0).GetString()) != words[1]) continue;
    ge::Operator node("node", "onnx"), op("node", data.om_type);
    if (!attributes.empty()) node.SetAttr("attribute", attributes.c_str());
    node.SetAttr("input", std::vector<ge::AscendString>(static_cast<std::size_t>(std::stoi(words[2])), "i"));
    if (data.framework != domi::ONNX || data.parse(node, op) != domi::SUCCESS) return 11;
    ge::Graph graph;
    if (data.expand(op, graph) != domi::SUCCESS) return 12;
    std::cout << data.om_type << " " << op.node->attributes["original_type"] << " args=" << op.node->attributes["args"] << " inputs=" << graph.inputs.size() << "\n";
    std::set<std::string> done;
    Print(graph.outputs.at(0).first.node, done);
    return 0;
  }
  return 10;
}
