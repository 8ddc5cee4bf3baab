#!/usr/bin/env python3
"""Reads recordings of tickback by docs/format.md alone; nothing of the program's code is in it.

    tickback_reader.py events FOLDER            events, a JSON object a line, as `tickback log --json` writes them
    tickback_reader.py snapshots FOLDER         snapshots, a JSON object a line, as `tickback snapshots --json` (fewer fields)
    tickback_reader.py page FOLDER ICOUNT KEY   the 4096 bytes of a page at a snapshot, on standard output
    tickback_reader.py check FOLDER             every block, tree and root against its BLAKE3 hash

Python 3.9 or later; zstd from `compression.zstd` (3.14), the `zstandard` package, or the system's libzstd, whichever is there.
Whatever the format does not allow raises `Damaged`.
"""

import ctypes
import ctypes.util
import json
import os
import re
import struct
import sys
import zlib

PAGE = 4096
DRIVES = 1 << 43


class Damaged(Exception):
    """The file breaks a rule of the format."""


def need(condition, what):
    if not condition:
        raise Damaged(what)


# ---- zstd and BLAKE3 ---------------------------------------------------------------------------------


def _zstd():
    try:
        from compression import zstd

        return lambda data, most: zstd.decompress(data)
    except ImportError:
        pass
    try:
        import zstandard

        return lambda data, most: zstandard.ZstdDecompressor().decompress(data, max_output_size=most)
    except ImportError:
        pass
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    lib = ctypes.CDLL(name)
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    lib.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    lib.ZSTD_isError.argtypes = [ctypes.c_size_t]

    def unpack(data, most):
        out = ctypes.create_string_buffer(most)
        size = lib.ZSTD_decompress(out, most, data, len(data))
        need(not lib.ZSTD_isError(size), "a zstd frame does not unpack")
        return out.raw[:size]

    return unpack


_UNPACK = None


def unpack(data, size):
    """Unpacks a zstd frame of exactly `size` bytes."""
    global _UNPACK
    _UNPACK = _UNPACK or _zstd()
    out = _UNPACK(data, size)
    need(len(out) == size, "a zstd frame has another size than it should")
    return out


IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
MIXES = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def _compress(cv, block, counter, length, flags):
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    v = [*cv, *IV[:4], counter & 0xFFFFFFFF, counter >> 32, length, flags]
    for turn in range(7):
        for i, (a, b, c, d) in enumerate(MIXES):
            v[a] = (v[a] + v[b] + m[2 * i]) & 0xFFFFFFFF
            x = v[d] ^ v[a]
            v[d] = (x >> 16 | x << 16) & 0xFFFFFFFF
            v[c] = (v[c] + v[d]) & 0xFFFFFFFF
            x = v[b] ^ v[c]
            v[b] = (x >> 12 | x << 20) & 0xFFFFFFFF
            v[a] = (v[a] + v[b] + m[2 * i + 1]) & 0xFFFFFFFF
            x = v[d] ^ v[a]
            v[d] = (x >> 8 | x << 24) & 0xFFFFFFFF
            v[c] = (v[c] + v[d]) & 0xFFFFFFFF
            x = v[b] ^ v[c]
            v[b] = (x >> 7 | x << 25) & 0xFFFFFFFF
        if turn < 6:
            m = [m[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def blake3(data):
    """The 32 bytes of the BLAKE3 hash."""

    def chunk(at, counter, flag):
        cv, piece = IV, data[at : at + 1024]
        blocks = [piece[i : i + 64] for i in range(0, len(piece), 64)] or [b""]
        for i, block in enumerate(blocks):
            flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | flag if i == len(blocks) - 1 else 0)
            cv = _compress(cv, block, counter, len(block), flags)
        return cv

    def tree(first, count, flag):
        if count == 1:
            return chunk(first * 1024, first, flag)
        left = 1 << (count - 1).bit_length() - 1
        pair = tree(first, left, 0) + tree(first + left, count - left, 0)
        return _compress(IV, struct.pack("<16I", *pair), 0, 64, PARENT | flag)

    return struct.pack("<8I", *tree(0, max(1, -(-len(data) // 1024)), ROOT))


# ---- numbers -----------------------------------------------------------------------------------------


class Bytes:
    """A payload that is read from its beginning to its end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "a payload is too short")
        self.at += count
        return self.data[self.at - count : self.at]

    def u8(self):
        return self.take(1)[0]

    def num(self, bits=64):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                need(value < 1 << bits, "a number is too large")
                return value
        raise Damaged("a number is too long")

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def rest(self):
        return self.take(len(self.data) - self.at)

    def end(self):
        need(self.at == len(self.data), "bytes are left over")


def u32(data, at):
    return int.from_bytes(data[at : at + 4], "little")


# ---- the event log -----------------------------------------------------------------------------------


def digest(data):
    return hex(int.from_bytes(blake3(data)[:8], "little"))


class Stand:
    def __init__(self, at, time, inputs, effects):
        self.at, self.time, self.inputs, self.effects = at, time, inputs, effects

    @classmethod
    def read(cls, data):
        return cls(data.num(), data.num(), data.num(), data.num())


class Log:
    """The files of a log: `inputs` with their stands in order, `blocks` of effects, `end` if it was closed."""

    def __init__(self, folder):
        self.inputs, self.blocks, self.end, self.torn = [], [], None, None
        names = [name for name in os.listdir(folder) if re.fullmatch(r"events(\.\d{4,})?", name)]
        numbered = sorted((int(name[7:] or 0), name) for name in names)
        need(numbered, "there is no event log")
        numbers = [number for number, _ in numbered]
        need(numbers == list(range(numbers[0], numbers[0] + len(numbers))), "a file of the log is missing")
        self.ns, self.effects, self.input_count = None, 0, 0
        for index, (number, name) in enumerate(numbered):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            self._file(data, number, index == 0, index == len(numbered) - 1)

    def _file(self, data, number, first, last):
        if not first and last and len(data) < 72:
            self.torn = (number, 0)
            return
        need(data[:8] == b"TICKBKEV", "it is no event log")
        version, size = u32(data, 8), u32(data, 12)
        need((version, size) in ((1, 32), (2, 72)), f"log version {version} is unknown")
        need(zlib.crc32(data[: size - 4]) == u32(data, size - 4), "the head fails its checksum")
        (ns,) = struct.unpack_from("<Q", data, 16)
        base = (0, 0, 0, 0)
        if version == 2:
            need(u32(data, 24) == number and u32(data, 28) == 0 and u32(data, 64) == 0, "the head is wrong")
            base = struct.unpack_from("<4Q", data, 32)
        else:
            need(number == 0 and u32(data, 24) == 0, "the head is wrong")
        if first:
            self.ns, self.base = ns, base
            self.input_count, self.effects = base[2], base[3]
        else:
            following = (ns, base[2], base[3]) == (self.ns, self.input_count, self.effects)
            need(following and self.end is None, "a file does not follow the one before it")
        at = size
        while at < len(data):
            frame = self._frame(data, at)
            if frame is None:
                whole = any(self._frame(data, later) for later in range(at + 1, len(data)))
                need(last and not whole, f"byte {at} of file {number} is damaged")
                self.torn = (number, at)
                return
            kind, payload = frame
            self._take(kind, Bytes(payload))
            at += 16 + len(payload)

    @staticmethod
    def _frame(data, at):
        head = data[at : at + 16]
        if len(head) < 16 or not 1 <= head[0] <= 5 or head[1:4] != b"\0\0\0":
            return None
        if zlib.crc32(at.to_bytes(8, "little") + head[:12]) != u32(head, 12):
            return None
        size = u32(head, 4)
        payload = data[at + 16 : at + 16 + size]
        if size > 16 << 20 or len(payload) < size or zlib.crc32(payload) != u32(head, 8):
            return None
        return head[0], payload

    def _take(self, kind, data):
        need(self.end is None, "a frame follows the end")
        if kind == 4:
            block = {name: data.num() for name in ("first", "count", "at", "time", "last_at", "last_time", "raw")}
            need(block["first"] == self.effects and block["count"] > 0, "an effect block is missing")
            need(block["raw"] <= 1 << 20, "an effect block is too large")
            coding, rest = data.u8(), data.rest()
            need(coding in (1, 2), "an effect block has an unknown coding")
            block["records"] = rest if coding == 1 else unpack(rest, block["raw"])
            self.effects += block["count"]
            self.blocks.append(block)
            return
        stand = Stand.read(data)
        need(stand.inputs == self.input_count, "an input is missing")
        if kind == 1:
            self.inputs.append((stand, self._input(data)))
            self.input_count += 1
        elif kind == 2:
            drive, block, coding = data.u8(), data.num(), data.u8()
            rest = data.rest()
            need(coding <= 2, "a disk block has an unknown coding")
            content = (bytes(PAGE), rest, None)[coding] if coding < 2 else unpack(rest, PAGE)
            need(len(content) == PAGE, "a disk block has a wrong size")
            fields = {"drive": drive, "block": block, "len": PAGE, "digest": digest(content)}
            self.inputs.append((stand, ("disk", fields)))
        elif kind == 5:
            how = data.u8()
            need(how <= 2 and stand.effects == self.effects, "the end is wrong")
            self.end = (stand.at, stand.time, how, data.num(32) if how == 1 else None)
        data.end()

    @staticmethod
    def _input(data):
        kind = data.u8()
        if kind == 0:
            return "console-in", {"port": data.u8(), "byte": data.u8()}
        if kind == 1:
            return "debugger", {"addr": hex(data.num()), "bytes": data.rest().hex()}
        if kind == 2:
            return "debugger", {"of_hart": data.u8(), "register": data.num(32), "bytes": data.rest().hex()}
        if kind == 3:
            return "reset", {}
        if kind == 4:
            down = data.u8()
            need(down <= 1, "a key is neither pressed nor released")
            return "key", {"code": int.from_bytes(data.take(2), "little"), "down": down == 1}
        if kind == 5:
            port, frame = data.u8(), data.rest()
            return "net", {"port": port, "len": len(frame), "digest": digest(frame)}
        raise Damaged(f"input {kind} is unknown")

    def _effects(self):
        """Every effect, in order: (at, time, hart, kind, fields)."""
        for block in self.blocks:
            data, at, hart, last, seen = Bytes(block["records"]), block["at"], 0, None, 0
            skew = block["time"] - block["at"] * self.ns
            while data.at < len(data.data):
                tag = data.u8()
                if tag == 15:
                    count, stride = data.num(), data.num()
                    need(count > 0 and last is not None and seen + count <= block["count"], "a repeat is wrong")
                    for _ in range(count):
                        at += stride
                        yield at, (at * self.ns + skew) % 2**64, hart, *last
                    seen += count
                    continue
                need(tag & 0xC0 == 0, "a tag is unknown")
                at += data.num()
                if tag & 0x10:
                    skew = (skew + data.num()) % 2**64
                if tag & 0x20:
                    hart = data.u8()
                last = self._operation(tag & 15, data)
                yield at, (at * self.ns + skew) % 2**64, hart, *last
                seen += 1
            need((seen, at) == (block["count"], block["last_at"]), "a block does not end where it says")

    @staticmethod
    def _operation(operation, data):
        if operation in (0, 1):
            addr, size, value = data.num(), data.u8(), data.num()
            return "mmio", {"write": operation == 1, "addr": hex(addr), "size": size, "value": hex(value)}
        if operation in (2, 3):
            return "line", {"line": data.num(32), "level": operation == 3}
        if operation == 4:
            return "irq", {"cause": data.num()}
        if operation in (5, 6):
            addr, size, told = data.num(), data.num(32), data.u64()
            return "dma", {"write": operation == 6, "addr": hex(addr), "len": size, "digest": hex(told)}
        if operation == 7:
            return "console-out", {"port": data.u8(), "byte": data.u8()}
        if operation == 8:
            return "switch", {"to": data.u8()}
        if operation == 9:
            return "reset", {}
        if operation == 10:
            return "power-off", {"code": data.num(32)}
        if operation in (11, 12):
            port, size, value = data.num(16), data.u8(), data.num(32)
            return "port", {"write": operation == 12, "port": port, "size": size, "value": hex(value)}
        if operation == 13:
            return "net", {"port": data.u8(), "len": data.num(32), "digest": hex(data.u64())}
        raise Damaged(f"operation {operation} is unknown")

    def events(self):
        """Inputs, disk blocks and effects, in the order in which they happened, as `tickback log --json` has them."""

        def event(at, time, hart, kind, source, fields):
            return {"icount": at, "time_ns": time, "hart": hart, "kind": kind, "class": source, **fields}

        pending, number = iter(self.inputs), self.base[3]
        due = next(pending, None)
        for at, time, hart, kind, fields in self._effects():
            while due and due[0].effects <= number:
                yield event(due[0].at, due[0].time, 0, due[1][0], "input", due[1][1])
                due = next(pending, None)
            yield event(at, time, hart, kind, "effect", fields)
            number += 1
        while due:
            yield event(due[0].at, due[0].time, 0, due[1][0], "input", due[1][1])
            due = next(pending, None)


# ---- snapshots ---------------------------------------------------------------------------------------


class Store:
    """Blocks by their ids, from the packs."""

    def __init__(self, folder, first):
        self.places, self.files, number = {}, [], first
        while os.path.exists(path := os.path.join(folder, "packs", f"{number:04}.pack")):
            with open(path, "rb") as file:
                data = file.read()
            need(data[:8] == b"TBKPACK\0" and data[8:10] == b"\1\0", f"{path} is no pack of version 1")
            self.files.append(data)
            at = 16
            while at < len(data):
                head = data[at : at + 16]
                count, raw, stored = int.from_bytes(head[6:8], "little"), u32(head, 8), u32(head, 12)
                begin = at + 16 + 32 * count + 16
                # What follows the last checkpoint may be torn.
                if len(head) < 16 or head[:4] != b"TBKF" or begin + stored > len(data):
                    break
                checksum = data[begin - 16 : begin]
                need(blake3(data[at : begin - 16])[:16] == checksum, f"{path}: the frame at {at} is damaged")
                for slot in range(count):
                    name = data[at + 16 + 32 * slot :][:32]
                    self.places.setdefault(name, (len(self.files) - 1, begin, head[4], head[5], raw, stored, slot))
                at = begin + stored
            number += 1
        self.cached = (None, None)

    def get(self, name, check=False):
        need(name in self.places, f"no pack has block {name.hex()}")
        file, begin, kind, codec, raw, stored, slot = self.places[name]
        if self.cached[0] != (file, begin):
            data = self.files[file][begin : begin + stored]
            data = data if codec == 0 else unpack(data, raw)
            blocks, at = [], 0
            while at < len(data):
                size = PAGE if kind == 0 else int.from_bytes(data[at : at + 2], "little")
                at += 0 if kind == 0 else 2
                blocks.append(data[at : at + size])
                at += size
            self.cached = ((file, begin), blocks)
        block = self.cached[1][slot]
        need(not check or blake3(block) == name, f"block {name.hex()} fails its hash")
        return block


class Snapshots:
    """The list of checkpoints: dictionaries with at, time, tree, root, keep, state."""

    def __init__(self, folder):
        with open(os.path.join(folder, "checkpoints"), "rb") as file:
            data = file.read()
        version = int.from_bytes(data[8:10], "little")
        need(data[:8] == b"TBKCKPT\0" and version in (1, 2), "it is no file of checkpoints")
        self.first_pack = u32(data, 12)
        need((version == 1) == (self.first_pack == 0), "its head is wrong")
        self.list, at = [], 16
        while at + 32 <= len(data):
            head, info_size, state_size = data[at : at + 16], u32(data, at + 8), u32(data, at + 12)
            end = at + 32 + info_size + state_size
            if head[:4] != b"TBKR" or end > len(data):
                break
            info = data[at + 32 : at + 32 + info_size]
            if blake3(head + info)[:16] != data[at + 16 : at + 32]:
                break
            fields = Bytes(info)
            if head[4] == 0:
                icount, time = fields.num(), fields.num()
                tree, root, size, keep = fields.take(32), fields.take(32), fields.num(), fields.u8()
                fields.num(), fields.num()  # the place in the packs
                position = Bytes(fields.take(fields.num()))
                fields.end()
                state = data[at + 32 + info_size : end]
                state = state if head[5] == 0 else unpack(state, size)
                self.list = [known for known in self.list if known["at"] != icount]
                self.list.append(
                    {"at": icount, "time": time, "tree": tree, "root": root, "keep": keep == 1, "state": state,
                     "inputs": position.num(), "effects": position.num()}
                )  # fmt: skip
            else:
                gone = {fields.num() for _ in range(fields.num())}
                self.list = [known for known in self.list if known["at"] not in gone]
            at = end
        self.store = Store(folder, self.first_pack)

    def at(self, icount):
        found = [known for known in self.list if known["at"] == icount]
        need(found, f"no snapshot stands at icount {icount}")
        return found[0]

    def pages(self, tree, check=False):
        """Keys and ids of all pages below a tree's root."""
        if tree == blake3(b""):
            return
        node = self.store.get(tree, check)
        shift, base = node[1], int.from_bytes(node[2:10], "little")
        slots, names = int.from_bytes(node[10:12], "little"), node[12:]
        need(node[:1] == b"N" and shift % 4 == 0 and shift <= 40, "a node is malformed")
        digits = [digit for digit in range(16) if slots >> digit & 1]
        need(len(names) == 32 * len(digits) and len(digits) >= (1 if shift == 0 else 2), "a node is malformed")
        for index, digit in enumerate(digits):
            name = names[32 * index : 32 * index + 32]
            if shift == 0:
                yield base | digit, name
            else:
                yield from self.pages(name, check)

    def page(self, icount, key):
        for found, name in self.pages(self.at(icount)["tree"]):
            if found == key:
                return self.store.get(name)
        return bytes(PAGE)


# ---- the command line --------------------------------------------------------------------------------


def main(arguments):
    command, folder, *rest = arguments
    if command == "events":
        for event in Log(folder).events():
            print(json.dumps(event, separators=(",", ":")))
    elif command == "snapshots":
        for known in Snapshots(folder).list:
            fields = {"icount": known["at"], "time_ns": known["time"], "root": known["root"].hex(), "keep": known["keep"],
                      "state_bytes": len(known["state"])}  # fmt: skip
            print(json.dumps(fields, separators=(",", ":"), sort_keys=True))
    elif command == "page":
        sys.stdout.buffer.write(Snapshots(folder).page(int(rest[0], 0), int(rest[1], 0)))
    elif command == "check":
        snapshots, checked = Snapshots(folder), set()
        for known in snapshots.list:
            need(blake3(known["tree"] + known["state"]) == known["root"], f"the root at {known['at']} is wrong")
            for _, name in snapshots.pages(known["tree"], True):
                if name not in checked:
                    snapshots.store.get(name, True)
                    checked.add(name)
        print(f"{len(snapshots.list)} snapshots, {len(checked)} different pages, all as their hashes say")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1:])
