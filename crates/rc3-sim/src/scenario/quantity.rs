//! Values of a scenario file that are more than a number: read, checked, or refused with a reason.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_text::units::{parse_rate, parse_size, parse_time};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    required_rate(from).map(Some)
}

pub(super) fn required_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
    parse_rate(&String::deserialize(from)?).map(Rate::from).map_err(Error::custom)
}

/// The smaller and the larger one.
pub(super) fn factors<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(f64, f64)>, D::Error> {
    let [low, high] = <[f64; 2]>::deserialize(from)?;
    if 0.0 < low && low <= high && high.is_finite() {
        Ok(Some((low, high)))
    } else {
        Err(Error::custom("two factors above 0, the smaller one first"))
    }
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    required_time(from).map(Some)
}

pub(super) fn required_time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse_time(&String::deserialize(from)?).map_err(Error::custom)
}

/// The smaller and the larger one.
pub(super) fn times<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(Duration, Duration)>, D::Error> {
    match instants(from)?[..] {
        [first, last] => Ok(Some((first, last))),
        _ => Err(Error::custom("two times, the smaller one first")),
    }
}

/// At least two, each later than the one before or at least not earlier.
pub(super) fn instants<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let times = texts.iter().map(|text| parse_time(text).map_err(Error::custom));
    let times = times.collect::<Result<Vec<_>, _>>()?;
    match times.len() > 1 && times.is_sorted() {
        true => Ok(times),
        false => Err(Error::custom("at least two times, the smaller ones first")),
    }
}

/// Bytes, as a string with a unit or as a plain number.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    struct Size;
    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a size such as \"64KB\" or a number of bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse_size(text).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
        }
    }
    from.deserialize_any(Size)
}

/// A number from 0 to 1.
fn unit_interval<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    if !(0.0..=1.0).contains(&value) {
        return Err(Error::custom(format_args!("{value} is not within 0 to 1")));
    }
    Ok(value)
}

/// A share of a whole, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(f64);

impl Share {
    /// The number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        unit_interval(from).map(Self)
    }
}

/// A probability, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

impl Probability {
    /// The number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        unit_interval(from).map(Self)
    }
}

/// The limit of a queue: `"1bdp"`, `"5MB"`, a number of bytes, or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BufferSize {
    /// So many times what the access rate brings in the topology's nominal round trip.
    Bdp(f64),
    /// Bytes on the wire.
    Bytes(u64),
    /// Nothing is ever dropped for want of room.
    Unlimited,
}

impl BufferSize {
    /// The limit in bytes where the product of rate and round trip is `bdp` bytes; `None` is unlimited.
    pub fn bytes(self, bdp: u64) -> Option<u64> {
        match self {
            Self::Bdp(factor) => Some((factor * bdp as f64).round() as u64),
            Self::Bytes(bytes) => Some(bytes),
            Self::Unlimited => None,
        }
    }
}

impl Default for BufferSize {
    fn default() -> Self {
        Self::Bdp(1.0)
    }
}

impl<'de> Deserialize<'de> for BufferSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Buffer;
        impl Visitor<'_> for Buffer {
            type Value = BufferSize;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size such as \"1bdp\", \"5MB\" or \"unlimited\", or a number of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BufferSize, E> {
                if text == "unlimited" {
                    return Ok(BufferSize::Unlimited);
                }
                let Some(factor) = text.strip_suffix("bdp") else {
                    return parse_size(text).map(BufferSize::Bytes).map_err(E::custom);
                };
                match factor.trim().parse() {
                    Ok(factor) if (0.0..1e9).contains(&factor) => Ok(BufferSize::Bdp(factor)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<BufferSize, E> {
                let bytes =
                    u64::try_from(bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))?;
                Ok(BufferSize::Bytes(bytes))
            }
        }
        from.deserialize_any(Buffer)
    }
}

/// A level of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// So many packets.
    Packets(u64),
    /// All that remain.
    Rest,
}

impl<'de> Deserialize<'de> for Rung {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneRung;
        impl Visitor<'_> for OneRung {
            type Value = Rung;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of packets above 0 or \"rest\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Rung, E> {
                if text == "rest" {
                    Ok(Rung::Rest)
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }

            fn visit_i64<E: Error>(self, packets: i64) -> Result<Rung, E> {
                match u64::try_from(packets) {
                    Ok(packets) if packets > 0 => Ok(Rung::Packets(packets)),
                    _ => Err(E::invalid_value(Unexpected::Signed(packets), &self)),
                }
            }
        }
        from.deserialize_any(OneRung)
    }
}
