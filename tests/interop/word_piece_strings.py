"""Strings that are hard for BERT's tokeniser, and a small vocabulary for them."""

import random
import unicodedata

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the a an of and in to was is unit scale scaling train training model word piece token mask hello world "
         "cafe resume naive strasse istanbul we are not can 19 20 2026").split()
ENDINGS = "s ed ing er est ly able un ##".split()
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~–—“”…·。、！¿"
OTHERS = "éßñçüøıœſςσΣαωйяבاहिกำ中文字日本語한각é́̈İǅ"

WRITTEN = [
    " ", "\t\n\r", "Hello, World!", "unaffable trainings", "don't stop", "a[MASK]b [MASK]s [mask] [ MASK ] [[CLS]]",
    "[UNK][PAD][SEP]", "[MAS", "[CLS", "[unused1]", "## ##a #", "Cafés naïve RÉSUMÉ Ångström",
    "straße STRASSE ẞ", "İstanbul ISTANBUL ıstanbul", "ΣΊΣΥΦΟΣ σίσυφος ΑΣ", "ﬁ ﬂ ǅ ǆ Ǆ ŉ",
    "e\u0301 e\u0323\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323 \u0301a", "\u1e9b\u0323 \u0344 \u0f73\u0301 \u212b \u2126 \u212a",
    "a\u0000b a\ufffdc a\u200db a\u200bb a\ufeffb \u00adsoft a\x0bb a\x0cb a\x1cb a\x85b \x7f",
    "a\u00a0b a\u1680b a\u2003b a\u2028b a\u2029b a\u202fb a\u205fb a\u3000b a\u180eb",
    "中文字abc中 文", "日本語テキスト カタカナ ﾊﾟ", "\uf900\ufa0e\U0002f800\U0002b820\U0002b920\U0002ceb0\U00020000",
    "각 한국어 \u1100\u1161\u11a8 \uac00\u0301", "हिन्दी में नमस्ते", "ภาษาไทยกำลัง", "العربيّة مُحَمَّد", "עִבְרִית",
    "x" * 100, "x" * 101, "é" * 100, "é" * 101, "e\u0301" * 100, "a" * 99 + "\u200d" + "b", "!" * 120,
    "$+<=>^|~` ¢£€ ©® °C №5 ½ ²", "“quoted” ‘single’ «fr» „de“ ¿qué? ¡hola! …—–‐‑", "\u037e\u0387\u1fef",
    "👍🏽 👨‍👩‍👧 🇩🇪 ☃️ ⌨", "\ue000 \U000f0000 \U000e0001 \u0378 \U0010ffff", "Z̛̼͉̲̳̿ͅą̴̸͜l̷g̵͇o̸",
    "\u302e\u0301\u302fa \U0001d165\U0001d16d\u0301 \u1715\u0334 \u1b44\u0334x", "\U00011938 \U000110ab \U0001d15e",
    "\u166d \u1734 \U000111c9 \u061d \u2e52 \u07fd", "\ua7cb \U00010d50 \U00016ea0 Ⴀ Ა Ꭰ ꭰ", "tab\tand\nline\r\nends  two",
    "http://example.com/a_b?c=d&e=f", "3.14 1,000 1e-5 0x1F", "C++ C# F# .NET", "\u200f\u202eabc\u202c", "ａＢＣ！",
]


def pools():
    """Characters of every kind the tokeniser tells apart, each kind as likely as another."""
    points = [chr(c) for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    kinds = {}
    for c in points:
        kind = (unicodedata.category(c), unicodedata.combining(c) > 0, bool(unicodedata.decomposition(c)), c.lower() != c)
        kinds.setdefault(kind, []).append(c)
    return [*kinds.values(), list(" \t\n"), list("abcXYZ012"), list(SIGNS), ["[MASK]", "[CLS]", "[UNK]"], WORDS]


def random_strings(count, seed):
    generator = random.Random(seed)
    kinds = pools()
    for _ in range(count):
        few = generator.sample(kinds, 6)
        yield "".join(generator.choice(generator.choice(few)) for _ in range(generator.randint(1, 24)))


def vocabulary_of(characters):
    """Every character as a start and as a continuation, so that tokens show what text became."""
    characters = sorted(set(characters) - set(" \t\n\r"))
    pieces = [f"##{piece}" for piece in [*characters, *ENDINGS, "##"]]
    return list(dict.fromkeys([*SPECIAL, "[unused1]", *WORDS, *ENDINGS, *characters, *pieces]))


def small_vocabulary():
    return vocabulary_of(LETTERS + SIGNS + OTHERS)
