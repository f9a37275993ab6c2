#include "sigma1/report/run_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/report/page_text.h"
#include "sigma1/report/run_data.h"
#include "sigma1/report/svg.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

// The last parts of a path; all of it when there are fewer.
std::string tail(const fs::path& path, int parts) {
  fs::path result;
  fs::path rest = path;
  for (int i = 0; i < parts && rest.has_relative_path(); ++i) {
    result = result.empty() ? rest.filename() : rest.filename() / result;
    rest = rest.parent_path();
  }
  return result.string();
}

// Folders by as few of their last parts as tell all of them apart.
std::vector<std::string> run_names(std::span<const fs::path> runs) {
  std::vector<fs::path> paths;
  for (const fs::path& run : runs) {
    fs::path path = fs::weakly_canonical(run);
    if (std::ranges::find(paths, path) != paths.end()) {
      throw Error("{}: expected each run once, and it is given twice", run.string());
    }
    paths.push_back(path);
  }
  // Different paths differ at the latest in full.
  for (int parts = 1;; ++parts) {
    std::vector<std::string> names;
    for (const fs::path& path : paths) names.push_back(tail(path, parts));
    std::vector<std::string> sorted = names;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) == sorted.end()) return names;
  }
}

// What a browser would take for markup, even within a script.
std::string without_markup(std::string_view json) {
  std::string safe;
  for (char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

// Values are put in as they are: what they hold is not looked at again.
std::string fill(std::string_view text, const std::map<std::string, std::string_view>& values) {
  std::string page;
  while (true) {
    size_t begin = text.find("{{");
    page += text.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    size_t end = text.find("}}", begin);
    std::string name(text.substr(begin + 2, end - begin - 2));
    if (!values.contains(name)) throw Bug("the page asks for {}", name);
    page += values.at(name);
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string run_report(std::span<const fs::path> runs, std::string_view title) {
  if (runs.empty()) throw Error("expected at least one run to report on");
  std::vector<std::string> names = run_names(runs);
  using Json = nlohmann::json;
  std::string data =
      "{\"title\":" + Json(title).dump(-1, ' ', false, Json::error_handler_t::replace) +
      ",\"runs\":[";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) data += ",\n";
    data += run_data(runs[i], names[i]);
  }
  data = without_markup(data + "]}");
  std::string heading = xml_escape(title);
  return fill(kPageTemplate,
              {{"title", heading}, {"style", kPageStyle}, {"data", data}, {"script", kPageScript}});
}

}  // namespace sigma1
