//! Values of a scenario file that are more than a number: read, checked, or refused with a reason.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_text::units::{UnitError, parse_rate, parse_size};
use serde::{Deserialize, Deserializer, de::Error};
use toml::Value;

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
    parse_rate(&String::deserialize(from)?).map(|rate| Some(rate.into())).map_err(Error::custom)
}

/// The smaller and the larger one.
pub(super) fn rates<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(Rate, Rate)>, D::Error> {
    let texts = <[String; 2]>::deserialize(from)?;
    let [low, high] = texts.map(|text| parse_rate(&text).map(Rate::from).map_err(Error::custom));
    match (low?, high?) {
        (low, high) if low <= high => Ok(Some((low, high))),
        _ => Err(Error::custom("two rates, the smaller one first")),
    }
}

pub(super) fn time<'de, T: From<Duration>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    parse_time(&String::deserialize(from)?).map(T::from).map_err(Error::custom)
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
pub(super) fn size<'de, T: From<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    let bytes = match &value {
        Value::String(text) => return parse_size(text).map(T::from).map_err(Error::custom),
        Value::Integer(bytes) => u64::try_from(*bytes).ok().map(T::from),
        _ => None,
    };
    bytes.ok_or_else(|| Error::custom(unlike(&value, "a size such as \"64KB\" or a number of bytes")))
}

/// At most a minute: longer delays are mistakes.
pub(super) fn short_time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    match time::<Duration, _>(from)? {
        time if time <= Duration::from_secs(60) => Ok(time),
        _ => Err(Error::custom("longer than 60s")),
    }
}

/// The fault of a value that is something else.
fn unlike(value: &Value, expected: &str) -> String {
    format!("{value} is not {expected}")
}

/// A share of a whole or a probability, 0 to 1, as a number or per cent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Deserialize)]
#[serde(try_from = "Value")]
pub struct Share(f64);

impl Share {
    /// The number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<Value> for Share {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = match &value {
            Value::Float(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            Value::String(text) => {
                let per_cent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
                per_cent.map(|number| number / 100.0)
            }
            _ => None,
        };
        match number {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(Self(number)),
            Some(number) => Err(format!("{number} is not within 0 to 1")),
            None => Err(unlike(&value, "a number from 0 to 1 such as 0.005, or \"0.5%\"")),
        }
    }
}

/// A factor within a thousand of 1 either way, so that no product of rates is out of range.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "f64")]
pub struct Factor(f64);

impl Factor {
    /// The number, 0.001 to 1000.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Factor {
    type Error = String;

    fn try_from(factor: f64) -> Result<Self, String> {
        match (0.001..=1000.0).contains(&factor) {
            true => Ok(Self(factor)),
            false => Err(format!("{factor} is not within 0.001 to 1000")),
        }
    }
}

/// The limit of a queue: `"1bdp"`, `"5MB"`, `"100packets"`, a number of bytes, or `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
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

    /// The limit of a queue, for a bandwidth-delay product of `bdp` bytes; at least `min` bytes, or as many
    /// full packets.
    ///
    /// # Errors
    /// If it holds no full packet.
    pub fn limit(self, bdp: u64, min: u64) -> Result<QueueLimit, String> {
        match (self, self.bytes(bdp).map(|bytes| bytes.max(min))) {
            (_, None) => Ok(QueueLimit::UNLIMITED),
            (_, Some(bytes)) if bytes < FULL_PACKET => Err(format!(
                "{bytes} bytes do not hold a packet of {FULL_PACKET} bytes, write for example \"100packets\", \"1bdp\" or \"150KB\""
            )),
            (Self::Packets(packets), _) => Ok(QueueLimit::Packets(packets.max(min.div_ceil(FULL_PACKET)))),
            (_, Some(bytes)) => Ok(QueueLimit::Bytes(bytes)),
        }
    }
}

impl Default for BufferSize {
    fn default() -> Self {
        Self::Bdp(1.0)
    }
}

impl TryFrom<Value> for BufferSize {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let size = match &value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok().map(Self::Bytes),
            Value::String(text) if text == "unlimited" => Some(Self::Unlimited),
            Value::String(text) => {
                let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
                let packets = packets.and_then(|number| number.trim().parse().ok()).map(Self::Packets);
                match (packets, text.strip_suffix("bdp")) {
                    (None, None) => {
                        Some(parse_size(text).map(Self::Bytes).map_err(|error| error.to_string())?)
                    }
                    (None, Some(factor)) => {
                        let factor = factor.trim().parse().ok().filter(|factor| (0.0..1e9).contains(factor));
                        factor.map(Self::Bdp)
                    }
                    (packets, _) => packets,
                }
            }
            _ => None,
        };
        let expected =
            "a size such as \"1bdp\", \"5MB\", \"100packets\" or \"unlimited\", or a number of bytes";
        size.ok_or_else(|| unlike(&value, expected))
    }
}

/// A level of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Rung {
    /// So many packets.
    Packets(u64),
    /// All that remain.
    Rest,
}

impl TryFrom<Value> for Rung {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::Integer(packets @ 1..) => Ok(Self::Packets(packets.unsigned_abs())),
            Value::String(text) if text == "rest" => Ok(Self::Rest),
            _ => Err(unlike(&value, "a number of packets above 0 or \"rest\"")),
        }
    }
}
