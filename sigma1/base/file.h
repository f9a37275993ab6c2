// Files that are whole or not there: an interrupted or failed write leaves the old file untouched.
#pragma once

#include <string>
#include <string_view>

namespace sigma1 {

// Writes beside `path` and renames over it. Throws Error when the place cannot be written.
void write_file(const std::string& path, std::string_view content);

}  // namespace sigma1
