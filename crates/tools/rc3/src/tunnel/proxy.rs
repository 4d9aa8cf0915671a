//! What comes to the port of `-D`: SOCKS 5 or HTTP CONNECT. They differ in the first byte.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::{address::Target, http_connect, open::OpenAnswer, socks};

/// How a client asks for its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// RFC 1928.
    Socks,
    /// RFC 9110 §9.3.6.
    HttpConnect,
}

/// Reads a client's request, and nothing beyond it. What is wrong is answered as the protocol asks.
///
/// # Errors
/// When the connection ends or breaks, and [`io::ErrorKind::InvalidData`] for requests that are not served.
pub async fn request(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<(ProxyProtocol, Target)> {
    let first = client.read_u8().await?;
    // The methods of HTTP begin with a capital letter.
    if first.is_ascii_uppercase() {
        Ok((ProxyProtocol::HttpConnect, http_connect::request(client, first).await?))
    } else {
        Ok((ProxyProtocol::Socks, socks::request(client, first).await?))
    }
}

impl ProxyProtocol {
    /// Answers a request.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn reply(self, client: &mut (impl AsyncWrite + Unpin), answer: OpenAnswer) -> io::Result<()> {
        match self {
            Self::Socks => socks::reply(client, answer).await,
            Self::HttpConnect => http_connect::reply(client, answer).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// What a client that writes these bytes and ends gets back.
    fn exchange(bytes: &[u8]) -> (io::Result<(ProxyProtocol, Target)>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(16 << 10);
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let request = request(&mut server).await;
            drop(server);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            (request, answer)
        })
    }

    #[test]
    fn names_and_addresses_are_targets() {
        let is = |bytes: &[u8], protocol, text: &str| {
            let (found, target) = exchange(bytes).0.unwrap();
            assert_eq!((found, &*target.to_string()), (protocol, text));
        };
        let socks = ProxyProtocol::Socks;
        is(b"\x05\x01\x00\x05\x01\x00\x03\x07Example\x00\x50", socks, "example:80");
        is(b"\x05\x02\x02\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb", socks, "192.0.2.1:443");
        let address = std::net::Ipv6Addr::LOCALHOST.octets();
        is(&[&b"\x05\x01\x00\x05\x01\x00\x04"[..], &address, &[0, 22]].concat(), socks, "[::1]:22");
        is(b"CONNECT a:443 HTTP/1.1\r\n\r\n", ProxyProtocol::HttpConnect, "a:443");
    }

    #[test]
    fn other_requests_get_the_code_of_the_standard() {
        let refused = |bytes: &[u8]| {
            let (found, answer) = exchange(bytes);
            (found.unwrap_err().to_string(), answer)
        };
        let (what, answer) = refused(b"GET / HTTP/1.1\r\n\r\n");
        assert!(what.starts_with("an HTTP client") && answer.starts_with(b"HTTP/1.1 501 "), "{what}");
        let (what, answer) = refused(&[b'C'; 9000]);
        assert!(what.contains("too long") && answer.starts_with(b"HTTP/1.1 431 "), "{what}");
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
        fn hostile_bytes_are_a_request_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), start in 0..3_usize) {
            let start: &[u8] = [&b"\x05\x01\x00\x05\x01\x00"[..], b"CONNECT ", b""][start];
            let _ = exchange(&[start, &bytes].concat());
        }
    }
}
