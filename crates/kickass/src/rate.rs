//! Rates of data in bytes per second.

use std::fmt;

/// Bytes per second, IP headers included: finite and above zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// A rate in bytes per second; `None` unless it is finite and above zero.
    pub fn from_bytes_per_second(bytes: f64) -> Option<Self> {
        (bytes.is_finite() && bytes > 0.0).then_some(Self(bytes))
    }

    /// A rate in bits per second; `None` unless it is finite and above zero.
    pub fn from_bits_per_second(bits: f64) -> Option<Self> {
        Self::from_bytes_per_second(bits / 8.0)
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// Bits per second.
    pub fn bits_per_second(self) -> f64 {
        8.0 * self.0
    }
}

/// Bits per second to four significant digits, as `2.344 Mbit/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second();
        let (unit, scale) = match bits {
            1e9.. => ("G", 1e9),
            1e6.. => ("M", 1e6),
            1e3.. => ("k", 1e3),
            _ => ("", 1.0),
        };
        let scaled = bits / scale;
        let decimals = match scaled {
            1000.0.. => 0,
            100.0.. => 1,
            10.0.. => 2,
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
        for bytes in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::from_bytes_per_second(bytes), None, "{bytes}");
        }
        assert_eq!(Rate::from_bits_per_second(8.0), Rate::from_bytes_per_second(1.0));
    }

    #[test]
    fn rates_are_printed_in_bits() {
        let text = |bits| Rate::from_bits_per_second(bits).unwrap().to_string();
        assert_eq!(text(2_343_750.0), "2.344 Mbit/s");
        assert_eq!(text(120_000.0), "120.0 kbit/s");
        assert_eq!(text(10e9), "10.00 Gbit/s");
        assert_eq!(text(12e12), "12000 Gbit/s");
        assert_eq!(text(5.0), "5.000 bit/s");
    }
}
