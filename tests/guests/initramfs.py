#!/usr/bin/env python3
"""Packs the initramfs of the whole-machine tests as a `newc` cpio archive.

The same inputs give the same bytes: entries are sorted, times are 0, owners are root, inode numbers
count up. Device nodes are written straight into the archive, so neither root nor cpio is needed.
Format: Linux Documentation/driver-api/early-userspace/buffer-format.rst.
"""
import argparse
import lzma
import os
import stat
import subprocess
import sys

# What /init, the tests and a person at the shell use; `busybox NAME` reaches the rest.
APPLETS = """
[ ash awk basename cat chmod chown clear cp cut date dd df dirname dmesg echo env expr false find free
grep gunzip gzip head hexdump hostname id ifconfig insmod ip kill ln ls lsmod md5sum mkdir mkfifo mknod
mktemp mount mv nc netstat od ping poweroff printf ps pwd readlink reboot rm rmdir route sed seq setsid
modprobe sh sha256sum sleep sort stat stty sync tail tar tee telnet test time top touch tr true tty udhcpc umount
uname uniq uptime vi watch wc wget which xargs yes zcat
""".split()

DIRECTORIES = ["bin", "dev", "etc", "lib", "lib/modules", "mnt", "proc", "root", "run", "sys", "tmp"]


def module_order(tree, names):
    """{name: Module} of `names` and all that they need, each after what it needs.

    A name that is built into the kernel is left out; one that the kernel doesn't have at all is left
    out too, and reported. Debian makes modules.dep when a kernel is installed, which this one never
    is, so each module's own declarations are read.
    """
    path_of = {}
    for folder, _, files in os.walk(tree):
        for file in files:
            if ".ko" in file:
                path_of[key(file)] = os.path.join(folder, file)
    with open(os.path.join(tree, "modules.builtin"), encoding="ascii") as lines:
        builtin = {key(line.strip()) for line in lines}

    found = {}

    def add(name):
        if name in builtin or name in found:
            return
        if name not in path_of:
            print(f"initramfs: the kernel has no module {name}", file=sys.stderr)
            return
        module = Module(module_bytes(path_of[name]))
        for needed in module.needs:
            add(needed)
        # What is looked for at run time is known by an alias of a module that was asked for before.
        module.needs += [n for n in found if set(found[n].aliases) & set(module.soft)]
        module.needs = [n for n in module.needs if n in found]
        found[name] = module

    for name in names:
        add(name)
    return found


def key(path):
    """A module's name as the kernel writes it: file names have either of `-` and `_`."""
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


class Module:
    """A module's bytes, and of its .modinfo what modprobe wants to know: `depends=` names the owners
    of its symbols, `softdep=` what it looks for at run time."""

    def __init__(self, data):
        self.data, self.needs, self.soft, self.aliases = data, [], [], []
        for field in data.split(b"\0"):
            name, _, value = field.partition(b"=")
            if name not in (b"depends", b"softdep", b"alias"):
                continue
            value = value.decode("ascii")
            if name == b"depends":
                self.needs += [n.replace("-", "_") for n in value.split(",") if n]
            elif name == b"softdep" and value.startswith("pre: "):
                self.soft += value[5:].split()
            elif name == b"alias":
                self.aliases.append(value)


def closure(modules, name):
    """What `name` needs among `modules`, directly or not."""
    found = []
    for needed in modules[name].needs:
        found += [needed, *closure(modules, needed)]
    return found


def module_bytes(path):
    """The module uncompressed: busybox's insmod reads plain ones only."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".gz"):
        import gzip

        return gzip.decompress(data)
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, stdout=subprocess.PIPE).stdout
    return data


def newc(entries):
    """The archive of {name: (mode, data, (major, minor))}, in the order of names."""
    out = bytearray()

    def pad():
        out.extend(b"\0" * (-len(out) % 4))

    def put(inode, name, mode, data, device):
        encoded = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = [inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(encoded), 0]
        out.extend(b"070701" + b"".join(b"%08X" % f for f in fields) + encoded)
        pad()
        out.extend(data)
        pad()

    for inode, name in enumerate(sorted(entries), 1):
        put(inode, name, *entries[name])
    put(0, "TRAILER!!!", 0, b"", (0, 0))
    out.extend(b"\0" * (-len(out) % 512))
    return bytes(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="folder whose files are packed as they are")
    parser.add_argument("--init", required=True)
    parser.add_argument("--busybox", required=True)
    parser.add_argument("--modules", required=True, help="lib/modules/VERSION of the kernel")
    parser.add_argument("--module", nargs="*", default=[])
    parser.add_argument("output")
    options = parser.parse_args()

    none = (0, 0)
    entries = {name: (stat.S_IFDIR | 0o755, b"", none) for name in DIRECTORIES}
    entries["dev/console"] = (stat.S_IFCHR | 0o600, b"", (5, 1))
    entries["dev/null"] = (stat.S_IFCHR | 0o666, b"", (1, 3))

    def program(name, path):
        with open(path, "rb") as file:
            entries[name] = (stat.S_IFREG | 0o755, file.read(), none)

    program("init", options.init)
    program("bin/busybox", options.busybox)
    for applet in APPLETS:
        entries[f"bin/{applet}"] = (stat.S_IFLNK | 0o777, b"busybox", none)
    for folder, _, files in os.walk(options.root):
        for file in files:
            path = os.path.join(folder, file)
            program(os.path.relpath(path, options.root), path)

    def text(name, lines):
        entries[name] = (stat.S_IFREG | 0o644, "".join(line + "\n" for line in lines).encode(), none)

    # Flat, with the two tables that busybox's modprobe reads.
    base = "lib/modules/" + os.path.basename(options.modules.rstrip("/"))
    entries[base] = (stat.S_IFDIR | 0o755, b"", none)
    modules = module_order(options.modules, options.module)
    for name, module in modules.items():
        entries[f"{base}/{name}.ko"] = (stat.S_IFREG | 0o644, module.data, none)

    def line(name):
        deep = dict.fromkeys(closure(modules, name))
        return f"{name}.ko:" + "".join(f" {n}.ko" for n in deep)

    text(f"{base}/modules.dep", [line(name) for name in modules])
    aliases = [f"alias {alias} {name}" for name in modules for alias in modules[name].aliases]
    text(f"{base}/modules.alias", aliases)

    with open(options.output, "wb") as file:
        file.write(newc(entries))


if __name__ == "__main__":
    main()
