// Corpora as people keep them: one file, a compressed file or a folder of parts. What comes out is
// checked, so that nothing behind it meets a half-read or garbled text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

// The UTF-8 text of a file, of a zstd file (named *.zst), or of all *.txt, *.txt.zst, *.raw and
// *.tokens files of a folder, joined in the order of their names. Throws Error when something is
// missing, empty, damaged or not UTF-8.
std::string read_text(const std::string& path);

// The bytes of the same, whatever they are.
std::string read_bytes(const std::string& path);

// Without their ends.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace sigma1
