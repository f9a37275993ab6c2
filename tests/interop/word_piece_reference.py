"""Writes tests/data/word_piece_{vocabulary.txt,reference.json}: what the library `tokenizers` makes of a
few strings, and checksums of what it makes of corpora. Run with the packages of requirements.txt:

    python tests/interop/word_piece_reference.py FOLDER

FOLDER has vocab/, wikipedia/, squad/ and unicode/; tests/data/word_piece_corpora_test.cpp says which files.
"""

import json
import struct
import subprocess
import sys
from array import array
from pathlib import Path

import google_crc32c
import tokenizers
from tokenizers import BertWordPieceTokenizer
from word_piece_strings import WRITTEN, random_strings, small_vocabulary

DATA = Path(__file__).parent.parent / "data"
LINES = ["wikipedia/wiki.train.txt.zst", "wikipedia/wiki.valid.txt", "unicode/blns.txt"]
QUESTIONS = ["squad/dev-v1.1.json.zst", *(f"unicode/xquad.{each}.json.zst" for each in ("ar", "hi", "th", "zh"))]


def tokenizer(vocabulary, cased):
    return BertWordPieceTokenizer(str(vocabulary), lowercase=not cased)


def read(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout.decode()
    return path.read_bytes().decode()


def texts_of(path):
    """Lines of a text; contexts and questions of SQuAD, each paragraph's context first."""
    content = read(path)
    if ".json" not in path.name:
        return content.split("\n")
    return [text for article in json.loads(content)["data"] for paragraph in article["paragraphs"]
            for text in (paragraph["context"], *(qa["question"] for qa in paragraph["qas"]))]


def samples(vocabulary):
    strings = [*WRITTEN, *random_strings(60, seed=1)]
    for cased in (False, True):
        reference = tokenizer(vocabulary, cased)
        for text in strings:
            encoding = reference.encode(text, add_special_tokens=False)
            yield {"text": text, "cased": cased, "ids": encoding.ids, "offsets": encoding.offsets}


def corpus(folder, file, vocabulary, cased):
    reference = tokenizer(folder / vocabulary, cased)
    texts = texts_of(folder / file)
    count, ids, offsets = 0, google_crc32c.Checksum(), google_crc32c.Checksum()
    for begin in range(0, len(texts), 4096):
        for encoding in reference.encode_batch(texts[begin:begin + 4096], add_special_tokens=False):
            count += len(encoding.ids)
            ids.update(array("I", encoding.ids).tobytes())
            offsets.update(array("I", [at for pair in encoding.offsets for at in pair]).tobytes())
    return {"file": file, "vocabulary": vocabulary, "cased": cased, "texts": len(texts), "tokens": count,
            "ids_crc32c": struct.unpack(">I", ids.digest())[0],
            "offsets_crc32c": struct.unpack(">I", offsets.digest())[0]}


def main(folder):
    vocabulary = DATA / "word_piece_vocabulary.txt"
    vocabulary.write_text("".join(f"{token}\n" for token in small_vocabulary()))
    vocabularies = [("vocab/bert-base-uncased-vocab.txt", False), ("vocab/bert-base-cased-vocab.txt", True)]
    corpora = [corpus(folder, file, *each) for file in [*LINES, *QUESTIONS] for each in vocabularies]
    lists = {"samples": list(samples(vocabulary)), "corpora": corpora}
    rows = {name: ",\n".join(f"    {json.dumps(row)}" for row in each) for name, each in lists.items()}
    (DATA / "word_piece_reference.json").write_text(
        f'{{\n  "tokenizers": "{tokenizers.__version__}",\n' +
        ",\n".join(f'  "{name}": [\n{text}\n  ]' for name, text in rows.items()) + "\n}\n")


main(Path(sys.argv[1]))
