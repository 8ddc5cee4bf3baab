//! A recording as one file: a POSIX `ustar` archive, so that `tar xf` opens it too.
//!
//! ```text
//!   recording/                    mode 0700
//!   recording/manifest.json       0600, and so on: every regular file of the folder and of the folders in it
//!   recording/BLAKE3SUMS          last: lines `HASH  NAME`, as b3sum writes and checks them
//! ```
//!
//! What is read is hostile: names are checked before anything is made, nothing outside of the new folder is touched, and no
//! size is believed before the bytes are there.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The folder in the archive.
const ROOT: &str = "recording";
/// The member with the hashes.
const SUMS: &str = "BLAKE3SUMS";
/// Bytes of a block of the archive.
const BLOCK: usize = 512;
/// Bytes of the longest list of hashes that is read.
const LONGEST_SUMS: u64 = 64 << 20;

/// The files of a recording, by their names with `/`: what others refer into comes after what refers to it, so that a recording that
/// still grows is archived as it was at some moment.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(prefix) = folders.pop() {
        let path = folder.join(&prefix);
        for entry in fs::read_dir(&path).with_context(|| format!("can't read {}", path.display()))? {
            let entry = entry.with_context(|| format!("can't read {}", path.display()))?;
            let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else {
                continue;
            };
            let kind = entry
                .file_type()
                .with_context(|| format!("can't read {}", path.display()))?;
            if kind.is_dir() && prefix.is_empty() {
                folders.push(format!("{name}/"));
            } else if kind.is_file() && is_plain(&name) && name != SUMS {
                names.push(name);
            }
        }
    }
    let order = |name: &String| {
        let rank = ["manifest.json", "checkpoints", "events", "packs/"]
            .iter()
            .position(|first| name.starts_with(first));
        (rank.unwrap_or(usize::MAX), name.clone())
    };
    names.sort_by_cached_key(order);
    Ok(names)
}

/// Whether a name is one that this program would give: one or two parts of plain characters.
fn is_plain(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    name.len() <= 80 && parts.len() <= 2 && parts.iter().all(plain)
}

/// A number in a field of a header: octal digits, or with the top bit set the bytes of it.
fn put_number(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    if value >> (3 * digits) == 0 {
        let text = format!("{value:0digits$o}");
        field[..digits].copy_from_slice(text.as_bytes());
    } else {
        let bytes = value.to_be_bytes();
        let start = field.len() - bytes.len();
        field[0] = 0x80;
        field[start..].copy_from_slice(&bytes);
    }
}

fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let (high, low) = field.split_at(field.len() - 8);
        let none = high
            .iter()
            .enumerate()
            .all(|(i, b)| *b == if i == 0 { 0x80 } else { 0 });
        return none.then_some(u64::from_be_bytes(low.try_into().ok()?));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

fn checksum(header: &[u8; BLOCK]) -> u64 {
    let sum = |(i, b): (usize, &u8)| u64::from(if (148..156).contains(&i) { b' ' } else { *b });
    header.iter().enumerate().map(sum).sum()
}

fn header(name: &str, mode: u64, size: u64, kind: u8) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    put_number(&mut header[100..108], mode);
    put_number(&mut header[108..116], 0);
    put_number(&mut header[116..124], 0);
    put_number(&mut header[124..136], size);
    put_number(&mut header[136..148], 0);
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum = checksum(&header);
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

const FILE: u8 = b'0';
const FOLDER: u8 = b'5';

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

/// What an archive came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Files of the recording.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Writes the recording in `folder` as an archive.
pub fn write(folder: &Path, out: &mut dyn Write) -> Result<Archived> {
    let names = files(folder)?;
    let lost = || "can't write the archive";
    let mut archived = Archived { files: 0, bytes: 0 };
    let mut sums = String::new();
    let folders: std::collections::BTreeSet<&str> = names
        .iter()
        .filter_map(|name| name.split_once('/'))
        .map(|(f, _)| f)
        .collect();
    out.write_all(&header(&format!("{ROOT}/"), 0o700, 0, FOLDER))
        .with_context(lost)?;
    for folder in folders {
        out.write_all(&header(&format!("{ROOT}/{folder}/"), 0o700, 0, FOLDER))
            .with_context(lost)?;
    }
    for name in &names {
        let path = folder.join(name);
        let unreadable = || format!("can't read {}", path.display());
        let mut file = File::open(&path).with_context(unreadable)?;
        // Of a file that grows, what is there now.
        let size = file.metadata().with_context(unreadable)?.len();
        out.write_all(&header(&format!("{ROOT}/{name}"), 0o600, size, FILE))
            .with_context(lost)?;
        let mut hasher = blake3::Hasher::new();
        let mut left = size;
        let mut buffer = vec![0; 1 << 20];
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            let got = file.read(&mut buffer[..most]).with_context(unreadable)?;
            ensure!(got > 0, "{} became shorter while it was read", path.display());
            hasher.update(&buffer[..got]);
            out.write_all(&buffer[..got]).with_context(lost)?;
            left -= got as u64;
        }
        out.write_all(&vec![0; padding(size) as usize])
            .with_context(lost)?;
        sums.push_str(&format!("{}  {name}\n", hasher.finalize()));
        archived.files += 1;
        archived.bytes += size;
    }
    let size = sums.len() as u64;
    out.write_all(&header(&format!("{ROOT}/{SUMS}"), 0o600, size, FILE))
        .and_then(|()| out.write_all(sums.as_bytes()))
        .and_then(|()| out.write_all(&vec![0; padding(size) as usize + 2 * BLOCK]))
        .with_context(lost)?;
    Ok(archived)
}

/// Makes `folder`, which must not exist, from an archive. On an error it may be there in part.
pub fn read(archive: &mut dyn Read, folder: &Path) -> Result<Archived> {
    make_folder(folder)?;
    let mut archived = Archived { files: 0, bytes: 0 };
    let mut hashes = BTreeMap::new();
    let mut offset = 0u64;
    loop {
        let mut head = [0; BLOCK];
        fill(archive, &mut head, offset)?;
        let here = offset;
        offset += BLOCK as u64;
        if head == [0; BLOCK] {
            bail!("it ends at byte {here} without {SUMS}: it is no packed recording, or was cut short");
        }
        let name = head[..100].split(|b| *b == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let stored = number(&head[148..156]);
        ensure!(
            &head[257..262] == b"ustar" && stored == Some(checksum(&head)),
            "byte {here} is no archive header: it is no packed recording, or is damaged"
        );
        let size = number(&head[124..136]).with_context(|| format!("byte {here}: {name} has no size"))?;
        let inner = name
            .strip_prefix(ROOT)
            .and_then(|rest| rest.strip_prefix('/'))
            .with_context(|| format!("byte {here}: {name:?} is not in {ROOT}/"))?;
        match head[156] {
            FOLDER if size == 0 => {
                let inner = inner.trim_end_matches('/');
                if !inner.is_empty() {
                    ensure!(
                        is_plain(inner) && !inner.contains('/'),
                        "byte {here}: {name:?} is no name of a recording's"
                    );
                    make_folder(&folder.join(inner))?;
                }
            }
            FILE if inner == SUMS => {
                ensure!(size <= LONGEST_SUMS, "byte {here}: {SUMS} has {size} bytes");
                let mut text = vec![0; size as usize];
                fill(archive, &mut text, offset)?;
                check(&String::from_utf8_lossy(&text), &hashes)?;
                return Ok(archived);
            }
            FILE => {
                ensure!(
                    is_plain(inner),
                    "byte {here}: {name:?} is no name of a recording's"
                );
                let hash = extract(archive, &folder.join(inner), size, offset)?;
                hashes.insert(inner.to_owned(), hash);
                offset += size + padding(size);
                archived.files += 1;
                archived.bytes += size;
            }
            _ => bail!("byte {here}: {name:?} is neither file nor folder"),
        }
    }
}

fn make_folder(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .with_context(|| format!("can't make the folder {}", path.display()))
}

fn fill(archive: &mut dyn Read, out: &mut [u8], offset: u64) -> Result<()> {
    match archive.read_exact(out) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            bail!("it ends behind byte {offset}: it was cut short")
        }
        other => other.context("can't read the archive"),
    }
}

fn extract(archive: &mut dyn Read, path: &PathBuf, size: u64, offset: u64) -> Result<blake3::Hash> {
    let failed = || format!("can't write {}", path.display());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut left = size;
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        fill(archive, &mut buffer[..most], offset + size - left)?;
        hasher.update(&buffer[..most]);
        file.write_all(&buffer[..most]).with_context(failed)?;
        left -= most as u64;
    }
    let mut rest = [0; BLOCK];
    fill(archive, &mut rest[..padding(size) as usize], offset + size)?;
    Ok(hasher.finalize())
}

/// Compares what was read with the list of hashes.
fn check(sums: &str, hashes: &BTreeMap<String, blake3::Hash>) -> Result<()> {
    let mut listed = 0;
    for line in sums.lines() {
        let (hash, name) = line.split_once("  ").context("its list of hashes is damaged")?;
        let found = hashes
            .get(name)
            .with_context(|| format!("{name} is missing in it"))?;
        ensure!(
            found.to_hex().as_str() == hash,
            "{name} in it is damaged: its hash is {found}, not {hash}"
        );
        listed += 1;
    }
    ensure!(listed == hashes.len(), "its list of hashes lacks files");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(folder: &Path) -> Vec<u8> {
        fs::create_dir_all(folder.join("packs")).unwrap();
        fs::write(folder.join("manifest.json"), "{}").unwrap();
        fs::write(folder.join("packs/0000.pack"), vec![7; 1000]).unwrap();
        fs::write(folder.join("events"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let mut out = Vec::new();
        let archived = write(folder, &mut out).unwrap();
        assert_eq!(
            archived,
            Archived {
                files: 3,
                bytes: 1002
            }
        );
        out
    }

    #[test]
    fn what_is_packed_comes_back() {
        let place = tempfile::tempdir().unwrap();
        let bytes = sample(&place.path().join("a"));
        let out = place.path().join("b");
        read(&mut bytes.as_slice(), &out).unwrap();
        assert_eq!(fs::read(out.join("packs/0000.pack")).unwrap(), vec![7; 1000]);
        assert_eq!(fs::read(out.join("manifest.json")).unwrap(), b"{}");
        assert!(!out.join("link").exists());
        // The same files, the same archive.
        let mut again = Vec::new();
        write(&out, &mut again).unwrap();
        assert_eq!(again, bytes);
    }

    #[test]
    fn no_damage_goes_unseen() {
        let place = tempfile::tempdir().unwrap();
        let bytes = sample(&place.path().join("a"));
        let mut round = 0;
        let mut refused = |bytes: &[u8]| {
            round += 1;
            let out = place.path().join(format!("out{round}"));
            let error = read(&mut &bytes[..], &out).unwrap_err();
            fs::remove_dir_all(&out).unwrap();
            format!("{error:#}")
        };
        let sums_end = bytes.len() - 2 * BLOCK;
        for cut in (0..sums_end - BLOCK).step_by(97) {
            assert!(refused(&bytes[..cut]).contains("cut short"), "{cut}");
        }
        for at in (0..sums_end - BLOCK).step_by(13) {
            let whole = &bytes;
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x20;
            if read(&mut bytes.as_slice(), &place.path().join("try")).is_ok() {
                // Padding behind a file carries nothing, nor does the blank behind a header's checksum.
                let block = &whole[at & !(BLOCK - 1)..][..BLOCK];
                let padding = !block.starts_with(b"recording/") && whole[at] == 0;
                assert!(padding || at % BLOCK == 155, "{at}");
            }
            let _ = fs::remove_dir_all(place.path().join("try"));
        }
    }

    #[test]
    fn names_stay_in_the_folder() {
        for name in ["../x", "/x", "a/../b", "a/b/c", ".x", "a//b", "a b", "", "ä"] {
            assert!(!is_plain(name), "{name}");
        }
        let place = tempfile::tempdir().unwrap();
        for (name, kind) in [
            ("recording/../x", FILE),
            ("x", FILE),
            ("recording/x", b'2'),
            ("recording/../y/", FOLDER),
        ] {
            let mut bytes = header("recording/", 0o700, 0, FOLDER).to_vec();
            bytes.extend(header(name, 0o644, 0, kind));
            let out = place.path().join("out");
            read(&mut bytes.as_slice(), &out).unwrap_err();
            fs::remove_dir_all(&out).unwrap();
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn large_sizes_are_written_as_tar_does() {
        let mut field = [0; 12];
        for value in [0, 511, (1 << 33) - 1, 1 << 33, u64::MAX] {
            field.fill(0);
            put_number(&mut field, value);
            assert_eq!(number(&field), Some(value));
        }
    }
}
