//! SOCKS version 5 (RFC 1928), the server side: CONNECT without authentication.
//!
//! Invariant: a request allocates nothing and is at most 262 bytes long.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    address::{HOST_BYTES_MAX, Target},
    open::Answer,
};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Why a client has no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocksError {
    /// The connection ended or broke.
    #[error("the SOCKS client ended the connection: {0}")]
    Io(#[from] io::Error),
    /// Not SOCKS 5.
    #[error("a SOCKS client of version {0}, this program supports version {VERSION}")]
    Version(u8),
    /// The client requires authentication.
    #[error("the SOCKS client offers no method without authentication")]
    Method,
    /// Not CONNECT.
    #[error("SOCKS command {0}, only CONNECT (1) is supported")]
    Command(u8),
    /// Not an address type of RFC 1928.
    #[error("SOCKS address type {0}")]
    AddressType(u8),
    /// Not a target.
    #[error("the SOCKS client requests an invalid host or port")]
    Target,
}

/// Reads a client's greeting and request, and nothing beyond them. Errors are answered as RFC 1928 §6 asks.
///
/// # Errors
/// See [`SocksError`].
pub async fn request(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<Target, SocksError> {
    greet(client).await?;
    let error = match read_request(client).await {
        Err(SocksError::Io(error)) => return Err(error.into()),
        Err(error) => error,
        Ok(target) => return Ok(target),
    };
    let code = match error {
        SocksError::Command(_) => 7,
        SocksError::AddressType(_) => 8,
        _ => 1,
    };
    reply_code(client, code).await?;
    Err(error)
}

/// Answers a request.
///
/// # Errors
/// When the connection breaks.
pub async fn reply(client: &mut (impl AsyncWrite + Unpin), answer: Answer) -> io::Result<()> {
    let code = match answer {
        Answer::Connected => 0,
        Answer::NotAllowed => 2,
        Answer::NotFound | Answer::TimedOut => 4,
        Answer::Refused => 5,
        Answer::Unreachable => 3,
        Answer::Malformed => 1,
    };
    reply_code(client, code).await
}

async fn greet(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), SocksError> {
    let version = client.read_u8().await?;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let mut methods = [0; u8::MAX as usize];
    let count = usize::from(client.read_u8().await?);
    let methods = methods.get_mut(..count).unwrap_or_default();
    client.read_exact(methods).await?;
    let offered = methods.contains(&NO_AUTHENTICATION);
    client.write_all(&[VERSION, if offered { NO_AUTHENTICATION } else { NO_METHOD }]).await?;
    if offered { Ok(()) } else { Err(SocksError::Method) }
}

async fn read_request(client: &mut (impl AsyncRead + Unpin)) -> Result<Target, SocksError> {
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [version, command, _reserved, address_type] = head;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let mut name = [0; HOST_BYTES_MAX];
    let host = match address_type {
        IPV4 => Ipv4Addr::from(client.read_u32().await?).to_string(),
        IPV6 => Ipv6Addr::from(client.read_u128().await?).to_string(),
        NAME => {
            let length = usize::from(client.read_u8().await?);
            let name = name.get_mut(..length).unwrap_or_default();
            client.read_exact(name).await?;
            String::from_utf8_lossy(name).into_owned()
        }
        other => return Err(SocksError::AddressType(other)),
    };
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Err(SocksError::Command(command));
    }
    Target::new(&host, port).map_err(|_| SocksError::Target)
}

/// The bound address of a reply is that of the other side, which clients do not need: all zero.
async fn reply_code(client: &mut (impl AsyncWrite + Unpin), code: u8) -> io::Result<()> {
    client.write_all(&[VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a client that writes these bytes and ends gets back.
    fn exchange(bytes: &[u8]) -> (Result<Target, SocksError>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(4096);
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let target = request(&mut server).await;
            drop(server);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            (target, answer)
        })
    }

    #[test]
    fn names_and_addresses_are_targets() {
        let is = |found: Result<Target, SocksError>, text: &str| assert_eq!(found.unwrap().to_string(), text);
        is(exchange(b"\x05\x01\x00\x05\x01\x00\x03\x07Example\x00\x50").0, "example:80");
        is(exchange(b"\x05\x02\x02\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb").0, "192.0.2.1:443");
        let six = [&b"\x05\x01\x00\x05\x01\x00\x04"[..], &Ipv6Addr::LOCALHOST.octets(), &[0, 22]].concat();
        is(exchange(&six).0, "[::1]:22");
    }

    #[test]
    fn other_requests_get_the_code_of_the_standard() {
        assert!(
            matches!(exchange(b"GET / HTTP/1.1\r\n"), (Err(SocksError::Version(b'G')), answer) if answer.is_empty())
        );
        assert!(matches!(exchange(b"\x04\x01"), (Err(SocksError::Version(4)), _)));
        assert!(
            matches!(exchange(b"\x05\x01\x02"), (Err(SocksError::Method), answer) if answer == [5, 0xff])
        );
        let code = |request: &[u8]| {
            let (found, answer) = exchange(&[b"\x05\x01\x00", request].concat());
            (found.is_err(), answer[3])
        };
        assert_eq!(code(b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50"), (true, 7));
        assert_eq!(code(b"\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50"), (true, 8));
        assert_eq!(code(b"\x05\x01\x00\x03\x02a \x00\x50"), (true, 1));
        assert_eq!(code(b"\x05\x01\x00\x03\x01a\x00\x00"), (true, 1));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_request_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), polite: bool) {
            let start: &[u8] = if polite { b"\x05\x01\x00\x05\x01\x00" } else { b"" };
            let _ = exchange(&[start, &bytes].concat());
        }
    }
}
