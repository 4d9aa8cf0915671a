//! The ticket: one line with which a sender finds, authenticates and convinces a receiver.
//!
//! `rc3://HOST:PORT/#CODE`, where the code is base32 (RFC 4648 §6, lower case, no padding) of:
//!
//! | bytes | content |
//! |---:|---|
//! | 1 | version: 2 |
//! | 32 | BLAKE3 fingerprint of the receiver's certificate |
//! | 16 | the secret that authorises the sender |
//! | | each further address: its length (4, 8 or 16), and so many bytes; 8 are the identifier of a link-local one |
//! | 2 | start of the BLAKE3 of all bytes before, which reveals typing errors |
//!
//! Version 1, which is still read, ends with the secret. Anyone with the ticket can send files: treat it like a password.
//!
//! Invariant: a ticket that is printed is read as the same ticket.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use data_encoding::BASE32_NOPAD_NOCASE as BASE32;
use thiserror::Error;

/// Bytes of a certificate's fingerprint.
pub const FINGERPRINT_BYTES: usize = 32;
/// Bytes of the secret.
pub const SECRET_BYTES: usize = 16;

const SCHEME: &str = "rc3://";
const VERSION: u8 = 2;
/// The version without further addresses and checksum.
const OLD_VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 2;
/// Most bytes of a host name, as in DNS and SOCKS.
pub const HOST_BYTES_MAX: usize = 255;
/// Most addresses of a ticket, its host included.
pub const ADDRESSES_MAX: usize = 8;

/// BLAKE3 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        Self(*blake3::hash(certificate).as_bytes())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Base32 as in a ticket.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32.encode(&self.0).to_ascii_lowercase())
    }
}

impl FromStr for Fingerprint {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let bytes = BASE32.decode(text.as_bytes()).ok();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(TicketError::Code)
    }
}

/// What the two ends of a connection trust each other by: the listener's certificate, and the secret that the other shows.
pub(crate) type Trust = (Fingerprint, Secret);

/// The secret that authorises the sender. Comparison takes constant time; debug output hides it.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; SECRET_BYTES]);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // Comparing hashes takes constant time, and would hide where the secrets differ even if it did not.
        blake3::hash(&self.0) == blake3::hash(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The receiver's addresses, fingerprint and secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    host: String,
    port: u16,
    others: Vec<IpAddr>,
    fingerprint: Fingerprint,
    secret: Secret,
}

impl Ticket {
    /// A ticket for a receiver at `host` (a name, an IPv4 or an IPv6 address without brackets).
    ///
    /// # Errors
    /// [`TicketError::Host`] when `host` is empty, longer than 255 bytes or has characters no host name has.
    pub fn new(host: &str, port: u16, fingerprint: Fingerprint, secret: Secret) -> Result<Self, TicketError> {
        if !is_host(host) {
            return Err(TicketError::Host);
        }
        Ok(Self { host: host.to_owned(), port, others: Vec::new(), fingerprint, secret })
    }

    /// The same ticket with further addresses of the receiver, up to [`ADDRESSES_MAX`] in all.
    #[must_use]
    pub fn with_others(mut self, others: impl IntoIterator<Item = IpAddr>) -> Self {
        self.others = others.into_iter().take(ADDRESSES_MAX - 1).collect();
        self
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The receiver's addresses besides the host, with the same port. Link-local ones have no zone: that of the sender is
    /// another.
    pub fn others(&self) -> &[IpAddr] {
        &self.others
    }

    /// What the user should know of a ticket that works only on this machine, unless it was asked for by listening at
    /// `bind`.
    pub(crate) fn warning(&self, bind: Option<SocketAddr>) -> Option<String> {
        let host = self.host.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)?;
        if bind.is_some_and(|bind| bind.ip() == host) {
            return None;
        }
        Some(format!(
            "only this machine can use the ticket: it names {host}; --bind or --advertise names another"
        ))
    }

    /// The UDP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The receiver's fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The secret that authorises the sender.
    pub fn secret(&self) -> Secret {
        self.secret
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut code = [&[VERSION][..], &self.fingerprint.0, &self.secret.0].concat();
        for address in &self.others {
            write_address(*address, &mut code);
        }
        code.extend(checksum(&code));
        let code = BASE32.encode(&code).to_ascii_lowercase();
        write!(f, "{SCHEME}{}/#{code}", authority(&self.host, self.port))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(TicketError::Scheme)?;
        let (address, code) = rest.split_once("/#").ok_or(TicketError::NoCode)?;
        let (host, port) = match parts(address).as_deref() {
            Some([host, port]) => (*host, positive(port).ok_or(TicketError::Port)?),
            Some([_]) => return Err(TicketError::Port),
            _ => return Err(TicketError::Host),
        };
        let code = BASE32.decode(code.as_bytes()).map_err(|_| TicketError::Code)?;
        let (&version, rest) = code.split_first().ok_or(TicketError::Code)?;
        let rest = match code.split_last_chunk::<CHECKSUM_BYTES>() {
            _ if version == OLD_VERSION => rest,
            Some((checked, sum)) if *sum == checksum(checked) => &checked[1..],
            _ => return Err(TicketError::Code),
        };
        let (&fingerprint, rest) = rest.split_first_chunk().ok_or(TicketError::Code)?;
        let (&secret, mut rest) = rest.split_first_chunk().ok_or(TicketError::Code)?;
        let mut ticket = Self::new(host, port, Fingerprint(fingerprint), Secret(secret))?;
        match version {
            VERSION => {
                while !rest.is_empty() && ticket.others.len() + 1 < ADDRESSES_MAX {
                    ticket.others.push(read_address(&mut rest).ok_or(TicketError::Code)?);
                }
            }
            OLD_VERSION => {}
            later => return Err(TicketError::Version(later)),
        }
        // More bytes are another line joined to this one.
        if rest.is_empty() { Ok(ticket) } else { Err(TicketError::Code) }
    }
}

/// Whether a text may be a host's name or address.
pub(crate) fn is_host(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
    (1..=HOST_BYTES_MAX).contains(&text.len()) && text.chars().all(allowed)
}

/// Splits at colons outside brackets, and removes the brackets; `None` if those do not match.
pub(crate) fn parts(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    loop {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        parts.push(part);
        match after.strip_prefix(':') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(parts),
        }
    }
}

/// A port other than 0.
pub(crate) fn positive(text: &str) -> Option<u16> {
    text.parse().ok().filter(|&port| port != 0)
}

/// HOST:PORT, with an IPv6 address in brackets.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let [first, second, ..] = *blake3::hash(bytes).as_bytes();
    [first, second]
}

/// Appends the length of an address and its bytes: of fe80::/64 only the interface identifier (RFC 4291 §2.5.6).
fn write_address(address: IpAddr, to: &mut Vec<u8>) {
    let mut append = |bytes: &[u8]| {
        to.extend(u8::try_from(bytes.len()));
        to.extend_from_slice(bytes);
    };
    match address {
        IpAddr::V4(address) => append(&address.octets()),
        IpAddr::V6(address) => match address.octets() {
            [0xfe, 0x80, 0, 0, 0, 0, 0, 0, ref identifier @ ..] => append(identifier),
            ref octets => append(octets),
        },
    }
}

/// Reads what [`write_address`] has written.
fn read_address(from: &mut &[u8]) -> Option<IpAddr> {
    let (&length, rest) = from.split_first()?;
    let (bytes, rest) = rest.split_at_checked(usize::from(length))?;
    *from = rest;
    Some(match length {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        8 => {
            Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(u64::from_be_bytes(bytes.try_into().ok()?))).into()
        }
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    })
}

/// Why a line is not a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TicketError {
    /// Not a ticket.
    #[error("a ticket starts with `rc3://`")]
    Scheme,
    /// Truncated before the code.
    #[error("the ticket has no `/#` and code")]
    NoCode,
    /// Not a host name or address.
    #[error("the ticket's host is not a name or address")]
    Host,
    /// No port from 1 to 65535.
    #[error("the ticket's port is not a number from 1 to 65535")]
    Port,
    /// Truncated or mistyped.
    #[error("the ticket's code is mistyped or incomplete")]
    Code,
    /// Made by a later version.
    #[error("the ticket has version {0}, this program supports versions {OLD_VERSION} and {VERSION}")]
    Version(u8),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket(host: &str) -> Ticket {
        Ticket::new(host, 4433, Fingerprint([7; 32]), Secret([9; 16])).unwrap()
    }

    #[test]
    fn ticket_is_one_word() {
        let line = ticket("192.0.2.1").to_string();
        assert!(line.starts_with("rc3://192.0.2.1:4433/#"), "{line}");
        assert!(!line.contains(char::is_whitespace));
        assert_eq!(line.to_string().parse(), Ok(ticket("192.0.2.1")));
    }

    #[test]
    fn ipv6_hosts_stand_in_brackets() {
        let line = ticket("2001:db8::1").to_string();
        assert!(line.starts_with("rc3://[2001:db8::1]:4433/#"), "{line}");
        assert_eq!(line.parse::<Ticket>().unwrap().host(), "2001:db8::1");
    }

    #[test]
    fn damaged_lines_have_distinct_errors() {
        let line = ticket("host.example").to_string();
        let read = |line: &str| line.parse::<Ticket>().unwrap_err();
        assert_eq!(read("hello"), TicketError::Scheme);
        assert_eq!(read("rc3://host.example:4433"), TicketError::NoCode);
        assert_eq!(read(&line.replace("4433", "0")), TicketError::Port);
        assert_eq!(read(&line.replace("4433", "70000")), TicketError::Port);
        assert_eq!(read(&line.replace("host.example", "")), TicketError::Host);
        assert_eq!(read(&line.replace("host.example", "a b")), TicketError::Host);
        assert_eq!(read(&line.replace("host.example", "::1")), TicketError::Host);
        assert_eq!(read(&line[..line.len() - 1]), TicketError::Code);
        assert_eq!(read(&format!("{line}x")), TicketError::Code);
        assert_eq!(read(&line.replace("/#ai", "/#ae")), TicketError::Code);
        assert_eq!(read(&format!("{}1", &line[..line.len() - 1])), TicketError::Code);
        // Another letter anywhere in the code.
        let code = line.find('#').unwrap() + 1;
        for at in code..line.len() {
            let other = if &line[at..=at] == "q" { "r" } else { "q" };
            let mut mistyped = line.clone();
            mistyped.replace_range(at..=at, other);
            assert_eq!(read(&mistyped), TicketError::Code, "{mistyped}");
        }
    }

    #[test]
    fn earlier_versions_are_read_and_later_ones_named() {
        let bytes = |version: u8| [&[version][..], &[7; 32], &[9; 16]].concat();
        let line = |code: &[u8]| format!("rc3://h:4433/#{}", BASE32.encode(code)).parse::<Ticket>();
        assert_eq!(line(&bytes(1)), Ok(ticket("h")));
        assert_eq!(line(&[bytes(1), vec![4, 192, 0, 2, 1]].concat()), Err(TicketError::Code));
        let later = bytes(17);
        assert_eq!(line(&[&later[..], &checksum(&later)].concat()), Err(TicketError::Version(17)));
        assert_eq!(line(&later), Err(TicketError::Code));
    }

    #[test]
    fn further_addresses_are_short_and_few() {
        let mut others: Vec<IpAddr> = ["10.0.0.1", "2001:db8::1", "fe80::a:b:c:d", "fe80:0:0:1::1"]
            .map(|text| text.parse().unwrap())
            .into();
        let many = ticket("h").with_others(others.clone());
        assert_eq!(many.to_string().parse(), Ok(many));
        let added = |other: &str| {
            let line = ticket("h").with_others([other.parse().unwrap()]).to_string();
            line.len() - ticket("h").to_string().len()
        };
        assert_eq!((added("10.0.0.1"), added("fe80::1"), added("2001:db8::1")), (8, 14, 27));
        others.resize(100, others[0]);
        let most = ticket("h").with_others(others.clone());
        assert_eq!(most.others().len() + 1, ADDRESSES_MAX);
        let more = Ticket { others, ..most };
        assert_eq!(more.to_string().parse::<Ticket>(), Err(TicketError::Code));
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let shown = format!("{:?}", ticket("h"));
        assert!(shown.contains("Secret") && !shown.contains('9'), "{shown}");
    }

    proptest! {
        #[test]
        fn tickets_are_read_back(
            host in "[a-z0-9][a-z0-9.-]{0,40}|[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9a-f]{1,4}::[0-9a-f]{1,4}",
            port in 1u16..,
            fingerprint: [u8; 32],
            secret: [u8; 16],
            others in proptest::collection::vec(any::<IpAddr>(), 0..ADDRESSES_MAX),
        ) {
            let ticket = Ticket::new(&host, port, Fingerprint(fingerprint), Secret(secret)).unwrap();
            let ticket = ticket.with_others(others);
            let line = ticket.to_string();
            let read: Ticket = line.parse().unwrap();
            prop_assert_eq!(&read, &ticket);
            prop_assert_eq!(read.secret().0, secret);
            let shouted = line.to_uppercase().replace("RC3://", "rc3://");
            prop_assert_eq!(shouted.parse::<Ticket>().unwrap().secret().0, secret);
        }

        #[test]
        fn any_line_is_a_ticket_or_refused(line in "(rc3://)?.{0,120}") {
            let _ = line.parse::<Ticket>();
        }
    }
}
