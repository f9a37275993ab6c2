#include "sigma1/data/text_file.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kEndings = {".txt", ".txt.zst", ".raw", ".tokens"};
constexpr size_t kPiece = size_t{1} << 18;

struct FreeDecoder {
  void operator()(ZSTD_DCtx* decoder) const { ZSTD_freeDCtx(decoder); }
};

// Piece by piece, because a frame need not say how long its content is, and a file may hold several
// frames.
std::string decompress(std::string_view bytes, const std::string& path) {
  std::unique_ptr<ZSTD_DCtx, FreeDecoder> decoder(ZSTD_createDCtx());
  if (!decoder) throw Error("cannot read {}: no memory to decompress it", path);
  std::string text;
  std::vector<char> piece(kPiece);
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer output{piece.data(), piece.size(), 0};
  size_t wanted = 0;
  do {
    output.pos = 0;
    size_t before = input.pos;
    wanted = ZSTD_decompressStream(decoder.get(), &output, &input);
    if (ZSTD_isError(wanted))
      throw Error("expected zstd data in {}, got damage after byte {}: {}", path, before,
                  ZSTD_getErrorName(wanted));
    text.append(piece.data(), output.pos);
    // A full piece may have left text inside the decoder even when all input is taken.
  } while (input.pos < input.size || (wanted != 0 && output.pos == output.size));
  if (wanted != 0)
    throw Error("expected whole zstd data in {}, got a file that ends within a frame, at byte {}",
                path, bytes.size());
  return text;
}

std::string read_bytes_file(const std::string& path) {
  std::string bytes = read_file(path);
  if (path.ends_with(".zst") && !bytes.empty()) bytes = decompress(bytes, path);
  if (bytes.empty()) throw Error("expected text in {}, got an empty file", path);
  return bytes;
}

std::string read_text_file(const std::string& path) {
  std::string text = read_bytes_file(path);
  if (auto fault = find_utf8_fault(text))
    throw Error("expected UTF-8 in {}, got {} (at byte offset {} of the text)", path, fault->reason,
                fault->offset);
  return text;
}

std::vector<std::string> text_files_in(const std::string& folder) {
  std::error_code cause;
  std::vector<std::string> paths;
  auto is_text = [](const fs::directory_entry& entry) {
    std::error_code ignored;
    std::string name = entry.path().filename();
    return entry.is_regular_file(ignored) &&
           std::any_of(kEndings.begin(), kEndings.end(),
                       [&](std::string_view ending) { return name.ends_with(ending); });
  };
  for (fs::directory_iterator entry(folder, cause), end; !cause && entry != end;
       entry.increment(cause))
    if (is_text(*entry)) paths.push_back(entry->path());
  if (cause) throw Error("cannot read the folder {}: {}", folder, cause.message());
  if (paths.empty())
    throw Error("expected *.txt, *.txt.zst, *.raw or *.tokens files in the folder {}, got none",
                folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// All files of a folder, or the one at `path`, each by `read`.
std::string read_all(const std::string& path, std::string (*read)(const std::string&)) {
  std::error_code ignored;
  fs::file_status status = fs::status(path, ignored);
  if (status.type() == fs::file_type::not_found)
    throw Error("expected a text file or a folder of them, got nothing at '{}'", path);
  if (!fs::is_directory(status)) return read(path);
  std::string text;
  for (const std::string& part : text_files_in(path)) text += read(part);
  return text;
}

}  // namespace

std::string read_text(const std::string& path) { return read_all(path, read_text_file); }

std::string read_bytes(const std::string& path) { return read_all(path, read_bytes_file); }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace sigma1
