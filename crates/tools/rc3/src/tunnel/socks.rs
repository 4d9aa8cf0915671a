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
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a client violates.
pub(super) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads the rest of a client's greeting, which begins with `version`, and its request. Errors are answered as RFC 1928 §6 asks.
///
/// # Errors
/// When the connection ends or breaks, and [`io::ErrorKind::InvalidData`] for requests that are not served.
pub(super) async fn request(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    version: u8,
) -> io::Result<Target> {
    if version != VERSION {
        return Err(invalid(other_version(version)));
    }
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
pub(super) async fn reply(client: &mut (impl AsyncWrite + Unpin), answer: OpenAnswer) -> io::Result<()> {
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
