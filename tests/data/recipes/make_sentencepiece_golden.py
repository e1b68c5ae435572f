#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/data/hugging_face/sentencepiece: models as SentencePiece's own trainer writes them, and the ids that it gives.

  make_sentencepiece_golden.py OUT

Needs sentencepiece (0.2.3). Tiny vocabularies, trained on a line of text.
"""
import json
import os
import sys

import sentencepiece

TEXT = "the quick brown fox jumps over the lazy dog, and the other dogs don't care: 1234 times 5678 is 7006652. " * 4
PROBES = ["the quick dog", "Don't  care\n\n 12345!", "na\u00efve \u4f60\u597d", " leading", "", "fox jumps over 7006652"]


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    corpus = os.path.join(out, "corpus.txt")
    with open(corpus, "w") as file:
        file.write("\n".join(TEXT.split(". ")))
    for kind, size in (("bpe", 330), ("unigram", 310)):
        sentencepiece.SentencePieceTrainer.train(
            input=corpus, model_prefix=os.path.join(out, kind), model_type=kind, vocab_size=size, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=1.0,
            hard_vocab_limit=False, minloglevel=2)
        os.remove(os.path.join(out, kind + ".vocab"))
    os.remove(corpus)
    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(out, "bpe.model"))
    texts = [{"text": text, "ids": [model.bos_id()] + model.encode(text)} for text in PROBES]
    with open(os.path.join(out, "golden.json"), "w") as file:
        json.dump({"pieces": model.vocab_size(), "texts": texts}, file)


main()
