// One page that shows what runs learned and how well their numbers fitted their formats. It is a
// single file that asks for nothing from outside, so it can be mailed, archived and printed.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sigma1 {

// The page of the runs in these folders, as HTML. Throws Error when one is no run, or with file and
// line when what it holds cannot be read.
std::string run_report(std::span<const std::filesystem::path> runs, std::string_view title);

}  // namespace sigma1
