//! Finds the PADDING at the end of a packet: quinn-proto parses it byte by byte, and it is most of a handshake.

use rc3_core::internals::wire::parse_varint;

/// Fewer trailing zeros are not worth the search.
const WORTH_IT: usize = 64;

/// The length of `payload` without the PADDING at its end, except one frame of it; the whole length if it ends in
/// another frame, or has an unknown frame before.
pub(super) fn len_without(payload: &[u8]) -> usize {
    if payload.last_chunk() != Some(&[0; WORTH_IT]) {
        return payload.len();
    }
    // The zeros may belong to a frame: all frames must be walked to know where it ends.
    let mut rest = payload;
    while let Some(&kind) = rest.first() {
        let after = if kind == 0 { after_zeros(rest) } else { after_frame(rest) };
        match after {
            Some([]) if kind == 0 => return payload.len() - rest.len() + 1,
            Some(after) => rest = after,
            None => break,
        }
    }
    payload.len()
}

fn after_zeros(rest: &[u8]) -> Option<&[u8]> {
    let zeros = rest.iter().position(|&byte| byte != 0).unwrap_or(rest.len());
    rest.get(zeros..)
}

/// The bytes after the first frame (RFC 9000 §19); `None` if unknown.
fn after_frame(mut rest: &[u8]) -> Option<&[u8]> {
    let kind = integer(&mut rest)?;
    match kind {
        // PING, HANDSHAKE_DONE.
        0x01 | 0x1e => {}
        // ACK, with ECN counts or without.
        0x02 | 0x03 => {
            integers(&mut rest, 2)?;
            let ranges = integer(&mut rest)?;
            integers(&mut rest, 1)?;
            integers(&mut rest, ranges.checked_mul(2)?)?;
            integers(&mut rest, if kind == 0x03 { 3 } else { 0 })?;
        }
        // CRYPTO.
        0x06 => {
            integers(&mut rest, 1)?;
            string(&mut rest)?;
        }
        // NEW_TOKEN.
        0x07 => string(&mut rest)?,
        // STREAM with its length; without one it extends to the end.
        0x08..=0x0f if kind & 0x02 != 0 => {
            integers(&mut rest, 1 + (kind >> 2 & 1))?;
            string(&mut rest)?;
        }
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => integers(&mut rest, 1)?,
        // MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
        0x11 | 0x15 => integers(&mut rest, 2)?,
        // NEW_CONNECTION_ID, with a stateless reset token.
        0x18 => {
            integers(&mut rest, 2)?;
            string(&mut rest)?;
            rest = rest.get(16..)?;
        }
        // ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
        0xaf => integers(&mut rest, 4)?,
        _ => return None,
    }
    Some(rest)
}

fn integer(rest: &mut &[u8]) -> Option<u64> {
    let (value, len) = parse_varint(rest)?;
    *rest = rest.get(len..)?;
    Some(value)
}

/// Skips this many integers.
fn integers(rest: &mut &[u8], count: u64) -> Option<()> {
    (0..count).try_for_each(|_| integer(rest).map(drop))
}

/// Skips a length and that many bytes.
fn string(rest: &mut &[u8]) -> Option<()> {
    let len = usize::try_from(integer(rest)?).ok()?;
    *rest = rest.get(len..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PADDING: [u8; 300] = [0; 300];

    #[test]
    fn zeros_behind_the_last_frame_are_padding() {
        // ACK of packet 0, CRYPTO at 0 with three bytes, PING.
        let frames = [0x02, 0, 0, 0, 0, 0x06, 0, 3, 7, 7, 0, 0x01];
        assert_eq!(len_without(&[&frames[..], &PADDING].concat()), frames.len() + 1);
        assert_eq!(len_without(&frames), frames.len());
        assert_eq!(len_without(&PADDING), 1);
    }

    #[test]
    fn zeros_of_a_frame_are_not() {
        // STREAM 2 without a length, and with one.
        let open = [&[0x08, 2][..], &PADDING].concat();
        assert_eq!(len_without(&open), open.len());
        let closed = [&[0x0a, 2, 0x41, 0x2c][..], &PADDING].concat();
        assert_eq!(len_without(&closed), closed.len());
        assert_eq!(len_without(&[&closed[..], &PADDING].concat()), closed.len() + 1);
    }

    #[test]
    fn padding_behind_unknown_frames_is_not_found() {
        let frames = [&[0x3f][..], &PADDING].concat();
        assert_eq!(len_without(&frames), frames.len());
    }

    proptest! {
        #[test]
        fn only_zeros_are_ever_cut(mut payload: Vec<u8>, zeros in 0..200_usize) {
            payload.resize(payload.len() + zeros, 0);
            let len = len_without(&payload);
            prop_assert!(payload[len..].iter().all(|&byte| byte == 0));
            prop_assert!(len > 0 || payload.is_empty());
        }
    }
}
