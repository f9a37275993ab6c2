"""The definitions of SQuAD's official evaluate-v1.1.py and evaluate-v2.0.py, written down again in Python,
judge our scores: to the last digit, on random answers in many scripts."""

import collections
import json
import random
import re
import string
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[1]
WORDS = ["the", "a", "an", "The", "AN", "cat", "Cat", "dog's", "don't", "U.S.", "1,000", "$5", "a1", "the2", "theatre", "",
         "é", "École", "naïve", "straße", "İstanbul", "ΣΑΣ", "ΑΣ.", "ﬁn", "中文", "हिन्दी", "กำ", "–", "“quote”", "₤", "a€",
         "_", "the_", "a-b", "—the—", "x\u200by", "ʰa", "a\u0301", "²", "½", "👍"]
SPACES = [" ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u3000", "\x1c", "\x85", "\u2028", "\u200b", ""]


def plain_sum(values):
    """From left to right. Newer Pythons' sum() of floats carries an error term, and gives other last digits."""
    total = 0
    for value in values:
        total += value
    return total


def normalize(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text, flags=re.UNICODE).split())


def f1_of(gold, predicted, version):
    gold, predicted = normalize(gold).split(), normalize(predicted).split()
    if version == 2 and (not gold or not predicted):
        return int(gold == predicted)
    same = sum((collections.Counter(gold) & collections.Counter(predicted)).values())
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(predicted), 1.0 * same / len(gold)
    return (2 * precision * recall) / (precision + recall)


def exact_of(gold, predicted):
    return int(normalize(gold) == normalize(predicted))


def questions(data):
    return [qa for article in data["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]


def evaluate_1(data, predictions):
    f1 = exact = total = 0
    for qa in questions(data):
        total += 1
        if qa["id"] not in predictions:
            continue
        golds = [answer["text"] for answer in qa["answers"]]
        exact += max(exact_of(gold, predictions[qa["id"]]) for gold in golds)
        f1 += max(f1_of(gold, predictions[qa["id"]], 1) for gold in golds)
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * f1 / total}


def section(exact, f1, ids):
    return {"exact": 100.0 * plain_sum(exact[i] for i in ids) / len(ids),
            "f1": 100.0 * plain_sum(f1[i] for i in ids) / len(ids), "total": len(ids)}


def best(predictions, scores, probabilities, has_answer):
    score = best_score = sum(1 for has in has_answer.values() if not has)
    threshold = 0.0
    for i in sorted(probabilities, key=lambda k: probabilities[k]):
        if i not in scores:
            continue
        score += scores[i] if has_answer[i] else -1 if predictions[i] else 0
        if score > best_score:
            best_score, threshold = score, probabilities[i]
    return 100.0 * best_score / len(scores), threshold


def evaluate_2(data, predictions, probabilities=None, threshold=1.0):
    has_answer = {qa["id"]: bool(qa["answers"]) for qa in questions(data)}
    exact, f1 = {}, {}
    for qa in questions(data):
        i = qa["id"]
        if i not in predictions:
            continue
        golds = [answer["text"] for answer in qa["answers"] if normalize(answer["text"])] or [""]
        exact[i] = max(exact_of(gold, predictions[i]) for gold in golds)
        f1[i] = max(f1_of(gold, predictions[i], 2) for gold in golds)
    certain = probabilities if probabilities is not None else {i: 0.0 for i in predictions}
    shown = [{i: float(not has_answer[i]) if certain[i] > threshold else s for i, s in scores.items()}
             for scores in (exact, f1)]
    result = section(*shown, list(exact))
    # The script would stop at a missing prediction here; those that are there count.
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        ids = [i for i, has in has_answer.items() if has == wanted and i in exact]
        if ids:
            result |= {f"{prefix}_{key}": value for key, value in section(*shown, ids).items()}
    if probabilities is not None:
        for name, scores in (("exact", exact), ("f1", f1)):
            result[f"best_{name}"], result[f"best_{name}_thresh"] = best(predictions, scores, probabilities, has_answer)
    return result


def text(generator, most=6):
    return "".join(generator.choice(WORDS) + generator.choice(SPACES) for _ in range(generator.randint(0, most)))


def make(generator, version, count):
    def answers():
        few = generator.randint(1 if version == 1 else 0, 3)
        return [{"text": text(generator), "answer_start": 0} for _ in range(few)]

    qas = [{"id": f"q{generator.randint(0, 10 * count)}", "question": "?", "answers": answers()} for _ in range(count)]
    cuts = sorted(generator.sample(range(count), min(3, count)))
    parts = [qas[begin:end] for begin, end in zip([0, *cuts], [*cuts, count])]
    data = {"version": "1.1" if version == 1 else "v2.0",
            "data": [{"title": f"T{i}", "paragraphs": [{"context": "", "qas": part}]} for i, part in enumerate(parts)]}
    predictions = {}
    for qa in generator.sample(qas, count if generator.random() < 0.5 else max(1, count - 3)):
        likely = [answer["text"] for answer in qa["answers"]] + ["", text(generator)]
        predictions[qa["id"]] = generator.choice(likely) + generator.choice(["", "", " cat", "the"])
    return data, predictions


def probabilities_for(generator, predictions):
    ids = [*predictions, "unknown"]
    generator.shuffle(ids)
    return {i: generator.choice([generator.random(), round(generator.random(), 1), 0, 1, 1e-7, 2.5]) for i in ids}


def ours(folder, data, predictions, probabilities, threshold):
    names = {"data.json": data, "predictions.json": predictions, "probabilities.json": probabilities}
    for name, content in names.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False))
    command = [PROGRAM, "squad", "evaluate", folder / "data.json", folder / "predictions.json", "--json"]
    if probabilities is not None:
        command += ["--na-prob", folder / "probabilities.json", "--na-prob-thresh", str(threshold)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def main(folder):
    generator = random.Random(3)
    runs = 0
    for number in range(150):
        version = 1 + number % 2
        data, predictions = make(generator, version, generator.choice([1, 4, 30, 400]))
        probabilities = probabilities_for(generator, predictions) if version == 2 and number % 3 else None
        threshold = generator.choice([1.0, 0.5])
        if version == 1:
            expected = evaluate_1(data, predictions)
        else:
            expected = evaluate_2(data, predictions, probabilities, threshold)
        found = ours(folder, data, predictions, probabilities, threshold)
        assert found == json.dumps(expected, indent=2) + "\n", (found, expected)
        runs += 1
    print(f"squad: {runs} sets of answers have the official scores to the last digit")


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary))
