//! Rates of data.

use std::{fmt, num::NonZero, time::Duration};

/// A data rate in bits per second, above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The rate of `bits` per second, or `None` for zero: nothing would ever be sent.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// The rate nearest to so many bits per second; `None` unless that is a finite number and at least half a bit.
    pub fn nearest(bits_per_second: f64) -> Option<Self> {
        // A cast clamps to the integers there are.
        Self::from_bits_per_second(bits_per_second.round() as u64).filter(|_| bits_per_second.is_finite())
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Bytes per second, for laws that divide.
    pub const fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// How long `bytes` take at this rate, rounded up to the nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many whole bytes fit into `time` at this rate.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos() * u128::from(self.0) / 8 / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl From<NonZero<u64>> for Rate {
    /// The rate of so many bits per second.
    fn from(bits: NonZero<u64>) -> Self {
        Self(bits.get())
    }
}

/// Four significant digits, as `2.344 Mbit/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        // Bounds of the rounded numbers: 999,999,999 prints as 1.000 Gbit/s.
        let (unit, scale) = match bits {
            999.95e6.. => ("G", 1e9),
            999.95e3.. => ("M", 1e6),
            999.95.. => ("k", 1e3),
            _ => ("", 1.0),
        };
        let scaled = bits / scale;
        let decimals = match scaled {
            999.95.. => 0,
            99.995.. => 1,
            9.9995.. => 2,
            _ => 3,
        };
        write!(f, "{scaled:.decimals$} {unit}bit/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_numbers_are_rates() {
        for bits in [0.0, 0.4, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::nearest(bits), None, "{bits}");
        }
        assert_eq!(Rate::from_bits_per_second(0), None);
        assert_eq!(Rate::nearest(7.6), Rate::from_bits_per_second(8));
        assert_eq!(Rate::nearest(8.0).unwrap().bytes_per_second(), 1.0);
    }

    #[test]
    fn rates_are_printed_in_bits() {
        let text = |bits| Rate::from_bits_per_second(bits).unwrap().to_string();
        assert_eq!(text(2_343_750), "2.344 Mbit/s");
        assert_eq!(text(120_000), "120.0 kbit/s");
        assert_eq!(text(10_000_000_000), "10.00 Gbit/s");
        assert_eq!(text(12_000_000_000_000), "12000 Gbit/s");
        assert_eq!(text(5), "5.000 bit/s");
        assert_eq!(text(999_999_999), "1.000 Gbit/s");
        assert_eq!(text(999_940_000), "999.9 Mbit/s");
        assert_eq!(text(99_999_000), "100.0 Mbit/s");
    }
}
