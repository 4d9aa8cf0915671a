//! What the command line calls `host:port` and `[bind:]port:host:hostport`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::transfer::ticket::{authority, is_host, parts, positive};

/// Where a TCP connection or a UDP flow goes: the side that connects resolves the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(String, u16)")]
pub struct Target {
    host: String,
    port: u16,
}

/// Why something is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Not a host name or address.
    #[error("not a host name or address")]
    Host,
    /// No port.
    #[error("not a port from 1 to 65535")]
    Port,
    /// The wrong number of parts.
    #[error("write {0}")]
    Form(&'static str),
}

impl Target {
    /// A target.
    ///
    /// # Errors
    /// [`AddressError::Host`] when `host` is empty, too long or has characters no host name has,
    /// [`AddressError::Port`] for port 0.
    pub fn new(host: &str, port: u16) -> Result<Self, AddressError> {
        if !is_host(host) {
            return Err(AddressError::Host);
        }
        if port == 0 {
            return Err(AddressError::Port);
        }
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }

    /// A name, or an address without brackets; lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl TryFrom<(String, u16)> for Target {
    type Error = AddressError;

    fn try_from((host, port): (String, u16)) -> Result<Self, AddressError> {
        Self::new(&host, port)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

impl FromStr for Target {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match parts(text).ok_or(AddressError::Host)?.as_slice() {
            [host, port] => Self::new(host, positive(port).ok_or(AddressError::Port)?),
            _ => Err(AddressError::Form("HOST:PORT")),
        }
    }
}

/// The argument of `-L` or `-R`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where to listen; loopback unless named. Port 0 is any free port.
    pub listen: SocketAddr,
    /// Where the connections go.
    pub target: Target,
    /// Whether datagrams of UDP are forwarded, and not TCP: `/udp` after the rest.
    pub udp: bool,
}

impl FromStr for Forward {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (text, udp) = text.strip_suffix("/udp").map_or((text, false), |text| (text, true));
        let (bind, port, host, target) = match parts(text).ok_or(AddressError::Host)?.as_slice() {
            [port, host, target] => (None, *port, *host, *target),
            [bind, port, host, target] => (Some(*bind), *port, *host, *target),
            _ => return Err(AddressError::Form("[BIND:]PORT:HOST:HOSTPORT[/udp]")),
        };
        let target = Target::new(host, positive(target).ok_or(AddressError::Port)?)?;
        Ok(Self { listen: listen(bind, port)?, target, udp })
    }
}

/// The argument of `-D`: where to listen; loopback unless named.
///
/// # Errors
/// See [`AddressError`].
pub fn dynamic(text: &str) -> Result<SocketAddr, AddressError> {
    match parts(text).ok_or(AddressError::Host)?.as_slice() {
        [port] => listen(None, port),
        [bind, port] => listen(Some(bind), port),
        _ => Err(AddressError::Form("[BIND:]PORT")),
    }
}

fn listen(bind: Option<&str>, port: &str) -> Result<SocketAddr, AddressError> {
    let ip: IpAddr = match bind {
        None | Some("localhost") => Ipv4Addr::LOCALHOST.into(),
        Some("*") => Ipv6Addr::UNSPECIFIED.into(),
        Some(ip) => ip.parse().map_err(|_| AddressError::Host)?,
    };
    Ok(SocketAddr::new(ip, port.parse().map_err(|_| AddressError::Port)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forwards_listen_on_loopback_unless_an_address_is_named() {
        let forward = |text: &str| text.parse::<Forward>();
        let is = |listen: &str, host: &str, port| {
            let target = Target::new(host, port).unwrap();
            Ok(Forward { listen: listen.parse().unwrap(), target, udp: false })
        };
        let dns = forward("5353:dns:53/udp").unwrap();
        assert_eq!((Ok(Forward { udp: false, ..dns.clone() }), dns.udp), (forward("5353:dns:53"), true));
        assert_eq!(forward("8080:Example.org:80"), is("127.0.0.1:8080", "example.org", 80));
        assert_eq!(forward("0.0.0.0:8080:localhost:80"), is("0.0.0.0:8080", "localhost", 80));
        assert_eq!(forward("[::1]:0:[2001:db8::1]:80"), is("[::1]:0", "2001:db8::1", 80));
        assert_eq!(forward("*:8080:localhost:80"), is("[::]:8080", "localhost", 80));
        assert_eq!(forward("localhost:8080:h:80"), is("127.0.0.1:8080", "h", 80));
        assert_eq!(dynamic("1080"), Ok("127.0.0.1:1080".parse().unwrap()));
        assert_eq!(dynamic("[::1]:1080"), Ok("[::1]:1080".parse().unwrap()));
    }

    #[test]
    fn other_forms_are_refused() {
        let form = AddressError::Form("[BIND:]PORT:HOST:HOSTPORT[/udp]");
        for (text, error) in [
            ("8080", form),
            ("", form),
            ("1:2:3:4:5", form),
            ("8080:h:0", AddressError::Port),
            ("8080:h:65536", AddressError::Port),
            ("x:h:80", AddressError::Port),
            ("example.org:8080:h:80", AddressError::Host),
            ("8080::80", AddressError::Host),
            ("8080:a b:80", AddressError::Host),
            ("8080:[::1:80", AddressError::Host),
            ("8080:[::1]x:80", AddressError::Host),
        ] {
            assert_eq!(text.parse::<Forward>(), Err(error), "{text}");
        }
        assert_eq!("h".parse::<Target>(), Err(AddressError::Form("HOST:PORT")));
        assert_eq!(Target::new(&"n".repeat(256), 1), Err(AddressError::Host));
        assert_eq!(dynamic("1:2:3"), Err(AddressError::Form("[BIND:]PORT")));
    }

    proptest! {
        #[test]
        fn targets_are_read_back(
            host in "[a-z0-9][a-z0-9.-]{0,40}|[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9a-f]{1,4}::[0-9a-f]{1,4}",
            port in 1u16..,
        ) {
            let target = Target::new(&host, port).unwrap();
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }

        #[test]
        fn any_text_is_an_address_or_refused(text in "\\PC{0,40}|[0-9:\\[\\]*a]{0,20}") {
            let _ = (text.parse::<Target>(), text.parse::<Forward>(), dynamic(&text));
        }
    }
}
