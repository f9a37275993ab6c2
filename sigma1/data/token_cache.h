// Token ids kept between runs. A cache may only save time: whatever is wrong with its file, the ids
// are those of the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/data/vocabulary.h"

namespace sigma1 {

// The file in `folder` for this text and vocabulary; others get other names.
std::string token_cache_path(const std::string& folder, std::string_view text,
                             const Vocabulary& vocabulary);

// vocabulary.encode(text), read from `folder` when it is there whole, else made and written there.
// Makes the folder. Throws Error when it cannot be written.
std::vector<uint16_t> cached_tokens(const std::string& folder, std::string_view text,
                                    const Vocabulary& vocabulary);

}  // namespace sigma1
