"""PTX, as nvcc -ptx writes it, to C++."""

import re
from dataclasses import dataclass, replace

from .kernels import Instruction, Kernel, Unknown, plain_name

SHARED_BASE = 0x400  # as in machine.h
SPECIAL = {"%tid.x": "t.tid", "%ctaid.x": "t.ctaid", "%ntid.x": "t.ntid", "%nctaid.x": "t.nctaid"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNSIGNED_COMPARISONS = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


@dataclass
class Statement:
    line: int
    text: str = ""  # without the semicolon
    label: str = ""


@dataclass
class Entry:
    """A kernel as it stands in the PTX."""

    name: str  # as plain_name says
    parameter: str
    parameter_bytes: int
    threads: int
    registers: dict[str, tuple[str, int]]  # of each prefix: the C++ type, and how many there are
    shared: dict[str, int]  # the addresses of what lies in shared memory
    shared_bytes: int
    statements: list[Statement]

    def head(self) -> Kernel:
        """The kernel without its instructions."""
        return Kernel(self.name, self.parameter_bytes, self.threads, self.shared_bytes)

    def kernel(self) -> Kernel:
        return _Translation(self).kernel()


def _statements(text: str, first_line: int) -> list[Statement]:
    result = []
    for line, rest in enumerate(text.split("\n"), first_line):
        rest = rest.strip()
        while rest:
            if label := re.match(r"([$%A-Za-z_][\w$]*):\s*", rest):
                result.append(Statement(line, label=label[1].replace("$", "L_")))
                rest = rest[label.end() :]
            elif ";" in rest:
                one, rest = rest.split(";", 1)
                result.append(Statement(line, " ".join(one.split())))
                rest = rest.strip()
            else:
                raise Unknown(f"line {line}: a statement that does not end: {rest}")
    return result


ENTRY = re.compile(
    r"\.entry\s+(?P<name>\w+)\(\s*\.param\s+\.align\s+\d+\s+\.b8\s+(?P<parameter>\w+)\[(?P<bytes>\d+)\]\s*\)\s*"
    r"\.maxntid\s+(?P<threads>\d+)[\d, ]*\s*\.minnctapersm\s+\d+\s*\{\n(?P<body>.*?)^\}",
    re.S | re.M,
)
# How nvcc writes for newer architectures that a half of a register is not used.
UNUSED_HALF = re.compile(r"\{ \.reg \.b\d+ tmp; (mov\.b\d+) \{(%rs?\d+, )?tmp(, %rs?\d+)?\}, (%rd?\d+); \}")
DYNAMIC_SHARED = re.compile(r"^\s*\.extern\s+\.shared\s+\.align\s+(\d+)\s+\.b8\s+(\w+)\[\];", re.M)


def entries(text: str) -> list[Entry]:
    """The kernels of a file; raises Unknown if it has anything else."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.S)
    text = UNUSED_HALF.sub(r"\1 {\2_\3}, \4;", text)
    dynamic = {name: int(align) for align, name in DYNAMIC_SHARED.findall(text)}
    if any(align > 16 for align in dynamic.values()):
        raise Unknown("dynamic shared memory aligned to more than 16 bytes")
    for line in ENTRY.sub("", text).splitlines():
        if line.strip() and not re.match(r"\s*\.(version|target|address_size|extern\s+\.shared|visible|weak)\b", line):
            raise Unknown(f"outside of kernels: {line.strip()}")
    result = []
    for match in ENTRY.finditer(text):
        first_line = text.count("\n", 0, match.start("body")) + 1
        registers, shared, statements, end = {}, {}, [], SHARED_BASE
        for s in _statements(match["body"], first_line):
            if declared := re.fullmatch(r"\.reg \.(pred|b16|b32|b64) (%[a-z]+)<(\d+)>", s.text):
                cpp_type = "bool" if declared[1] == "pred" else declared[1].replace("b", "u")
                registers[declared[2]] = cpp_type, int(declared[3])
            elif declared := re.fullmatch(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]", s.text):
                align = int(declared[1])
                shared[declared[2]] = -(-end // align) * align
                end = shared[declared[2]] + int(declared[3])
            elif s.text.startswith(".") and not s.text.startswith(".pragma"):
                raise Unknown(f"line {s.line}: {s.text}")
            else:
                statements.append(s)
        shared |= dict.fromkeys(dynamic, -(-end // 16) * 16)
        result.append(
            Entry(
                plain_name(match["name"]),
                match["parameter"],
                int(match["bytes"]),
                int(match["threads"]),
                registers,
                shared,
                end - SHARED_BASE,
                statements,
            )
        )
    return result


def _split_operands(text: str) -> list[str]:
    """Splits at commas outside of braces and brackets."""
    return [part.strip() for part in re.findall(r"(?:[^,{\[]|\{[^}]*\}|\[[^\]]*\])+", text)]


def _cpp_type(t: str) -> str:
    if t == "pred":
        return "bool"
    if not re.fullmatch(r"[usb](8|16|32|64)", t):
        raise Unknown(f"type {t}")
    return ("s" if t[0] == "s" else "u") + t[1:]


def _bits(t: str) -> int:
    return 1 if t == "pred" else int(t[1:])


class _Translation:
    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.variables: dict[str, str] = {}
        self.used_bytes = ""  # of the next load, where the compiler says that it needs only some

    def kernel(self) -> Kernel:
        kernel = replace(self.entry.head(), variables=self.variables)
        labels: list[str] = []
        for s in self.entry.statements:
            if s.label:
                labels.append(s.label)
            elif mask := re.fullmatch(r'\.pragma "used_bytes_mask (\w+)"', s.text):
                self.used_bytes = mask[1]
            elif s.text != '.pragma "nounroll"':
                try:
                    instruction = self.instruction(s)
                except (Unknown, IndexError) as error:
                    raise Unknown(f"line {s.line}: {s.text}: {error}") from None
                kernel.instructions.append(replace(instruction, labels=labels))
                labels = []
        return kernel

    def instruction(self, s: Statement) -> Instruction:
        match = re.fullmatch(r"(?:@(!?)(%p\d+) )?([a-z][\w.:]*)(?: (.*))?", s.text)
        if not match:
            raise Unknown("not an instruction")
        negated, predicate, opcode, operands = match.groups()
        result = Instruction(s.line, opcode, guard=negated + self.value(predicate, "pred") if predicate else "")
        if opcode in ("bra", "bra.uni"):
            return replace(result, target=operands.replace("$", "L_"))
        if opcode in ("ret", "exit"):
            return replace(result, is_exit=True)
        return replace(result, cpp=self.statement(opcode, _split_operands(operands or ""), s.line))

    # ---- Operands ----

    def register(self, name: str) -> tuple[str, int]:
        """The C++ variable of a register, and how many bits it has."""
        match = re.fullmatch(r"(%[a-z]+)(\d+)", name)
        cpp_type, count = self.entry.registers.get(match[1], ("", 0)) if match else ("", 0)
        if not match or int(match[2]) >= count:
            raise Unknown(f"register {name}")
        self.variables[name[1:]] = cpp_type
        return name[1:], 1 if cpp_type == "bool" else int(cpp_type[1:])

    def value(self, operand: str, t: str, wider: bool = False) -> str:
        """An operand as a value of type t. `wider`: its register may be so, as those of ld, st and cvt may."""
        if operand in SPECIAL and _bits(t) == 32:
            return f"{_cpp_type(t)}({SPECIAL[operand]})"
        if operand.startswith("%"):
            name, bits = self.register(operand)
            if bits != _bits(t) and not (wider and bits > _bits(t) > 1):
                raise Unknown(f"register {operand} of {bits} bits as {t}")
            return f"{_cpp_type(t)}({name})"
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+U?|\d+U?)", operand):
            number, bits = int(operand.rstrip("U"), 0), _bits(t)
            if t == "pred":
                return str(bool(number)).lower()
            if not -(1 << (bits - 1)) <= number < 1 << bits:
                raise Unknown(f"immediate {operand} as {t}")
            return f"{_cpp_type(t)}({number & ((1 << bits) - 1)}ull)"
        if operand in self.entry.shared:
            return f"{_cpp_type(t)}({self.entry.shared[operand]})"
        if operand == self.entry.parameter:
            return f"{_cpp_type(t)}(kParameterBase)"
        raise Unknown(f"operand {operand}")

    def put(self, operand: str, value: str, t: str, wider: bool = False) -> str:
        """Puts a value of type t into a register."""
        name, bits = self.register(operand)
        if bits != _bits(t) and not (wider and bits > _bits(t) > 1):
            raise Unknown(f"result register {operand} of {bits} bits as {t}")
        return f"{name} = {value};" if bits == 1 else f"{name} = u{bits}({_cpp_type(t)}({value}));"

    def address(self, operand: str, space: str) -> str:
        match = re.fullmatch(r"\[([%\w$]+)(?:\s*\+\s*(-?\d+))?\]", operand)
        if not match:
            raise Unknown(f"address {operand}")
        base, offset = match[1], int(match[2] or 0)
        if space == "param" and base == self.entry.parameter:
            return f"kParameterBase + u64({offset}ll)"
        if space == "shared" and base in self.entry.shared:
            return f"u64({self.entry.shared[base] + offset})"
        name, bits = self.register(base)
        if bits == 32 and space == "shared":
            return f"u64(u32({name} + u32({offset}ll)))"
        if bits != 64:
            raise Unknown(f"address {operand} of {bits} bits")
        return f"{name} + u64({offset}ll)"

    # ---- Instructions ----

    def memory(self, opcode: str, a: list[str], line: int) -> str:
        match = re.fullmatch(r"(ld|st)\.(param|global|shared)(?:\.nc)?(?:\.L\w+::\w+)*(?:\.v([24]))?\.(\w+)", opcode)
        if not match or len(a) != 2 or match[1] + match[2] == "stparam":
            raise Unknown(opcode)
        kind, space, lanes, t = match[1], match[2], int(match[3] or 1), match[4]
        data, at = a if kind == "ld" else a[::-1]
        if (lanes > 1) != data.startswith("{"):
            raise Unknown(f"{opcode} {data}")
        names = _split_operands(data[1:-1]) if lanes > 1 else [data]
        if len(names) != lanes:
            raise Unknown(f"{opcode} {data}")
        where, used, self.used_bytes = self.address(at, space), self.used_bytes, ""
        if kind == "st":
            if used:
                raise Unknown("used_bytes_mask of a store")
            values = ", ".join(self.value(n, t, wider=True) for n in names)
            return f"{{ const {_cpp_type(t)} v[{lanes}] = {{{values}}}; store_{space}(t, v, {where}, {line}); }}"
        # Of parameters, nvcc 13.0 uses more than it says; ptxas reads them all the same.
        mask = f", {used}" if used and space == "global" else ""
        puts = " ".join(self.put(n, f"v[{k}]", t, wider=True) for k, n in enumerate(names) if n != "_")
        return f"{{ {_cpp_type(t)} v[{lanes}]; load_{space}(t, v, {where}, {line}{mask}); {puts} }}"

    def move(self, a: list[str], t: str) -> str:
        if a[0].startswith("{"):  # unpacks
            names = _split_operands(a[0][1:-1])
            width = _bits(t) // len(names)
            puts = [self.put(n, f"v >> {width * k}", f"b{width}") for k, n in enumerate(names) if n != "_"]
            return f"{{ const u64 v = {self.value(a[1], t)}; {' '.join(puts)} }}"
        if a[1].startswith("{"):  # packs
            names = _split_operands(a[1][1:-1])
            width = _bits(t) // len(names)
            parts = [f"u64({self.value(n, f'u{width}')}) << {width * k}" for k, n in enumerate(names)]
            return self.put(a[0], " | ".join(parts), t)
        return self.put(a[0], self.value(a[1], t), t)

    def arithmetic(self, name: str, t: str, a: list[str]) -> str | None:
        """Sums and products, which wrap around: they are computed without signs."""
        u, signed = "u" + t[1:], t[0] == "s"
        if t not in ("u16", "s16", "u32", "s32", "u64", "s64"):
            return None
        if name in ("add", "sub"):
            sign = "+" if name == "add" else "-"
            return self.put(a[0], f"u64({self.value(a[1], u)}) {sign} u64({self.value(a[2], u)})", u)
        if name in ("mul.lo", "mad.lo"):
            added = f" + u64({self.value(a[3], u)})" if name == "mad.lo" else ""
            return self.put(a[0], f"u64({self.value(a[1], u)}) * u64({self.value(a[2], u)}){added}", u)
        if name in ("mul.wide", "mad.wide") and _bits(t) <= 32:
            wide = t[0] + str(2 * _bits(t))
            x, y = (f"u64({_cpp_type(wide)}({self.value(v, t)}))" for v in a[1:3])
            added = f" + u64({self.value(a[3], wide)})" if name == "mad.wide" else ""
            return self.put(a[0], f"{x} * {y}{added}", wide)
        if name in ("mul.hi", "mad.hi") and _bits(t) >= 32:
            high = f"u64(mul_hi<{_cpp_type(t)}>({self.value(a[1], t)}, {self.value(a[2], t)}))"
            added = f" + u64({self.value(a[3], u)})" if name == "mad.hi" else ""
            return self.put(a[0], high + added, u)
        if name in ("div", "rem") and not signed:
            x, y, sign = self.value(a[1], t), self.value(a[2], t), "/" if name == "div" else "%"
            return self.put(a[0], f"{x} {sign} nonzero({y})", t)
        if name == "neg" and signed:
            return self.put(a[0], f"u64(0) - u64({self.value(a[1], u)})", u)
        if name == "abs" and signed:
            x = self.value(a[1], t)
            return self.put(a[0], f"{x} < 0 ? u64(0) - u64({x}) : u64({x})", u)
        if name in ("min", "max"):
            return self.put(a[0], f"std::{name}<{_cpp_type(t)}>({self.value(a[1], t)}, {self.value(a[2], t)})", t)
        return None

    def bits(self, opcode: str, name: str, t: str, a: list[str]) -> str | None:
        if name in ("and", "or", "xor"):
            sign = {"and": "&", "or": "|", "xor": "^"}[name]
            return self.put(a[0], f"{self.value(a[1], t)} {sign} {self.value(a[2], t)}", t)
        if name == "not":
            return self.put(a[0], ("!" if t == "pred" else "~") + self.value(a[1], t), t)
        if name in ("shl", "shr"):
            return self.put(a[0], f"{name}({self.value(a[1], t)}, {self.value(a[2], 'u32')})", t)
        if match := re.fullmatch(r"shf\.([lr])\.(wrap|clamp)\.b32", opcode):
            count = self.value(a[3], "u32")
            count = f"({count} & 31)" if match[2] == "wrap" else f"std::min({count}, 32u)"
            both = f"{self.value(a[1], 'b32')}, {self.value(a[2], 'b32')}"
            return self.put(a[0], f"funnel_shift_{match[1]}({both}, {count})", "b32")
        if opcode in ("prmt.b32", "lop3.b32"):
            values = ", ".join(self.value(v, "b32") for v in a[1:])
            return self.put(a[0], f"{name}({values})", "b32")
        if name in ("bfe", "bfi"):
            fields = 1 if name == "bfe" else 2  # before the position and the length
            values = ", ".join(self.value(v, t if k < fields else "u32") for k, v in enumerate(a[1:]))
            return self.put(a[0], f"{name}<{_cpp_type(t)}>({values})", t)
        return None

    def statement(self, opcode: str, a: list[str], line: int) -> str:
        name, _, t = opcode.rpartition(".")
        if name.startswith(("ld.", "st.")):
            return self.memory(opcode, a, line)
        if opcode == "bar.sync" and a == ["0"]:
            return f"barrier(t, {line});"
        if name == "mov":
            return self.move(a, t)
        if name.startswith("setp."):
            comparison = name.removeprefix("setp.")
            signs = COMPARISONS | (UNSIGNED_COMPARISONS if t[0] == "u" else {})
            if comparison not in signs or (t[0] == "b" and comparison not in ("eq", "ne")):
                raise Unknown(opcode)
            return self.put(a[0], f"{self.value(a[1], t)} {signs[comparison]} {self.value(a[2], t)}", "pred")
        if name == "selp":
            return self.put(a[0], f"{self.value(a[3], 'pred')} ? {self.value(a[1], t)} : {self.value(a[2], t)}", t)
        if match := re.fullmatch(r"cvt\.([usb]\d+)", name):
            return self.put(a[0], f"{_cpp_type(match[1])}({self.value(a[1], t, wider=True)})", match[1], wider=True)
        if opcode == "cvta.to.global.u64":
            return self.put(a[0], self.value(a[1], "u64"), "u64")
        cpp = self.arithmetic(name, t, a) or self.bits(opcode, name, t, a)
        if cpp is None:
            raise Unknown(opcode)
        return cpp
