"""SASS of compute capability 8 and 9, as cuobjdump -sass prints it, to C++.

Registers have 32 bits; a pair of neighbours holds 64. NVIDIA names the instructions and describes none of their forms:
what stands here is what the results of the kernels say.
"""

import re
import struct
from dataclasses import replace

from .kernels import Instruction, Kernel, Unknown, plain_name

COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
COMBINATIONS = {"AND": "&&", "OR": "||", "XOR": "!="}
SPECIAL = {"SR_TID.X": "t.tid", "SR_CTAID.X": "t.ctaid", "SR_CgaCtaId": "0u"}
# Which C++ type memory instructions access, and how many of them.
WIDTHS = {"U8": ("u8", 1), "S8": ("s8", 1), "U16": ("u16", 1), "S16": ("s16", 1), "64": ("u32", 2), "128": ("u32", 4)}
# Of convergence and of nothing: threads run one by one here.
NO_EFFECT = ("BSSY", "BSYNC", "BREAK", "WARPSYNC", "NOP")

Code = list[tuple[int, str]]  # addresses and instructions


def functions(text: str) -> dict[str, Code]:
    """The code of each kernel in a disassembly, by its plain name."""
    result: dict[str, Code] = {}
    code: Code = []
    for line in text.splitlines():
        if match := re.search(r"Function : (\w+)", line):
            code = result[plain_name(match[1])] = []
        elif match := re.match(r"\s+/\*([0-9a-f]{4,5})\*/\s+(.*?)\s*;", line):
            code.append((int(match[1], 16), match[2].replace(".reuse", "")))
    return result


def kernel(head: Kernel, code: Code) -> Kernel:
    """The kernel with its SASS; `head` is what the PTX says of it."""
    return _Translation().kernel(head, code)


def _is_predicate(operand: str) -> bool:
    return re.fullmatch(r"!?U?P(\d|T)", operand) is not None


def _number(text: str | None) -> int:
    return int(text or "0", 16)


class _Translation:
    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.at = 0

    def kernel(self, head: Kernel, code: Code) -> Kernel:
        result = replace(head, instructions=[], variables=self.variables)
        targets = {_number(m[1]) for _, text in code if (m := re.search(r"\bBRA (?:!?U?P\d, )?(0x[0-9a-f]+)", text))}
        for at, text in code:
            self.at = at
            try:
                instruction = self.instruction(text)
            except (Unknown, IndexError, KeyError, TypeError, ValueError) as error:
                raise Unknown(f"{head.name} at {at:x}: {text}: {error}") from None
            result.instructions.append(replace(instruction, labels=[f"L{at}"] if at in targets else []))
        highest = max(int(name[1:]) for name in self.variables if re.fullmatch(r"r\d+", name))
        return replace(result, registers=highest + 3)  # as ptxas counts them

    def instruction(self, text: str) -> Instruction:
        match = re.fullmatch(r"(?:@(!?U?P(?:\d|T)) )?([A-Z][\w.]*)(?: (.*))?", text)
        if not match:
            raise Unknown("not an instruction")
        predicate, opcode, rest = match.groups()
        operands = [part.strip() for part in rest.split(",")] if rest else []
        result = Instruction(self.at, opcode, guard=self.predicate(predicate) if predicate else "")
        if opcode == "EXIT":
            return replace(result, is_exit=True)
        if opcode != "BRA":
            return replace(result, cpp=self.statement(opcode, operands))
        *condition, target = operands
        if condition:
            guard = self.predicate(condition[0])
            result = replace(result, guard=f"{result.guard} && {guard}" if result.guard else guard)
        return replace(result, target=f"L{_number(target)}")

    # ---- Operands ----

    def register(self, operand: str, plus: int = 0) -> str:
        """The C++ variable of a register, or of the one that is `plus` higher; none of the one that is always 0."""
        match = re.fullmatch(r"(U?R)(\d+|Z)", operand)
        if not match:
            raise Unknown(f"register {operand}")
        if match[2] == "Z":
            return ""
        name = f"{match[1].lower()}{int(match[2]) + plus}"
        self.variables[name] = "u32"
        return name

    def value(self, operand: str, plus: int = 0) -> str:
        """The 32 bits of an operand; `plus` 1 for the upper half of a pair."""
        if match := re.fullmatch(r"([-~])(U?R(?:\d+|Z))", operand):
            if match[1] == "-" and plus:
                raise Unknown(f"the negative of a pair, {operand}")
            return f"u32({match[1]}{self.value(match[2], plus)})"
        if re.fullmatch(r"U?R\d+", operand):
            return self.register(operand, plus)
        if operand in ("RZ", "URZ", "SRZ"):
            return "0u"
        if re.fullmatch(r"-?0x[0-9a-f]+", operand) and not plus:
            return f"{_number(operand) & 0xFFFFFFFF}u"
        if match := re.fullmatch(r"c\[0x0\]\[(0x[0-9a-f]+)\]", operand):
            return f"constant(t, {_number(match[1]) + 4 * plus}, {self.at})"
        raise Unknown(f"operand {operand}")

    def pair(self, operand: str) -> str:
        return f"(u64({self.value(operand, 1)}) << 32 | {self.value(operand)})"

    def addend(self, operand: str) -> str:
        """A term of a sum whose carry counts: the negative of x is ~x + 1."""
        if re.match(r"-U?R", operand):
            return f"(u64(u32(~{self.value(operand[1:])})) + 1)"
        return f"u64({self.value(operand)})"

    def signed(self, operand: str) -> str:
        return f"s32({self.value(operand)})"

    def predicate(self, operand: str) -> str:
        match = re.fullmatch(r"(!?)(U?P)(\d|T)", operand)
        if not match:
            raise Unknown(f"predicate {operand}")
        if match[3] == "T":
            return "false" if match[1] else "true"
        name = f"{match[2].lower()}{match[3]}"
        self.variables[name] = "bool"
        return match[1] + name

    def put_predicate(self, operand: str, value: str) -> str:
        return "" if operand in ("PT", "UPT") else f"{self.predicate(operand)} = {value};"

    def put(self, operand: str, value: str, plus: int = 0) -> str:
        name = self.register(operand, plus)
        return f"{name} = u32({value});" if name else f"(void)({value});"

    def put_pair(self, operand: str, value: str) -> str:
        return f"{self.put(operand, value)} {self.put(operand, f'{value} >> 32', 1)}"

    # ---- Instructions ----

    def memory(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """LDG, STG, LDS, STS, LDC and ULDC."""
        modifiers = [m for m in modifiers if m not in ("E", "CONSTANT")]
        if len(modifiers) > 1 or any(m not in WIDTHS for m in modifiers):
            raise Unknown(opcode)
        cpp_type, lanes = WIDTHS[modifiers[0]] if modifiers else ("u32", 1)
        kind = opcode.removeprefix("U")[:3]
        data, where = (a[1], a[0]) if kind.startswith("ST") else (a[0], a[1])
        if kind.endswith("G"):
            match = re.fullmatch(r"desc\[UR\d+\]\[(R\d+)\.64(?:\+(-?0x[0-9a-f]+))?\]", where)
            space, address = "global", f"{self.pair(match[1])} + u64({_number(match[2])}ll)" if match else ""
        elif kind.endswith("S"):
            match = re.fullmatch(r"\[(U?R\d+|RZ)?(?:\+?(UR\d+))?(?:\+?(-?0x[0-9a-f]+))?\]", where)
            terms = [self.value(register) for register in match.groups()[:2] if register] if match else []
            space, address = "shared", f"u64(u32({' + '.join([*terms, '0u'])} + u32({_number(match and match[3])})))"
        else:
            match = re.fullmatch(r"c\[0x0\]\[(?:(U?R\d+|RZ)\+?)?(-?0x[0-9a-f]+)?\]", where)
            base = self.value(match[1]) if match and match[1] else "0u"
            space, address = "constant", f"u32({base} + u32({_number(match and match[2])}))"
        if not match:
            raise Unknown(f"address {where}")
        if kind.startswith("ST"):
            values = ", ".join(f"{cpp_type}({'0u' if data == 'RZ' else self.value(data, k)})" for k in range(lanes))
            return f"{{ const {cpp_type} v[{lanes}] = {{{values}}}; store_{space}(t, v, {address}, {self.at}); }}"
        puts = " ".join(self.put(data, f"v[{k}]", k) for k in range(lanes))
        return f"{{ {cpp_type} v[{lanes}]; load_{space}(t, v, {address}, {self.at}); {puts} }}"

    def multiply_add(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """IMAD and UIMAD."""
        carry_out = a.pop(1) if _is_predicate(a[1]) else ""
        extended = "X" in modifiers
        if (len(a) == 5) != extended:
            raise Unknown(opcode)
        carry_in = f" + u64({self.predicate(a[4])})" if extended else ""
        if "WIDE" not in modifiers and "HI" not in modifiers:
            if set(modifiers) - {"MOV", "U32", "IADD", "SHL", "X"} or carry_out:
                raise Unknown(opcode)
            return self.put(a[0], f"{self.value(a[1])} * {self.value(a[2])} + {self.value(a[3])}{carry_in}")
        if "U32" in modifiers:
            product = f"u64({self.value(a[1])}) * u64({self.value(a[2])})"
        else:
            product = f"u64(s64({self.signed(a[1])}) * s64({self.signed(a[2])}))"
            if carry_out:
                raise Unknown(opcode)
        added = "0" if a[3] in ("RZ", "URZ") else self.pair(a[3])
        put = self.put(a[0], "sum >> 32") if "HI" in modifiers else self.put_pair(a[0], "sum")
        carry = self.put_predicate(carry_out, "bool(wide >> 64)") if carry_out else ""
        return f"{{ const u128 wide = u128({product}) + {added}{carry_in}; const u64 sum = u64(wide); {put} {carry} }}"

    def add(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """IADD3 and UIADD3, which may carry into two predicates."""
        terms, carries_out = a[1:], []
        while _is_predicate(terms[0]):
            carries_out.append(terms.pop(0))
        carries_in = terms[3:]
        if modifiers != (["X"] if carries_in else []) or len(carries_in) > 2:
            raise Unknown(opcode)
        total = " + ".join([self.addend(x) for x in terms[:3]] + [f"u64({self.predicate(p)})" for p in carries_in])
        carries = " ".join(self.put_predicate(p, f"sum >> 32 > {k}") for k, p in enumerate(carries_out))
        return f"{{ const u64 sum = {total}; {self.put(a[0], 'sum')} {carries} }}"

    def shift_add(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """LEA and ULEA."""
        carry_out = a.pop(1) if _is_predicate(a[1]) else ""
        if not modifiers:
            carry = self.put_predicate(carry_out, "bool(sum >> 32)") if carry_out else ""
            shifted = f"u64(u32({self.value(a[1])} << {_number(a[3])}))"
            return f"{{ const u64 sum = {shifted} + {self.addend(a[2])}; {self.put(a[0], 'sum')} {carry} }}"
        if carry_out:
            raise Unknown(opcode)
        if modifiers in (["HI"], ["HI", "X"]):
            carry_in = f" + u64({self.predicate(a[5])})" if "X" in modifiers else ""
            high = f"(u64({self.value(a[3])}) << 32 | {self.value(a[1])}) << {_number(a[4])} >> 32"
            return self.put(a[0], f"({high}) + {self.value(a[2])}{carry_in}")
        if modifiers == ["HI", "X", "SX32"]:
            high = f"u64(s64({self.signed(a[1])})) << {_number(a[3])} >> 32"
            return self.put(a[0], f"({high}) + {self.value(a[2])} + u64({self.predicate(a[4])})")
        raise Unknown(opcode)

    def compare(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """ISETP and UISETP; EX compares the upper halves of pairs, given what became of the lower ones."""
        comparison, *rest = modifiers
        how = next(m for m in rest if m in COMBINATIONS)
        if set(rest) - {"U32", how, "EX"} or a[1] not in ("PT", "UPT") or len(a) != 5 + ("EX" in rest):
            raise Unknown(opcode)
        cpp_type = "u32" if "U32" in rest else "s32"
        x, y = f"{cpp_type}({self.value(a[2])})", f"{cpp_type}({self.value(a[3])})"
        result = f"({x} {COMPARISONS[comparison]} {y})"
        if "EX" in rest:
            low = self.predicate(a[5])
            if comparison == "NE":
                result = f"({x} != {y} || {low})"
            elif comparison == "EQ":
                result = f"({x} == {y} && {low})"
            else:
                result = f"({x} {comparison[0].translate({ord('L'): '<', ord('G'): '>'})} {y} || ({x} == {y} && {low}))"
        return self.put_predicate(a[0], f"{result} {COMBINATIONS[how]} {self.predicate(a[4])}")

    def shift(self, opcode: str, modifiers: list[str], a: list[str]) -> str:
        """SHF and USHF."""
        low, count, high = self.value(a[1]), self.value(a[2]), self.value(a[3])
        both = f"u64(u64({high}) << 32 | {low})"
        values = {
            "R.U32.HI": f"shr(u32({high}), {count})",
            "R.S32.HI": f"shr(s32({high}), {count})",
            "R.U64": f"shr({both}, {count})",
            "R.S64": f"shr(s64({both}), {count})",
            "R.W.U32": f"shr({both}, {count} & 31)",
            "L.U32": f"shl(u32({low}), {count})",
            "L.U32.HI": f"shl({both}, std::min(u32({count}), 32u)) >> 32",
            "L.U64.HI": f"shl({both}, {count}) >> 32",
            "L.W.U32.HI": f"shl({both}, {count} & 31) >> 32",
        }
        if ".".join(modifiers) not in values:
            raise Unknown(opcode)
        return self.put(a[0], values[".".join(modifiers)])

    def logic(self, opcode: str, a: list[str]) -> str:
        """LOP3.LUT and ULOP3.LUT."""
        out = a.pop(0) if _is_predicate(a[0]) else ""
        if a[5] not in ("!PT", "!UPT"):
            raise Unknown(opcode)
        x, y, z = (self.value(v) for v in a[1:4])
        put = self.put_predicate(out, "v != 0") if out else ""
        return f"{{ const u32 v = lop3({x}, {y}, {z}, {_number(a[4])}); {self.put(a[0], 'v')} {put} }}"

    def predicate_logic(self, a: list[str]) -> str:
        """PLOP3.LUT and UPLOP3.LUT: two functions of three predicates."""
        index = " + ".join(f"int({self.predicate(p)}) * {weight}" for p, weight in zip(a[2:5], (4, 2, 1), strict=True))
        puts = [self.put_predicate(p, f"{_number(table)} >> n & 1") for p, table in zip(a[:2], a[5:7], strict=True)]
        return f"{{ const int n = {index}; {' '.join(puts)} }}"

    def statement(self, opcode: str, a: list[str]) -> str:
        head, *modifiers = opcode.split(".")
        if head in NO_EFFECT:
            return ""
        if head == "BAR" and modifiers == ["SYNC", "DEFER_BLOCKING"] and a == ["0x0"]:
            return f"barrier(t, {self.at});"
        if head in ("LDG", "STG", "LDS", "STS", "LDC", "ULDC"):
            return self.memory(opcode, modifiers, a)
        if head in ("IMAD", "UIMAD"):
            return self.multiply_add(opcode, modifiers, a)
        if head in ("IADD3", "UIADD3"):
            return self.add(opcode, modifiers, a)
        if head in ("LEA", "ULEA"):
            return self.shift_add(opcode, modifiers, a)
        if head in ("ISETP", "UISETP"):
            return self.compare(opcode, modifiers, a)
        if head in ("SHF", "USHF"):
            return self.shift(opcode, modifiers, a)
        if opcode in ("LOP3.LUT", "ULOP3.LUT"):
            return self.logic(opcode, a)
        if opcode in ("PLOP3.LUT", "UPLOP3.LUT"):
            return self.predicate_logic(a)
        if opcode in ("S2R", "S2UR"):
            return self.put(a[0], SPECIAL[a[1]])
        if opcode in ("MOV", "UMOV", "R2UR"):
            return self.put(a[0], self.value(a[1]))
        if opcode in ("CS2R", "CS2R.32") and a[1] == "SRZ":
            return self.put(a[0], "0") if modifiers else self.put_pair(a[0], "u64(0)")
        if opcode in ("HFMA2.MMA", "HFMA2") and a[1:3] == ["-RZ", "RZ"]:  # a constant, as two halves
            high, low = (struct.unpack("<H", struct.pack("<e", float(x)))[0] for x in a[3:5])
            return self.put(a[0], f"{high << 16 | low}u")
        if opcode == "VIADD":
            return self.put(a[0], f"{self.value(a[1])} + {self.value(a[2])}")
        if opcode in ("VIMNMX", "VIADDMNMX"):
            *terms, other, minimum = a[1:]
            x = f"s32({' + '.join(self.value(term) for term in terms)})"
            y, p = self.signed(other), self.predicate(minimum)
            return self.put(a[0], f"{p} ? std::min({x}, {y}) : std::max({x}, {y})")
        if opcode in ("SEL", "USEL"):
            return self.put(a[0], f"{self.predicate(a[3])} ? {self.value(a[1])} : {self.value(a[2])}")
        if opcode in ("PRMT", "UPRMT"):
            return self.put(a[0], f"prmt({self.value(a[1])}, {self.value(a[3])}, {self.value(a[2])})")
        if opcode == "R2P" and a[0] == "PR":
            bits = [k for k in range(7) if _number(a[2]) >> k & 1]
            return " ".join(self.put_predicate(f"P{k}", f"{self.value(a[1])} >> {k} & 1") for k in bits)
        if opcode == "P2R" and a[1:3] == ["PR", "RZ"]:
            bits = [k for k in range(7) if _number(a[3]) >> k & 1]
            return self.put(a[0], " | ".join(f"u32({self.predicate(f'P{k}')}) << {k}" for k in bits))
        # An unsigned division by a number that is not known when the code is compiled.
        if opcode == "I2F.U32.RP":
            return self.put(a[0], f"to_float_rounded_up({self.value(a[1])})")
        if opcode == "MUFU.RCP":
            return self.put(a[0], f"reciprocal({self.value(a[1])})")
        if opcode == "F2I.FTZ.U32.TRUNC.NTZ":
            return self.put(a[0], f"to_integer({self.value(a[1])})")
        raise Unknown(opcode)
