#!/usr/bin/env python3
"""Each lint check finds a planted fault, and passes the same text without it."""

import pathlib
import tempfile
import unittest

import layers
import reports
import sizes
import tree


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return path

    def includes(self, path, line):
        return layers.check_includes(self.root, [self.write(path, line + "\n")])

    def sizes(self, path, text):
        return sizes.check_sizes(self.root, [self.write(path, text)])[0]

    def test_includes(self):
        self.assertEqual([], self.includes("controller/core/a.c", '#include "api/base/status.h"'))
        self.assertTrue(self.includes("controller/core/a.c", '#include "api/rpc/rpc.h"'))
        self.assertTrue(self.includes("controller/core/a.c", '#include "api/base/clock.h"'))
        self.assertTrue(self.includes("agent/shell/a.c", '#include "controller/core/view.h"'))
        self.assertTrue(self.includes("api/base/a.c", '#include "api/wire/wire.h"'))
        self.assertTrue(self.includes("api/client/a.c", '#include "transport/model/digest.h"'))
        self.assertTrue(self.includes("controller/shell/a.c", "#include <grpc/grpc.h>"))
        self.assertEqual([], self.includes("api/rpc/a.c", "#include <grpc/grpc.h>"))
        self.assertTrue(self.includes("agent/shell/a.c", "#include <curl/curl.h>"))

    def test_pure_symbols(self):
        for name in ("memcpy", "strlen", "baton_status_make", "baton_random_u64", "vsnprintf"):
            self.assertTrue(layers.PURE_SYMBOLS.match(name), name)
        for name in ("malloc", "free", "open", "read", "clock_gettime", "pthread_create", "getrandom", "printf", "baton_random_secure", "baton_log"):
            self.assertFalse(layers.PURE_SYMBOLS.match(name), name)

    def c_function(self, lines, parameters="int a"):
        return f"static int f({parameters})\n{{\n" + "    x();\n" * lines + "}\n"

    def test_sizes(self):
        self.assertEqual([], self.sizes("a.c", self.c_function(70)))
        self.assertTrue(self.sizes("a.c", self.c_function(71)))
        six = ", ".join(f"int a{i}" for i in range(6))
        self.assertEqual([], self.sizes("a.c", self.c_function(1, six)))
        self.assertTrue(self.sizes("a.c", self.c_function(1, six + ",\n             void (*g)(int, int)")))
        self.assertTrue(self.sizes("a.c", "int x;\n" * 701))
        self.assertTrue(self.sizes("a.py", "def f(a):\n" + "    a()\n" * 72))
        self.assertTrue(self.sizes("a.py", "def f(a, b, c, d, e, f, g):\n    pass\n"))
        self.assertTrue(self.sizes("a.sh", "f() {\n" + "  x\n" * 71 + "}\n"))
        self.assertTrue(self.sizes("a.js", "function f(a, b, c, d, e, f, g) {\n}\n"))

    def test_tree(self):
        top = sorted(tree.TOP - {"README.md", "LICENSE", "CMakeLists.txt"})
        good = ["README.md", "LICENSE", "CMakeLists.txt"] + [f"{t}/README.md" for t in top]
        self.assertEqual([], tree.check_top(good) + tree.check_readmes(good))
        self.assertTrue(tree.check_top(good + ["stray.txt"]))
        self.assertTrue(tree.check_top(good[1:]))
        self.assertTrue(tree.check_readmes(good + ["agent/core/a.c"]))
        self.assertTrue(tree.check_texts(self.root, [self.write("a.md", "see /" + "work/main/a\n")]))
        self.assertTrue(tree.check_texts(self.root, [self.write("a.c", "/* TO" + "DO */\n")]))
        self.assertEqual([], tree.check_texts(self.root, [self.write("a.md", "a network/root/cause\n")]))

    def reports(self, ids, *rows):
        self.write("tests/unit/a_test.c", "Test(a, works)\n")
        text = f"Ids: {ids}\n\n" + "".join(f"| {row} |\n" for row in rows)
        return reports.check_reports(self.root, [self.write(reports.TABLE, text)])

    def test_reports(self):
        good = "A1 | went wrong | `tests/unit/a_test.c::works`"
        self.assertEqual([], self.reports("A1 B2", good, "B2 | went wrong | open: comes with etcd"))
        self.assertTrue(self.reports("A1 B2", good))
        self.assertTrue(self.reports("A1", good, good))
        self.assertTrue(self.reports("A1", good, "B2 | went wrong | open: comes with etcd"))
        self.assertTrue(self.reports("A1", "A1 | went wrong | surely not"))
        self.assertTrue(self.reports("A1", "A1 | went wrong | `tests/unit/a_test.c::work`"))
        self.assertTrue(self.reports("A1", "A1 | went wrong | `tests/unit/b_test.c`"))
        self.assertTrue(reports.check_reports(self.root, []))


if __name__ == "__main__":
    unittest.main()
