//! Numbers as people write and read them.

use machine::icount::Icount;

/// Reads `1_000_000`, `1e6`, `2.5e9`, `0x80000000`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<u32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if fraction.len() > exponent as usize || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    digits.checked_mul(10u64.checked_pow(exponent - fraction.len() as u32)?)
}

/// Reads a position: a number, `begin`, `end`, or `50%` of the history from `begin` to `end`.
pub(crate) fn position(text: &str, begin: Icount, end: Icount) -> Option<Icount> {
    match text {
        "begin" | "start" => Some(begin),
        "end" => Some(end),
        _ => match text.strip_suffix('%') {
            Some(percent) => {
                let percent: u64 = percent.parse().ok().filter(|p| *p <= 100)?;
                let steps = u128::from(end.since(begin)) * u128::from(percent) / 100;
                Some(begin.saturating_add(steps as u64))
            }
            None => number(text).map(Icount),
        },
    }
}

/// `1234567` as `1_234_567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let good = [
            ("0", 0),
            ("17", 17),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("2.5e3", 2500),
            ("0xff_ff", 0xffff),
        ];
        for (text, n) in good {
            assert_eq!(number(text), Some(n), "{text}");
        }
        for text in [
            "",
            "x",
            "-1",
            "+1",
            "1.5",
            "1e",
            "1e20",
            "e3",
            ".5e1",
            "0x",
            "0xg",
            "1.2.3e9",
            "99999999999999999999",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn positions() {
        let end = Icount(u64::MAX);
        assert_eq!(position("100%", Icount(0), end), Some(end));
        assert_eq!(position("50%", Icount(0), Icount(9)), Some(Icount(4)));
        assert_eq!(position("101%", Icount(0), end), None);
        assert_eq!(position("end", Icount(0), Icount(9)), Some(Icount(9)));
        assert_eq!(position("begin", Icount(0), Icount(9)), Some(Icount(0)));
        assert_eq!(position("begin", Icount(5), Icount(9)), Some(Icount(5)));
        assert_eq!(position("50%", Icount(5), Icount(9)), Some(Icount(7)));
        assert_eq!(position("1e3", Icount(0), Icount(9)), Some(Icount(1000)));
    }

    #[test]
    fn groups() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1_000"), (1_234_567, "1_234_567")] {
            assert_eq!(grouped(n), text);
            assert_eq!(number(text), Some(n));
        }
    }
}
