#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizer_golden.json: token ids that llama.cpp gives for vocabularies of our own.

  tokenizer_golden.py --texts AWKWARD.tokens.json --models DIR --poet POET.gguf --tokenize "CMD" --scratch DIR \
      --seen-as DIR --out tokenizer_golden.json

AWKWARD.tokens.json has our inputs (cases[].bytes_hex), DIR the tiny models whose tokenizers are taken along
(llama/model.gguf: SentencePiece in mistral/, WordPiece in bert/), CMD runs llama-tokenize, and files written to --scratch
are seen by it under --seen-as (for a chroot).

The vocabulary "pairs" is made here, to show where a pre-tokenizer cuts: byte pair merges are learnt from the inputs
without any cutting, so tokens reach over letters, digits, spaces and signs, and a cut anywhere changes the ids.

llama.cpp carries simplified patterns for some names and never normalizes. For these (HF_PATTERNS: the patterns of the
models' tokenizer.json) the ids of the Hugging Face package `tokenizers` stand beside its own as ids_hf, by number of the
text, wherever the two differ; the script needs that package.
"""
import argparse, collections, json, shlex, struct, subprocess, sys

NAMES = """default llama-bpe falcon-h1 lfm2 dbrx smaug-bpe glm4 minicpm5 qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez
qwen35 gpt-2 mpt olmo phi-2 exaone4 jais-2 starcoder refact command-r smollm codeshell exaone minerva-7b falcon
deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense tekken gpt-4o llama4 minimax-m2 tiny_aya youtu bloom poro-chat viking
bailingmoe seed-coder exaone-moe chameleon afmoe superbpe laguna grok-2 solar-open""".split()

EXTRA = ["Việt Nam Việt", "1 12 123 1234 12345 123456 1234567 12345678a 1234 5", "HTTPServer iPhone ÉCOLE école Éa éA ǅ ﬁ",
         "a\u180eb\u0085c\u00a0d\u3000e\u2028f", "don't DON'T I'LL x'sy 'tis l'été", "key=value;{}[]()//--\n\n\t\tif(x){return;}\n\n",
         "Text。日本語テキスト、カタカナ、ひらがな！한국어 中文123字abc", "नमस्ते दुनिया สวัสดี مرحبا", "😀👍🏽 a😀b 👨‍👩‍👧",
         "<|im_start|>user\nhi<|im_end|>\n<tool><tool_call>x</tool>", "   leading and trailing   ", "\n \n  \n\n x\r\n\r\ny "]
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}")
HF_PATTERNS = {  # name: (patterns, NFC, ignore_merges)
    "qwen2": ([CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES], True, False),
    "qwen35": ([CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES], True, False),
    "tekken": ([GPT4O.replace(CONTRACTIONS + "?", "").replace("{1,3}", "")], False, True),
    "gpt-4o": ([GPT4O], False, False),
    "llama4": ([GPT4O], False, False),
    "minimax-m2": ([GPT4O], False, False),
    "tiny_aya": ([r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O], False, False),
}
TYPES = {8: "s", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 12: "d", 0: "B", 1: "b", 2: "H", 3: "h", 11: "q"}


def read_gguf(path):
    file = open(path, "rb")
    number = lambda code: struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]
    text = lambda: file.read(number("Q"))
    def value(kind):
        if kind == 9:
            element, count = number("I"), number("Q")
            return [value(element) for _ in range(count)]
        return text() if kind == 8 else number(TYPES[kind])
    file.read(8)
    number("Q")
    return {text().decode(): value(number("I")) for _ in range(number("Q"))}


def write_gguf(path, values):
    def string(text):
        text = text if isinstance(text, bytes) else text.encode()
        return struct.pack("<Q", len(text)) + text
    def packed(value):
        if isinstance(value, bool):
            return 7, struct.pack("<?", value)
        if isinstance(value, int):
            return 4, struct.pack("<I", value)
        if isinstance(value, float):
            return 6, struct.pack("<f", value)
        if isinstance(value, (str, bytes)):
            return 8, string(value)
        if isinstance(value[0], int):
            return 9, struct.pack("<IQ", 5, len(value)) + struct.pack("<%di" % len(value), *value)
        if isinstance(value[0], float):
            return 9, struct.pack("<IQ", 6, len(value)) + struct.pack("<%df" % len(value), *value)
        return 9, struct.pack("<IQ", 8, len(value)) + b"".join(string(item) for item in value)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)))
        for key, value in values.items():
            kind, data = packed(value)
            file.write(string(key) + struct.pack("<I", kind) + data)


def alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def learn_pairs(texts, count):
    letters = alphabet()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>", "<tool_call>"]
    words = [[letters[byte] for byte in text] for text in texts]
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word in words:
            pairs.update(zip(word, word[1:]))
        if not pairs:
            break
        # Long runs would eat the budget: at most 12 characters a token.
        allowed = [p for p in pairs if len(p[0] + p[1]) <= 12 and p[0] + p[1] not in special]
        pair = min(allowed, key=lambda p: (-pairs[p], p), default=None)
        if pair is None:
            break
        merges.append(pair)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == pair:
                    word[i:i + 2] = [word[i] + word[i + 1]]
                i += 1
    tokens = [letters[byte] for byte in range(256)]
    for left, right in merges:
        if left + right not in tokens:
            tokens.append(left + right)
    types = [1] * len(tokens) + [3, 3, 3, 4, 4]
    return {"model": "gpt2", "tokens": tokens + special, "token_type": types, "merges": [" ".join(pair) for pair in merges],
            "bos_token_id": len(tokens), "eos_token_id": len(tokens)}


def taken_along(path):
    out = {}
    for key, value in read_gguf(path).items():
        if key.startswith("tokenizer.ggml."):
            name = key[len("tokenizer.ggml."):]
            if isinstance(value, list) and value and isinstance(value[0], bytes):
                value = [item.decode() for item in value]
            out[name] = value.decode() if isinstance(value, bytes) else value
    return out


def hugging_face(vocabulary, pre, parse_special):
    import tokenizers
    patterns, nfc, ignore_merges = HF_PATTERNS[pre]
    ids = {token: i for i, token in enumerate(vocabulary["tokens"])}
    merges = [tuple(merge.split(" ")) for merge in vocabulary["merges"]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges, ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    splits = [tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in patterns]
    bytes_only = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(splits + [bytes_only])
    for token, kind in zip(vocabulary["tokens"], vocabulary["token_type"]):
        # llama.cpp calls "</s>" a control token whatever its type; here merges happen to make one.
        if kind == 4 or (parse_special and (kind == 3 or token == "</s>")):
            tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=kind == 3)])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def add_hugging_face(entry, vocabulary, texts):
    for key, parse_special in (("ids", False), ("ids_special", True)):
        encode = hugging_face(vocabulary, entry["pre"], parse_special)
        bos = [vocabulary["bos_token_id"]] if parse_special and entry["pre"] == "tekken" else []
        for i, text in enumerate(texts):
            try:
                ids = bos + encode(text.decode())
            except UnicodeDecodeError:
                continue
            if ids != entry[key][i]:
                entry.setdefault(key + "_hf", {})[str(i)] = ids


def shorten(entry):
    """ids_special by number of the text, only where it differs from ids."""
    same = lambda i: entry["ids_special"][i] == entry["ids"][i] and str(i) not in entry.get("ids_special_hf", {})
    entry["ids_special"] = {str(i): ids for i, ids in enumerate(entry["ids_special"]) if not same(i)}


def dump(value, indent):
    """One line a list: small, and a change shows where it is."""
    if isinstance(value, dict):
        lines = (" " * (indent + 1) + json.dumps(k) + ": " + dump(v, indent + 1) for k, v in value.items())
        return "{\n" + ",\n".join(lines) + "}"
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(" " * (indent + 1) + dump(item, indent + 1) for item in value) + "]"
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser()
    for name in ("texts", "models", "poet", "tokenize", "scratch", "seen-as", "out"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    texts = [bytes.fromhex(case["bytes_hex"]) for case in json.load(open(args.texts))["cases"] if len(case["bytes_hex"]) < 2400]
    texts += [text.encode() for text in EXTRA]

    def ids(model, text, *flags):
        command = shlex.split(args.tokenize) + ["-m", args.seen_as + "/" + model, "--stdin", "--ids", "--no-escape", *flags]
        run = subprocess.run(command, input=text, capture_output=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.decode(errors="replace")[-300:])
        return json.loads(run.stdout.decode().strip().splitlines()[-1])

    base = {"general.architecture": "gpt2", "general.name": "golden", "gpt2.block_count": 1, "gpt2.context_length": 64,
            "gpt2.embedding_length": 64, "gpt2.feed_forward_length": 64, "gpt2.attention.head_count": 1,
            "gpt2.attention.layer_norm_epsilon": 1e-5, "general.file_type": 1}
    vocabularies = {"pairs": learn_pairs(texts, 900), "tiny-spm": taken_along(args.models + "/mistral/model.gguf"),
                    "tiny-bert": taken_along(args.models + "/bert/model.gguf")}
    plan = [("pairs", name) for name in NAMES] + [("tiny-spm", ""), ("tiny-bert", "")]
    vocabularies["tiny-bert"]["bos_token_id"] = vocabularies["tiny-bert"]["cls_token_id"]  # llama.cpp reads no other key
    golden = []
    for vocabulary, pre in plan:
        values = dict(base)
        for key, value in vocabularies[vocabulary].items():
            values["tokenizer.ggml." + key] = value
        if pre:
            values["tokenizer.ggml.pre"] = pre
        write_gguf(args.scratch + "/golden-vocab.gguf", values)
        try:
            golden.append({"vocabulary": vocabulary, "pre": pre,
                           "ids": [ids("golden-vocab.gguf", text, "--no-bos", "--no-parse-special") for text in texts],
                           "ids_special": [ids("golden-vocab.gguf", text) for text in texts]})
            if pre in HF_PATTERNS:
                add_hugging_face(golden[-1], vocabularies[vocabulary], texts)
            shorten(golden[-1])
        except RuntimeError as error:
            print("left out:", pre, error, file=sys.stderr)
    verses = ["床前明月光", "春眠不覺曉", "　\n床前明月光，疑是地上霜。", "hello 月", "<s>月</s>"]
    subprocess.run(["cp", args.poet, args.scratch + "/golden-poet.gguf"], check=True)
    poet = [{"text_hex": text.encode().hex(), "ids": ids("golden-poet.gguf", text.encode(), "--no-bos", "--no-parse-special"),
             "ids_special": ids("golden-poet.gguf", text.encode())} for text in verses]
    version = subprocess.run(shlex.split(args.tokenize) + ["--version"], capture_output=True)
    lines = (version.stdout + version.stderr).decode().splitlines()
    out = {"made_with": "llama-tokenize of llama.cpp, " + next(line for line in lines if line.startswith("version")),
           "texts_hex": [text.hex() for text in texts], "vocabularies": vocabularies, "golden": golden, "poet": poet}
    open(args.out, "w").write(dump(out, 0) + "\n")


if __name__ == "__main__":
    main()
