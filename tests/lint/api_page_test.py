# SPDX-License-Identifier: Apache-2.0
import os
import sys
import unittest

import planted_tree

sys.path.insert(0, os.path.join(planted_tree.SOURCE, "tools", "docs"))
import api_page  # noqa: E402

HEADER = """/* SPDX-License-Identifier: Apache-2.0
 * Moons. Part of moonlit.h, whose conventions hold here.
 */
/* Rises at *hour; NULL: never. See moonlit_other.
 *
 *   moonlit_rise(3);
 *
 * Any thread. */
MOONLIT_API int moonlit_rise(int hour);
"""
EXAMPLE = """/* SPDX-License-Identifier: Apache-2.0
 * A moon. */
int main(void) { return moonlit_rise(3); }

/* Prints:
 * one
 *
 * two
 */
"""


class ApiPageTest(planted_tree.PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("runtime/api/moonlit.h", '/* SPDX\n * All. */\n#include "moonlit/moon.h"\n', licence="")
        self.plant("runtime/api/moonlit/moon.h", HEADER, licence="")
        self.plant("examples/api/moon.c", EXAMPLE, licence="")

    def test_page(self):
        page, problems = api_page.write(self.root)
        self.assertEqual(problems, [])
        for text in ("## moonlit/moon.h\n\nMoons.\n", "### moonlit_rise\n\n```c\nint moonlit_rise(int hour);\n```\n",
                     "Rises at `*hour`; NULL: never. See `moonlit_other`.\n\n```c\nmoonlit_rise(3);\n```\n\nAny thread.\n",
                     "Example: [moon.c](#moonc)\n", "### moon.c\n\nA moon.\n", "int main(void) { return moonlit_rise(3); }\n```\n",
                     "```text\none\n\ntwo\n```\n"):
            self.assertIn(text, page)

    def test_code_in_a_sentence(self):
        for text, expected in (('as "<|im_end|>" is', 'as `"<|im_end|>"` is'), ("0 < a_b < 1", "0 &lt; `a_b` &lt; 1"),
                               ("`a < b`", "`a < b`"), ("in ~/.local/share/models.", "in `~/.local/share/models`."),
                               ("in $HOME/moons. See _free.", "in `$HOME/moons`. See `_free`.")):
            self.assertEqual(api_page.prose(text), expected)

    def test_a_function_without_an_example(self):
        self.plant("runtime/api/moonlit/moon.h", HEADER + "MOONLIT_API void moonlit_set(void);\n", licence="")
        self.assert_one(api_page.write(self.root)[1], "no example calls moonlit_set", "examples/api/moon.c")
        # A comment is no call.
        self.plant("examples/api/moon_down.c", "/* moonlit_set() */ int main(void) {}\n/* Prints:\n */\n", licence="")
        self.assert_one(api_page.write(self.root)[1], "no example calls moonlit_set")
        self.plant("examples/api/moon_down.c", "int main(void) { moonlit_set(); }\n/* Prints:\n */\n", licence="")
        self.assertEqual(api_page.write(self.root)[1], [])

    def test_an_example_of_no_part(self):
        self.plant("examples/api/sun.c", EXAMPLE, licence="")
        self.assert_one(api_page.write(self.root)[1], "sun.c", "begins with no part's")

    def test_an_example_that_does_not_say_what_it_prints(self):
        self.plant("examples/api/moon.c", EXAMPLE.replace("Prints:", "Says:"), licence="")
        self.assert_one(api_page.write(self.root)[1], "Prints:")


if __name__ == "__main__":
    unittest.main()
