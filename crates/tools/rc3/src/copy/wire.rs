//! Frames between the two ends of `rc3 copy`, through the standard input and output of ssh.
//!
//! The far end first prints a line with [`MAGIC`] and its version; what a shell printed before it is skipped, up to
//! [`BANNER_BYTES_MAX`]. Then both ends write frames: a byte for the kind, the length in four bytes, big-endian, and the
//! body. Invariant: no frame makes the reader allocate more than the maximum of its kind, and threads hold a bounded number
//! of frames.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    thread,
};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::transfer::message::decode;

/// The version of the frames and messages.
pub(super) const VERSION: u16 = 1;
/// Begins the first line of the far end; ends with its version.
const MAGIC: &str = "rc3-copy-peer ";
/// Most bytes of a remote shell before the magic line.
const BANNER_BYTES_MAX: u64 = 256 << 10;
/// Most bytes of a message: a request lists paths.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a datagram.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Frames between a thread and its reader or writer.
const FRAMES_AHEAD: usize = 16;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message in postcard.
    Message(Vec<u8>),
    /// A UDP datagram.
    Datagram(Vec<u8>),
}

impl Frame {
    /// A frame with a message.
    pub(super) fn message(message: &impl Serialize) -> Self {
        // Serializing into a vector cannot fail for these types: no maps, no unsized sequences.
        Self::Message(postcard::to_stdvec(message).unwrap_or_default())
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, body) = match self {
            Self::Message(body) => (b'm', body),
            Self::Datagram(body) => (b'd', body),
        };
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(body.len() + 5);
        frame.push(kind);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        to.write_all(&frame)?;
        to.flush()
    }

    fn read(from: &mut impl Read) -> Result<Self, WireError> {
        let mut head = [0; 5];
        // An end before the first byte is a normal end; later it is an error.
        if from.read(&mut head[..1])? == 0 {
            return Err(WireError::Ended);
        }
        from.read_exact(&mut head[1..])?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        let most = match kind {
            b'm' => MESSAGE_BYTES_MAX,
            b'd' => DATAGRAM_BYTES_MAX,
            _ => return Err(WireError::Malformed),
        };
        if length > most {
            return Err(WireError::Malformed);
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(if kind == b'm' { Self::Message(body) } else { Self::Datagram(body) })
    }
}

/// Why there are no more frames.
#[derive(Debug, Error)]
pub(super) enum WireError {
    /// The stream ended between frames.
    #[error("the stream ended")]
    Ended,
    /// The stream broke.
    #[error("the stream broke: {0}")]
    Io(#[from] io::Error),
    /// No magic line within the limit.
    #[error("no answer of rc3 within {BANNER_BYTES_MAX} bytes")]
    Garbage,
    /// Another version of the frames.
    #[error("version {0}")]
    Version(u16),
    /// Not a frame or message of this version.
    #[error("a frame that does not parse")]
    Malformed,
}

/// Both directions, each served by a thread, because a blocked pipe must not delay the end of the program. A dropped
/// [`Self::outgoing`] closes the writer.
pub(super) struct Wire {
    /// Ends with an error.
    pub(super) incoming: mpsc::Receiver<Result<Frame, WireError>>,
    pub(super) outgoing: mpsc::Sender<Frame>,
}

impl Wire {
    /// The end that ssh starts: writes the magic line first.
    pub(super) fn far(from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> Self {
        let hello = format!("\n{MAGIC}{VERSION}\n");
        let outgoing = writer(move || to.write_all(hello.as_bytes()).and_then(|()| to.flush()).map(|()| to));
        Self { incoming: reader(from, |_| Ok(())), outgoing }
    }

    /// The end that starts ssh: waits for the magic line.
    pub(super) fn near(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        Self { incoming: reader(from, skip_banner), outgoing: writer(move || Ok(to)) }
    }

    /// The next frame.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Frame, WireError> {
        self.incoming.recv().await.unwrap_or(Err(WireError::Ended))
    }

    /// The next message; other frames are skipped.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub(super) async fn message<M: DeserializeOwned>(&mut self) -> Result<M, WireError> {
        loop {
            if let Frame::Message(body) = self.next().await? {
                return decode(&body).ok_or(WireError::Malformed);
            }
        }
    }

    /// Sends a message; a closed writer shows when reading.
    pub(super) async fn send(&self, message: &impl Serialize) {
        let _ = self.outgoing.send(Frame::message(message)).await;
    }
}

fn reader<R: Read + Send + 'static>(
    from: R,
    begin: impl FnOnce(&mut BufReader<R>) -> Result<(), WireError> + Send + 'static,
) -> mpsc::Receiver<Result<Frame, WireError>> {
    let (sender, incoming) = mpsc::channel(FRAMES_AHEAD);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut begun = begin(&mut from);
        loop {
            let frame = begun.and_then(|()| Frame::read(&mut from));
            let over = frame.is_err();
            if sender.blocking_send(frame).is_err() || over {
                return;
            }
            begun = Ok(());
        }
    });
    incoming
}

fn writer<W: Write>(begin: impl FnOnce() -> io::Result<W> + Send + 'static) -> mpsc::Sender<Frame> {
    let (outgoing, mut frames) = mpsc::channel::<Frame>(FRAMES_AHEAD);
    thread::spawn(move || {
        let Ok(mut to) = begin() else { return };
        while let Some(frame) = frames.blocking_recv() {
            if frame.write(&mut to).is_err() {
                return;
            }
        }
    });
    outgoing
}

/// The version in a magic line.
fn version(line: &[u8]) -> Option<u16> {
    let version = line.strip_prefix(MAGIC.as_bytes())?.strip_suffix(b"\n")?;
    std::str::from_utf8(version).ok()?.trim_end().parse().ok()
}

/// Reads up to the end of the magic line.
fn skip_banner(from: &mut impl BufRead) -> Result<(), WireError> {
    let mut left = BANNER_BYTES_MAX;
    loop {
        let mut line = Vec::new();
        let read = from.by_ref().take(left).read_until(b'\n', &mut line)?;
        left -= read as u64;
        if let Some(version) = version(&line) {
            return if version == VERSION { Ok(()) } else { Err(WireError::Version(version)) };
        }
        if left == 0 {
            return Err(WireError::Garbage);
        }
        if read == 0 {
            return Err(WireError::Ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn banners_are_skipped_up_to_a_limit() {
        let skip = |text: &[u8]| skip_banner(&mut &text[..]);
        assert!(skip(b"Welcome\nto rc3-copy-peer 1\n\nrc3-copy-peer 1\nrest").is_ok());
        assert!(matches!(skip(b"rc3-copy-peer 27\n"), Err(WireError::Version(27))));
        assert!(matches!(skip(b"rc3-copy-peer 1"), Err(WireError::Ended)));
        assert!(matches!(skip(b"Welcome\n"), Err(WireError::Ended)));
        let endless = io::repeat(b'y');
        assert!(matches!(skip_banner(&mut BufReader::new(endless)), Err(WireError::Garbage)));
    }

    #[test]
    fn lengths_that_lie_are_refused_before_they_are_read() {
        let read = |bytes: &[u8]| Frame::read(&mut &bytes[..]);
        for head in [b"m\xff\xff\xff\xff", b"m\x00\x10\x00\x01", b"d\x00\x01\x00\x00", b"x\x00\x00\x00\x00"] {
            assert!(matches!(read(head), Err(WireError::Malformed)), "{head:?}");
        }
        assert!(matches!(read(b"m\x00\x00\x00\x05abc"), Err(WireError::Io(_))));
        assert!(matches!(read(b""), Err(WireError::Ended)));
    }

    proptest! {
        #[test]
        fn frames_are_read_back(body: Vec<u8>, datagram: bool) {
            let frame = if datagram { Frame::Datagram(body) } else { Frame::Message(body) };
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            prop_assert_eq!(Frame::read(&mut &bytes[..]).unwrap(), frame);
        }

        #[test]
        fn hostile_bytes_are_a_frame_or_refused(bytes: Vec<u8>) {
            let _ = (Frame::read(&mut &bytes[..]), skip_banner(&mut &bytes[..]));
        }
    }
}
