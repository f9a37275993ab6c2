"""The library `tokenizers` judges our WordPiece tokeniser: ids, tokens and offsets of hostile strings,
of random ones from all kinds of characters, and of every character by itself."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import BertWordPieceTokenizer
from word_piece_strings import WRITTEN, random_strings, vocabulary_of

PROGRAM = sys.argv[1]
AT_ONCE = 512  # files in a command


def ours(folder, vocabulary, texts, flags):
    paths = [folder / f"{i}.txt" for i in range(len(texts))]
    for path, text in zip(paths, texts):
        path.write_bytes(text.encode())
    for begin in range(0, len(paths), AT_ONCE):
        command = [PROGRAM, "tokenize", "--vocab", vocabulary, "--offsets", "--json", *flags, *paths[begin:begin + AT_ONCE]]
        yield from json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def byte_offsets(text, offsets):
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    return [(starts[begin], starts[end]) for begin, end in offsets]


def check(folder, vocabulary, texts, cased):
    reference = BertWordPieceTokenizer(str(vocabulary), lowercase=not cased)
    tokens = 0
    for text, found in zip(texts, ours(folder, vocabulary, texts, ["--cased"] if cased else []), strict=True):
        expected = reference.encode(text, add_special_tokens=False)
        assert found["ids"] == expected.ids, (text, found, expected.tokens)
        assert found["tokens"] == expected.tokens, (text, found, expected.tokens)
        offsets = [tuple(pair) for pair in found["offsets"]]
        assert offsets == expected.offsets, (text, found, expected.offsets)
        bytes_found = [tuple(pair) for pair in found["byte_offsets"]]
        assert bytes_found == byte_offsets(text, offsets), (text, found)
        tokens += len(expected.ids)
    return tokens


def every_character():
    """Each between letters, where it is seen whether it is kept, changed, or cuts a word."""
    planes = [*range(0x33480), *range(0xDFF00, 0xE0200), *range(0xEFF00, 0xF0100), *range(0x10FF00, 0x110000)]
    points = [chr(c) for c in planes if not 0xD800 <= c < 0xE000]
    return ["".join(f"x{c}y " for c in points[begin:begin + 256]) for begin in range(0, len(points), 256)]


def main(folder):
    hostile = [*WRITTEN, *random_strings(4000, seed=2)]
    singles = every_character()
    vocabulary = folder / "vocab.txt"
    characters = set("".join(hostile)) | set("".join(singles))
    # What is left out becomes [UNK] with its word: a third of the letters and of all else.
    for name, texts, seen in (("strings", hostile, characters), ("strings", hostile, sorted(characters)[::3]),
                              ("texts of every character", singles, characters)):
        vocabulary.write_bytes("".join(f"{token}\n" for token in vocabulary_of(seen)).encode())
        for cased in (False, True):
            tokens = check(folder, vocabulary, texts, cased)
            print(f"word_piece: {tokens} tokens of {len(texts)} {name} agree with tokenizers"
                  f" ({'cased' if cased else 'uncased'})")


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary))
