//! The frames of a QUIC packet as qlog has them (draft-ietf-quic-qlog-quic-events-02 appendix A.7), from its plaintext.
//!
//! Tokens for stateless resets and address validation are secrets, so they are left out.

use serde_json::{Value, json};

use crate::wire::varint::Reader;

/// The greatest integer that every reader of JSON represents exactly (RFC 8259 §6).
pub(super) const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A number as JSON: greater ones than [`INTEGER_MAX`] are text, as the main schema says of `uint64`.
pub(super) fn number(value: u64) -> Value {
    if value > INTEGER_MAX { value.to_string().into() } else { value.into() }
}

/// The frames of a packet's payload; ends at the first that cannot be read.
pub(super) fn frames(payload: &[u8]) -> Vec<Value> {
    let mut reader = Reader::new(payload);
    let mut frames = Vec::new();
    while !reader.is_empty() {
        let Some(frame) = frame(&mut reader) else { break };
        frames.push(frame);
    }
    frames
}

fn frame(reader: &mut Reader<'_>) -> Option<Value> {
    let frame_type = reader.varint()?;
    Some(match frame_type {
        0x00 => padding(reader),
        0x01 => json!({ "frame_type": "ping" }),
        0x02 | 0x03 => ack(reader, frame_type == 0x03)?,
        0x06 => {
            let offset = number(reader.varint()?);
            json!({ "frame_type": "crypto", "offset": offset, "length": skip_counted(reader)? })
        }
        0x07 => json!({ "frame_type": "new_token", "token": { "raw": { "length": skip_counted(reader)? } } }),
        0x04 | 0x05 | 0x08..=0x17 => stream_frame(frame_type, reader)?,
        0x18 => new_connection_id(reader)?,
        0x19 => json!({ "frame_type": "retire_connection_id", "sequence_number": number(reader.varint()?) }),
        0x1a => json!({ "frame_type": "path_challenge", "data": hex(reader.take(8)?) }),
        0x1b => json!({ "frame_type": "path_response", "data": hex(reader.take(8)?) }),
        0x1c | 0x1d => connection_close(reader, frame_type == 0x1d)?,
        0x1e => json!({ "frame_type": "handshake_done" }),
        0x30 => json!({ "frame_type": "datagram", "length": skip_rest(reader) }),
        0x31 => json!({ "frame_type": "datagram", "length": skip_counted(reader)? }),
        // IMMEDIATE_ACK and ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
        0x1f => unknown(frame_type),
        0xaf => {
            for _ in 0..4 {
                reader.varint()?;
            }
            unknown(frame_type)
        }
        _ => {
            skip_rest(reader);
            unknown(frame_type)
        }
    })
}

fn unknown(frame_type: u64) -> Value {
    json!({ "frame_type": "unknown", "raw_frame_type": number(frame_type) })
}

/// One entry for a run of PADDING frames, the first of which is read.
fn padding(reader: &mut Reader<'_>) -> Value {
    let zeros = reader.rest().iter().take_while(|&&byte| byte == 0).count() as u64;
    // As many are left.
    let _ = reader.take(zeros);
    json!({ "frame_type": "padding", "payload_length": zeros + 1 })
}

/// Frames of streams, of flow control and of limits.
fn stream_frame(frame_type: u64, reader: &mut Reader<'_>) -> Option<Value> {
    let stream_type = if frame_type & 1 == 0 { "bidirectional" } else { "unidirectional" };
    let mut next = || reader.varint().map(number);
    Some(match frame_type {
        0x04 => json!({
            "frame_type": "reset_stream", "stream_id": next()?, "error_code": next()?, "final_size": next()?,
        }),
        0x05 => json!({ "frame_type": "stop_sending", "stream_id": next()?, "error_code": next()? }),
        0x10 => json!({ "frame_type": "max_data", "maximum": next()? }),
        0x11 => json!({ "frame_type": "max_stream_data", "stream_id": next()?, "maximum": next()? }),
        0x12 | 0x13 => json!({ "frame_type": "max_streams", "stream_type": stream_type, "maximum": next()? }),
        0x14 => json!({ "frame_type": "data_blocked", "limit": next()? }),
        0x15 => json!({ "frame_type": "stream_data_blocked", "stream_id": next()?, "limit": next()? }),
        0x16 | 0x17 => {
            json!({ "frame_type": "streams_blocked", "stream_type": stream_type, "limit": next()? })
        }
        _ => return stream(frame_type, reader),
    })
}

fn stream(frame_type: u64, reader: &mut Reader<'_>) -> Option<Value> {
    let id = number(reader.varint()?);
    let offset = if frame_type & 0x04 == 0 { 0 } else { reader.varint()? };
    let length = if frame_type & 0x02 == 0 { skip_rest(reader) } else { skip_counted(reader)? };
    Some(json!({
        "frame_type": "stream", "stream_id": id, "offset": number(offset), "length": length,
        "fin": frame_type & 0x01 != 0,
    }))
}

fn ack(reader: &mut Reader<'_>, ecn: bool) -> Option<Value> {
    let mut largest = reader.varint()?;
    // The exponent that quinn-proto uses and RFC 9000 §18.2 defaults to is 3: units of 8 microseconds.
    let delay = reader.varint()? as f64 * 0.008;
    let further = reader.varint()?;
    let mut smallest = largest.checked_sub(reader.varint()?)?;
    let mut ranges = vec![[number(smallest), number(largest)]];
    for _ in 0..further {
        largest = smallest.checked_sub(reader.varint()?.checked_add(2)?)?;
        smallest = largest.checked_sub(reader.varint()?)?;
        ranges.push([number(smallest), number(largest)]);
    }
    // Lowest first, as in the examples of the schema.
    ranges.reverse();
    let mut frame = json!({ "frame_type": "ack", "ack_delay": delay, "acked_ranges": ranges });
    if ecn {
        for field in ["ect0", "ect1", "ce"] {
            frame[field] = number(reader.varint()?);
        }
    }
    Some(frame)
}

fn new_connection_id(reader: &mut Reader<'_>) -> Option<Value> {
    let (sequence_number, retire_prior_to) = (number(reader.varint()?), number(reader.varint()?));
    let &[length] = reader.take(1)? else { return None };
    let id = hex(reader.take(length.into())?);
    reader.take(16)?;
    Some(json!({
        "frame_type": "new_connection_id", "sequence_number": sequence_number,
        "retire_prior_to": retire_prior_to, "connection_id_length": length, "connection_id": id,
    }))
}

fn connection_close(reader: &mut Reader<'_>, application: bool) -> Option<Value> {
    let error_code = number(reader.varint()?);
    let mut frame = json!({
        "frame_type": "connection_close",
        "error_space": if application { "application_error" } else { "transport_error" },
        "error_code": error_code,
    });
    if !application {
        frame["trigger_frame_type"] = number(reader.varint()?);
    }
    let length = reader.varint()?;
    frame["reason"] = String::from_utf8_lossy(reader.take(length)?).into();
    Some(frame)
}

/// Reads a length and skips as many bytes.
fn skip_counted(reader: &mut Reader<'_>) -> Option<u64> {
    let length = reader.varint()?;
    reader.take(length)?;
    Some(length)
}

fn skip_rest(reader: &mut Reader<'_>) -> u64 {
    std::mem::replace(reader, Reader::new(&[])).rest().len() as u64
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_frame_has_the_fields_of_the_schema() {
        let payload = [
            &[0x01][..],
            // Acknowledges 5 to 7, and 1 to 2; delay 100.
            &[0x03, 7, 0x40, 100, 1, 2, 1, 1, 10, 11, 12],
            &[0x06, 3, 2, b'a', b'b'],
            &[0x0f, 4, 0x40, 80, 3, 1, 2, 3],
            // A maximum above 2^53.
            &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x13, 9],
            &[0x1d, 7, 2, b'o', b'k'],
            &[0x00, 0x00, 0x00],
            &[0x08, 8, 1, 1],
        ];
        let expected = json!([
            { "frame_type": "ping" },
            {
                "frame_type": "ack", "ack_delay": 0.8, "acked_ranges": [[1, 2], [5, 7]],
                "ect0": 10, "ect1": 11, "ce": 12,
            },
            { "frame_type": "crypto", "offset": 3, "length": 2 },
            { "frame_type": "stream", "stream_id": 4, "offset": 80, "length": 3, "fin": true },
            { "frame_type": "max_data", "maximum": "4611686018427387903" },
            { "frame_type": "max_streams", "stream_type": "unidirectional", "maximum": 9 },
            {
                "frame_type": "connection_close", "error_space": "application_error", "error_code": 7,
                "reason": "ok",
            },
            { "frame_type": "padding", "payload_length": 3 },
            { "frame_type": "stream", "stream_id": 8, "offset": 0, "length": 2, "fin": false },
        ]);
        assert_eq!(Value::Array(frames(&payload.concat())), expected);
    }

    #[test]
    fn secrets_are_left_out() {
        let mut payload = vec![0x18, 1, 0, 4, 1, 2, 3, 4];
        payload.extend([0xee; 16]);
        payload.extend([0x07, 3, 0xee, 0xee, 0xee]);
        let expected = json!([
            {
                "frame_type": "new_connection_id", "sequence_number": 1, "retire_prior_to": 0,
                "connection_id_length": 4, "connection_id": "01020304",
            },
            { "frame_type": "new_token", "token": { "raw": { "length": 3 } } },
        ]);
        assert_eq!(Value::Array(frames(&payload)), expected);
    }

    proptest! {
        #[test]
        fn any_payload_has_at_most_as_many_frames_as_bytes(
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            prop_assert!(frames(&payload).len() <= payload.len());
        }
    }
}
