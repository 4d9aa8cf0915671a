//! HTTP/3 written byte by byte, by a peer of quinn.

use quinn::{ReadToEndError, RecvStream, SendStream};

/// Types of frames (RFC 9114 §7.2).
pub(crate) const DATA: u64 = 0;
pub(crate) const HEADERS: u64 = 1;
pub(crate) const SETTINGS: u64 = 4;
/// One that has no meaning (RFC 9114 §7.2.8).
pub(crate) const UNKNOWN: u64 = 0x21;

/// Fields of a section, in order.
pub(crate) type Fields<'a> = &'a [(&'a str, &'a str)];

/// A variable-length integer (RFC 9000 §16), as short as it can be.
pub(crate) fn varint(value: u64) -> Vec<u8> {
    match value {
        0..0x40 => vec![value as u8],
        0x40..0x4000 => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        0x4000..0x4000_0000 => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (value | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// The type and the length of a frame.
pub(crate) fn frame_header(kind: u64, len: u64) -> Vec<u8> {
    [varint(kind), varint(len)].concat()
}

pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [frame_header(kind, payload.len() as u64), payload.to_vec()].concat()
}

/// A HEADERS frame whose fields are literals in plain text (RFC 9204 §4.5.6), so that all of them can be sent.
pub(crate) fn headers(fields: Fields<'_>) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        prefixed(&mut section, 0x20, 3, name.as_bytes());
        prefixed(&mut section, 0, 7, value.as_bytes());
    }
    frame(HEADERS, &section)
}

/// A string after its length, which has the last `bits` of a byte (RFC 9204 §4.1.1) and may have more bytes.
fn prefixed(section: &mut Vec<u8>, flags: u8, bits: u32, text: &[u8]) {
    let most = (1 << bits) - 1;
    match text.len().checked_sub(most) {
        None => section.push(flags | text.len() as u8),
        Some(mut rest) => {
            section.push(flags | most as u8);
            while rest >= 0x80 {
                section.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            section.push(rest as u8);
        }
    }
    section.extend_from_slice(text);
}

/// The fields of a request.
pub(crate) fn request<'a>(method: &'a str, path: &'a str, more: Fields<'a>) -> Vec<(&'a str, &'a str)> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "rc3.test"), (":path", path)];
    [&pseudo, more].concat()
}

/// Starts HTTP/3: opens the control stream, which must stay open, and sends settings that change nothing.
pub(crate) async fn control(connection: &quinn::Connection) -> SendStream {
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(&[varint(0), frame(SETTINGS, &[])].concat()).await.unwrap();
    control
}

/// Sends these bytes as a whole request; the answer's bytes, or the code with which the stream was reset.
pub(crate) async fn ask(connection: &quinn::Connection, bytes: &[u8]) -> Result<Vec<u8>, u64> {
    let (mut send, recv) = connection.open_bi().await.unwrap();
    // Stopped, perhaps.
    let _ = send.write_all(bytes).await;
    let _ = send.finish();
    answer(recv).await
}

/// All that arrives, or the code with which the stream was reset.
pub(crate) async fn answer(mut recv: RecvStream) -> Result<Vec<u8>, u64> {
    match recv.read_to_end(1 << 20).await {
        Ok(answer) => Ok(answer),
        Err(ReadToEndError::Read(quinn::ReadError::Reset(code))) => Err(code.into_inner()),
        Err(error) => panic!("{error}"),
    }
}

/// The code with which the peer closed the connection.
pub(crate) async fn closed(connection: &quinn::Connection) -> u64 {
    match connection.closed().await {
        quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        error => panic!("{error}"),
    }
}
