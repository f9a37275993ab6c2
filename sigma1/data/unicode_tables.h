// What scripts/make_unicode_tables writes, packed as numbers that each tell the distance from the
// last: unicode.cpp unpacks them once. Nobody else should read these.
#pragma once

#include <cstdint>
#include <span>

namespace sigma1::unicode_tables {

// Gap from the end of the last range, length.
std::span<const uint32_t> marks();
std::span<const uint32_t> punctuation();
std::span<const uint32_t> removed();
std::span<const uint32_t> white_space();
std::span<const uint32_t> python_space();
std::span<const uint32_t> word_characters();
std::span<const uint32_t> cased();
std::span<const uint32_t> case_ignorable();

// Gap from the end of the last range, length, class.
std::span<const uint32_t> combining_classes();

// Gap from the last code point, first part, second part or 0.
std::span<const uint32_t> decompositions();

// Gap from the last run's first code point, count, stride, difference.
std::span<const int32_t> lower_case();

}  // namespace sigma1::unicode_tables
