// Parts of `sigma1 squad` that have files of their own.
#pragma once

#include <CLI/CLI.hpp>

namespace sigma1 {

void add_squad_train(CLI::App& squad);
void add_squad_predict(CLI::App& squad);

}  // namespace sigma1
