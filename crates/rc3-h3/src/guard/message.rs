//! A request or a response: its header, its content, its trailers (RFC 9114 §4.1).

use super::{
    Refused,
    fields::{self, Head, Kind, Method},
    frame::{Beginning, HEADERS},
};

/// One message, whose frames arrive in order. h3 refuses frames in another order.
#[derive(Debug)]
pub(crate) struct Message {
    kind: Kind,
    part: Part,
    /// Whether the content may differ from `content-length`: there is none for HEAD, and a tunnel for CONNECT.
    has_any_content: bool,
    /// Bytes that the content must have.
    expected: Option<u64>,
    /// Bytes that it has so far.
    content: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Nothing yet, or an interim response.
    Header,
    Content,
    Trailers,
}

impl Message {
    /// What a server receives.
    pub(crate) fn request() -> Self {
        Self::new(Kind::Request)
    }

    /// What a client receives.
    pub(crate) fn response() -> Self {
        Self::new(Kind::Response)
    }

    fn new(kind: Kind) -> Self {
        Self { kind, part: Part::Header, has_any_content: false, expected: None, content: 0 }
    }

    /// Ignores `content-length`.
    pub(crate) fn allow_any_content(&mut self) {
        self.has_any_content = true;
    }

    /// A header has arrived, or trailers.
    pub(super) fn on_header(&mut self, encoded: &[u8], max: u64) -> Result<(), Refused> {
        match self.part {
            Part::Header => {
                let head = fields::check(encoded, self.kind, max)?;
                if !head.is_interim() {
                    self.part = Part::Content;
                    self.expected = head.content_length.filter(|_| !self.allows_any_content(&head));
                }
                Ok(())
            }
            Part::Content => {
                fields::check(encoded, Kind::Trailers, max)?;
                self.on_end()?;
                self.part = Part::Trailers;
                Ok(())
            }
            // One too many, for h3.
            Part::Trailers => Ok(()),
        }
    }

    /// A DATA frame of this many bytes begins.
    pub(super) fn on_data(&mut self, len: u64) -> Result<(), Refused> {
        self.content = self.content.saturating_add(len);
        match self.expected {
            Some(expected) if self.content > expected => {
                Err(Refused::malformed("the content is longer than content-length"))
            }
            _ => Ok(()),
        }
    }

    /// The content is over.
    pub(super) fn on_end(&mut self) -> Result<(), Refused> {
        match self.expected {
            Some(expected) if self.content < expected => {
                Err(Refused::malformed("the content is shorter than content-length"))
            }
            _ => Ok(()),
        }
    }

    fn allows_any_content(&self, head: &Head) -> bool {
        self.has_any_content || head.method != Method::Other || head.has_no_content()
    }
}

/// Whether the answer to the request that begins with these bytes may have any content.
pub(crate) fn allows_any_content(request: &[u8]) -> bool {
    let header = Beginning::parse(request).filter(|(frame, _)| frame.kind == HEADERS);
    let header =
        header.and_then(|(frame, size)| request.get(size..)?.get(..usize::try_from(frame.len).ok()?));
    header.is_some_and(|header| fields::method(header) != Method::Other)
}
