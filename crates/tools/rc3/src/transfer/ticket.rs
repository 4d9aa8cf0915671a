//! The ticket: one line with which a sender finds, authenticates and convinces a receiver.
//!
//! `rc3://HOST:PORT/#CODE`, where the code is base32 (RFC 4648 §6, lower case, no padding) of a version byte, the
//! BLAKE3 fingerprint of the receiver's certificate and the secret that authorises the sender. Anyone with the ticket
//! can send files: treat it like a password.
//!
//! Invariant: a parsed ticket prints as the original line, up to letter case of the code.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_NOPAD_NOCASE as BASE32;
use thiserror::Error;

/// Bytes of a certificate's fingerprint.
pub const FINGERPRINT_BYTES: usize = 32;
/// Bytes of the secret.
pub const SECRET_BYTES: usize = 16;

const SCHEME: &str = "rc3://";
const VERSION: u8 = 1;
const CODE_BYTES: usize = 1 + FINGERPRINT_BYTES + SECRET_BYTES;

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

/// The receiver's address, fingerprint and secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    host: String,
    port: u16,
    fingerprint: Fingerprint,
    secret: Secret,
}

impl Ticket {
    /// A ticket for a receiver at `host` (a name, an IPv4 or an IPv6 address without brackets).
    ///
    /// # Errors
    /// [`TicketError::Host`] when `host` is empty, longer than 255 bytes or has characters no host name has.
    pub fn new(host: &str, port: u16, fingerprint: Fingerprint, secret: Secret) -> Result<Self, TicketError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || host.len() > 255 || !host.chars().all(allowed) {
            return Err(TicketError::Host);
        }
        Ok(Self { host: host.to_owned(), port, fingerprint, secret })
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
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
        let code = [&[VERSION][..], &self.fingerprint.0, &self.secret.0].concat();
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        let code = BASE32.encode(&code).to_ascii_lowercase();
        write!(f, "{SCHEME}{open}{}{close}:{}/#{code}", self.host, self.port)
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(TicketError::Scheme)?;
        let (address, code) = rest.split_once("/#").ok_or(TicketError::NoCode)?;
        let (host, port) = address.rsplit_once(':').ok_or(TicketError::Port)?;
        let port = port.parse().ok().filter(|&port| port != 0).ok_or(TicketError::Port)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or(TicketError::Host)?,
            None if host.contains(':') => return Err(TicketError::Host),
            None => host,
        };
        // A code of another length is truncated or joined with other text.
        if code.len() != BASE32.encode_len(CODE_BYTES) {
            return Err(TicketError::Code);
        }
        let code = BASE32.decode(code.as_bytes()).map_err(|_| TicketError::Code)?;
        let (&version, rest) = code.split_first().ok_or(TicketError::Code)?;
        if version != VERSION {
            return Err(TicketError::Version(version));
        }
        let (&fingerprint, secret) = rest.split_first_chunk().ok_or(TicketError::Code)?;
        let secret = secret.try_into().map_err(|_| TicketError::Code)?;
        Self::new(host, port, Fingerprint(fingerprint), Secret(secret))
    }
}

/// Why a line is not a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TicketError {
    /// Not a ticket.
    #[error("a ticket starts with `rc3://`")]
    Scheme,
    /// Truncated before the code.
    #[error("the ticket has no `/#` and code, copy the whole line")]
    NoCode,
    /// Not a host name or address.
    #[error("the ticket's host is not a name or address")]
    Host,
    /// No port from 1 to 65535.
    #[error("the ticket's port is not a number from 1 to 65535")]
    Port,
    /// Truncated or mistyped.
    #[error("the ticket's code is damaged, copy the whole line")]
    Code,
    /// Made by a later version.
    #[error("the ticket has version {0}, this program supports version {VERSION}")]
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
        assert_eq!(read(&line.replace("/#a", "/#c")), TicketError::Version(0x11));
        assert_eq!(read(&format!("{}1", &line[..line.len() - 1])), TicketError::Code);
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
        ) {
            let ticket = Ticket::new(&host, port, Fingerprint(fingerprint), Secret(secret)).unwrap();
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
