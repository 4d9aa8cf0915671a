//! Values of a scenario file that are more than a number: read, checked, or refused with a reason.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_text::units::{UnitError, parse_rate, parse_size};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

use crate::registry::QueueLimit;

/// Bytes of the longest packet on the wire, which a queue must hold at least: 1460 of the application with the headers of rc3,
/// QUIC, UDP and IP.
const FULL_PACKET: u64 = 1540;

/// Units of time, in seconds; the longer names first.
const TIME_UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];

/// Reads a time such as `80ms`. Numbers that programs write, `8.1e-05s` and those with more decimals than nanoseconds have, are
/// rounded to the nanosecond.
///
/// # Errors
/// See [`UnitError`].
pub(crate) fn parse_time(text: &str) -> Result<Duration, UnitError> {
    rc3_text::units::parse_time(text).or_else(|error| {
        let text = text.trim();
        let number = TIME_UNITS.iter().find_map(|(unit, seconds)| {
            let number = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
            Duration::try_from_secs_f64(number * seconds).ok()
        });
        number.ok_or(error)
    })
}

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

pub(super) fn optional_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size(from).map(Some)
}

/// At most a minute: longer delays are mistakes.
pub(super) fn short_time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    match required_time(from)? {
        time if time <= Duration::from_secs(60) => Ok(time),
        _ => Err(Error::custom("longer than 60s")),
    }
}

/// A number from 0 to 1, or per cent.
fn unit_interval<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    struct UnitInterval;
    impl Visitor<'_> for UnitInterval {
        type Value = f64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a number from 0 to 1 such as 0.005, or \"0.5%\"")
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
            match (0.0..=1.0).contains(&value) {
                true => Ok(value),
                false => Err(E::custom(format_args!("{value} is not within 0 to 1"))),
            }
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
            self.visit_f64(value as f64)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
            match text.strip_suffix('%').map(|number| number.trim().parse::<f64>()) {
                Some(Ok(per_cent)) => self.visit_f64(per_cent / 100.0),
                _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
            }
        }
    }
    from.deserialize_any(UnitInterval)
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

/// A factor within a thousand of 1 either way, so that no product of rates is out of range.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Factor(f64);

impl Factor {
    /// The number, 0.001 to 1000.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let factor = f64::deserialize(from)?;
        match (0.001..=1000.0).contains(&factor) {
            true => Ok(Self(factor)),
            false => Err(Error::custom(format_args!("{factor} is not within 0.001 to 1000"))),
        }
    }
}

/// The limit of a queue: `"1bdp"`, `"5MB"`, `"100packets"`, a number of bytes, or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BufferSize {
    /// So many times what the access rate brings in the topology's nominal round trip.
    Bdp(f64),
    /// Bytes on the wire.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
    /// No limit: nothing is dropped.
    Unlimited,
}

impl BufferSize {
    /// The limit in bytes, for a bandwidth-delay product of `bdp` bytes; packets count as full ones, `None` is unlimited.
    pub fn bytes(self, bdp: u64) -> Option<u64> {
        match self {
            Self::Bdp(factor) => Some((factor * bdp as f64).round() as u64),
            Self::Bytes(bytes) => Some(bytes),
            Self::Packets(packets) => Some(packets.saturating_mul(FULL_PACKET)),
            Self::Unlimited => None,
        }
    }

    /// The limit of a queue, for a bandwidth-delay product of `bdp` bytes; at least `min` bytes, unless it is in packets.
    ///
    /// # Errors
    /// If it holds no full packet.
    pub fn limit(self, bdp: u64, min: u64) -> Result<QueueLimit, String> {
        match (self, self.bytes(bdp).map(|bytes| bytes.max(min))) {
            (_, None) => Ok(QueueLimit::UNLIMITED),
            (_, Some(bytes)) if bytes < FULL_PACKET => Err(format!(
                "{bytes} bytes do not hold a packet of {FULL_PACKET} bytes, write for example \"100packets\", \"1bdp\" or \"150KB\""
            )),
            (Self::Packets(packets), _) => Ok(QueueLimit::Packets(packets)),
            (_, Some(bytes)) => Ok(QueueLimit::Bytes(bytes)),
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
                f.write_str(
                    "a size such as \"1bdp\", \"5MB\", \"100packets\" or \"unlimited\", or a number of bytes",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BufferSize, E> {
                if text == "unlimited" {
                    return Ok(BufferSize::Unlimited);
                }
                let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
                if let Some(packets) = packets.and_then(|number| number.trim().parse().ok()) {
                    return Ok(BufferSize::Packets(packets));
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
