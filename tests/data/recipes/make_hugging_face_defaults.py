#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what transformers takes for fields that a config.json leaves out, by model_type: tests/data/hugging_face_defaults.json.

    make_hugging_face_defaults.py models/common/hugging_face_families.inc > tests/data/hugging_face_defaults.json

Made with transformers 5.12.1. Fields of training, of generation and of names are left out."""

import dataclasses
import json
import re
import sys

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

OTHER = re.compile(r"dropout|pdrop|_token_id|initializer|use_cache|summary_|router_|init_device|output_|dtype|^transformers_version$"
                   r"|architectures|label|return_dict|chunk_size|is_encoder_decoder|problem_type|_name_or_path|pretraining_tp")


def defaults(model_type):
    kind = CONFIG_MAPPING[model_type]
    fields = {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}
    config = kind()
    for name in ("rope_parameters", "partial_rotary_factor", "no_rope_layer_interval"):
        if getattr(config, name, None) is not None:
            fields[name] = getattr(config, name)
    if "rope_theta" in (fields.get("rope_parameters") or {}):
        fields["rope_theta"] = fields["rope_parameters"]["rope_theta"]
    return {name: value for name, value in sorted(fields.items())
            if not OTHER.search(name) and isinstance(value, (type(None), bool, int, float, str, list, dict))}


types = dict.fromkeys(re.findall(r'^MOONLIT_HUGGING_FACE\("\w+", "(\w+)"', open(sys.argv[1]).read(), re.M))
print("{\n" + ",\n".join(f"{json.dumps(t)}: {json.dumps(defaults(t))}" for t in types) + "\n}")
