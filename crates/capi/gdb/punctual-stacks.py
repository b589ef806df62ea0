"""Stacks of libpunctual in a running program or in its core file, for gdb.

    gdb -x punctual-stacks.py PROGRAM CORE
    (gdb) punctual-stacks [-a]      stacks in use (-a: free ones too): size, threads, call stack
    (gdb) punctual-findleaks        stacks in use that nothing points to, as ::findleaks of mdb

Call stacks are kept where the program ran with PUNCTUAL_STACK_DEBUG=audit. What is searched for
leaks, and what can hide one, is in docs/library.md. Tested with gdb 13.
"""

import array
import bisect
import re
import struct

import gdb

SECTION = "punctual_stacks"
MAGIC = b"punctual"
VERSION = 1
FIELDS = (
    "sections count first header_bytes word_at traces_at traces_bytes "
    "allocated_at freed_at thread_at limit_at len_at frames_at"
).split()
SIZES = [32768 << number for number in range(7)]
STATES = {
    1: "free",
    2: "free",
    3: "in use",
    4: "in use as a thread's",
    5: "being allocated or freed",
}
IN_USE = (3, 4)
# What a function may use below its stack pointer.
RED_ZONE = 128
# What no corrupt table exceeds.
MOST_SECTIONS = 20
MOST_FRAMES = 80
WORD = 8
LIBRARY = re.compile(
    r"^(punctual_|stack_alloc$|stack_free$|fetch_stack_sizes$)|punctual_rt|punctual_capi"
    # The namespace of punctual.hpp; Rust's names end with a hash.
    r"|^_ZNK?8punctual(?!.*17h[0-9a-f]{16}E)"
)
SHARED = re.compile(r"/libpunctual(_preload)?\.so[^/]*$")
RUSTS = re.compile(r"^_ZN(4core|5alloc|3std).*17h[0-9a-f]{16}E|^_R\w*?C(s\w+_)?(4core|5alloc|3std)")


def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def numbers(address, count):
    return struct.unpack("=%dQ" % count, read(address, count * WORD))


class Table:
    """The headers of one copy of the library."""

    def __init__(self, address):
        if read(address, len(MAGIC)) != MAGIC:
            raise gdb.GdbError("the section %s at 0x%x is not punctual's" % (SECTION, address))
        version, *values = numbers(address + len(MAGIC), 1 + len(FIELDS))
        if version != VERSION:
            raise gdb.GdbError(
                "the library's tables have version %d, and this script reads version %d: "
                "use the script of that library" % (version, VERSION)
            )
        self.__dict__.update(zip(FIELDS, values))

    def parts(self):
        """Address and bytes of each section of headers."""
        count = min(numbers(self.count, 1)[0], MOST_SECTIONS)
        for index, address in enumerate(numbers(self.sections, count) if count else ()):
            yield address, (self.first << index) * self.header_bytes

    def stacks(self):
        for address, size in self.parts():
            headers = read(address, size)
            for at in range(0, size, self.header_bytes):
                (word,) = struct.unpack_from("=Q", headers, at + self.word_at)
                (traces,) = struct.unpack_from("=Q", headers, at + self.traces_at)
                state, kind = word >> 3 & 7, word & 7
                if state in STATES and kind < len(SIZES):
                    yield Stack(self, word & ~0xFFF, SIZES[kind], state, traces)


class Stack:
    def __init__(self, table, low, size, state, traces):
        self.table, self.low, self.size = table, low, size
        self.state, self.traces = state, traces
        self.high = low + size

    def trace(self, at):
        """Thread and frames of one trace, None where there is none."""
        if not self.traces:
            return None
        table, start = self.table, self.traces + at
        (thread,) = struct.unpack("=i", read(start + table.thread_at, 4))
        (limit,) = struct.unpack("=H", read(start + table.limit_at, 2))
        (count,) = struct.unpack("=H", read(start + table.len_at, 2))
        if thread == 0:
            return None
        frames = numbers(start + table.frames_at, min(count, MOST_FRAMES))
        return thread, own_left_out(frames, limit)

    def show(self, threads):
        print("0x%x: %d bytes, %s" % (self.low, self.size, STATES[self.state]))
        for thread, pointer in threads:
            if self.low <= pointer < self.high:
                print("  thread %s runs on it" % thread)
        events = [("allocated", self.table.allocated_at)]
        if self.state not in IN_USE:
            events.append(("freed", self.table.freed_at))
        for what, at in events:
            found = self.trace(at)
            if found:
                print("  %s by thread %d" % (what, found[0]))
                for frame in found[1]:
                    print("    %s" % place(frame))


def mangled(frame):
    """The linker's name of the function of a return address, and the object that it is in."""
    text = gdb.execute("info symbol 0x%x" % (frame - 1), to_string=True).strip()
    found = re.match(r"(\S+)(?: \+ \d+)? in section (\S+)(?: of (.*))?$", text)
    return (found.group(1), found.group(3)) if found else ("", None)


def own_left_out(frames, limit):
    """From the caller of the library on; all where there are no names to tell it by."""
    first, own = 0, False
    for number, frame in enumerate(frames):
        name, origin = mangled(frame)
        if LIBRARY.search(name) or SHARED.search(origin or ""):
            first, own = number + 1, True
        elif not RUSTS.search(name):
            first = number if own else first
            break
    return frames[first:][:limit] if own else frames


def place(frame):
    """What gdb knows of a return address."""
    name = mangled(frame)[0] or "??"
    line = gdb.find_pc_line(frame - 1)
    where = " (%s:%d)" % (line.symtab.filename, line.line) if line.symtab else ""
    return "0x%x %s%s" % (frame, name, where)


def tables():
    listed = gdb.execute("info files", to_string=True)
    pattern = r"0x([0-9a-f]+) - 0x[0-9a-f]+ is %s\b" % SECTION
    found = sorted({int(start, 16) for start in re.findall(pattern, listed)})
    if not found:
        raise gdb.GdbError(
            "no section %s: is the program linked to libpunctual, and its core file loaded "
            "together with it?" % SECTION
        )
    made = [Table(start) for start in found]
    return [table for table in made if any(table.parts())]


def threads():
    """Name and stack pointer of each thread, and the numbers in its registers."""
    before, found, words = gdb.selected_thread(), [], []
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        frame = gdb.newest_frame()
        pointer = int(gdb.parse_and_eval("$sp"))
        for register in frame.architecture().registers("general"):
            try:
                words.append(int(frame.read_register(register)) & (1 << 64) - 1)
            except (gdb.error, ValueError, TypeError):
                pass
        found.append((thread.ptid[1] or thread.num, pointer))
    if before is not None:
        before.switch()
    return found, words


def writable_of_core(path):
    """(address, bytes) of each part of a core file that the program could write to."""
    with open(path, "rb") as core:
        head = core.read(64)
        start, sections = struct.unpack_from("=QQ", head, 32)
        size, count = struct.unpack_from("=HH", head, 54)
        if count == 0xFFFF:
            # More than fit there: the first section tells how many.
            core.seek(sections + 44)
            (count,) = struct.unpack("=I", core.read(4))
        core.seek(start)
        parts = [core.read(size) for _ in range(count)]
        for part in parts:
            kind, flags, offset, address, _, length = struct.unpack_from("=IIQQQQ", part)
            if kind == 1 and flags & 2 and length:
                core.seek(offset)
                content = core.read(length)
                if len(content) < length:
                    print("not searched, for the core file is cut: 0x%x-0x%x"
                          % (address + len(content), address + length))
                yield address, content


def writable_of_process(process):
    with open("/proc/%d/maps" % process) as listed:
        for line in listed:
            fields = line.split(maxsplit=5)
            low, high = (int(number, 16) for number in fields[0].split("-"))
            if fields[1].startswith("rw") and not line.endswith(("[vvar]\n", "[vsyscall]\n")):
                try:
                    yield low, read(low, high - low)
                except gdb.MemoryError:
                    print("not searched, for it can't be read: 0x%x-0x%x" % (low, high))


def writable():
    listed = gdb.execute("info files", to_string=True)
    core = re.search(r"core dump file:\s*`(.*)', file type", listed)
    if core:
        return writable_of_core(core.group(1))
    process = gdb.selected_inferior().pid
    if not process:
        raise gdb.GdbError("neither a core file nor a running program")
    return writable_of_process(process)


class Search:
    """Which stacks in use are pointed to, beginning with what isn't a stack of ours."""

    def __init__(self, stacks, holes):
        self.stacks = sorted((it for it in stacks if it.state in IN_USE), key=lambda it: it.low)
        self.lows = [it.low for it in self.stacks]
        self.reached, self.todo = set(), []
        # Memory that isn't searched with all other: every stack, and the library's tables.
        self.holes = sorted([(it.low, it.high) for it in stacks] + holes)
        self.content = {}

    def see(self, value, within=None):
        at = bisect.bisect_right(self.lows, value) - 1
        if at < 0:
            return
        stack = self.stacks[at]
        # An end counts: a pointer to the first byte above is how many keep a stack.
        if value <= stack.high and stack is not within and stack.low not in self.reached:
            self.reached.add(stack.low)
            self.todo.append(stack)

    def words(self, address, content, within=None):
        if not self.stacks:
            return
        first = -address % WORD
        words = array.array("Q")
        words.frombytes(content[first : first + (len(content) - first) // WORD * WORD])
        low, high = self.lows[0], self.stacks[-1].high
        for value in words:
            if low <= value <= high:
                self.see(value, within)

    def memory(self, address, content):
        """Searches what is outside of the holes, and keeps what stacks hold."""
        at, end = address, address + len(content)
        for low, high in self.holes:
            if high <= at or low >= end:
                continue
            if low > at:
                self.words(at, content[at - address : low - address])
            if low in self.lows and low >= address:
                self.content[low] = content[low - address : high - address]
            at = max(at, high)
        if at < end:
            self.words(at, content[at - address :])

    def finish(self, running):
        """Searches the stacks that were reached: where a thread runs, what it uses of it."""
        while self.todo:
            stack = self.todo.pop()
            pointers = [at for _, at in running if stack.low <= at < stack.high]
            start = max(min(pointers) - RED_ZONE, stack.low) if pointers else stack.low
            content = self.content.get(stack.low, b"")
            self.words(start, content[start - stack.low :], stack)
        return [it for it in self.stacks if it.low not in self.reached]


class Stacks(gdb.Command):
    """List stacks of libpunctual that are in use; -a: those that are free, too."""

    def __init__(self):
        super().__init__("punctual-stacks", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if argument not in ("", "-a"):
            raise gdb.GdbError("punctual-stacks %s: expected nothing, or -a" % argument)
        running, _ = threads()
        shown = 0
        for table in tables():
            for stack in sorted(table.stacks(), key=lambda it: it.low):
                if argument or stack.state in IN_USE:
                    stack.show(running)
                    shown += 1
        print("stacks%s: %d" % ("" if argument else " in use", shown))


class FindLeaks(gdb.Command):
    """List stacks of libpunctual that are in use and that nothing points to."""

    def __init__(self):
        super().__init__("punctual-findleaks", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if argument:
            raise gdb.GdbError("punctual-findleaks %s: expected nothing" % argument)
        stacks, holes = [], []
        for table in tables():
            found = list(table.stacks())
            stacks += found
            holes += [(at, at + size) for at, size in table.parts()]
            holes += [(it.traces, it.traces + table.traces_bytes) for it in found if it.traces]
        running, registers = threads()
        search = Search(stacks, holes)
        for value in registers + [pointer for _, pointer in running]:
            search.see(value)
        searched = 0
        for address, content in writable():
            searched += len(content)
            search.memory(address, content)
        lost = search.finish(running)
        for stack in lost:
            stack.show(running)
        print(
            "leaked stacks: %d of %d in use; %d KB searched"
            % (len(lost), len(search.stacks), searched >> 10)
        )


Stacks()
FindLeaks()
