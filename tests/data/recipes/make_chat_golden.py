#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/chat_golden.json: what Jinja itself prints for chat templates, in the environment that transformers'
apply_chat_template makes (transformers, utils/chat_template_utils.py: an immutable sandbox, trim_blocks, lstrip_blocks, loop
controls, tojson without HTML escapes, raise_exception, strftime_now).

Usage: make_chat_golden.py OUT.json        (needs jinja2; the file names its version)

The templates are written for this file in the manner of the families that they are named after. Each is rendered for every
conversation; where Jinja raises, the golden says so.
"""

import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1721995200  # 2024-07-26 12:00 UTC

TEMPLATES = {
    "chatml": """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "chatml with a default system": """{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\nYou help.<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content | trim ~ '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
""",
    "llama 2": """{% if messages[0]['role'] == 'system' %}
{% set system_message = '<<SYS>>\n' + messages[0]['content'] | trim + '\n<</SYS>>\n\n' %}
{% set loop_messages = messages[1:] %}
{% else %}
{% set system_message = '' %}
{% set loop_messages = messages %}
{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user, assistant, user ...') }}
    {% endif %}
    {% if loop.index0 == 0 %}
        {% set content = system_message + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
{{ ' ' + content | trim + ' ' + eos_token }}
    {%- endif %}
{% endfor %}""",
    "llama 3": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}{{- "Environment: ipython\n" }}{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for t in tools or [] %}
    {{- t | tojson(indent=4) }}{{- "\n\n" }}
{%- endfor %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}{{- raise_exception("One call at a time.") }}{%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
        {{- '{"name": "' + call.name + '", "parameters": ' }}{{- call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] ~ '\n\n' %}{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}{% for message in rest %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}{% if message['content'] is string %}{{ message['content'] | trim }}{% elif message['content'] is iterable %}{% for item in message['content'] %}{% if item['type'] == 'image' %}{{ '<image>' }}{% elif item['type'] == 'text' %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% else %}{{ raise_exception("content of an unknown kind") }}{% endif %}{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the system message, roles must alternate.") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}{{- raise_exception("Ids have nine characters!") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + "}[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
""",
    "phi 3": """{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% else %}{{'<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "thinking": """{%- set ns = namespace(multi_step_tool=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' }}{{- content }}{{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}""",
    "macros": """{%- macro kind_of(spec, depth=0) -%}
    {%- if spec.type == "array" -%}
        {{ kind_of(spec['items'], depth + 1) }}[]
    {%- elif spec.type == "object" and spec.properties is defined -%}
        {%- for name, value in spec.properties.items() -%}
            {{ "  " * depth }}{{ name }}{% if name not in spec.get('required', []) %}?{% endif %}: {{ kind_of(value, depth=depth + 1) }};
        {%- endfor -%}
    {%- elif spec.enum -%}
        {{ spec.enum | map('tojson') | join(' | ') }}
    {%- else -%}
        {{ spec.type | default('any') }}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
{{ loop.index }}. {{ tool.function.name | upper }} — {{ tool.function.description | default("nothing", true) }}
{{ kind_of(tool.function.parameters) }}
{% endfor %}
{%- for message in messages if message.role != 'system' -%}
    {%- if loop.index > 3 %}{% break %}{% endif %}
    {%- if not message.content %}{% continue %}{% endif %}
[{{ loop.index }}/{{ loop.length }} {{ loop.cycle('a', 'b') }}] {{ message.role.capitalize() }}: {% generation %}{{ message.content | string | replace('\n', ' ') }}{% endgeneration %}
{% else %}
nobody spoke
{% endfor %}
{%- set note -%}
  {{ messages | length }} messages
{%- endset %}
({{ note }})""",
    "granite": """{# the day goes first #}
{{ '<|start_of_role|>system<|end_of_role|>' }}Today's Date: {{ strftime_now('%B %d, %Y') }}.{{ eos_token }}
{%- for message in messages %}

{{ '<|start_of_role|>' ~ message['role'] ~ '<|end_of_role|>' ~ message['content'] ~ '<|end_of_text|>' }}
{%- if loop.last and add_generation_prompt %}

<|start_of_role|>assistant<|end_of_role|>
{%- endif %}
{%- endfor %}""",
}

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather \u2014 \"now\" & <soon>",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]}, "at": {"type": "array", "items": {"type": "number"}}},
        "required": ["city"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Z\u00fcrich", "days": 2, "x": [1.5, None, True]}}}]}

CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": " \u4f60\u597d, 2 < 3 & 'x' \"y\" \n"}],
     "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "one"},
                  {"role": "assistant", "content": "<think>\nhm\n</think>\n\ntwo\n"}, {"role": "user", "content": "three \U0001F600"}],
     "add_generation_prompt": False},
    {"messages": [{"role": "user", "content": "Weather?"}, CALL, {"role": "tool", "content": "{\"t\": 20}"}],
     "tools": TOOLS, "add_generation_prompt": True},
    {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "add_generation_prompt": True,
     "variables": {"enable_thinking": False, "date_string": "today"}},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " parts "}, {"type": "image"}]}],
     "add_generation_prompt": True},
    {"messages": [], "add_generation_prompt": True},
]

# One line of the language each, with v as below.
SNIPPETS = r"""{{ v.n + 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 5.0 }}
{{ v.list[0] }} {{ v.list[-1] }} {{ v.list[9] }}{{ v.list[1:] }} {{ v.list[:-1] }} {{ v.list[::-1] }} {{ v.list[::2] }} {{ v.list[5:1] }}
{{ v.s[1] }} {{ v.s[-2:] }} {{ v.s[::-1] }} {{ v.s[1:4:2] }} {{ v.s|length }} {{ v.s[0:100] }}
{{ v.list }} {{ v.dict }} {{ v.none }} {{ v.yes }} {{ none }} {{ true }} [{{ missing }}] {{ v.nothing }}
{{ v.dict.a }} {{ v.dict['b'] }} {{ v.dict.get('zz') }} {{ v.dict.get('zz', 5) }} {{ v.dict.keys()|list }} {{ v.dict.values()|list }}
{% for k, x in v.dict.items() %}{{ k }}={{ x }};{% endfor %} {% for k in v.dict %}{{ k }}{% endfor %} {% for k, x in v.dict|items %}{{ k }}{% endfor %} {% for k, x in v.dict|dictsort %}{{ k }}{{ x }}{% endfor %}
{{ v.s|upper }} {{ v.s|lower }} {{ v.s|title }} {{ v.s|capitalize }} {{ v.s.title() }} {{ '\u00e9t\u00e9'|upper }}
{{ '  x '|trim }}|{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xxaxx'.rstrip('x') }}|{{ 'abc'|trim('a') }}
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'a\nb\r\nc'.splitlines() }}
{{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abcabc'|replace('bc', '') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'aXbX'.count('X') }} {{ '12'.isdigit() }}
{{ 'b' in 'abc' }} {{ 'z' not in 'abc' }} {{ 2 in v.list }} {{ 'a' in v.dict }} {{ 'a' in [] }} {{ 1 in (1, 2) }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 'a' == 1 }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }}
{{ v.n and v.s }} {{ 0 or 'x' }} {{ '' or 'y' }} {{ not v.none }} {{ not '' and true }} {{ 1 if v.yes else 2 }} {{ 1 if missing }}|
{{ missing is defined }} {{ v.s is defined }} {{ v.none is none }} {{ v.s is string }} {{ v.n is number }} {{ v.dict is mapping }} {{ v.list is iterable }} {{ v.list is sequence }} {{ v.s is not none }}
{{ 4 is even }} {{ 3 is odd }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ true is true }} {{ v.s is eq 'x' }} {{ 2 is in [1, 2] }}
{{ v.list|join(', ') }} {{ v.list|join }} {{ v.people|join('/', attribute='name') }} {{ ', '.join(['p', 'q']) }}
{{ v.list|first }} {{ v.list|last }} {{ v.s|first }} {{ []|first }} {{ v.list|reverse|list }} {{ 'abc'|reverse }} {{ v.list|sum }} {{ v.list|max }} {{ v.list|min }}
{{ v.people|map(attribute='name')|list }} {{ ['a', 'b']|map('upper')|join }} {{ v.people|selectattr('age', 'gt', 30)|map(attribute='name')|list }} {{ v.people|rejectattr('age')|list }}
{{ [1, none, 2, 0]|select|list }} {{ [1, 2, 3, 4]|select('even')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [1, 2, 1]|unique|list }} {{ [3, 1, 2]|sort }} {{ ['b', 'A']|sort(reverse=true) }} {{ v.people|sort(attribute='age')|map(attribute='name')|list }}
{{ v.dict|tojson }} {{ v.list|tojson }} {{ v.s|tojson }} {{ none|tojson }} {{ 1.5|tojson }} {{ '<&\u00e9\n\t"'|tojson }} {{ {'b': 1, 'a': [1, {}]}|tojson(indent=2) }} {{ []|tojson(indent=2) }}
{{ '3'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '2.5'|float }} {{ 3.9|int }} {{ 42|string ~ '!' }} {{ -3|abs }} {{ 2.567|round(2) }} {{ 2.5|round }}
{{ "don't stop-here (now) a[b {c <d e_f"|title }} {{ "don't"|title }} {{ "don't".title() }} {{ 'aB cD'|title }} {{ 7|round }} {{ 1234|round(-2) }} {{ -15|round(-1) }} {{ 7|round(3) }} {{ 7.0|round }}
{{ '[]' is upper }} {{ '1' is lower }} {{ 'A1' is upper }} {{ 'a1' is lower }} {{ 'aB' is upper }} {{ '' is upper }} {{ ['b', 'A', 'c']|min }} {{ ['b', 'C', 'a']|max }} {{ ['b', 'C', 'a']|max(case_sensitive=true) }} {{ ['b', 'A']|min(true) }}
{{ missing is sequence }} {{ ['a', 'A', 'b']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {% for k, x in {'b': 1, 'A': 2}|dictsort %}{{ k }}{{ x }}{% endfor %} {% for k, x in {'b': 1, 'A': 2}|dictsort(true) %}{{ k }}{% endfor %}
{{ missing|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ none|d('d') }} {{ missing|length }}
{{ 'a\nb\n\nc'|indent }} {{ 'a\nb'|indent(2, true) }} {{ '<a href="x">&</a>'|e }}
{{ range(3)|list }} {{ range(1, 7, 2)|list }} {{ range(3, 0, -1)|list }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set x = [1, 2] %}{{ x }} {% set ns = namespace(i=0, s='') %}{% for q in x %}{% set ns.i = ns.i + q %}{% endfor %}{{ ns.i }} {% for q in x %}{% set y = q %}{% endfor %}{{ y is defined }}
{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in [1, 2, 3] if x != 2 %}{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for x in missing %}{% else %}empty{% endfor %}
{% for x in [1, 2] %}{% for y in 'ab' %}{{ x }}{{ y }}{{ loop.depth }} {% endfor %}{{ loop.index }} {% endfor %}
{% macro m(a, b='B', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=1, c=3) }}{{ m() }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{{ "a" "b" }} {{ 'it\'s' }} {{ "\x41\u4f60\t|" }} {{ {'k': 'v', 'n': [1, 'two', none, True]} }} {{ ["it's", 'say "hi"', 'both \' "'] }}
{{ (1, 2) | length }} {{ (1) }} {{ (v.n + 1) * 2 }} {{ v['n'] }} {{ v.people[0].name }} {{ v.people[0]['name'] | upper }} {{ v.people.0.name }}
{{ -v.n }} {{ +3 }} {{ - 2 + 5 }} {{ 10 - 2 - 3 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ 'a' + 'b' ~ 'c' }} {{ 5 % 3 * 2 }}
{{ v.s.lower().strip() }} {{ ' A '.strip().lower() }} {{ 'x'.upper() ~ 'Y'.lower() }} {{ 'pre-fix'.removeprefix('pre-') }} {{ 'a.txt'.removesuffix('.txt') }}
{%- set x = 1 -%}   trimmed   {%- set y = 2 -%}  |
{{ 1 }}{# note #}{{ 2 }} {#- left -#} {{ 3 }} {{- 4 -}} {{ 5 }}
{% if false %}a{% elif v.n == 3 %}b{% else %}c{% endif %}{% if v.none %}x{% endif %}{% if [] %}y{% endif %}{% if 'a' %}z{% endif %}
{{ raise_exception('no ' ~ v.n) }}
{{ missing.attribute }}
{{ 'a' + 1 }}
{{ 1 // 0 }}
{{ v.none.x }}|{{ v.none.x is defined }}
{{ v.s() }}
{{ none|length }}
{{ v.list.append(4) }}
{{ 'abc'.split('') }}""".split("\n")
LINES = [
    "{% if true %}\n  kept\n{% endif %}\n\nend\n",
    "  {% if true %}\n  x\n  {% endif %}\n  {{ 1 }}\n  {# c #}\nq\n\n",
    "a\n  {%+ if true %}\nb{% endif +%}\nc",
    "{% for x in [1, 2] %}\n    {{ x }}\n{% endfor %}\ntail",
    "{%- for x in [1, 2] -%}\n    {{ x }}\n{%- endfor -%}\n  tail",
    "x {%- if true %} y {% endif -%} z",
    "\n\n  {{ 1 -}}  \n\n {{- 2 }}",
    "a\r\n{% set q = 1 %}\r\nb\rc\r\n",
    "{% set t %}\n <b>{{ 1 }}</b>\n{% endset %}{{ t|trim }}|{{ t }}",
    "{%- set q = 1 %}   \n  t{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "  \t{%- if true -%}\n\n\t q \n{%- endif %}\n  {%- if 1 %}w{% endif %}",
    "{ {{ '{' }} } {x} %} }} #}",
]
VALUES = {"n": 3, "s": "H\u00e9llo w\u00f6rld", "list": [1, 2, 3], "dict": {"a": 1, "b": "x", "c": [1, {"d": None}]}, "none": None, "yes": True,
          "people": [{"name": "Ann", "age": 31}, {"name": "Bo", "age": 25}, {"name": "Cy", "age": None}][:2]}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(lineno)

    def _inside(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    env.globals["strftime_now"] = now.strftime
    return env


def render(template, variables):
    try:
        return {"text": environment().from_string(template).render(**variables)}
    except Exception as fault:  # whatever Jinja or Python says: the template has no text
        return {"fault": f"{type(fault).__name__}: {fault}"}


def main():
    out = {"made_by": f"jinja2 {jinja2.__version__}", "now": NOW, "bos_token": "<s>", "eos_token": "</s>",
           "values": VALUES, "chats": [], "snippets": []}
    for name, template in TEMPLATES.items():
        cases = []
        for conversation in CONVERSATIONS:
            variables = dict(conversation.get("variables", {}), messages=conversation["messages"],
                             tools=conversation.get("tools"), documents=None,
                             add_generation_prompt=conversation["add_generation_prompt"], bos_token="<s>", eos_token="</s>")
            cases.append(render(template, variables))
        out["chats"].append({"name": name, "template": template, "cases": cases})
    out["conversations"] = CONVERSATIONS
    for template in SNIPPETS + LINES:
        out["snippets"].append(dict(render(template, {"v": VALUES}), template=template))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1, ensure_ascii=True)
        file.write("\n")


if __name__ == "__main__":
    main()
