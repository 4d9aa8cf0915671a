//! Which fields a header or trailers may have (RFC 9114 §4.2, §4.3).

use http::{HeaderName, HeaderValue, StatusCode};

use super::{Refused, section::Section};

/// What a section belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionKind {
    Request,
    Response,
    /// Of either.
    Trailers,
}

/// Methods, as far as they change what a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Method {
    Head,
    Connect,
    /// Any other, or none: of a response.
    #[default]
    Other,
}

impl Method {
    fn new(name: &[u8]) -> Self {
        match name {
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// Pseudo-fields, as bits.
mod pseudo {
    pub(super) const METHOD: u8 = 1;
    pub(super) const SCHEME: u8 = 2;
    pub(super) const AUTHORITY: u8 = 4;
    pub(super) const PATH: u8 = 8;
    pub(super) const PROTOCOL: u8 = 16;
    pub(super) const STATUS: u8 = 32;
}

/// What a section has said.
#[derive(Debug, Default)]
pub(super) struct SectionFacts {
    pub(super) method: Method,
    pub(super) content_length: Option<u64>,
    status: Option<StatusCode>,
    /// Those that the section has.
    pseudo: u8,
    has_fields: bool,
    has_host: bool,
}

/// Checks all fields of a section of at most `max` bytes (RFC 9114 §4.2.2).
pub(super) fn check(encoded: &[u8], kind: SectionKind, max: u64) -> Result<SectionFacts, Refused> {
    let mut section = Section::new(encoded)?;
    let mut head = SectionFacts::default();
    let mut size = 0;
    while let Some((name, value)) = section.next()? {
        size += (name.len() + value.len() + 32) as u64;
        if size > max {
            return Err(Refused::too_large());
        }
        if name.starts_with(b":") {
            head.add_pseudo(kind, &name, &value)?;
        } else {
            head.add(kind, &name, &value)?;
        }
    }
    head.complete(kind)
}

/// The method of a request that is well-formed.
pub(super) fn method(encoded: &[u8]) -> Method {
    let Ok(mut section) = Section::new(encoded) else { return Method::Other };
    while let Ok(Some((name, value))) = section.next() {
        if *name == *b":method" {
            return Method::new(&value);
        }
    }
    Method::Other
}

impl SectionFacts {
    /// Whether another response follows (RFC 9114 §4.1).
    pub(super) fn is_interim(&self) -> bool {
        self.status.is_some_and(|status| status.is_informational())
    }

    /// Whether the response never has content, whatever its length (RFC 9110 §6.4.1).
    pub(super) fn has_no_content(&self) -> bool {
        matches!(self.status, Some(StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED))
    }

    fn add_pseudo(&mut self, kind: SectionKind, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        if self.has_fields {
            return Err(Refused::malformed("a pseudo-field follows other fields"));
        }
        let bit = match (kind, name) {
            (SectionKind::Request, b":method") => pseudo::METHOD,
            (SectionKind::Request, b":scheme") => pseudo::SCHEME,
            (SectionKind::Request, b":authority") => pseudo::AUTHORITY,
            (SectionKind::Request, b":path") => pseudo::PATH,
            (SectionKind::Request, b":protocol") => pseudo::PROTOCOL,
            (SectionKind::Response, b":status") => pseudo::STATUS,
            _ => return Err(Refused::malformed("a pseudo-field that the message may not have")),
        };
        if self.pseudo & bit != 0 {
            return Err(Refused::malformed("a pseudo-field is repeated"));
        }
        self.pseudo |= bit;
        match bit {
            pseudo::METHOD => self.method = Method::new(value),
            pseudo::STATUS => {
                let status = StatusCode::from_bytes(value);
                let wrong = |_| Refused::malformed("the status is no number of three digits");
                self.status = Some(status.map_err(wrong)?);
            }
            pseudo::PATH if value.is_empty() => return Err(Refused::malformed("the path is empty")),
            pseudo::AUTHORITY if value.contains(&b'@') => {
                return Err(Refused::malformed("the authority has user information"));
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, kind: SectionKind, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.has_fields = true;
        // Tokens without capitals (RFC 9114 §4.2); no control characters except tabs (RFC 9110 §5.5).
        if HeaderName::from_lowercase(name).is_err() || HeaderValue::from_bytes(value).is_err() {
            return Err(Refused::malformed("a field has characters that are not allowed"));
        }
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Err(Refused::malformed("a field of HTTP/1.1 connections"))
            }
            b"te" if kind != SectionKind::Request || !value.eq_ignore_ascii_case(b"trailers") => {
                Err(Refused::malformed("te has a value other than trailers"))
            }
            b"host" if kind == SectionKind::Request && std::mem::replace(&mut self.has_host, true) => {
                Err(Refused::malformed("host is repeated"))
            }
            b"content-length" if kind != SectionKind::Trailers => self.add_length(value),
            _ => Ok(()),
        }
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), Refused> {
        match self.content_length.replace(length(value)?) {
            Some(_) => Err(Refused::malformed("content-length is repeated")),
            None => Ok(()),
        }
    }

    /// Checks that nothing is missing. A missing authority is left to h3, and CONNECT may have a path: h3 sends one.
    fn complete(self, kind: SectionKind) -> Result<Self, Refused> {
        let needed = match (kind, self.method) {
            (SectionKind::Request, Method::Connect) if self.pseudo & pseudo::PROTOCOL == 0 => pseudo::METHOD,
            (SectionKind::Request, _) => pseudo::METHOD | pseudo::SCHEME | pseudo::PATH,
            (SectionKind::Response, _) => pseudo::STATUS,
            (SectionKind::Trailers, _) => 0,
        };
        if self.pseudo & needed == needed {
            Ok(self)
        } else {
            Err(Refused::malformed("a pseudo-field is missing"))
        }
    }
}

/// Digits only (RFC 9110 §8.6).
fn length(value: &[u8]) -> Result<u64, Refused> {
    let digits = Some(value).filter(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit));
    let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok()).ok_or(Refused::malformed("content-length is no number"))
}
