//! SOCKS version 5 (RFC 1928), the server side: CONNECT without authentication.
//!
//! Invariant: a request allocates nothing and is at most 262 bytes long.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{address::Target, open::OpenAnswer};
use crate::transfer::ticket::HOST_BYTES_MAX;

const VERSION: u8 = 5;
/// The answer to an HTTP client, so that its user learns why.
const NOT_HTTP: &[u8] =
    b"HTTP/1.1 501 Not Implemented\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n\
    This port of rc3 tunnel speaks SOCKS 5, not HTTP.\n";
/// Most bytes of an HTTP request that are read.
const HTTP_BYTES_MAX: u64 = 64 << 10;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a client violates.
fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads a client's greeting and request, and nothing beyond them. Errors are answered as RFC 1928 §6 asks.
///
/// # Errors
/// When the connection ends or breaks, and [`io::ErrorKind::InvalidData`] for requests that are not served.
pub async fn request(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Target> {
    greet(client).await?;
    match read_request(client).await? {
        Ok(target) => Ok(target),
        Err((code, what)) => {
            reply_code(client, code).await?;
            Err(invalid(what))
        }
    }
}

/// Answers a request.
///
/// # Errors
/// When the connection breaks.
pub async fn reply(client: &mut (impl AsyncWrite + Unpin), answer: OpenAnswer) -> io::Result<()> {
    let code = match answer {
        OpenAnswer::Connected => 0,
        OpenAnswer::NotAllowed => 2,
        OpenAnswer::NotFound | OpenAnswer::TimedOut => 4,
        OpenAnswer::Refused => 5,
        OpenAnswer::Unreachable => 3,
        OpenAnswer::Malformed => 1,
    };
    reply_code(client, code).await
}

async fn greet(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let version = client.read_u8().await?;
    if version != VERSION {
        if version.is_ascii_uppercase() {
            client.write_all(NOT_HTTP).await?;
            client.shutdown().await?;
            // Unread bytes would reset the connection before the client reads the answer (RFC 9112 §9.6).
            tokio::io::copy(&mut client.take(HTTP_BYTES_MAX), &mut tokio::io::sink()).await?;
        }
        return Err(invalid(other_version(version)));
    }
    let mut methods = [0; u8::MAX as usize];
    let count = usize::from(client.read_u8().await?);
    let methods = methods.get_mut(..count).unwrap_or_default();
    client.read_exact(methods).await?;
    let offered = methods.contains(&NO_AUTHENTICATION);
    client.write_all(&[VERSION, if offered { NO_AUTHENTICATION } else { NO_METHOD }]).await?;
    if offered {
        Ok(())
    } else {
        Err(invalid("the SOCKS client offers no method without authentication".to_owned()))
    }
}

fn other_version(version: u8) -> String {
    // The methods of HTTP begin with a capital letter.
    if version.is_ascii_uppercase() {
        return "an HTTP client is at the SOCKS port; set it to SOCKS 5, for example curl -x socks5h://HOST:PORT".to_owned();
    }
    format!("a SOCKS client of version {version}, this program supports version {VERSION}")
}

/// The target, or the code of the reply and what is wrong.
async fn read_request(client: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Target, (u8, String)>> {
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [version, command, _reserved, address_type] = head;
    if version != VERSION {
        return Ok(Err((1, other_version(version))));
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
        other => return Ok(Err((8, format!("SOCKS address type {other}")))),
    };
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Ok(Err((7, format!("SOCKS command {command}, only CONNECT (1) is supported"))));
    }
    let wrong = "the SOCKS client requests an invalid host or port";
    Ok(Target::new(&host, port).map_err(|_| (1, wrong.to_owned())))
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
    fn exchange(bytes: &[u8]) -> (io::Result<Target>, Vec<u8>) {
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
        let is = |found: io::Result<Target>, text: &str| assert_eq!(found.unwrap().to_string(), text);
        is(exchange(b"\x05\x01\x00\x05\x01\x00\x03\x07Example\x00\x50").0, "example:80");
        is(exchange(b"\x05\x02\x02\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb").0, "192.0.2.1:443");
        let six = [&b"\x05\x01\x00\x05\x01\x00\x04"[..], &Ipv6Addr::LOCALHOST.octets(), &[0, 22]].concat();
        is(exchange(&six).0, "[::1]:22");
    }

    #[test]
    fn other_requests_get_the_code_of_the_standard() {
        let refused = |bytes: &[u8]| {
            let (found, answer) = exchange(bytes);
            (found.unwrap_err().to_string(), answer)
        };
        let (what, answer) = refused(b"GET / HTTP/1.1\r\n");
        assert!(what.starts_with("an HTTP client") && answer.starts_with(b"HTTP/1.1 501 "), "{what}");
        assert!(refused(b"\x04\x01").0.contains("version 4,"));
        assert_eq!(refused(b"\x05\x01\x02").1, [5, 0xff]);
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
