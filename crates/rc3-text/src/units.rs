//! Rates, sizes and times as users type and read them.
//!
//! There are two kinds of text. *Exact* text ([`rate_text`], [`size_text`], [`time_text`]) parses to the same value;
//! *round* text ([`about_bytes`], [`about_rate`], [`about_time`]) is only for reading.
//!
//! Units: rates are bits per second with decimal prefixes, as usual for links; sizes are bytes, `k`, `M`, `G`, `T`
//! decimal and `Ki`, `Mi`, `Gi`, `Ti` binary. Letter case is ignored. A number may have a decimal point if the value is
//! a whole number of the smallest unit.

use std::{num::NonZero, time::Duration};

use thiserror::Error;

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// It does not start with a number, or has two decimal points.
    #[error("`{0}` does not start with a number, write for example {1}")]
    NoNumber(String, &'static str),
    /// The unit is missing or unknown.
    #[error("{unit}, write for example {1}", unit = unknown_unit(.0))]
    Unit(String, &'static str),
    /// A fraction of the smallest unit.
    #[error("`{0}` is not a whole number of {1}")]
    Fraction(String, &'static str),
    /// The value exceeds 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// A rate of zero.
    #[error("a rate of zero sends nothing, write for example 200mbit")]
    ZeroRate,
    /// The unit is ambiguous.
    #[error("`{0}` can mean bits or bytes, write for example 200mbit")]
    Ambiguous(String),
}

fn unknown_unit(unit: &str) -> String {
    if unit.is_empty() { "missing unit".to_owned() } else { format!("`{unit}` is not a unit") }
}

const RATE_EXAMPLE: &str = "200mbit";
const SIZE_EXAMPLE: &str = "10k, 5M or 1GiB";
const TIME_EXAMPLE: &str = "80ms";

const RATE_UNITS: [(&str, u64); 5] =
    [("tbit", 1_000_000_000_000), ("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// The first name of a factor is the one printed.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("T", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("G", 1_000_000_000),
    ("MiB", 1 << 20),
    ("M", 1_000_000),
    ("KiB", 1 << 10),
    ("k", 1_000),
    ("", 1),
];

/// Units that are read, but not written, in nanoseconds. `m` is none: it may be meant as milliseconds.
const LONG_TIME_UNITS: [(&str, u64); 3] =
    [("min", 60_000_000_000), ("h", 3_600_000_000_000), ("d", 86_400_000_000_000)];

/// In nanoseconds.
const TIME_UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Units of bytes for [`about`].
pub const BYTES: [(f64, &str); 5] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// Units of bits per second for [`about`].
pub const BITS_PER_SECOND: [(f64, &str); 5] =
    [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

/// Units of seconds for [`about`].
pub const SECONDS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];

/// Reads a rate in bits per second: `200mbit`, `2.5gbit`, `64kbit/s`.
///
/// # Errors
/// See [`UnitError`]; a zero rate is one.
pub fn parse_rate(text: &str) -> Result<NonZero<u64>, UnitError> {
    let (number, unit) = split(text, RATE_EXAMPLE)?;
    let name = unit.to_ascii_lowercase();
    if name.ends_with("bps") {
        return Err(UnitError::Ambiguous(unit.to_owned()));
    }
    let name = name.strip_suffix("/s").unwrap_or(&name);
    let factor = factor(&RATE_UNITS, name, unit, RATE_EXAMPLE)?;
    NonZero::new(scale(text, number, factor, "bits per second")?).ok_or(UnitError::ZeroRate)
}

/// Reads a size in bytes: `1500`, `10k`, `5MB`, `1.5GiB`.
///
/// # Errors
/// See [`UnitError`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, SIZE_EXAMPLE)?;
    let name = unit.to_ascii_lowercase();
    let bare = name.strip_suffix('b').unwrap_or(&name);
    let factor = factor(&SIZE_UNITS, bare, unit, SIZE_EXAMPLE)?;
    scale(text, number, factor, "bytes")
}

/// Reads a time: `80ms`, `1.5s`, `250us`, `10ns`, `5min`, `1h`, `7d`.
///
/// # Errors
/// See [`UnitError`].
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text, TIME_EXAMPLE)?;
    let name = unit.to_lowercase().replace('µ', "u");
    let known = factor(&LONG_TIME_UNITS, &name, unit, TIME_EXAMPLE);
    let factor = known.or_else(|_| factor(&TIME_UNITS, &name, unit, TIME_EXAMPLE))?;
    Ok(Duration::from_nanos(scale(text, number, factor, "nanoseconds")?))
}

/// Deserializes a time that is written as for [`parse_time`].
///
/// # Errors
/// If it is no string, or [`parse_time`] refuses it.
#[cfg(feature = "document")]
pub fn deserialize_time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(from)?;
    parse_time(&text).map_err(serde::de::Error::custom)
}

/// A rate in bits per second that [`parse_rate`] reads back: in the largest unit without a fraction.
pub fn rate_text(bits_per_second: u64) -> String {
    exact(bits_per_second, &RATE_UNITS)
}

/// A size that [`parse_size`] reads back.
pub fn size_text(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    // Decimal first: 1 TiB is not a multiple of 1000, so only sizes meant as binary become binary.
    let decimal = SIZE_UNITS.into_iter().filter(|(name, _)| name.len() == 1);
    let binary = SIZE_UNITS.into_iter().filter(|(name, _)| name.len() != 1);
    let (name, factor) =
        decimal.chain(binary).find(|(_, factor)| bytes.is_multiple_of(*factor)).unwrap_or(("", 1));
    format!("{}{name}", bytes / factor)
}

/// A time that [`parse_time`] reads back, up to 584 years.
pub fn time_text(time: Duration) -> String {
    exact(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), &TIME_UNITS)
}

/// Bytes to three digits: `0 B`, `10 kB`, `1.23 MB`.
pub fn about_bytes(bytes: u64) -> String {
    about(bytes as f64, &BYTES, 3)
}

/// Bits per second to three digits: `93.1 Mbit/s`.
pub fn about_rate(bits_per_second: f64) -> String {
    about(bits_per_second, &BITS_PER_SECOND, 3)
}

/// A time to three digits: `1.24 s`, `80 ms`, `0 s`.
pub fn about_time(time: Duration) -> String {
    about(time.as_secs_f64(), &SECONDS, 3)
}

/// A value to so many digits, in the largest of the units in which it is at least 1. Zero has the unit of factor 1.
pub fn about(value: f64, units: &[(f64, &str)], digits: usize) -> String {
    let smallest = units.last().copied().unwrap_or((1.0, ""));
    // 999.6 kB would print as 1000 kB: print 1 MB.
    let least = 1.0 - 0.5 / 10f64.powi(digits as i32);
    let fits = |factor: f64| if value == 0.0 { factor == 1.0 } else { value >= factor * least };
    let (factor, name) = units.iter().find(|(factor, _)| fits(*factor)).copied().unwrap_or(smallest);
    format!("{} {name}", significant(value / factor, digits))
}

/// Three significant digits, without trailing zeros of the decimals.
pub fn three_digits(value: f64) -> String {
    significant(value, 3)
}

/// So many significant digits, without trailing zeros of the decimals: `0.004`. Whole numbers have all of theirs.
pub fn significant(value: f64, digits: usize) -> String {
    let rounded = if value.abs() < 10f64.powi(digits as i32) {
        format!("{value:.*e}", digits.saturating_sub(1))
    } else {
        format!("{value:.0}")
    };
    rounded.parse().unwrap_or(value).to_string()
}

/// The number in front and the unit behind it.
fn split<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 || number.len() - digits > 1 {
        return Err(UnitError::NoNumber(text.to_owned(), example));
    }
    Ok((number, unit.trim()))
}

/// The factor of a unit by its name in small letters, without the B of bytes.
fn factor(units: &[(&str, u64)], name: &str, unit: &str, example: &'static str) -> Result<u64, UnitError> {
    let known = units.iter().find(|(known, _)| known.trim_end_matches('B').eq_ignore_ascii_case(name));
    known.map(|(_, factor)| *factor).ok_or_else(|| UnitError::Unit(unit.to_owned(), example))
}

/// `number` times `factor`, without rounding.
fn scale(text: &str, number: &str, factor: u64, what: &'static str) -> Result<u64, UnitError> {
    let too_large = || UnitError::TooLarge(text.trim().to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let parse = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
    let whole = parse(whole).map_err(|_| too_large())?.checked_mul(factor).ok_or_else(too_large)?;

    let not_whole = || UnitError::Fraction(text.trim().to_owned(), what);
    // Twelve decimals cover every unit; more are never whole.
    let places = u32::try_from(fraction.len()).ok().filter(|&n| n <= 12).ok_or_else(not_whole)?;
    let parts = u128::from(parse(fraction).map_err(|_| not_whole())?) * u128::from(factor);
    let divisor = 10u128.pow(places);
    if !parts.is_multiple_of(divisor) {
        return Err(not_whole());
    }
    let parts = u64::try_from(parts / divisor).map_err(|_| too_large())?;
    whole.checked_add(parts).ok_or_else(too_large)
}

fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let (name, factor) =
        units.iter().find(|(_, factor)| value.is_multiple_of(*factor)).copied().unwrap_or(("", 1));
    format!("{}{name}", value / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_may_write_what_they_are_used_to() {
        let rate = |text| parse_rate(text).unwrap().get();
        assert_eq!(rate("200mbit"), 200_000_000);
        assert_eq!(rate("2gbit"), 2_000_000_000);
        assert_eq!(rate("2.5 Gbit/s"), 2_500_000_000);
        assert_eq!(rate("64kbit"), 64_000);
        assert_eq!(parse_size("10k"), Ok(10_000));
        assert_eq!(parse_size("5MB"), Ok(5_000_000));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("1.5Ki"), Ok(1536));
        assert_eq!(parse_size("1500"), Ok(1500));
        assert_eq!(parse_size("7 b"), Ok(7));
        assert_eq!(parse_time("80ms"), Ok(Duration::from_millis(80)));
        assert_eq!(parse_time("1.5h"), parse_time("90min"));
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("250µs"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_time("0ms"), Ok(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        assert!(matches!(parse_rate("fast"), Err(UnitError::NoNumber(..))));
        assert!(matches!(parse_rate("200"), Err(UnitError::Unit(..))));
        assert_eq!(parse_rate("5").unwrap_err().to_string(), "missing unit, write for example 200mbit");
        assert!(matches!(parse_rate("200mbps"), Err(UnitError::Ambiguous(_))));
        assert_eq!(parse_rate("0mbit"), Err(UnitError::ZeroRate));
        assert!(matches!(parse_rate("0.3bit"), Err(UnitError::Fraction(..))));
        assert!(matches!(parse_rate("99999999999tbit"), Err(UnitError::TooLarge(_))));
        assert!(matches!(parse_size("1.2.3k"), Err(UnitError::NoNumber(..))));
        assert!(matches!(parse_size("-1"), Err(UnitError::NoNumber(..))));
        assert!(matches!(parse_size("1.0001k"), Err(UnitError::Fraction(..))));
        assert!(matches!(parse_size("1x"), Err(UnitError::Unit(..))));
        assert!(matches!(parse_size(""), Err(UnitError::NoNumber(..))));
        assert!(matches!(parse_time("80"), Err(UnitError::Unit(..))));
        assert!(matches!(parse_time("1.00000000000000000000000000001s"), Err(UnitError::Fraction(..))));
    }

    #[test]
    fn round_text_has_three_digits() {
        assert_eq!(about_bytes(0), "0 B");
        assert_eq!(about_bytes(999), "999 B");
        assert_eq!(about_bytes(10_000), "10 kB");
        assert_eq!(about_bytes(999_600), "1 MB");
        assert_eq!(about_bytes(1_234_567), "1.23 MB");
        assert_eq!(about_rate(93_140_000.0), "93.1 Mbit/s");
        assert_eq!(about_time(Duration::from_millis(80)), "80 ms");
        assert_eq!(about_time(Duration::from_millis(1_240)), "1.24 s");
        assert_eq!(about_time(Duration::ZERO), "0 s");
        assert_eq!(about_rate(0.5), "0.5 bit/s");
        assert_eq!(three_digits(0.0), "0");
        assert_eq!(three_digits(0.004), "0.004");
        assert_eq!(three_digits(0.000_012_34), "0.0000123");
        assert_eq!(three_digits(0.099_96), "0.1");
        assert_eq!(three_digits(99.96), "100");
        assert_eq!(three_digits(1234.5), "1234");
        assert_eq!(three_digits(-1234.5), "-1234");
        assert_eq!(about(999_600.0, &BYTES, 4), "999.6 kB");
    }

    proptest! {
        #[test]
        fn exact_rates_are_read_back(bits in 1u64.., zeros in 0u32..13) {
            let bits = bits.saturating_mul(10u64.pow(zeros));
            prop_assert_eq!(parse_rate(&rate_text(bits)).map(NonZero::get), Ok(bits));
        }

        #[test]
        fn exact_sizes_are_read_back(bytes: u64, zeros in 0u32..13, doublings in 0u32..41) {
            for bytes in [bytes, bytes.saturating_mul(10u64.pow(zeros)), (bytes >> 41) << doublings] {
                prop_assert_eq!(parse_size(&size_text(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn exact_times_are_read_back(nanos: u64, zeros in 0u32..10) {
            for nanos in [nanos, (nanos >> 31) * 10u64.pow(zeros)] {
                let time = Duration::from_nanos(nanos);
                prop_assert_eq!(parse_time(&time_text(time)), Ok(time));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,24}") {
            let _ = (parse_rate(&text), parse_size(&text), parse_time(&text));
        }
    }
}
