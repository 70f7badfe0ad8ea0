"""Reads C well enough for the test `rooms`: removes comments and strings, and finds directives, functions and variables."""
import re
from dataclasses import dataclass
from pathlib import Path

# Everything is matched in one pass, so that a quote inside a comment and a comment sign inside a string are read correctly.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(\w+)[ \t]*(.*)$', re.M)
CONDITIONALS = {"if", "ifdef", "ifndef", "elif", "else", "endif"}
WORD = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\b")
MACRO = re.compile(r"\bHK_[A-Z_]+\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
ATTRIBUTE = re.compile(r"\b(?:__attribute__|_Alignas|alignas)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")

# A macro call in a place where a declaration may be: MACRO(a, (b), c)
MACRO_CALL = re.compile(r"[A-Z_][A-Z0-9_]*\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
TYPE_ONLY = re.compile(r"(?:(?:struct|union|enum)\s*\w*\s*(?:\{\})?)?")


@dataclass
class Function:
    name: str
    line: int
    length: int


def _blank(match: re.Match) -> str:
    text = match.group()
    kept = "\n" * text.count("\n")
    return '""' if text[0] == '"' else "0" if text[0] == "'" else " " + kept


def _without_directives(text: str, which: str = "") -> str:
    """Removes directives with their continuation lines. The number of lines stays the same."""
    directive = r"^[ \t]*#[ \t]*" + which + r"(?:[^\n\\]|\\.|\\\n)*"
    return re.sub(directive, lambda m: "\n" * m.group().count("\n"), text, flags=re.M)


def _shallow(text: str) -> str:
    """Removes the text between braces, but keeps the outermost braces."""
    kept, depth = [], 0
    for part in re.split(r"([{}])", text):
        depth -= part == "}"
        if depth == 0:
            kept.append(part)
        depth += part == "{"
    return "".join(kept)


class Source:
    def __init__(self, path: Path, name: str):
        self.name = name
        self.raw = path.read_text(encoding="utf-8")
        self.code = NOISE.sub(_blank, self.raw)
        self.lines = self.raw.count("\n") + (not self.raw.endswith("\n"))
        # Includes are read from text without comments but with strings, because the names are strings.
        bare = NOISE.sub(lambda m: m.group() if m.group()[0] in "\"'" else _blank(m), self.raw)
        self.includes = [(m[1], self._line(bare, m.start())) for m in INCLUDE.finditer(bare) if m[1]]
        self.system_includes = [(m[2], self._line(bare, m.start())) for m in INCLUDE.finditer(bare) if m[2]]

    @staticmethod
    def _line(text: str, offset: int) -> int:
        return text.count("\n", 0, offset) + 1

    def conditionals(self) -> list[tuple[int, str]]:
        """Returns (line, directive) of every conditional, except the two of the header guard."""
        found = [(self._line(self.code, m.start()), m[1], m[2].strip()) for m in DIRECTIVE.finditer(self.code)]
        guarded = (len(found) >= 3 and found[0][1] == "ifndef" and found[1][1] == "define" and found[-1][1] == "endif"
                   and found[0][2] == found[1][2] and self.name.endswith(".h"))
        inner = found[1:-1] if guarded else found
        return [(line, f"#{word} {rest}".strip()) for line, word, rest in inner if word in CONDITIONALS]

    def uses(self, names: list[str], but_in: str = "") -> list[tuple[int, str]]:
        """Returns (line, name) for each use of one of the names, except as a member of a struct or as the second argument of the macro `but_in`."""
        pattern = re.compile(r"(?<![\w.])(?<!->)(" + "|".join(map(re.escape, names)) + r")\b")
        text = _without_directives(self.code, "include")  # the body of a macro counts, but <sys/mman.h> is not a call
        if but_in:
            text = re.sub(rf"(\b{but_in}\([\w *]+,\s*)(\w+)", lambda m: m[1] + "_" * len(m[2]), text)
        return [(self._line(text, m.start()), m[1]) for m in pattern.finditer(text)]

    def words(self) -> list[tuple[str, int]]:
        """Returns (word, line) of every identifier, except members of structs and text in directives other than #define."""
        text = _without_directives(self.code, "include")
        return [(m[1], self._line(text, m.start())) for m in WORD.finditer(text)]

    def defined(self) -> list[str]:
        """Returns the functions and variables that other files may name: those at file scope that are not static and begin with hk_ or hak_."""
        text = MACRO.sub(" ", ATTRIBUTE.sub(" ", _shallow(_without_directives(self.code))))
        found = []
        for statement in re.split(r"[;}]", text):
            head = statement.split("=")[0].split("{")[0].strip()
            if re.match(r"(?:static|extern|typedef|HK_INLINE)\b", head) or re.fullmatch(r"(?:struct|union|enum)\s*\w*", head):
                continue
            function = re.search(r"\b(ha?k_\w+)\s*\([^*]", head) or re.search(r"\(\*\s*(ha?k_\w+)", head)
            if function is None:
                found += re.findall(r"(?<!struct )(?<!enum )(?<!union )\b(ha?k_\w+)", head)
            elif "{" in statement or function[0].startswith("(*"):
                found.append(function[1])
        return found

    def members(self, names: list[str]) -> list[tuple[int, str]]:
        """Returns (line, name) for each call of one of the names through a struct."""
        pattern = re.compile(r"(?:\.|->)\s*(" + "|".join(map(re.escape, names)) + r")\s*\(")
        return [(self._line(self.code, m.start()), m[1]) for m in pattern.finditer(self.code)]

    def functions(self) -> list[Function]:
        """Returns the definitions at file scope, with their length from the first line of the declarator to the closing brace."""
        text = ATTRIBUTE.sub(lambda m: " " + "\n" * m.group().count("\n"), _without_directives(self.code))
        found, depth, start, opened = [], 0, 0, None
        for m in re.finditer(r"[{};]", text):
            char, at = m.group(), m.start()
            if char == "{":
                if depth == 0:
                    opened = self._definition(text[start:at])
                    first = self._line(text, start + len(text[start:at]) - len(text[start:at].lstrip()))
                depth += 1
            elif char == "}":
                depth -= 1
                if depth == 0 and opened:
                    found.append(Function(opened, first, self._line(text, at) - first + 1))
            if depth == 0 and char in "};":
                start, opened = at + 1, None
        return found

    def state(self) -> list[str]:
        """Returns the variables at file scope that may change."""
        text = ATTRIBUTE.sub(" ", _without_directives(self.code))
        found, depth, item = [], 0, ""
        for piece in re.split(r"([{};])", text):
            if piece == "{":
                depth += 1
                item += "{" if depth == 1 else ""
            elif piece == "}":
                depth -= 1
                item += "}" if depth == 0 else ""
                if depth == 0 and self._definition(item[:-2]):
                    item = ""
            elif depth == 0 and piece == ";":
                name = self._variable(item)
                found += [name] if name else []
                item = ""
            elif depth == 0:
                item += piece
        return found

    @staticmethod
    def _variable(item: str) -> str | None:
        """Returns the name if an item at file scope (without the contents of braces) defines a variable that is not const."""
        declared = re.split(r"(?<![=!<>])=(?!=)", item)[0].strip()
        while call := MACRO_CALL.match(declared):
            declared = declared[call.end():].strip()
        declared = re.sub(r"\s+HK_[A-Z_]+$", "", declared)  # for example the name of its section
        if re.match(r"(?:typedef|extern)\b", declared) or TYPE_ONLY.fullmatch(declared):
            return None
        pointer = re.search(r"\(\s*\*\s*(const\b)?\s*(\w+)[^()]*\)\s*\(", declared)
        if "(" in declared:
            return pointer[2] if pointer and not pointer[1] and declared.index("(") == pointer.start() else None
        changes = declared.rsplit("*", 1)[-1]
        name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", declared)
        return name[1] if name and not re.search(r"\bconst\b", changes) else None

    @staticmethod
    def _definition(head: str) -> str | None:
        """Returns the function's name if the text before a brace at file scope is the head of a function."""
        head = head.strip()
        if not head.endswith(")") or re.search(r"(?<![=!<>])=(?!=)", head):
            return None
        depth = 0
        for at in range(len(head) - 1, -1, -1):
            depth += (head[at] == ")") - (head[at] == "(")
            if depth == 0:
                name = re.search(r"(\w+)\s*$", head[:at])
                return name[1] if name else None
        return None
