#pragma once

#include "proto/types/error.hpp"

#include <CLI/CLI.hpp>

/// The subcommands of the binary. Each `add_x` adds its options to `app` and, when it is chosen,
/// runs inside the parse callback and stores its exit code.
namespace deepinfer {

/// Exit codes of the command line; part of the contract.
inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;       ///< the request or run failed
inline constexpr int exit_usage = 2;        ///< wrong usage or config
inline constexpr int exit_unreachable = 3;  ///< no cluster there

/// Stands for `--model DIR`, or the folder to look at, where none is given.
inline constexpr const char* model_folder_variable = "DEEPINFER_HF_MODEL_DIR";

void add_node_command(CLI::App& app, int& exit_code);
void add_kvfetch_command(CLI::App& app, int& exit_code);
void add_chat_command(CLI::App& app, int& exit_code);
void add_console_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_kv_command(CLI::App& app, int& exit_code);
void add_model_command(CLI::App& app, int& exit_code);
void add_recipe_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace deepinfer
