//! HTTP CONNECT (RFC 9110 §9.3.6), the server side, without authentication.
//!
//! Invariant: a request is read to its empty line, nothing beyond it, and is at most [`HEAD_BYTES_MAX`] long.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{address::Target, open::OpenAnswer, socks::invalid};

/// Most bytes of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Most bytes that are read of a client that was refused.
const REST_BYTES_MAX: u64 = 64 << 10;

/// Reads the rest of a request that begins with `first`. Others than CONNECT are answered with the reason.
///
/// # Errors
/// When the connection ends or breaks, and [`io::ErrorKind::InvalidData`] for requests that are not served.
pub(super) async fn request(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    first: u8,
) -> io::Result<Target> {
    let refusal = match read_head(client, first).await? {
        Some(head) => match parse(&head) {
            Ok(target) => return Ok(target),
            Err(refusal) => refusal,
        },
        None => ("431 Request Header Fields Too Large", "the HTTP request is too long".to_owned()),
    };
    let (status, what) = refusal;
    respond(client, status, &what).await?;
    client.shutdown().await?;
    // Unread bytes would reset the connection before the client reads the answer (RFC 9112 §9.6).
    tokio::io::copy(&mut client.take(REST_BYTES_MAX), &mut tokio::io::sink()).await?;
    Err(invalid(what))
}

/// Answers a request.
///
/// # Errors
/// When the connection breaks.
pub(super) async fn reply(client: &mut (impl AsyncWrite + Unpin), answer: OpenAnswer) -> io::Result<()> {
    let status = match answer {
        OpenAnswer::Connected => return client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await,
        OpenAnswer::NotAllowed => "403 Forbidden",
        OpenAnswer::TimedOut => "504 Gateway Timeout",
        OpenAnswer::NotFound | OpenAnswer::Refused | OpenAnswer::Unreachable | OpenAnswer::Malformed => {
            "502 Bad Gateway"
        }
    };
    respond(client, status, &answer.to_string()).await
}

async fn respond(client: &mut (impl AsyncWrite + Unpin), status: &str, text: &str) -> io::Result<()> {
    let header = "Connection: close\r\nContent-Type: text/plain\r\n\r\n";
    client.write_all(format!("HTTP/1.1 {status}\r\n{header}rc3 tunnel: {text}\n").as_bytes()).await
}

/// The request to its empty line; `None`: it is too long.
async fn read_head(client: &mut (impl AsyncRead + Unpin), first: u8) -> io::Result<Option<Vec<u8>>> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Ok(None);
        }
        head.push(client.read_u8().await?);
    }
    Ok(Some(head))
}

/// The target, or a status and what is wrong.
fn parse(head: &[u8]) -> Result<Target, (&'static str, String)> {
    let line = head.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["CONNECT", authority, "HTTP/1.1" | "HTTP/1.0"] => authority
            .parse()
            .map_err(|_| ("400 Bad Request", "the HTTP client requests an invalid host or port".to_owned())),
        [_, _, version] if version.starts_with("HTTP/") => Err((
            "501 Not Implemented",
            "an HTTP client wants a page of this port, which serves only CONNECT; use SOCKS 5, for example curl -x \
             socks5h://HOST:PORT"
                .to_owned(),
        )),
        _ => Err(("400 Bad Request", "neither SOCKS 5 nor HTTP".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<String, &'static str> {
        parse(head.as_bytes()).map(|target| target.to_string()).map_err(|(status, _)| &status[..3])
    }

    #[test]
    fn targets_are_names_and_addresses_with_ports() {
        assert_eq!(
            parsed("CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
            Ok("example.org:443".into())
        );
        assert_eq!(parsed("CONNECT 192.0.2.1:22 HTTP/1.0\n\n"), Ok("192.0.2.1:22".into()));
        assert_eq!(parsed("CONNECT [2001:db8::1]:22 HTTP/1.1\r\n\r\n"), Ok("[2001:db8::1]:22".into()));
        for head in
            ["CONNECT a HTTP/1.1", "CONNECT a:0 HTTP/1.1", "CONNECT a:b HTTP/1.1", "CONNECT a b:1 HTTP/1.1"]
        {
            assert_eq!(parsed(head), Err("400"), "{head}");
        }
        assert_eq!(parsed("GET http://example.org/ HTTP/1.1\r\n\r\n"), Err("501"));
        assert_eq!(parsed("HELO\r\n\r\n"), Err("400"));
    }
}
