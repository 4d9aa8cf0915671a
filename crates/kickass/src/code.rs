//! The code of a rate: the length of a packet's leading fragment encodes how fast its sender may send (Kick-Ass §2.1).
//!
//! ```text
//! L = 128 ln(R / 12.4392)
//! ```
//!
//! *R* is in bytes per millisecond, *L* in bytes of payload of the leading fragment, without its IP header. In
//! IPv6 the payload is what follows the Fragment header. Fragments end at multiples of 8 bytes, so there are 183
//! codes, 24 to 1480 bytes long, each 6.45 % (a factor of e^(1/16)) above the one before: 120 kbit/s to
//! 10.46 Gbit/s. The shortest holds a TCP header without options.
//!
//! A shorter fragment means a lower rate. Routers only shorten fragments, so the lowest code along a path arrives.

use rc3_units::Rate;

/// Bytes of payload per unit of the natural logarithm.
const SCALE: f64 = 128.0;
/// Bytes per millisecond that a length of zero would encode.
const ORIGIN: f64 = 12.4392;
const MILLIS_PER_SECOND: f64 = 1000.0;

/// A length of a leading fragment that encodes a rate. Codes are ordered by rate.
///
/// ```
/// use kickass::{Rate, code::Code};
///
/// let link = Rate::from_bits_per_second(100_000_000).unwrap();
/// let code = Code::nearest(link).unwrap();
/// assert_eq!(code.payload_len(), 888);
/// // The receiver reads the rate from the length of the leading fragment.
/// let signalled = Code::from_len(888).unwrap().rate();
/// assert!((signalled.bytes_per_second() / link.bytes_per_second() - 1.0).abs() < 0.032);
/// // Routers only shorten: the lowest rate along a path arrives.
/// assert!(Code::nearest(Rate::from_bits_per_second(10_000_000).unwrap()) < Some(code));
/// // A length that is no multiple of 8 is not a code.
/// assert_eq!(Code::from_len(887), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// A multiple of 8 from [`Self::MIN`] to [`Self::MAX`].
    len: u16,
}

impl Code {
    /// The lowest: 24 bytes, 120 kbit/s.
    pub const MIN: Self = Self { len: 24 };
    /// The highest: 1480 bytes, 10.46 Gbit/s.
    pub const MAX: Self = Self { len: 1480 };
    /// How many there are.
    pub const COUNT: usize = (Self::MAX.len as usize - Self::MIN.len as usize) / Self::STEP as usize + 1;
    /// Fragments end at multiples of this (RFC 791 §3.1).
    const STEP: u16 = 8;
    /// Rates from here on have a code. Below, endpoints use TCP's window (Kick-Ass §2.1).
    pub const RATE_MIN: Rate = Rate::from_bits_per_second(120_000).expect("above zero");

    /// The code nearest to a rate, by ratio; the highest one for all rates above it. `None` below 120 kbit/s.
    ///
    /// Up to 10.46 Gbit/s, [`Self::rate`] of the code differs from `rate` by a factor between e^(-1/32) and e^(1/32):
    /// it is at most 3.08 % too low or 3.18 % too high.
    pub fn nearest(rate: Rate) -> Option<Self> {
        if rate < Self::RATE_MIN {
            return None;
        }
        let exact = SCALE * (rate.bytes_per_second() / MILLIS_PER_SECOND / ORIGIN).ln();
        let steps = (exact / f64::from(Self::STEP)).round();
        // The clamp keeps the number within the lengths of codes, so the conversion is exact.
        let len = (steps * f64::from(Self::STEP)).clamp(f64::from(Self::MIN.len), f64::from(Self::MAX.len));
        Some(Self { len: len as u16 })
    }

    /// The code of a leading fragment with this payload length in bytes; `None` if no code has it.
    pub fn from_len(len: usize) -> Option<Self> {
        let len = u16::try_from(len).ok()?;
        (len.is_multiple_of(Self::STEP) && (Self::MIN.len..=Self::MAX.len).contains(&len))
            .then_some(Self { len })
    }

    /// Bytes of payload of the leading fragment, without IP header.
    pub fn payload_len(self) -> usize {
        usize::from(self.len)
    }

    /// The rate that the code encodes, to a bit per second.
    pub fn rate(self) -> Rate {
        Rate::nearest(8.0 * self.bytes_per_second()).expect("an exponential of 0.1 to 12")
    }

    /// The rate that the code encodes: the inverse of the formula.
    pub fn bytes_per_second(self) -> f64 {
        ORIGIN * (f64::from(self.len) / SCALE).exp() * MILLIS_PER_SECOND
    }

    /// All codes, from the lowest rate to the highest.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..Self::COUNT as u16).map(|nth| Self { len: Self::MIN.len + nth * Self::STEP })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One row of the table: lengths in bytes, rates in Mbit/s.
    struct WorkedExample {
        name: &'static str,
        rate: f64,
        exact: f64,
        nearest: usize,
        decoded: f64,
    }

    fn table() -> impl Iterator<Item = WorkedExample> {
        include_str!("../tests/data/encoding.csv").lines().filter(|line| !line.starts_with('#')).skip(1).map(
            |line| {
                let fields: Vec<&str> = line.split(',').collect();
                let [name, rate, _, exact, nearest, decoded] = fields[..] else { panic!("{line}") };
                let rate = rate.parse().unwrap();
                // In rows that give a length, the third column is the rate of that length.
                let decoded = decoded.parse().unwrap_or(rate);
                WorkedExample {
                    name,
                    rate,
                    exact: exact.parse().unwrap(),
                    nearest: nearest.parse().unwrap(),
                    decoded,
                }
            },
        )
    }

    #[test]
    fn the_worked_table_holds() {
        let mut rows = 0;
        for WorkedExample { name, rate, exact, nearest, decoded } in table() {
            let code = Code::from_len(nearest).expect(name);
            let bytes_per_milli = rate * 1e6 / 8.0 / 1000.0;
            assert!((SCALE * (bytes_per_milli / ORIGIN).ln() - exact).abs() < 0.05, "{name}");
            let nearest = Code::nearest(Rate::nearest(rate * 1e6).unwrap());
            assert_eq!(nearest, Some(code), "{name}");
            let signalled = code.bytes_per_second() * 8.0 / 1e6;
            assert!((signalled / decoded - 1.0).abs() < 5e-4, "{name}: {signalled}");
            rows += 1;
        }
        assert_eq!(rows, 14);
    }

    #[test]
    fn codes_are_183_and_each_stands_for_itself() {
        assert_eq!(Code::COUNT, 183);
        let lens: Vec<usize> = (0..70_000).filter(|&len| Code::from_len(len).is_some()).collect();
        assert_eq!(lens, Code::all().map(Code::payload_len).collect::<Vec<_>>());
        assert!(Code::all().is_sorted_by(|low, high| low < high && low.rate() < high.rate()));
        for code in Code::all() {
            assert_eq!(Code::nearest(code.rate()), Some(code));
        }
    }

    #[test]
    fn rates_below_120_kilobits_have_no_code() {
        let code = |bits| Code::nearest(Rate::nearest(bits).unwrap());
        assert_eq!(code(120_000.0), Some(Code::MIN));
        assert_eq!(code(119_999.0), None);
        assert_eq!(code(1.0), None);
        assert_eq!(code(1e300), Some(Code::MAX));
    }

    proptest! {
        #[test]
        fn a_decoded_rate_is_within_the_bound(log in 120e3_f64.ln()..10.46e9_f64.ln()) {
            let rate = Rate::nearest(log.exp().max(120e3)).unwrap();
            let code = Code::nearest(rate).unwrap();
            let ratio = code.bytes_per_second() / rate.bytes_per_second();
            prop_assert!(ratio.ln().abs() <= 1.0 / 32.0 + 1e-9, "{rate} becomes {}", code.rate());
            prop_assert!(ratio > 1.0 - 0.0308 && ratio < 1.0 + 0.0318);
            let neighbours = Code::all().map(|other| (other.bytes_per_second() / rate.bytes_per_second()).ln().abs());
            prop_assert!(neighbours.fold(f64::MAX, f64::min) >= ratio.ln().abs() - 1e-9, "another code is nearer");
        }

        #[test]
        fn a_higher_rate_never_has_a_lower_code(low in 1e3..1e11, factor in 1.0..1e3) {
            let code = |bits| Code::nearest(Rate::nearest(bits).unwrap());
            prop_assert!(code(low) <= code(low * factor));
        }
    }
}
