#!/usr/bin/env bash
# Fetches the guest images that the whole-machine tests and benches boot, without root:
# Debian's kernel and busybox, and what runs before or instead of a kernel (OpenSBI and U-Boot;
# SeaBIOS, GRUB and Memtest86+), by `apt-get download` under a private apt configuration (own
# sources, lists and cache; the machine's packages are not touched), and packs a reproducible
# initramfs from them and from tests/guests.
#
#   tests/images.sh riscv64|x86_64 [--symbols] [--installer] [--update] [--allow-unauthenticated]
#   tests/images.sh mirror        names the mirror that is asked
#   tests/images.sh qemu          says how to get the QEMU to compare with; fetches nothing
#
#   --symbols   also vmlinux.debug, the kernel with debug information, for gdb, and its whole System.map
#               (Debian's kernel package ships a System.map that only points there; a large package)
#   --installer also Debian's network installer: installer/ with its kernel and initrd (a large package)
#   --update    ask the mirror for newer packages even if everything is there
#   --allow-unauthenticated  go on when no local key can verify the archive (never the default)
#
# The images land in target/images/ARCH, or where $TICKBACK_IMAGES (riscv64) or
# $TICKBACK_IMAGES_X86_64 says. Downloads are kept in target/images/cache, so a second run needs no
# network. Exit codes: 0 done, 1 failed (offline, or not verifiable), 2 usage.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
suite=trixie # the first Debian release with riscv64

say() { printf 'images: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

# The mirror that this machine's own apt uses for Debian, or TICKBACK_MIRROR.
# `--print-uris` reads the machine's sources in any of their formats, and asks nobody.
mirror() {
  local uri=${TICKBACK_MIRROR:-}
  [ -n "$uri" ] || uri=$(apt-get update --print-uris 2>/dev/null | sed -n "s,^'\(.*/debian\)/*/dists/.*,\1,p" | head -n 1) || true
  [ -n "$uri" ] || die "apt knows no Debian mirror here; set TICKBACK_MIRROR to the URI of one"
  printf '%s\n' "$uri"
}

symbols=0 installer=0 update=0 unauthenticated=0 arch=
for a in "$@"; do
  case $a in
    --symbols) symbols=1 ;;
    --installer) installer=1 ;;
    --update) update=1 ;;
    --allow-unauthenticated) unauthenticated=1 ;;
    -h | --help) usage ;;
    -*) say "unknown option $a"; usage ;;
    *) [ -z "$arch" ] || usage; arch=$a ;;
  esac
done

# What differs between guests: Debian's name of it, the packages, what is taken from them beside the
# kernel and busybox (patterns in the package, each flat into the folder) and must be there in the end, the
# compiler, the modules to pack.
declare -A take=()
case $arch in
  riscv64)
    debian_arch=riscv64
    out=${TICKBACK_IMAGES:-$repo/target/images/$arch}
    kernel_meta=linux-image-riscv64
    packages=(opensbi u-boot-qemu busybox-static)
    take[opensbi]='./usr/lib/riscv64-linux-gnu/opensbi/generic/fw_*'
    take[u-boot-qemu]='./usr/lib/u-boot/qemu-riscv64_smode/*'
    wanted=(fw_dynamic.bin fw_jump.bin u-boot.bin)
    installer_package=debian-installer-13-netboot-riscv64
    compiler=riscv64-linux-gnu-gcc compiler_package=gcc-riscv64-linux-gnu
    kernel_file=vmlinux
    # Whatever of these is built in is left out; modules.dep adds what they need.
    modules=(virtio_mmio virtio_pci virtio_blk virtio_net virtio_rng virtio_console virtio_input)
    ;;
  x86_64)
    debian_arch=amd64
    out=${TICKBACK_IMAGES_X86_64:-$repo/target/images/$arch}
    kernel_meta=linux-image-amd64
    packages=(seabios memtest86+ grub-rescue-pc busybox-static)
    # SeaBIOS of 128 KiB (bios.bin) and 256 KiB, and the ROMs of the displays that its boards may have.
    take[seabios]='./usr/share/seabios/*bios*.bin'
    take[memtest86+]='./boot/*x64.bin ./usr/lib/memtest86+/*x64.iso'
    take[grub-rescue-pc]='./usr/lib/grub-rescue/*'
    wanted=(bios.bin bios-256k.bin vgabios-stdvga.bin memtest86+x64.{bin,iso} grub-rescue-cdrom.iso grub-rescue-floppy.img)
    installer_package=debian-installer-13-netboot-amd64
    compiler=x86_64-linux-gnu-gcc compiler_package=gcc
    kernel_file=vmlinuz
    modules=(virtio_pci virtio_mmio virtio_blk virtio_net virtio_rng virtio_console virtio_input
      ata_piix sd_mod sr_mod)
    ;;
  qemu)
    say "QEMU comes from Debian's packages (qemu-system-misc, qemu-user; 10.0 is in bookworm-backports): install it with apt-get"
    exit 0
    ;;
  mirror)
    mirror
    exit 0
    ;;
  *) usage ;;
esac

cache=$repo/target/images/cache
debs=$cache/$arch
for tool in apt-get apt-cache dpkg-deb python3 gzip tar; do
  command -v $tool >/dev/null || die "$tool is needed and not there"
done
mkdir -p "$out" "$cache" "$debs"
exec 9>"$cache/lock"
if command -v flock >/dev/null; then flock 9; fi

# ---- up to date? ----------------------------------------------------------------------------------
# One stamp over everything that decides the result except the mirror's state.
cc=$(command -v $compiler || true)
stamp_now() {
  { cat "${BASH_SOURCE[0]}" "$here"/guests/*; echo "${cc:+$($cc --version | head -n 1)}"; cat "$debs/names"; } 2>/dev/null |
    sha256sum | cut -d' ' -f1
}
wanted+=("$kernel_file" config System.map busybox initramfs.cpio.gz VERSIONS)
[ $symbols = 0 ] || wanted+=(vmlinux.debug)
[ $installer = 0 ] || wanted+=(installer/linux installer/initrd.gz)
complete() { local f; for f in "${wanted[@]}"; do [ -s "$out/$f" ] || return 1; done; }
if [ $update = 0 ] && complete && [ "$(cat "$out/.stamp" 2>/dev/null)" = "$(stamp_now)" ]; then
  say "$out is up to date"
  exit 0
fi

# ---- a private apt -----------------------------------------------------------------------------------
mirror=$(mirror)

keyrings() { # Debian's keys on this machine, as the list that signed-by takes
  local list=() f
  for f in "$cache"/keyring/usr/share/keyrings/debian-archive-keyring.{pgp,gpg} \
    /usr/share/keyrings/debian-archive-keyring.{pgp,gpg} /etc/apt/trusted.gpg.d/debian-archive-*.{asc,gpg,pgp}; do
    [ -f "$f" ] && list+=("$(readlink -f "$f")")
  done
  local IFS=,
  printf '%s\n' "${list[*]-}"
}

configure() { # configure NAME SUITE ARCH: writes the configuration, names it in APT_CONFIG
  local root=$cache/apt-$1 keys options
  keys=$(keyrings)
  mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
  : >"$root/status"
  options="arch=$3"
  [ -z "$keys" ] || options+=" signed-by=$keys"
  [ $unauthenticated = 0 ] || options="arch=$3 trusted=yes"
  printf 'deb [%s] %s %s main\n' "$options" "$mirror" "$2" >"$root/sources.list"
  cat >"$root/apt.conf" <<CONF
APT::Architecture "$3";
#clear APT::Architectures;
APT::Architectures { "$3"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$root";
Dir::State::lists "$root/lists";
Dir::State::status "$root/status";
Dir::Cache "$root/cache";
Dir::Etc::sourcelist "$root/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "2";
CONF
  export APT_CONFIG=$root/apt.conf
}

refresh() { # refresh LOG: apt-get update; a warning about a fetch or a signature is a failure too
  apt-get -q update >"$1" 2>&1 || return 1
  ! grep -qE '^(E:|W:.*Failed to fetch)' "$1" || return 1
  [ $unauthenticated = 1 ] || ! unverifiable "$1"
}

unverifiable() { grep -qE "NO_PUBKEY|not signed|couldn.t be verified|EXPKEYSIG|Sub-process .*sqv" "$1"; }

# A machine older than the suite may lack its key. Debian hands new keys to old releases in
# debian-archive-keyring, which is signed by the keys that such a machine does have.
fetch_keyring() {
  local release
  for release in bookworm bullseye; do
    say "no local key verifies $suite: trying the debian-archive-keyring of $release"
    configure keyring $release "$(dpkg --print-architecture)"
    refresh "$cache/keyring.log" || continue
    rm -f "$cache"/debian-archive-keyring_*.deb
    (cd "$cache" && apt-get -q download debian-archive-keyring >>keyring.log 2>&1) || continue
    rm -rf "$cache/keyring"
    dpkg-deb -x "$cache"/debian-archive-keyring_*.deb "$cache/keyring"
    return
  done
  return 1
}

lists() {
  local log=$cache/update.log
  [ $unauthenticated = 0 ] || say "WARNING: --allow-unauthenticated: nobody vouches for what is downloaded"
  configure "$arch" $suite "$debian_arch"
  say "asking $mirror for $suite"
  refresh "$log" && return
  if [ $unauthenticated = 0 ] && unverifiable "$log"; then
    if fetch_keyring; then
      configure "$arch" $suite "$debian_arch"
      refresh "$log" && return
    fi
    cat "$log" >&2
    die "Debian's signature on $suite can't be verified with the keys on this machine. Install a newer" \
      "debian-archive-keyring, or take the risk with --allow-unauthenticated"
  fi
  cat "$log" >&2
  die "the package lists can't be fetched (offline?); nothing changed"
}

# ---- packages ----------------------------------------------------------------------------------------
deb() { # deb PACKAGE: its file in the cache
  local name
  name=$(sed -n "s/^$1 //p" "$debs/names" 2>/dev/null | head -n 1)
  [ -n "$name" ] && [ -s "$debs/$name" ] && printf '%s\n' "$debs/$name"
}

have_all() {
  [ -s "$debs/names" ] || return 1
  local p
  for p in kernel "${packages[@]}"; do deb "$p" >/dev/null || return 1; done
  [ $symbols = 0 ] || deb debug >/dev/null || return 1
  [ $installer = 0 ] || deb installer >/dev/null
}

if [ $update = 1 ] || ! have_all; then
  lists
  kernel=$(apt-cache depends $kernel_meta | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
  [ -n "$kernel" ] || die "$kernel_meta names no kernel package in $suite"
  fetch=("kernel=$kernel")
  for p in "${packages[@]}"; do fetch+=("$p=$p"); done
  # What was fetched once stays listed and up to date, so that --symbols and --installer need no second look.
  [ $symbols = 0 ] && ! deb debug >/dev/null || fetch+=("debug=$kernel-dbg")
  [ $installer = 0 ] && ! deb installer >/dev/null || fetch+=("installer=$installer_package")
  names=
  for f in "${fetch[@]}"; do
    role=${f%%=*} package=${f#*=}
    line=$(apt-get -q download --print-uris "$package" 2>"$cache/uris.log" | tail -n 1) || true
    file=$(cut -d' ' -f2 <<<"$line") size=$(cut -d' ' -f3 <<<"$line")
    [ -n "$file" ] && [ "$file" != "$line" ] || { cat "$cache/uris.log" >&2; die "$package is not in $suite for $debian_arch"; }
    if [ "$(stat -c %s "$debs/$file" 2>/dev/null)" != "$size" ]; then
      say "downloading $package ($((size / 1024)) KiB)"
      (cd "$debs" && apt-get -q download "$package" >"$cache/download.log" 2>&1) ||
        { cat "$cache/download.log" >&2; die "$package can't be downloaded (offline?)"; }
      [ -s "$debs/$file" ] || die "$package was downloaded under another name than $file"
    fi
    names+="$role $file"$'\n'
  done
  printf '%s' "$names" >"$debs/names"
fi

# ---- unpack ------------------------------------------------------------------------------------------
work=$(mktemp -d "$cache/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
kernel_deb=$(deb kernel)
extract() { # extract DEB PATTERN...: only what is needed; a kernel package unpacks to half a gigabyte
  local file=$1
  shift
  dpkg-deb --fsys-tarfile "$file" | tar -x -C "$work" --wildcards --no-same-owner "$@" 2>"$work/tar.log" ||
    { cat "$work/tar.log" >&2; die "$(basename "$file") has not the expected files"; }
}
say "unpacking into $out"
extract "$kernel_deb" './boot/*' './usr/lib/modules/*'
extract "$(deb busybox-static)" '*bin/busybox'

rm -f "$out/.stamp"
for p in "${!take[@]}"; do
  read -ra patterns <<<"${take[$p]}"
  extract "$(deb "$p")" "${patterns[@]}"
  # Expanded here; links count as what they point to.
  # shellcheck disable=SC2068
  (cd "$work" && install -m 644 ${patterns[@]} "$out/")
done
install -m 644 "$work"/boot/vmlinu?-* "$out/$kernel_file"
install -m 644 "$work"/boot/config-* "$out/config"
install -m 755 "$(find "$work" -path '*bin/busybox' -type f | head -n 1)" "$out/busybox"
if [ $symbols = 1 ]; then
  extract "$(deb debug)" './usr/lib/debug/boot/*'
  install -m 644 "$work"/usr/lib/debug/boot/vmlinux-* "$out/vmlinux.debug"
  install -m 644 "$work"/usr/lib/debug/boot/System.map-* "$out/System.map"
elif ! { deb debug >/dev/null && [ -s "$out/vmlinux.debug" ]; }; then
  # Symbols of another kernel would mislead; those of this one stay.
  rm -f "$out/vmlinux.debug"
  install -m 644 "$work"/boot/System.map-* "$out/System.map"
fi

if [ $installer = 1 ]; then
  extract "$(deb installer)" './usr/lib/debian-installer/images/*/text/debian-installer/*/linux' \
    './usr/lib/debian-installer/images/*/text/debian-installer/*/initrd.gz'
  mkdir -p "$out/installer"
  install -m 644 "$work"/usr/lib/debian-installer/images/*/*/text/debian-installer/*/{linux,initrd.gz} "$out/installer/"
fi

# ---- the guests' own programs and the initramfs --------------------------------------------------------
root=$work/root
mkdir -p "$root/bin"
if [ -n "$cc" ]; then
  say "compiling the workloads with $compiler"
  # No debug information and a fixed prefix: the bytes must not depend on where the tree stands.
  $cc -std=gnu17 -O2 -Wall -Wextra -static -ffile-prefix-map="$here"=. -Wl,--build-id=none -s \
    -o "$root/bin/bench" "$here"/guests/*.c -lm
else
  say "$compiler is not there: the initramfs has no C workloads (install $compiler_package and run this again)"
fi
python3 "$here/guests/initramfs.py" --root "$root" --init "$here/guests/init" --busybox "$out/busybox" \
  --modules "$(echo "$work"/usr/lib/modules/*)" --module "${modules[@]}" -- "$work/initramfs.cpio"
gzip -9n "$work/initramfs.cpio"
mv "$work/initramfs.cpio.gz" "$out/initramfs.cpio.gz"

kind=unknown
case $(od -An -tx1 -N4 "$out/$kernel_file" | tr -d ' ') in
  7f454c46) kind=ELF ;;
  1f8b*) kind=gzip ;;
  4d5a*) [ "$(od -An -c -j514 -N4 "$out/$kernel_file" | tr -d ' ')" = HdrS ] && kind=bzImage || kind="Image (PE/EFI stub)" ;;
  *) kind=Image ;;
esac
{
  echo "suite $suite"
  sed 's/_/ /g; s/\.deb$//' "$debs/names"
  echo "$kernel_file is: $kind"
  if [ -n "$cc" ]; then echo "workloads: built by $($cc --version | head -n 1)"; else echo "workloads: none, no $compiler"; fi
} >"$out/VERSIONS"
stamp_now >"$out/.stamp"
say "$kernel_file is: $kind"
say "done: $out"
