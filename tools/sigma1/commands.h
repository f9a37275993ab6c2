// The subcommands. Each lives in its own file, declares its options on `app` and runs as CLI11's
// callback; what it throws becomes one line and an exit code in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace sigma1 {

inline constexpr const char* kDeviceHelp =
    "auto, cpu, cuda or cuda:N; cuda+tf32: products of fp32 in TF32; "
    "cuda+fast-sums, +exact-sums: how products of 8 bits add up";

void add_align(CLI::App& app);
void add_bench(CLI::App& app);
void add_bert(CLI::App& app);
void add_demo(CLI::App& app);
void add_derive(CLI::App& app);
void add_doctor(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_export(CLI::App& app);
void add_formats(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_inspect(CLI::App& app);
void add_memory(CLI::App& app);
void add_ops(CLI::App& app);
void add_plan(CLI::App& app);
void add_quantize(CLI::App& app);
void add_report(CLI::App& app);
void add_scales(CLI::App& app);
void add_snr(CLI::App& app);
void add_squad(CLI::App& app);
void add_sweep(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_tokens(CLI::App& app);
void add_train(CLI::App& app);

}  // namespace sigma1
