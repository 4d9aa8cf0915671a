//! A request or a response: its header, its content, its trailers (RFC 9114 §4.1).

use super::{
    Refused,
    fields::{self, Method, SectionFacts, SectionKind},
    frame::{Beginning, HEADERS},
};

/// One message, whose frames arrive in order. h3 refuses frames in another order.
#[derive(Debug)]
pub(crate) struct HttpMessage {
    kind: SectionKind,
    part: MessagePart,
    /// Whether the content may differ from `content-length`: HEAD's answer has none, and CONNECT makes a tunnel.
    has_any_content: bool,
    /// Bytes that the content must have.
    expected: Option<u64>,
    /// Bytes that it has so far.
    content: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessagePart {
    /// Nothing yet, or an interim response.
    Header,
    Content,
    Trailers,
}

impl HttpMessage {
    /// What a server receives.
    pub(crate) fn request() -> Self {
        Self::new(SectionKind::Request)
    }

    /// What a client receives.
    pub(crate) fn response() -> Self {
        Self::new(SectionKind::Response)
    }

    fn new(kind: SectionKind) -> Self {
        Self { kind, part: MessagePart::Header, has_any_content: false, expected: None, content: 0 }
    }

    /// Ignores `content-length`.
    pub(crate) fn allow_any_content(&mut self) {
        self.has_any_content = true;
    }

    /// A header has arrived, or trailers.
    pub(super) fn on_header(&mut self, encoded: &[u8], max: u64) -> Result<(), Refused> {
        match self.part {
            MessagePart::Header => {
                let head = fields::check(encoded, self.kind, max)?;
                if !head.is_interim() {
                    self.part = MessagePart::Content;
                    self.expected = head.content_length.filter(|_| !self.allows_any_content(&head));
                }
                Ok(())
            }
            MessagePart::Content => {
                fields::check(encoded, SectionKind::Trailers, max)?;
                self.on_end()?;
                self.part = MessagePart::Trailers;
                Ok(())
            }
            // One too many, for h3.
            MessagePart::Trailers => Ok(()),
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

    fn allows_any_content(&self, head: &SectionFacts) -> bool {
        self.has_any_content || head.method == Method::Connect || head.has_no_content()
    }
}

/// Whether the answer to the request that begins with these bytes may have any content.
pub(crate) fn allows_any_content(request: &[u8]) -> bool {
    let header = Beginning::parse(request).filter(|(frame, _)| frame.kind == HEADERS);
    // Of a long one only the beginning is here, which has the method.
    let header = header.and_then(|(frame, size)| {
        let rest = request.get(size..)?;
        rest.get(..usize::try_from(frame.len).ok()?.min(rest.len()))
    });
    header.is_some_and(|header| fields::method(header) != Method::Other)
}
