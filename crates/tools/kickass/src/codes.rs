//! Rates as lengths of packets: the output of `kickass encode` and `kickass decode`.

use std::{ops::Range, time::Duration};

use kickass::{Rate, code::Code, indicator::Bucket};
use rc3_text::units::about_time;
use serde::Serialize;
use thiserror::Error;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;
/// Bytes of an IPv6 header with a Fragment header.
const IPV6_HEADERS: usize = 40 + 8;

/// Why a number cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No code exists for this rate.
    #[error("{0} has no code")]
    Rate(Rate),
    /// Neither the code of a rate nor an RTT indicator.
    #[error("{0} bytes are neither the code of a rate nor an RTT indicator")]
    Length(usize),
}

impl CodeError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Rate(_) => "codes begin at 120kbit; below, endpoints use TCP's window",
            Self::Length(_) => {
                "codes are multiples of 8 from 24 to 1480 bytes of payload, indicators packets of 600 to 611 bytes"
            }
        }
    }
}

/// A rate and its code.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Encoded {
    /// The rate asked for.
    rate_bits_per_second: u64,
    #[serde(flatten)]
    code: CodeFacts,
    /// Deviation of the code's rate from the requested one, as a fraction of it.
    error: f64,
}

/// A code and its lengths on the wire, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CodeFacts {
    /// Payload of the leading fragment.
    payload_length: usize,
    /// The rate that it encodes.
    decoded_bits_per_second: u64,
    /// The leading fragment with its header.
    ipv4_length: usize,
    /// The leading fragment with both its headers.
    ipv6_length: usize,
}

/// What a length can mean.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decoded {
    length: usize,
    /// As the payload of a leading fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<CodeFacts>,
    /// As a whole packet with Don't Fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_indicator: Option<IndicatorFacts>,
}

/// A bucket of round trips, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndicatorFacts {
    /// The shortest of the bucket.
    from_ms: f64,
    /// Lower end of the next bucket; `None` for the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_ms: Option<f64>,
    /// The round trip that routers assume.
    taken_for_ms: f64,
}

/// The code of a rate.
///
/// # Errors
/// If the rate has none.
pub fn encode(rate: Rate) -> Result<Encoded, CodeError> {
    let code = Code::nearest(rate).ok_or(CodeError::Rate(rate))?;
    Ok(Encoded {
        rate_bits_per_second: rate.bits_per_second(),
        code: CodeFacts::of(code),
        error: code.bytes_per_second() / rate.bytes_per_second() - 1.0,
    })
}

/// The meaning of a length in bytes, of a leading fragment's payload or of a whole packet.
///
/// # Errors
/// If the length has no meaning.
pub fn decode(length: usize) -> Result<Decoded, CodeError> {
    let code = Code::from_len(length).map(CodeFacts::of);
    let rtt_indicator = Bucket::from_total_len(length).map(IndicatorFacts::of);
    if code.is_none() && rtt_indicator.is_none() {
        return Err(CodeError::Length(length));
    }
    Ok(Decoded { length, code, rtt_indicator })
}

impl CodeFacts {
    fn of(code: Code) -> Self {
        let payload_length = code.payload_len();
        Self {
            payload_length,
            decoded_bits_per_second: code.rate().bits_per_second(),
            ipv4_length: IPV4_HEADER + payload_length,
            ipv6_length: IPV6_HEADERS + payload_length,
        }
    }
}

impl IndicatorFacts {
    fn of(bucket: Bucket) -> Self {
        let Range { start, end } = bucket.low()..bucket.low() * 2;
        let last = Bucket::from_total_len(bucket.total_len() + 1).is_none();
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            from_ms: millis(start),
            below_ms: (!last).then(|| millis(end)),
            taken_for_ms: millis(bucket.rtt()),
        }
    }

    fn text(&self) -> String {
        let time = |millis: f64| about_time(Duration::from_secs_f64(millis / 1e3));
        let range = match self.below_ms {
            Some(below) => format!("{} to {}", time(self.from_ms), time(below)),
            None => format!("{} or more", time(self.from_ms)),
        };
        format!("a round trip of {range}, routers assume {}", time(self.taken_for_ms))
    }
}

/// A line for each rate, below a header.
pub fn encoded_text(all: &[Encoded]) -> String {
    let mut text = format!(
        "{:>14}  {:>7}  {:>14}  {:>8}  {:>6}  {:>6}\n",
        "rate", "payload", "decodes to", "error", "IPv4", "IPv6"
    );
    for encoded in all {
        let CodeFacts { payload_length, decoded_bits_per_second, ipv4_length, ipv6_length } = encoded.code;
        text += &format!(
            "{:>14}  {payload_length:>7}  {:>14}  {:>+6.2} %  {ipv4_length:>6}  {ipv6_length:>6}\n",
            rate_text(encoded.rate_bits_per_second),
            rate_text(decoded_bits_per_second),
            100.0 * encoded.error,
        );
    }
    text + "Bytes of the leading fragment: its payload, and with the headers of IPv4 and IPv6.\n"
}

/// A line for each meaning.
pub fn decoded_text(all: &[Decoded]) -> String {
    let mut text = String::new();
    for Decoded { length, code, rtt_indicator } in all {
        if let Some(CodeFacts { decoded_bits_per_second, ipv4_length, ipv6_length, .. }) = code {
            text += &format!(
                "{length:>5} bytes of payload in the leading fragment: {} (a packet of {ipv4_length} bytes in IPv4, \
                 {ipv6_length} in IPv6)\n",
                rate_text(*decoded_bits_per_second)
            );
        }
        if let Some(indicator) = rtt_indicator {
            text += &format!(
                "{length:>5} bytes of packet with Don't Fragment: an RTT indicator, {}\n",
                indicator.text()
            );
        }
    }
    text
}

fn rate_text(bits_per_second: u64) -> String {
    Rate::from_bits_per_second(bits_per_second).map_or_else(String::new, |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits: f64) -> Rate {
        Rate::nearest(bits).unwrap()
    }

    #[test]
    fn a_code_decodes_to_the_rate_it_encodes() {
        let encoded = encode(rate(2.34e6)).unwrap();
        let decoded = decode(encoded.code.payload_length).unwrap();
        assert_eq!(decoded.code, Some(encoded.code));
        let error = encoded.code.decoded_bits_per_second as f64 / 2.34e6 - 1.0;
        assert!((error - encoded.error).abs() < 1e-6);
        let CodeFacts { payload_length, ipv4_length, ipv6_length, .. } = encoded.code;
        assert_eq!((ipv4_length, ipv6_length), (payload_length + 20, payload_length + 48));
    }

    #[test]
    fn a_length_can_be_a_code_an_indicator_both_or_neither() {
        let kinds =
            |length| decode(length).map(|decoded| (decoded.code.is_some(), decoded.rtt_indicator.is_some()));
        assert_eq!(kinds(408), Ok((true, false)));
        assert_eq!(kinds(608), Ok((true, true)));
        assert_eq!(kinds(611), Ok((false, true)));
        assert_eq!(kinds(409), Err(CodeError::Length(409)));
        assert_eq!(encode(rate(119e3)), Err(CodeError::Rate(rate(119e3))));
    }

    #[test]
    fn texts_name_both_meanings_of_608() {
        let text = decoded_text(&[decode(608).unwrap(), decode(611).unwrap()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("bit/s") && lines[0].contains("628") && lines[0].contains("656"), "{text}");
        assert!(lines[1].contains("RTT indicator") && lines[1].contains("256"), "{text}");
        assert!(lines[2].contains("or more"), "{text}");
    }
}
