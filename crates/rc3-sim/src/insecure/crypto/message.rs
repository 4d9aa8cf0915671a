//! Handshake messages that replace those of TLS 1.3, with the same lengths.
//!
//! ```text
//! byte 0      kind
//! bytes 1-2   length of the body, big endian
//! body        fields, then ones up to the length: zeros would look like PADDING
//! ```

/// Bytes before the body.
const HEADER_LEN: usize = 3;

/// A ClientHello, or a server's encrypted extensions and certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hello {
    /// The secret of both ends' keys.
    pub(super) random: u64,
    /// ALPN names: the client's by preference, or the one chosen by the server.
    pub(super) protocols: Vec<Vec<u8>>,
    /// Empty in the server's.
    pub(super) server_name: String,
    /// QUIC's transport parameters, encoded.
    pub(super) params: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    ClientHello(Hello),
    /// The server's random number.
    ServerHello(u64),
    /// Encrypted extensions, certificate and its proof, Finished.
    ServerFlight(Hello),
    ClientFinished,
    /// The data with which a client would resume the session.
    SessionTickets,
}

impl Message {
    /// Lengths in bytes as in rustls with X25519, one ECDSA certificate, SHA-384 and two tickets. Datagrams with an
    /// Initial packet are padded (RFC 9000 §14.1), so only the last two show on the wire.
    const fn len(&self) -> usize {
        match self {
            Self::ClientHello(_) => 280,
            Self::ServerHello(_) => 90,
            Self::ServerFlight(_) => 640,
            Self::ClientFinished => 52,
            Self::SessionTickets => 178,
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::ClientHello(_) => 1,
            Self::ServerHello(_) => 2,
            Self::ServerFlight(_) => 3,
            Self::ClientFinished => 4,
            Self::SessionTickets => 5,
        }
    }

    /// Appends the message to `buf`. One that exceeds its usual length is longer.
    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        let start = buf.len();
        buf.extend_from_slice(&[self.kind(), 0, 0]);
        match self {
            Self::ClientHello(hello) | Self::ServerFlight(hello) => emit_hello(hello, buf),
            Self::ServerHello(random) => buf.extend_from_slice(&random.to_be_bytes()),
            Self::ClientFinished | Self::SessionTickets => {}
        }
        if buf.len() - start < self.len() {
            buf.resize(start + self.len(), 0xff);
        }
        let body = u16::try_from(buf.len() - start - HEADER_LEN).expect("names and parameters are short");
        buf[start + 1..start + HEADER_LEN].copy_from_slice(&body.to_be_bytes());
    }

    /// The first message in `bytes` and its length; `Ok(None)` if more bytes must come first.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((&[kind, high, low], rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let Some(mut body) = rest.get(..len) else { return Ok(None) };
        let body = &mut body;
        let message = match kind {
            1 => Self::ClientHello(parse_hello(body).ok_or(Malformed)?),
            2 => Self::ServerHello(u64::from_be_bytes(take(body).ok_or(Malformed)?)),
            3 => Self::ServerFlight(parse_hello(body).ok_or(Malformed)?),
            4 => Self::ClientFinished,
            5 => Self::SessionTickets,
            _ => return Err(Malformed),
        };
        Ok(Some((message, HEADER_LEN + len)))
    }
}

/// Not a message of this handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// # Panics
/// When a name is longer than ALPN and DNS allow, or the parameters longer than 64 KiB.
fn emit_hello(hello: &Hello, buf: &mut Vec<u8>) {
    let short = |len: usize| u8::try_from(len).expect("names of ALPN and DNS have up to 255 bytes");
    buf.extend_from_slice(&hello.random.to_be_bytes());
    buf.push(short(hello.protocols.len()));
    for name in &hello.protocols {
        buf.push(short(name.len()));
        buf.extend_from_slice(name);
    }
    buf.push(short(hello.server_name.len()));
    buf.extend_from_slice(hello.server_name.as_bytes());
    let params = u16::try_from(hello.params.len()).expect("transport parameters are short");
    buf.extend_from_slice(&params.to_be_bytes());
    buf.extend_from_slice(&hello.params);
}

fn parse_hello(body: &mut &[u8]) -> Option<Hello> {
    let random = u64::from_be_bytes(take(body)?);
    let [count] = take(body)?;
    let protocols = (0..count).map(|_| short_string(body).map(<[u8]>::to_vec)).collect::<Option<_>>()?;
    let server_name = String::from_utf8(short_string(body)?.to_vec()).ok()?;
    let params = u16::from_be_bytes(take(body)?);
    let params = body.split_off(..usize::from(params))?.to_vec();
    Some(Hello { random, protocols, server_name, params })
}

fn short_string<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let [len] = take(body)?;
    body.split_off(..usize::from(len))
}

fn take<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            random: 7,
            protocols: vec![b"rc3/1+h3".to_vec(), b"h3".to_vec()],
            server_name: "rc3.test".into(),
            params: vec![9; 100],
        }
    }

    #[test]
    fn parse_undoes_emit() {
        let messages = [
            Message::ClientHello(hello()),
            Message::ServerHello(8),
            Message::ServerFlight(Hello::default()),
            Message::ClientFinished,
            Message::SessionTickets,
        ];
        for message in messages {
            let mut buf = Vec::new();
            message.emit(&mut buf);
            assert_eq!(buf.len(), message.len());
            for part in 0..buf.len() {
                assert_eq!(Message::parse(&buf[..part]), Ok(None));
            }
            assert_eq!(Message::parse(&buf), Ok(Some((message, buf.len()))));
        }
    }

    #[test]
    fn what_does_not_fit_makes_the_message_longer() {
        let message = Message::ClientHello(Hello { params: vec![1; 1000], ..hello() });
        let mut buf = Vec::new();
        message.emit(&mut buf);
        assert_eq!(Message::parse(&buf), Ok(Some((message, buf.len()))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>, kind in 0..7_u8) {
            let len = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            let _ = Message::parse(&[&[kind][..], &len, &bytes].concat());
        }
    }
}
