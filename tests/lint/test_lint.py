#!/usr/bin/env python3
"""Each rule finds its bad sample, at the right line, and lets the good one pass."""

import os
import subprocess
import tempfile
import unittest

import format_rule
import include_rules
import layout_rules
import size_rules
import tables
import text_rules
import tree as tree_module
from tree import Tree, code_only


def found(rule, **texts):
    """'path:line rule' of each finding; `a__b_hpp` style would be unreadable, so texts come as a
    dict under `files`."""
    return [f'{f.path}:{f.line} {f.rule}' for f in rule(Tree(texts['files']))]


class Includes(unittest.TestCase):
    def test_a_lower_room_may_not_include_a_higher_one(self):
        files = {'storage/a.cpp': '#include "storage/b.hpp"\n#include "runtime/x.hpp"\n',
                 'storage/b.hpp': '#pragma once\n', 'runtime/x.hpp': '#pragma once\n'}
        self.assertEqual(found(include_rules.our_includes, files=files), ['storage/a.cpp:2 layer'])

    def test_storage_and_kernels_do_not_know_each_other(self):
        files = {'kernels/api/k.hpp': '#include "storage/s.hpp"', 'storage/s.hpp': ''}
        self.assertEqual(found(include_rules.our_includes, files=files), ['kernels/api/k.hpp:1 layer'])

    def test_an_include_is_written_from_the_root(self):
        files = {'runtime/net/a.cpp': '#include "a.hpp"\n#include "../net/a.hpp"\n', 'runtime/net/a.hpp': ''}
        self.assertEqual(found(include_rules.our_includes, files=files),
                         ['runtime/net/a.cpp:1 include', 'runtime/net/a.cpp:2 include'])

    def test_pure_code_sees_no_generated_message(self):
        files = {'runtime/a.cpp': '#include "proto/wire/kv.capnp.h"\n', 'proto/wire/kv.capnp': '',
                 'actors/a.cpp': '#include "proto/wire/kv.capnp.h"\n#include "proto/wire/no.capnp.h"\n'}
        self.assertEqual(found(include_rules.our_includes, files=files),
                         ['actors/a.cpp:2 include', 'runtime/a.cpp:1 layer'])

    def test_rooms_include_each_other_in_one_direction(self):
        files = {'runtime/a/x.hpp': '#include "runtime/b/x.hpp"', 'runtime/b/x.hpp': '#include "runtime/c/x.hpp"',
                 'runtime/c/x.hpp': '\n#include "runtime/a/y.hpp"', 'runtime/a/y.hpp': '#include "runtime/a/z.hpp"',
                 'runtime/d/x.hpp': '#include "runtime/a/x.hpp"', 'actors/a/x.cpp': '#include "actors/b/x.hpp"',
                 'actors/b/x.hpp': '#include "actors/a/y.hpp"'}
        self.assertEqual(found(include_rules.room_cycles, files=files), ['runtime/a/x.hpp:1 cycle'])
        files['runtime/c/x.hpp'] = ''
        self.assertEqual(found(include_rules.room_cycles, files=files), [])

    def test_a_file_outside_every_room_is_told(self):
        self.assertEqual(found(include_rules.our_includes, files={'extra/a.cpp': ''}),
                         ['extra/a.cpp:1 room'])

    def test_caf_lives_in_actors_alone(self):
        files = {'runtime/a.cpp': '\n#include <caf/actor.hpp>\n', 'actors/a.cpp': '#include <caf/actor.hpp>\n'}
        self.assertEqual(found(include_rules.foreign_includes, files=files), ['runtime/a.cpp:2 foreign'])

    def test_an_unknown_library_must_be_given_a_room(self):
        files = {'actors/a.cpp': '#include <vector>\n#include <absl/strings/str_cat.h>\n'}
        self.assertEqual(found(include_rules.foreign_includes, files=files), ['actors/a.cpp:2 foreign'])

    def test_the_words_do_not_ask_the_operating_system(self):
        files = {'proto/types/a.hpp': '#include <unistd.h>', 'runtime/a.cpp': '#include <sys/mman.h>'}
        self.assertEqual(found(include_rules.foreign_includes, files=files), ['proto/types/a.hpp:1 foreign'])

    def test_an_include_in_a_comment_does_not_count(self):
        files = {'runtime/a.cpp': '// #include <caf/actor.hpp>\n/*\n#include <caf/actor.hpp>\n*/\n'}
        self.assertEqual(found(include_rules.foreign_includes, files=files), [])

    def test_the_kernel_interface_stays_with_cxx17(self):
        files = {'kernels/api/a.hpp': '#include <cstdint>\n#include <span>\n', 'kernels/cpu/a.cpp': '#include <span>'}
        self.assertEqual(found(include_rules.cxx17_includes, files=files), ['kernels/api/a.hpp:2 cxx17'])

    def test_the_own_header_comes_first(self):
        files = {'storage/a.hpp': '', 'storage/a.cpp': '\n#include <vector>\n#include "storage/a.hpp"\n',
                 'storage/b.hpp': '', 'storage/b.cpp': '#include "storage/b.hpp"\n'}
        self.assertEqual(found(include_rules.own_header_first, files=files), ['storage/a.cpp:2 own-header'])

    def test_a_header_has_pragma_once(self):
        files = {'storage/a.hpp': '// #pragma once\n', 'storage/b.hpp': '#pragma once\n', 'storage/c.cpp': ''}
        self.assertEqual(found(include_rules.pragma_once, files=files), ['storage/a.hpp:1 pragma-once'])


class Sizes(unittest.TestCase):
    def sizes(self, text):
        return size_rules.functions(code_only(text))

    def test_a_file_over_the_limit_fails_and_one_over_the_aim_warns(self):
        tree = Tree({'runtime/a.cpp': '\n' * 601, 'runtime/b.cpp': '\n' * 401, 'runtime/c.cpp': '\n' * 400,
                     'runtime/a.hpp': '\n' * 201, 'deploy/x': '#!/bin/sh\n' * 601, 'a.json': '\n' * 900})
        found_sizes = [(f.path, f.warning) for f in size_rules.file_sizes(tree)]
        self.assertEqual(found_sizes, [('deploy/x', False), ('runtime/a.cpp', False),
                                       ('runtime/a.hpp', True), ('runtime/b.cpp', True)])

    def test_a_function_over_the_limit_fails(self):
        body = '  g();\n' * 78
        tree = Tree({'runtime/a.cpp': f'void f() {{\n{body}}}\nvoid h() {{\n{body}  g();\n}}\n',
                     'tests/a.py': 'def f():\n' + '    g()\n' * 80})
        self.assertEqual([str(f).split(': ')[:3] for f in size_rules.function_sizes(tree)],
                         [['runtime/a.cpp:1', 'warning', 'function-size'],
                          ['runtime/a.cpp:81', 'error', 'function-size'],
                          ['tests/a.py:1', 'error', 'function-size']])

    def test_every_shape_of_function_is_measured_from_its_first_line(self):
        text = '''namespace a {
class b final : public c {
public:
  explicit b(int x)
      : x_(x), y_{1, {2}} {
  }
  [[nodiscard]] auto size() const noexcept -> std::vector<int> {
    return {1, 2};
  }
  friend bool operator==(const b&, const b&) { return true; }
private:
  int x_ = 0;
  std::vector<int> y_{3};
};
template <class T, class = std::enable_if_t<(sizeof(T) > 4)>>
  requires std::integral<T>
T twice(T t = T{2}) noexcept(true) {
  auto f = [&] { if (t) { return t; } return T{}; };
  for (;;) { break; }
  return f();
}
constexpr int table[] = {
  1, 2,
};
enum class e : int { x, y };
extern "C" int raw(void) {
  return '{' + 1'000 + sizeof("}}}") + sizeof(R"x({"a": {)x");
}
}  // namespace a
TEST_SUITE("a") {
  TEST_CASE_FIXTURE(world, "x { y") {
  }
}
'''
        self.assertEqual(self.sizes(text), [
            ('b', 4, 6), ('size', 7, 9), ('operator==', 10, 10), ('twice', 15, 21), ('raw', 26, 28),
            ('TEST_CASE_FIXTURE', 31, 32)])

    def test_blocks_lambdas_and_tables_are_no_functions(self):
        text = '''const auto x = std::vector<int>{f(1), f(2)};
std::map<int, int> y{
  {1, 2}, {3, 4},
};
struct z { int a = {1}; struct { int b; } c; };
'''
        self.assertEqual(self.sizes(text), [])

    def test_braces_that_do_not_match_are_left_alone(self):
        self.assertEqual(self.sizes('void f() {\n#if A\n}\n#else\n}\n#endif\n'), [])

    def test_a_macro_with_a_lone_brace_does_not_disturb(self):
        self.assertEqual(self.sizes('#define BEGIN \\\n  {\nvoid f() {\n}\n'), [('f', 3, 4)])


class Words(unittest.TestCase):
    def one(self, path, text):
        return found(text_rules.words, files={path: text})

    def test_each_banned_word_is_found(self):
        samples = {
            'caf-all': 'actors/a.cpp|#include <caf/all.hpp>', 'sleep': 'tests/a.cpp|std::this_thread::sleep_for(x);',
            'randomness': 'runtime/a.cpp|std::random_device d;', 'wall-clock': 'actors/a.cpp|system_clock::now();',
            'clock': 'storage/a.cpp|steady_clock::now();', 'thread': 'runtime/a.cpp|std::thread t;',
            'log': 'runtime/a.cpp|std::fprintf(stderr, "x");', 'environment': 'actors/a.cpp|getenv("X");',
            'throw': 'proto/codec/a.cpp|throw 1;', 'caf-infinite': 'actors/a.cpp|request(x, caf::infinite, y);',
            'hash-table': 'runtime/recipe/a.cpp|std::unordered_set<std::string> names;',
            'todo': 'README.md|TODO later', 'fixme': 'deploy/up|# FIXME', 'machine-path': 'tests/a.toml|dir = "/work/x"',
        }
        self.assertEqual(set(samples), {word.name for word in tables.WORDS})
        for rule, sample in samples.items():
            with self.subTest(rule):
                path, text = sample.split('|')
                self.assertEqual(self.one(path, '\n' + text), [f'{path}:2 {rule}'])

    def test_comments_strings_and_look_alikes_pass(self):
        for path, text in [('runtime/a.cpp', '// a throw, a std::thread\nf("std::random_device");'),
                           ('runtime/a.cpp', 'std::thread::id x; snprintf(b, 1, ""); rethrow();'),
                           ('README.md', 'TODO(#12): more; see src/work/x and ${X}/work/y'),
                           ('runtime/net/fabric/a.cpp', 'std::thread t; steady_clock::now();'),
                           ('actors/node/a.cpp', 'std::random_device d; getenv("X");')]:
            with self.subTest(text):
                self.assertEqual(self.one(path, text), [])

    def test_a_file_is_named_after_its_idea(self):
        files = {'runtime/base/utils.hpp': '', 'actors/x_manager.cpp': '', 'runtime/misc/a.cpp': '',
                 'proto/wire/common.capnp': '', 'runtime/uncommon.cpp': ''}
        self.assertEqual(found(text_rules.vague_names, files=files), [
            'actors/x_manager.cpp:1 vague-name', 'runtime/base/utils.hpp:1 vague-name', 'runtime/misc:1 vague-name'])

    def test_schema_ids_are_there_and_unique(self):
        files = {'proto/wire/a.capnp': '@0xaaaaaaaaaaaaaaaa;\nstruct B @0xbbbbbbbbbbbbbbbb {}\n',
                 'proto/wire/b.capnp': '# note\n@0xAAAAAAAAAAAAAAAA;\n'.lower(), 'proto/wire/c.capnp': 'struct D {}\n'}
        self.assertEqual(found(text_rules.schema_ids, files=files),
                         ['proto/wire/b.capnp:2 schema-id', 'proto/wire/c.capnp:1 schema-id'])

    def test_suites_name_rooms_and_tests_state_rules(self):
        good = 'TEST_SUITE("proto/codec") {\n TEST_CASE("one rule holds") {}\n'
        bad = 'TEST_SUITE("codec") {\n TEST_CASE("frames") {}\n TEST_CASE_FIXTURE(w, "two words") {}\n'
        files = {'proto/codec/a.hpp': '', 'tests/unit/a_test.cpp': good, 'tests/unit/b_test.cpp': bad}
        self.assertEqual(found(text_rules.test_names, files=files), [
            'tests/unit/b_test.cpp:1 test-suite', 'tests/unit/b_test.cpp:2 test-name',
            'tests/unit/b_test.cpp:3 test-name'])


class Layout(unittest.TestCase):
    def test_the_top_level_holds_only_what_the_plan_names(self):
        files = {'README.md': '', 'proto/a': '', 'src/a': '', '.junk': ''}
        self.assertEqual(found(layout_rules.top_level, files=files), ['.junk:1 top-level', 'src:1 top-level'])

    def test_every_room_has_a_readme_of_the_right_length(self):
        text = 'line\n\n' * 5
        files = {'proto/README.md': text, 'proto/types/a.hpp': '', 'tests/README.md': 'short\n',
                 'tests/unit/README.md': 'line\n' * 16, 'tests/unit/proto/a.cpp': '', 'deploy/README.md': text,
                 'deploy/presets/a.ini': '', '.ci/run': ''}
        self.assertEqual(found(layout_rules.room_readmes, files=files), [
            'proto/types/README.md:1 readme', 'tests/README.md:1 readme', 'tests/unit/README.md:1 readme'])

    def test_a_source_that_nobody_builds_is_told(self):
        files = {'runtime/meson.build': "x = files('net/a.cpp')", 'runtime/net/a.cpp': '', 'runtime/net/b.cpp': '',
                 'meson.build': "executable('c', 'tests/c.cpp')", 'tests/c.cpp': '', 'runtime/net/h.hpp': ''}
        self.assertEqual(found(layout_rules.built_sources, files=files), ['runtime/net/b.cpp:1 not-built'])

    def test_what_the_build_asks_for_is_installed(self):
        files = {'deploy/packages.txt': 'libcapnp-dev  # why\n', 'a/meson.build':
                 "# dependency('no')\ndependency('capnp')\nfind_program('capnp')\ndependency('threads')\n"
                 "dependency('new', method: 'x')\n"}
        self.assertEqual(found(layout_rules.listed_packages, files=files), [
            'a/meson.build:3 package', 'a/meson.build:5 package'])

    def test_a_test_is_registered_once(self):
        text = ("test('a', one, suite: 'unit')\ntest('a', two, suite: 'actor')\ntest('b', one,\n  suite: 'unit')\n"
                "test('a', three, suite: 'unit')\ntest('c', python, args: x)\ntest('d', python, args: y)\n"
                "test('e', tool, args: x)\ntest('f', tool, args: y)\n")
        self.assertEqual(found(layout_rules.tests_once, files={'tests/meson.build': text}),
                         ['tests/meson.build:3 test-twice', 'tests/meson.build:5 test-twice'])


class Format(unittest.TestCase):
    @unittest.skipIf(format_rule.tool()[0] is None, 'no clang-format 14')
    def test_an_unformatted_source_is_told_with_its_line(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {'.clang-format': 'BasedOnStyle: Google\n', 'bad.cpp': 'int a;\nint   b;\n',
                               'good.cpp': 'int a;\n'}.items():
                with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
                    file.write(text)
            got = [f'{f.path}:{f.line} {f.rule}' for f in format_rule.unformatted(root, ['bad.cpp', 'good.cpp'])]
            self.assertEqual(got, ['bad.cpp:2 format'])


class Loading(unittest.TestCase):
    def test_ignored_and_binary_files_are_left_out(self):
        with tempfile.TemporaryDirectory() as root:
            for name, data in {'.gitignore': b'/build*/\n', 'a.cpp': b'int a;', 'b.bin': b'\0\1', 'build/c.cpp': b''}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), 'wb') as file:
                    file.write(data)
            for git in (False, True):
                if git:
                    subprocess.run(['git', 'init', '-q', root], check=True, stdin=subprocess.DEVNULL)
                tree = tree_module.load(root)
                self.assertEqual(tree.paths, ['.gitignore', 'a.cpp', 'b.bin'])
                self.assertIsNone(tree.texts['b.bin'])


if __name__ == '__main__':
    unittest.main()
