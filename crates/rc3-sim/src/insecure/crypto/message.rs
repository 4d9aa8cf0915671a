//! Handshake messages that replace those of TLS 1.3, with the same lengths.
//!
//! ```text
//! byte 0      kind
//! bytes 1-2   length of the body, big endian
//! body        fields, each with its length in two bytes, then ones: zeros would look like PADDING
//! ```

/// Bytes before the body.
const HEADER_LEN: usize = 3;

/// Fields: a random number for the secret of both ends' keys, the server's name, QUIC's transport parameters, and ALPN names
/// by preference.
pub(super) const CLIENT_HELLO: u8 = 0;
/// Field: the server's random number.
pub(super) const SERVER_HELLO: u8 = 1;
/// Encrypted extensions, certificate and its proof, Finished. Fields: the transport parameters, and the ALPN name if one is
/// chosen.
pub(super) const SERVER_FLIGHT: u8 = 2;
pub(super) const CLIENT_FINISHED: u8 = 3;
pub(super) const SESSION_TICKETS: u8 = 4;

/// Least bytes of each kind.
const LENGTHS: [usize; 5] = [280, 90, 640, 52, 178];

/// A kind and its fields.
pub(super) type CryptoMessage<'a> = (u8, Vec<&'a [u8]>);

/// Appends a message. Longer fields make it longer.
pub(super) fn emit(kind: u8, fields: &[&[u8]], buf: &mut Vec<u8>) {
    let short = |len: usize| u16::try_from(len).expect("names and parameters are short").to_be_bytes();
    let start = buf.len();
    buf.extend_from_slice(&[kind, 0, 0]);
    for field in fields {
        buf.extend_from_slice(&short(field.len()));
        buf.extend_from_slice(field);
    }
    buf.resize(buf.len().max(start + LENGTHS[usize::from(kind)]), 0xff);
    let body = short(buf.len() - start - HEADER_LEN);
    buf[start + 1..start + HEADER_LEN].copy_from_slice(&body);
}

/// The first message and its length; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Option<(CryptoMessage<'_>, usize)> {
    let (&[kind, high, low], rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    let mut body = rest.get(..len)?;
    let mut fields = Vec::new();
    // Ones are the length of no field.
    while let Some((len, rest)) = body.split_first_chunk()
        && let Some((field, rest)) = rest.split_at_checked(u16::from_be_bytes(*len).into())
    {
        fields.push(field);
        body = rest;
    }
    Some(((kind, fields), HEADER_LEN + len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_undoes_emit() {
        let fields: [&[u8]; 4] = [&[0; 8], b"rc3.test", &[9; 100], b"h3"];
        for (kind, len) in (0..).zip(LENGTHS) {
            let fields = if kind == CLIENT_HELLO { &fields[..] } else { &fields[..2] };
            let mut buf = Vec::new();
            emit(kind, fields, &mut buf);
            assert_eq!(buf.len(), len);
            for part in 0..buf.len() {
                assert_eq!(parse(&buf[..part]), None);
            }
            assert_eq!(parse(&buf), Some(((kind, fields.to_vec()), len)));
        }
    }

    #[test]
    fn what_does_not_fit_makes_the_message_longer() {
        let mut buf = Vec::new();
        emit(CLIENT_HELLO, &[&[1; 1000]], &mut buf);
        assert_eq!(parse(&buf), Some(((CLIENT_HELLO, vec![&[1; 1000][..]]), buf.len())));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>, kind in 0..7_u8) {
            let len = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            let _ = parse(&[&[kind][..], &len, &bytes].concat());
        }
    }
}
