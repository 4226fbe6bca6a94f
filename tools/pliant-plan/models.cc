// SPDX-License-Identifier: MIT
#include "tools/pliant-plan/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "pliant/common/errors.h"
#include "pliant/common/suggest.h"

namespace pliant::what_if {
namespace {

struct Model {
  std::string_view name;
  std::size_t parameters;
};

// Trainable parameters as torchvision and Hugging Face's transformers count them.
constexpr std::array kModels = {
    Model{"mobilenet-v2", 3'504'872}, Model{"efficientnet-b0", 5'288'548},
    Model{"resnet18", 11'689'512},    Model{"resnet34", 21'797'672},
    Model{"resnet50", 25'557'032},    Model{"convnext-tiny", 28'589'128},
    Model{"resnet101", 44'549'160},   Model{"resnet152", 60'192'808},
    Model{"distilbert", 66'362'880},  Model{"vit-b-16", 86'567'656},
    Model{"bert-base", 109'482'240},  Model{"gpt2", 124'439'808},
    Model{"vgg16", 138'357'544},      Model{"vit-l-16", 304'326'632},
    Model{"bert-large", 335'141'888}, Model{"gpt2-medium", 354'823'168},
    Model{"gpt2-large", 774'030'080}, Model{"gpt2-xl", 1'557'611'200},
};

}  // namespace

std::size_t parameters_of(const std::string& model) {
  const auto found = std::ranges::find(kModels, model, &Model::name);
  if (found != kModels.end()) return found->parameters;
  const auto names = model_names();
  const auto near = nearest_word(model, names);
  throw InputError(fmt::format("--model: '{}' is not known{}; known are {}; or say --params", model,
                               near ? fmt::format(" (did you mean '{}'?)", *near) : "",
                               fmt::join(names, ", ")));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kModels));
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

}  // namespace pliant::what_if
