#include "runtime/recipe/apply_patch.hpp"

namespace deepinfer::recipe {
namespace {

// Protocol data: the order of the keys is that of recorded prompts.
constexpr std::string_view schema =
    R"({"type": "object", "additionalProperties": false, "properties": {"input": {"type": "string", )"
    R"("description": "The entire contents of the apply_patch command (the *** Begin Patch ... )"
    R"(*** End Patch envelope)."}}, "required": ["input"]})";

}  // namespace

const std::string_view apply_patch_description =
    R"(Changes files in the workspace. The only argument, `input`, is one patch: an envelope around any number of file operations, written in the plain text format below and not in any other diff format.

*** Begin Patch
[ one or more file operations ]
*** End Patch

Each operation starts with a header line that says what happens to one file:

*** Add File: <path>
creates a file. Every following line is a line of the new file and starts with `+`, empty lines included.

*** Delete File: <path>
removes a file. Nothing follows the header.

*** Update File: <path>
changes an existing file in place. It may be followed directly by `*** Move to: <new path>`, which also renames the file. Then come one or more hunks.

Paths are relative to the workspace. Never write an absolute path.

A hunk starts with a line `@@`, which may carry a header: the text of a line that the changed part belongs to, such as the first line of a class or function. Every other line of a hunk starts with one character that tells its meaning:
` ` (a space) keeps the line, as context;
`-` removes the line;
`+` inserts the line.
A hunk that reaches the last line of the file may end with `*** End of File`.

How to choose the context:
- Show the three unchanged lines directly above and the three directly below each change.
- When two changes are less than three lines apart, do not repeat as the upper context of the second what already stands as the lower context of the first.
- When three lines do not single out one place in the file, name the class or function after `@@`.
- When that is still not unique, because the same lines occur several times in one class, write several `@@` lines, from the outer to the inner one:

@@ class Inventory
@@     def restock(self, item):
[ three lines of context, the change, three lines of context ]

The grammar, exactly:

Patch      := "*** Begin Patch" NL { FileOp } "*** End Patch" NL
FileOp     := AddFile | DeleteFile | UpdateFile
AddFile    := "*** Add File: " path NL { "+" line NL }
DeleteFile := "*** Delete File: " path NL
UpdateFile := "*** Update File: " path NL [ "*** Move to: " newPath NL ] { Hunk }
Hunk       := "@@" [ header ] NL { (" " | "-" | "+") text NL } [ "*** End of File" NL ]

An example with all three operations:

*** Begin Patch
*** Add File: notes/today.txt
+First line
+
+Third line
*** Update File: src/greet.py
*** Move to: src/welcome.py
@@ def greet(name):
     if not name:
         name = "you"
     # Everybody gets the same words.
-    print("Hi, " + name)
+    print(f"Welcome, {name}")
     return True
*** Delete File: old/unused.txt
*** End Patch

Remember: every operation has a header, and every new line starts with `+`, also in a new file.
)";

tool_definition apply_patch_tool(std::string_view description) {
  tool_definition tool;
  tool.name = apply_patch_name;
  tool.description = description;
  tool.parameters = schema;
  return tool;
}

}  // namespace deepinfer::recipe
