//! The buffer of the emulated link.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_text::units::{UnitError, parse_size};

/// A size in bytes, or in bandwidth-delay products.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffer {
    /// Bytes.
    Bytes(u64),
    /// Products of rate and round trip.
    Products(f64),
}

impl Buffer {
    /// Reads `500k` or `0.5bdp`.
    ///
    /// # Errors
    /// See [`UnitError`].
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let lower = text.trim().to_ascii_lowercase();
        let Some(number) = lower.strip_suffix("bdp") else { return parse_size(text).map(Self::Bytes) };
        match number.trim_end().parse() {
            Ok(products) if (0.0..=1e6).contains(&products) => Ok(Self::Products(products)),
            Ok(_) => Err(UnitError::TooLarge(text.to_owned())),
            Err(_) => Err(UnitError::NoNumber(text.to_owned(), "0.5bdp")),
        }
    }

    /// Bytes on a link of this rate and round trip.
    pub fn bytes(self, rate: Rate, rtt: Duration) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Products(products) => (rate.bytes_in(rtt) as f64 * products) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_depend_on_the_link_and_bytes_do_not() {
        let (rate, rtt) = (Rate::from_bits_per_second(200_000_000).unwrap(), Duration::from_millis(80));
        let bytes = |text| Buffer::parse(text).unwrap().bytes(rate, rtt);
        assert_eq!((bytes("1bdp"), bytes("0.5 BDP"), bytes("500k")), (2_000_000, 1_000_000, 500_000));
    }

    #[test]
    fn what_is_no_buffer_is_refused() {
        for text in ["bdp", "-1bdp", "nanbdp", "infbdp", "0.5", "x"] {
            assert!(Buffer::parse(text).is_err(), "{text}");
        }
    }
}
