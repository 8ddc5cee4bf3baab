//! Values as people write them on the command line: sizes, numbers, dates, durations, drives, network cards.

use std::net::Ipv4Addr;
use std::num::{NonZeroU16, NonZeroU64};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use icount::{Icount, VirtualTime};
use machine::config::{MacAddress, OnShutdown};
use machine::host::{NetworkEnd, Role};

use crate::outcome::Usage;

/// Whole number, decimal or `0x` hexadecimal; also `1_000_000` and `1e9`.
pub fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    if let Some(digits) = plain.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_err(|_| format!("'{text}' is no hexadecimal number"));
    }
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let value = exponent
        .parse()
        .ok()
        .and_then(|exponent| decimal(digits, exponent));
    value
        .ok_or_else(|| format!("'{text}' is no whole number below 2^64; write 1000000000, 1e9 or 0x3b9aca00"))
}

/// `digits` × 10^`exponent` if that is a whole number of 64 bits; digits may have a point.
fn decimal(digits: &str, exponent: u32) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let left = exponent.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let value: u64 = format!("{whole}{fraction}").parse().ok()?;
    value.checked_mul(10u64.checked_pow(left)?)
}

/// The folder of a recording.
pub fn recording(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() {
        return Err(format!(
            "{text} is a file, and a recording is a folder: a packed one is opened by `tickback unpack {text} -o FOLDER` first"
        ));
    }
    Ok(path)
}

/// Bytes of the files of a folder.
pub fn folder_size(folder: &Path) -> Result<u64> {
    let what = || format!("can't read {}", folder.display());
    let mut total = 0;
    for entry in std::fs::read_dir(folder).with_context(what)? {
        let entry = entry.with_context(what)?;
        let metadata = entry.metadata().with_context(what)?;
        total += if metadata.is_dir() {
            folder_size(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(total)
}

/// Bytes, with K, M or G for powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let shift = match upper.bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => 0,
    };
    let digits = if shift == 0 {
        upper
    } else {
        &upper[..upper.len() - 1]
    };
    let value: u64 = digits.parse().ok()?;
    value.checked_mul(1 << shift)
}

/// What a triple fault does.
pub fn on_shutdown(text: &str) -> Result<OnShutdown, String> {
    match text {
        "reset" => Ok(OnShutdown::Reset),
        "stop" => Ok(OnShutdown::Stop),
        _ => Err(format!("'{text}' is neither reset nor stop")),
    }
}

/// Guest memory.
pub fn memory(text: &str) -> Result<u64, String> {
    let value = bytes(text).ok_or_else(|| format!("'{text}' is no size; write 512M or 1G"))?;
    if !((2 << 20)..=(64 << 30)).contains(&value) {
        return Err(format!("{text} is outside of what a machine can have: 2M to 64G"));
    }
    if !value.is_multiple_of(4096) {
        return Err(format!("{text} is not a whole number of pages of 4K"));
    }
    Ok(value)
}

/// Steps in a hart's slice.
pub fn slice(text: &str) -> Result<u64, String> {
    match number(text)? {
        steps if steps < machine::LEAST_SLICE => {
            Err(format!("a slice has at least {} steps", machine::LEAST_SLICE))
        }
        steps => Ok(steps),
    }
}

/// Virtual nanoseconds a step.
pub fn ns_per_step(text: &str) -> Result<NonZeroU64, String> {
    match NonZeroU64::new(number(text)?) {
        Some(ns) if ns.get() <= 1_000_000 => Ok(ns),
        _ => Err("a step takes 1 to 1000000 ns".into()),
    }
}

/// Steps that a flight recorder keeps.
pub fn flight_recorder(text: &str) -> Result<u64, String> {
    match number(text)? {
        steps if steps < 1_000_000 => Err("a flight recorder keeps at least 1000000 steps".into()),
        steps => Ok(steps),
    }
}

/// The most bytes of a recording.
pub fn recording_size(text: &str) -> Result<u64, String> {
    match bytes(text).ok_or_else(|| format!("'{text}' is no size; write 500M or 20G"))? {
        size if size < 4 << 20 => Err("a recording has at least 4M".into()),
        size => Ok(size),
    }
}

/// Steps between snapshots.
pub fn snapshot_grid(text: &str) -> Result<u64, String> {
    let steps = number(text)?;
    if steps.is_power_of_two() && steps >= 1 << 10 {
        return Ok(steps);
    }
    let near = steps.max(1 << 10).checked_next_power_of_two().unwrap_or(1 << 63);
    Err(format!(
        "snapshots stand a power of two of at least 1024 steps apart; {near} is near"
    ))
}

/// Bytes to look for on the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub Vec<u8>);

/// A text with escapes.
pub fn text(text: &str) -> Result<Text, String> {
    match machine::host::unescape(text)? {
        bytes if bytes.is_empty() => Err("an empty text is never seen".into()),
        bytes => Ok(Text(bytes)),
    }
}

/// Where a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopAfter {
    /// After so many steps.
    Steps(u64),
    /// At this virtual time.
    Time(VirtualTime),
}

/// Steps (`1000000000`, `1e9`) or virtual time (`5s`, `200ms`, `10us`, `500ns`).
pub fn stop_after(text: &str) -> Result<StopAfter, String> {
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let Some((unit, exponent)) = unit else {
        return number(text)
            .map(StopAfter::Steps)
            .map_err(|error| format!("{error}; or a time of the guest: 5s, 200ms"));
    };
    let time = decimal(text.trim_end_matches(unit), exponent);
    let time = time.ok_or_else(|| format!("'{text}' is no time; write 5s, 1.5s, 200ms, 10us or 500ns"))?;
    Ok(StopAfter::Time(VirtualTime(time)))
}

/// A position in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After so many steps.
    At(u64),
    /// So many hundredths of the recording.
    Percent(u64),
    /// Its end.
    End,
}

impl Place {
    /// The place in a recording from `begin` to `end`.
    pub fn in_recording(self, begin: Icount, end: Icount) -> Result<Icount, Usage> {
        match self {
            Self::At(at) if at > end.0 => Err(Usage(format!("{at}: the recording ends at {end}"))),
            Self::At(at) if at < begin.0 => Err(Usage(format!("{at}: the recording begins at {begin}"))),
            Self::At(at) => Ok(Icount(at)),
            Self::Percent(percent) => {
                let steps = u128::from(end.since(begin)) * u128::from(percent) / 100;
                Ok(u64::try_from(steps).map_or(end, |steps| begin.saturating_add(steps)))
            }
            Self::End => Ok(end),
        }
    }
}

/// An icount, `50%`, or `end`.
pub fn place(text: &str) -> Result<Place, String> {
    match text.strip_suffix('%') {
        Some(digits) => match digits.parse() {
            Ok(percent @ 0..=100) => Ok(Place::Percent(percent)),
            _ => Err(format!("'{text}' is no part of a recording; write 0% to 100%")),
        },
        None if text == "end" => Ok(Place::End),
        None => number(text).map(Place::At),
    }
}

/// A drive of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its image.
    pub file: PathBuf,
    /// The guest can't write.
    pub read_only: bool,
    /// The guest's writes go on to the image.
    pub write_through: bool,
}

/// `file=PATH[,ro][,write-through]`, or the path alone.
pub fn drive(text: &str) -> Result<Drive, String> {
    let mut drive = Drive {
        file: PathBuf::new(),
        read_only: false,
        write_through: false,
    };
    for (index, part) in text.split(',').enumerate() {
        match part {
            "ro" => drive.read_only = true,
            "write-through" => drive.write_through = true,
            _ if part.starts_with("file=") => drive.file = part["file=".len()..].into(),
            _ if index == 0 && !part.contains('=') => drive.file = part.into(),
            _ => {
                return Err(format!(
                    "'{part}' is unknown; write file=PATH[,ro][,write-through]"
                ));
            }
        }
    }
    if drive.file.as_os_str().is_empty() {
        return Err("it names no image; write file=PATH[,ro][,write-through]".into());
    }
    if drive.read_only && drive.write_through {
        return Err("ro and write-through exclude each other".into());
    }
    Ok(drive)
}

/// A network card and what it is connected to.
#[derive(Clone, Debug)]
pub struct Net {
    pub end: NetworkEnd,
    pub mac: Option<MacAddress>,
    /// As the user wrote it.
    pub text: String,
}

const NET: &str =
    "write user[,hostfwd=tcp::2222-:22] or socket=PATH[,listen|,connect], with ,mac=ADDRESS if you like";

pub fn net(text: &str) -> Result<Net, String> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let mut end = match first.strip_prefix("socket=") {
        Some("") => return Err(format!("it names no socket; {NET}")),
        Some(path) => NetworkEnd::Socket {
            path: path.into(),
            role: Role::Either,
        },
        None if first == "user" => NetworkEnd::User { forwards: Vec::new() },
        None => return Err(format!("'{first}' is unknown; {NET}")),
    };
    let mut mac = None;
    for part in parts {
        match (&mut end, part) {
            (NetworkEnd::Socket { role, .. }, "listen" | "connect") => {
                if *role != Role::Either {
                    return Err("listen and connect exclude each other".into());
                }
                *role = if part == "listen" {
                    Role::Listen
                } else {
                    Role::Connect
                };
            }
            (NetworkEnd::User { forwards }, _) if part.starts_with("hostfwd=") => {
                forwards.push(forward(&part["hostfwd=".len()..])?);
            }
            (_, _) if part.starts_with("mac=") => mac = Some(part["mac=".len()..].parse()?),
            _ => return Err(format!("'{part}' is unknown; {NET}")),
        }
    }
    let text = text.into();
    Ok(Net { end, mac, text })
}

/// A forwarded port as QEMU's users write it, `tcp:[ADDRESS]:PORT-[GUEST]:PORT`, as passt has it.
fn forward(text: &str) -> Result<(char, String), String> {
    let wrong = || format!("'{text}' is no forwarded port; write hostfwd=tcp:[ADDRESS]:2222-:22, or udp");
    let (host, guest) = text.rsplit_once('-').ok_or_else(wrong)?;
    let (protocol, host) = host.split_once(':').ok_or_else(wrong)?;
    let protocol = match protocol {
        "tcp" | "" => 't',
        "udp" => 'u',
        _ => return Err(wrong()),
    };
    let (address, from) = host.rsplit_once(':').ok_or_else(wrong)?;
    let (guest, to) = guest.rsplit_once(':').ok_or_else(wrong)?;
    if !matches!(guest, "" | "10.0.2.15") {
        return Err(format!(
            "the guest's address is 10.0.2.15, not '{guest}'; leave it out"
        ));
    }
    let port = |text: &str| text.parse::<NonZeroU16>().map_err(|_| wrong());
    let (from, to) = (port(from)?, port(to)?);
    let address = match address {
        "" => String::new(),
        address => format!("{}/", address.parse::<Ipv4Addr>().map_err(|_| wrong())?),
    };
    Ok((protocol, format!("{address}{from}:{to}")))
}

/// Nanoseconds since 1970 of a date: `2025-06-01T12:00:00Z`, with an offset such as `+02:00`, a day alone, or
/// seconds since 1970.
pub fn date(text: &str) -> Result<u64, String> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => Some(seconds),
        Err(_) => rfc3339(text),
    };
    seconds
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .ok_or_else(|| {
            format!(
                "'{text}' is no date from 1970 to 2554; write 2025-06-01T12:00:00Z, or seconds since 1970"
            )
        })
}

/// Seconds since 1970 of a date of RFC 3339; fractions of seconds are dropped.
fn rfc3339(text: &str) -> Option<u64> {
    let field = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        digits.parse().ok()
    };
    let separators = |at: &[(usize, &str)]| {
        at.iter()
            .all(|(at, set)| text.get(*at..at + 1).is_some_and(|c| set.contains(c)))
    };
    let (year, month, day) = (field(0..4)?, field(5..7)?, field(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap { 29 } else { 28 };
    let days_in = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *days_in.get(usize::try_from(month - 1).ok()?)?;
    if !separators(&[(4, "-"), (7, "-")]) || !(1..=length).contains(&day) {
        return None;
    }
    // Days since 1970-01-01, by counting leap days (proleptic Gregorian calendar).
    let before = year - 1;
    let leap_days = |years: i64| years / 4 - years / 100 + years / 400;
    let days = (year - 1970) * 365 + leap_days(before) - leap_days(1969)
        + days_in[..usize::try_from(month - 1).ok()?].iter().sum::<i64>()
        + day
        - 1;
    if text.len() == 10 {
        return u64::try_from(days * 86_400).ok();
    }
    let (hour, minute, second) = (field(11..13)?, field(14..16)?, field(17..19)?);
    if !separators(&[(10, "Tt "), (13, ":"), (16, ":")]) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        rest = fraction.get(digits..).filter(|_| digits > 0)?;
    }
    let offset = match (rest, rest.len()) {
        ("Z" | "z", _) => 0,
        (_, 6) if rest.is_ascii() && rest.as_bytes()[3] == b':' => {
            let at = text.len() - 6;
            let minutes = field(at + 1..at + 3)? * 60 + field(at + 4..at + 6)?;
            match rest.as_bytes()[0] {
                b'+' => minutes,
                b'-' => -minutes,
                _ => return None,
            }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset * 60;
    u64::try_from(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let good = [
            ("0", 0),
            ("1e9", 1_000_000_000),
            ("2.5e3", 2500),
            ("0xff", 255),
            ("1_000", 1000),
        ];
        for (text, value) in good {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for bad in [
            "",
            "-1",
            "1e99",
            "1.5",
            "0x",
            "x",
            "1e-3",
            "18446744073709551616",
            "+5",
            "1e",
        ] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(memory("1G"), Ok(1 << 30));
        assert_eq!(memory("512m"), Ok(512 << 20));
        assert_eq!(memory("2MiB"), Ok(2 << 20));
        assert_eq!(memory("2097152"), Ok(2 << 20));
        for bad in [
            "",
            "G",
            "1.5G",
            "1M",
            "65G",
            "2097153",
            "99999999999999999999",
            "-1G",
            "1X",
            "é",
        ] {
            assert!(memory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ends() {
        assert_eq!(stop_after("1e9"), Ok(StopAfter::Steps(1_000_000_000)));
        let times = [
            ("5s", 5_000_000_000),
            ("1.5s", 1_500_000_000),
            ("200ms", 200_000_000),
            ("7ns", 7),
        ];
        for (text, ns) in times {
            assert_eq!(stop_after(text), Ok(StopAfter::Time(VirtualTime(ns))), "{text}");
        }
        for bad in ["", "s", "5 s", "1.5ns", "-5s", "5m", "ss"] {
            assert!(stop_after(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn places() {
        let end = Icount(1001);
        let good = [("end", 1001), ("1e3", 1000), ("0", 0), ("1001", 1001)];
        let parts = [("0%", 0), ("50%", 500), ("100%", 1001)];
        for (text, at) in good.into_iter().chain(parts) {
            assert_eq!(
                place(text).unwrap().in_recording(Icount(0), end).unwrap(),
                Icount(at),
                "{text}"
            );
        }
        let far = Place::Percent(50)
            .in_recording(Icount(0), Icount(u64::MAX))
            .unwrap();
        assert_eq!(far, Icount(u64::MAX / 2));
        assert!(place("1002").unwrap().in_recording(Icount(0), end).is_err());
        for bad in ["", "%", "101%", "-1%", "5.5%", "half", "+5%x"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        let cases = [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2025-06-01T12:00:00Z", 1_748_779_200),
            ("2025-06-01T14:00:00.123+02:00", 1_748_779_200),
            ("2100-03-01", 4_107_542_400),
            ("1748779200", 1_748_779_200),
        ];
        for (text, seconds) in cases {
            assert_eq!(date(text), Ok(seconds * 1_000_000_000), "{text}");
        }
        let bad = [
            "",
            "1969-12-31",
            "2025-02-29",
            "2025-13-01",
            "2025-06-01T25:00:00Z",
            "2025-06-01T12:00:00",
            "2025-06-01T12:00:00.Z",
            "yesterday",
            "99999999999",
            "2025-06-01T12:00:00+0200",
            "2025/06/01",
            "é",
        ];
        for text in bad {
            assert!(date(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nets() {
        let parsed = net("socket=a b.sock,listen,mac=52:54:00:00:00:0a").unwrap();
        assert_eq!(
            parsed.end,
            NetworkEnd::Socket {
                path: "a b.sock".into(),
                role: Role::Listen
            }
        );
        assert_eq!(parsed.mac, Some(MacAddress([0x52, 0x54, 0, 0, 0, 10])));
        let parsed = net("user,hostfwd=tcp::2222-:22,hostfwd=udp:127.0.0.1:53-10.0.2.15:5353").unwrap();
        assert_eq!(
            parsed.end,
            NetworkEnd::User {
                forwards: vec![('t', "2222:22".into()), ('u', "127.0.0.1/53:5353".into())]
            }
        );
        for bad in [
            "",
            "tap",
            "socket=",
            "socket",
            "socket=x,listen,connect",
            "socket=x,hostfwd=tcp::1-:2",
            "user,listen",
            "user,hostfwd=",
            "user,hostfwd=tcp::0-:22",
            "user,hostfwd=tcp::1-:99999",
            "user,hostfwd=tcp:all:1-:2",
            "user,hostfwd=sctp::1-:2",
            "user,hostfwd=tcp::1-10.0.2.16:2",
            "user,mac=ff:ff:ff:ff:ff:ff",
            "user,mac=00:00:00:00:00:00",
            "user,mac=52:54:00:12:34",
            "user,mac=52:54:00:12:34:5g",
            "user,mac=+2:54:00:12:34:56",
        ] {
            assert!(net(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn drives() {
        let parsed = drive("file=a b.img,ro").unwrap();
        assert_eq!((parsed.file, parsed.read_only), ("a b.img".into(), true));
        assert!(drive("disk.img,write-through").unwrap().write_through);
        for bad in [
            "",
            "ro",
            "file=",
            "file=x,rw",
            "file=x,ro,write-through",
            "path=x",
        ] {
            assert!(drive(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn grids() {
        assert_eq!(snapshot_grid("0x100000"), Ok(1 << 20));
        assert!(snapshot_grid("1e6").unwrap_err().contains("1048576"));
        assert!(snapshot_grid("0").is_err() && snapshot_grid("512").is_err());
    }
}
