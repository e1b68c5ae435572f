# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import planted_tree
import c_headers
import check_exports

HEADER = """/* SPDX-License-Identifier: Apache-2.0
 * A part. */
#ifndef A_H
#define A_H
#ifdef __cplusplus
extern "C" {
#endif
/* On a macro. */
#define MOONLIT_API __attribute__((visibility("default")))

/* On its own. */

typedef struct moonlit_a {
  int value; /* { not a brace */
} moonlit_a;
/* How it is called. */
typedef int (*moonlit_call)(void* user, int value);
enum { MOONLIT_ONE = 1 /* one */ };
/* Gives
 *  1. the first. */
MOONLIT_API moonlit_a* moonlit_first(int (*call)(int), const char* text); /* may fail */
MOONLIT_API void moonlit_second(void);
%s
#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* A_H */
"""
SOURCE = """
#define EXPORT extern "C" __attribute__((visibility("default")))
struct A;
EXPORT A* moonlit_first(int (*)(int), const char*) { return nullptr; }
EXPORT void moonlit_second() {}
%s
"""


class ExportsTest(planted_tree.PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant_header("")
        self.plant("runtime/api/moonlit.h", '#include "moonlit/a.h"\n')
        self.plant("runtime/api/moonlit.map", "MOONLIT_0.1 { global: moonlit_*; local: *; };\n", licence="")
        self.plant_list("moonlit_first", "moonlit_second")

    def plant_header(self, more):
        self.plant("runtime/api/moonlit/a.h", HEADER % more, licence="")

    def plant_list(self, *names):
        self.plant("runtime/api/symbols.txt", "# Words.\n" + "".join(f"{name} MOONLIT_0.1\n" for name in names), licence="")

    def headers(self):
        return check_exports.check_headers(self.root, check_exports.read_list(self.root))

    def shared(self, more="", script="MOONLIT_0.1 { global: moonlit_*; local: *; };"):
        source, output = self.plant("a.cc", SOURCE % more), os.path.join(self.root, "a.so")
        script = self.plant("a.map", script, licence="")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-fPIC", "-shared", source, "-o", output,
                        f"-Wl,--version-script={script}"], check=True)
        return check_exports.check_shared(os.environ.get("NM", "nm"), output, check_exports.read_list(self.root))

    def static(self, more=""):
        source, output = self.plant("a.cc", SOURCE % more), os.path.join(self.root, "a.o")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-c", source, "-o", output], check=True)
        return check_exports.check_static(os.environ.get("NM", "nm"), output, check_exports.read_list(self.root))

    def test_what_a_header_declares(self):
        head, items = c_headers.parse(HEADER % "")
        self.assertEqual(head, "A part.")
        self.assertEqual([(i.kind, i.name, i.comment) for i in items],
                         [("text", "", "On its own."), ("type", "moonlit_a", ""), ("type", "moonlit_call", "How it is called."),
                          ("type", "", ""), ("function", "moonlit_first", "Gives\n 1. the first."), ("function", "moonlit_second", "")])
        self.assertTrue(items[4].code.endswith("/* may fail */"))
        self.assertIn("not a brace", items[1].code)

    def test_clean(self):
        self.assertEqual(self.headers() + self.shared() + self.static(), [])

    def test_a_new_function(self):
        self.plant_header("MOONLIT_API int moonlit_third(void);")
        self.assert_one(self.headers(), "lacks moonlit_third")
        check_exports.fix(self.root, check_exports.read_list(self.root))
        self.assertEqual(self.headers(), [])
        self.assertEqual(check_exports.read_list(self.root)["moonlit_third"], "MOONLIT_0.1")

    def test_a_function_that_went_away(self):
        self.plant_list("moonlit_first", "moonlit_gone", "moonlit_second")
        check_exports.fix(self.root, check_exports.read_list(self.root))
        self.assert_one(self.headers(), "no header declares moonlit_gone")
        self.assert_one(self.shared(), "does not export moonlit_gone")
        self.assert_one(self.static(), "does not define moonlit_gone")

    def test_a_function_that_the_cxx_layer_lacks(self):
        def layer():
            return check_exports.check_layer(self.root, check_exports.read_list(self.root))
        self.plant("runtime/api/moonlit.hpp", '#include "moonlit/a.hpp"\n// moonlit_second()\n')
        self.plant("runtime/api/moonlit/a.hpp", "inline void First() { moonlit_first(nullptr, nullptr); }\n")
        self.assert_one(layer(), "calls moonlit_second")
        self.plant("runtime/api/moonlit.hpp", "inline void Second() { moonlit_second(); }\n")
        self.assertEqual(layer(), [])

    def test_a_name_of_another_kind(self):
        self.plant_header("MOONLIT_API int third(void);")
        self.assertTrue(any("begin with moonlit_" in problem for problem in self.headers()))

    def test_a_header_that_the_umbrella_lacks(self):
        self.plant("runtime/api/moonlit/b.h", "")
        with self.assertRaises(ValueError):
            self.headers()

    def test_a_symbol_too_many(self):
        self.assert_one(self.shared("EXPORT int moonlit_third() { return 3; }"), "exports moonlit_third")
        template = "#include <vector>\ntemplate class std::vector<A*>;"
        self.assertEqual(self.shared(template), [])
        self.assertTrue(any("vector" in p for p in self.shared(template, "MOONLIT_0.1 { global: moonlit_*; *vector*; local: *; };")))
        self.assert_one(self.static("int Third() { return 3; }"), "Third")

    def test_another_version(self):
        problems = self.shared(script="MOONLIT_0.1 { global: moonlit_f*; local: *; };"
                                      "MOONLIT_0.2 { global: moonlit_s*; } MOONLIT_0.1;")
        self.assert_one(problems, "moonlit_second has the version MOONLIT_0.2")
        self.assertEqual(len(self.shared(script="{ global: moonlit_*; local: *; };")), 2)


if __name__ == "__main__":
    unittest.main()
