#include "sigma1/backend/cuda/cluster_pointwise.cuh"

#include "sigma1/backend/cuda/builder.cuh"

namespace sigma1::cuda {
namespace {

// As instructions.cuh has it.
std::string formula(Opcode opcode, const Parameters& p, ClusterInputs& inputs) {
  switch (opcode) {
    case Opcode::multiply:
      return inputs.times(p.factor, "a * b");
    case Opcode::scale:
      return inputs.times(p.factor, "a");
    case Opcode::add:
      return inputs.times(p.factor, "a + b");
    case Opcode::combine:
      return fmt::format("fmaf({}, a, {})", inputs.factor(p.factor), inputs.times(p.second, "b"));
    default:
      break;
  }
  std::string bent = inputs.times(p.multiplier, "a");
  std::string_view activation = activation_of(opcode);
  if (opcode < Opcode::relu_grad) {
    return inputs.times(p.factor, fmt::format("{}::value({})", activation, bent));
  }
  return inputs.times(p.factor, fmt::format("{}::derivative({}) * b", activation, bent));
}

}  // namespace

std::vector<std::string> pointwise_lines(ChainStep step, const std::string& result,
                                         const std::vector<std::string>& variables,
                                         ClusterInputs& inputs) {
  constexpr int kFirstInput = 1000;
  std::array<int, kMostInstructions + 1> places{};
  step.producer.resize(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    places[i] = kFirstInput + static_cast<int>(i);
    step.producer[i] = static_cast<int>(i);
  }
  Builder builder;
  builder.append(step, places, 0);
  auto operand = [&](const Operand& from) {
    if (from.instruction < kFirstInput) return fmt::format("{}_{}", result, from.instruction);
    return variables[static_cast<size_t>(from.instruction - kFirstInput)];
  };
  std::vector<std::string> lines;
  for (int i = 0; i < builder.code.count; ++i) {
    const Instruction& each = builder.code.instructions[i];
    std::string x = operand(each.x);
    std::string y = each.y.instruction == Operand::kNone ? x : operand(each.y);
    std::string name = i + 1 == builder.code.count ? result : fmt::format("{}_{}", result, i);
    lines.push_back(fmt::format("auto {} = map({}, {}, [&](float a, float b) {{ return {}; }});",
                                name, x, y, formula(each.opcode, each.parameters, inputs)));
  }
  return lines;
}

}  // namespace sigma1::cuda
