// The page of a report, from the files in page/: they are written as what they are and built into
// the library.
#pragma once

#include <string_view>

namespace sigma1 {

extern const std::string_view kPageTemplate;  // with {{title}}, {{style}}, {{data}} and {{script}}
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace sigma1
