// Texts that another program has made ids of, as GPT-2's encoders leave them: 16 bits an id.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sigma1 {

// The ids of a file: llm.c's format, a header of 256 int32 (magic 20240520, version 1, count)
// before them, or nanoGPT's, nothing but ids. Throws Error, with the place, for a file that is cut
// short or of another kind, and for an id that is not below `vocabulary`.
std::vector<uint16_t> read_token_file(const std::string& path, int64_t vocabulary);

// Writes llm.c's format.
void write_token_file(const std::string& path, std::span<const uint16_t> tokens);

}  // namespace sigma1
