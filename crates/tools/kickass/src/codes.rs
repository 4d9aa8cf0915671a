//! Rates as lengths of packets: the output of `kickass encode` and `kickass decode`.

use std::time::Duration;

use kickass::{Rate, code::Code, indicator::Bucket};
use rc3_text::units::about_time;
use serde_json::{Value, json};
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
pub type Encoded = (Rate, Code);

/// A length, with the code that it is as the payload of a leading fragment, and the round trip that it indicates as a
/// whole packet with Don't Fragment.
pub type Decoded = (usize, Option<Code>, Option<Bucket>);

/// The code of a rate.
///
/// # Errors
/// If the rate has none.
pub fn encode(rate: Rate) -> Result<Encoded, CodeError> {
    Ok((rate, Code::nearest(rate).ok_or(CodeError::Rate(rate))?))
}

/// The meaning of a length in bytes, of a leading fragment's payload or of a whole packet.
///
/// # Errors
/// If the length has no meaning.
pub fn decode(length: usize) -> Result<Decoded, CodeError> {
    match (Code::from_len(length), Bucket::from_total_len(length)) {
        (None, None) => Err(CodeError::Length(length)),
        (code, bucket) => Ok((length, code, bucket)),
    }
}

/// Deviation of the code's rate from the requested one, as a fraction of it.
fn error((rate, code): Encoded) -> f64 {
    code.bytes_per_second() / rate.bytes_per_second() - 1.0
}

/// The shortest round trip of a bucket, and the shortest of the next one, if there is one.
fn bounds(bucket: Bucket) -> (Duration, Option<Duration>) {
    (bucket.low(), Bucket::from_total_len(bucket.total_len() + 1).map(Bucket::low))
}

/// A code and its lengths on the wire.
fn code_json(code: Code) -> Value {
    json!({
        "payload_length": code.payload_len(),
        "decoded_bits_per_second": code.rate().bits_per_second(),
        "ipv4_length": IPV4_HEADER + code.payload_len(),
        "ipv6_length": IPV6_HEADERS + code.payload_len(),
    })
}

/// A rate and its code as JSON.
pub fn encoded_json(encoded: &Encoded) -> Value {
    let (rate, code) = *encoded;
    let mut json = code_json(code);
    json["rate_bits_per_second"] = rate.bits_per_second().into();
    json["error"] = error(*encoded).into();
    json
}

/// The meaning of a length as JSON; what it cannot mean is left out.
pub fn decoded_json((length, code, bucket): &Decoded) -> Value {
    let mut json = json!({ "length": length });
    if let Some(code) = code {
        json["code"] = code_json(*code);
    }
    if let Some(bucket) = bucket {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let (from, below) = bounds(*bucket);
        let indicator = &mut json["rtt_indicator"];
        indicator["from_ms"] = millis(from).into();
        if let Some(below) = below {
            indicator["below_ms"] = millis(below).into();
        }
        indicator["taken_for_ms"] = millis(bucket.rtt()).into();
    }
    json
}

/// A line for each rate, below a header.
pub fn encoded_text(all: &[Encoded]) -> String {
    let mut text = format!(
        "{:>14}  {:>7}  {:>14}  {:>8}  {:>6}  {:>6}\n",
        "rate", "payload", "decodes to", "error", "IPv4", "IPv6"
    );
    for encoded in all {
        let (rate, code) = encoded;
        let len = code.payload_len();
        text += &format!(
            "{:>14}  {len:>7}  {:>14}  {:>+6.2} %  {:>6}  {:>6}\n",
            rate.to_string(),
            code.rate().to_string(),
            100.0 * error(*encoded),
            IPV4_HEADER + len,
            IPV6_HEADERS + len,
        );
    }
    text + "Bytes of the leading fragment: its payload, and with the headers of IPv4 and IPv6.\n"
}

/// A line for each meaning.
pub fn decoded_text(all: &[Decoded]) -> String {
    let mut text = String::new();
    for (length, code, bucket) in all {
        if let Some(code) = code {
            text += &format!(
                "{length:>5} bytes of payload in the leading fragment: {} (a packet of {} bytes in IPv4, {} in IPv6)\n",
                code.rate(),
                IPV4_HEADER + length,
                IPV6_HEADERS + length,
            );
        }
        if let Some(bucket) = bucket {
            let range = match bounds(*bucket) {
                (from, Some(below)) => format!("{} to {}", about_time(from), about_time(below)),
                (from, None) => format!("{} or more", about_time(from)),
            };
            text += &format!(
                "{length:>5} bytes of packet with Don't Fragment: an RTT indicator, a round trip of {range}, routers assume \
                 {}\n",
                about_time(bucket.rtt()),
            );
        }
    }
    text
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
        let decoded = decode(encoded.1.payload_len()).unwrap();
        assert_eq!(decoded.1, Some(encoded.1));
        let json = encoded_json(&encoded);
        let of = |key: &str| json[key].as_f64().unwrap();
        assert!((of("decoded_bits_per_second") / 2.34e6 - 1.0 - of("error")).abs() < 1e-6);
        let len = of("payload_length");
        assert_eq!((of("ipv4_length"), of("ipv6_length")), (len + 20.0, len + 48.0));
        assert_eq!(decoded_json(&decoded)["code"]["ipv4_length"], json["ipv4_length"]);
    }

    #[test]
    fn a_length_can_be_a_code_an_indicator_both_or_neither() {
        let kinds = |length| decode(length).map(|(_, code, bucket)| (code.is_some(), bucket.is_some()));
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
