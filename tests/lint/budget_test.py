# SPDX-License-Identifier: Apache-2.0
import unittest

import planted_tree
import check_budget


def function(lines, head="int F(int a)"):
    return head + " {\n" + "  a();\n" * (lines - 2) + "}\n"


class BudgetTest(planted_tree.PlantedTree):
    def problems(self):
        return check_budget.check(self.root)[0]

    def warnings(self):
        return check_budget.check(self.root)[1]

    def test_clean_file(self):
        self.plant("runtime/a/a.cc", "namespace a {\n" + function(60) + "}  // namespace a\n")
        self.assertEqual(check_budget.check(self.root), ([], []))

    def test_long_file(self):
        self.plant("runtime/a/a.cc", "// line\n" * 599)
        self.assertEqual(self.problems(), [])
        self.assert_one(self.warnings(), "600 lines")
        self.plant("runtime/a/a.cc", "// line\n" * 600)
        self.assert_one(self.problems(), "runtime/a/a.cc", "601 lines")

    def test_data_files_may_be_long(self):
        self.plant("runtime/a/unicode_tables.inc", "1,\n" * 5000)
        self.assertEqual(self.problems(), [])

    def test_long_function(self):
        for head in ("int F(int a)", "template <typename T>\nauto C<T>::F(int a) const noexcept -> int", "C::C(int a) : a_(a), b_{}",
                     "TEST(Suite, Name)", "void operator()(int a) override"):
            with self.subTest(head):
                lines = head.count("\n")
                self.plant("runtime/a/a.cc", "namespace a {\n" + function(100 - lines, head) + "}\n")
                self.assertEqual(self.problems(), [])
                self.plant("runtime/a/a.cc", "namespace a {\n" + function(101 - lines, head) + "}\n")
                self.assert_one(self.problems(), "runtime/a/a.cc:3", "101 lines")

    def test_member_function_in_a_class(self):
        self.plant("runtime/a/a.h", "#pragma once\nclass A : public B {\n public:\n" + function(101) + "};\n")
        self.assert_one(self.problems(), "runtime/a/a.h:5", "101 lines")

    def test_braces_in_strings_and_comments_do_not_count(self):
        self.plant("runtime/a/a.cc", 'int F() {\n  const char* s = "{";  // {\n  char c = \'{\';\n  x(R"({{)");\n}\n' + "int a;\n" * 200)
        self.assertEqual(self.problems(), [])

    def test_a_table_is_no_function(self):
        self.plant("runtime/a/a.cc", "const int kTable[] = {\n" + "  1,\n" * 200 + "};\n")
        self.assertEqual(self.problems(), [])

    def test_missing_licence(self):
        self.plant("runtime/a/a.cc", "int a;\n", licence="")
        self.assert_one(self.problems(), "runtime/a/a.cc:1", "first line")
        self.plant("runtime/a/a.cc", "int a;\n")
        self.plant("tools/lint/x.py", "# SPDX-License-Identifier: Apache-2.0\n", licence="#!/usr/bin/env python3\n")
        self.assertEqual(self.problems(), [])

    def test_missing_pragma_once(self):
        self.plant("runtime/a/a.h", "int a();\n")
        self.assert_one(self.problems(), "#pragma once")

    def test_words_that_a_library_may_not_say(self):
        for line in ("std::cout << 1;", 'printf("x");', "exit(1);", "std::cerr << 1;", 'fprintf(stderr, "x");'):
            with self.subTest(line):
                self.plant("runtime/a/a.cc", f"void F() {{ {line} }}\n")
                self.assert_one(self.problems(), "runtime/a/a.cc:2")
        self.plant("runtime/a/a.cc", 'void F() { snprintf(b, 2, "x"); a.exit(1); }  // printf("x")\n')
        self.plant("tools/cli/main.cc", 'int main() { printf("x"); }\n')
        self.assertEqual(self.problems(), [])

    def test_words_that_nobody_may_say(self):
        todo, home = "TO" + "DO", "/ho" + "me/jo/x"
        host = "deb." + "example.org"
        for text in (f"// {todo}: later\n", f"// see {home}\n", f"// from {host}\n", "using namespace std;\n", "int a = rand();\n"):
            with self.subTest(text):
                self.plant("tools/cli/a.cc", text)
                self.assert_one(self.problems(), "tools/cli/a.cc:2")

    def test_names_without_a_room(self):
        self.plant("runtime/a/string_utils.cc", "")
        self.assert_one(self.problems(), "string_utils.cc", "name")

    def test_not_utf8(self):
        full = self.plant("runtime/a/a.cc", "")
        with open(full, "ab") as f:
            f.write(b"// \xff\n")
        self.assert_one(self.problems(), "UTF-8")


if __name__ == "__main__":
    unittest.main()
