//! The first message of a stream, and its answer.
//!
//! The opener writes an [`Open`] message and, without waiting, the bytes of its TCP connection. The other side answers
//! with one byte, an [`OpenAnswer`], and then the bytes of its own. Invariant: reading a message allocates at most
//! [`HOST_BYTES_MAX`] bytes.

use std::{io, time::Duration};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::address::Target;
use crate::transfer::ticket::HOST_BYTES_MAX;

/// Time limit for the first message of a stream.
pub(super) const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// The version of the messages.
pub const VERSION: u8 = 1;

const TARGET: u8 = 0;
const LISTENER: u8 = 1;
const FLOW: u8 = 2;

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    /// Client to listening side: connect to this target.
    Target(Target),
    /// Client to listening side: exchange UDP datagrams of the flow with this number with this target.
    Flow(u16, Target),
    /// Listening side to client: a connection arrived at this remote listener.
    Listener(u16),
}

impl Open {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Target(target) => encode_target(TARGET, target),
            Self::Flow(number, target) => [&*encode_target(FLOW, target), &number.to_be_bytes()].concat(),
            Self::Listener(id) => {
                let [high, low] = id.to_be_bytes();
                vec![VERSION, LISTENER, high, low]
            }
        }
    }

    /// Reads one message and nothing beyond it.
    ///
    /// # Errors
    /// When the stream ends or breaks, and [`io::ErrorKind::InvalidData`] when there is no valid message.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        let [version, kind, high, low] = head;
        let number = u16::from_be_bytes([high, low]);
        match (version, kind) {
            (VERSION, TARGET | FLOW) => {
                let mut host = [0; HOST_BYTES_MAX];
                let length = usize::from(stream.read_u8().await?);
                let host = host.get_mut(..length).unwrap_or_default();
                stream.read_exact(host).await?;
                let target = std::str::from_utf8(host).ok().and_then(|host| Target::new(host, number).ok());
                let target = target.ok_or(io::ErrorKind::InvalidData)?;
                Ok(if kind == FLOW {
                    Self::Flow(stream.read_u16().await?, target)
                } else {
                    Self::Target(target)
                })
            }
            (VERSION, LISTENER) => Ok(Self::Listener(number)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn encode_target(kind: u8, target: &Target) -> Vec<u8> {
    let [high, low] = target.port().to_be_bytes();
    // A target's host is never longer.
    let length = u8::try_from(target.host().len()).unwrap_or(u8::MAX);
    [&[VERSION, kind, high, low, length], target.host().as_bytes()].concat()
}

/// The answer to [`Open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenAnswer {
    /// The target's bytes follow.
    #[error("connected")]
    Connected,
    /// This side does not allow the target.
    #[error("the other side does not allow that target")]
    NotAllowed,
    /// The name has no address.
    #[error("the other side cannot find that host")]
    NotFound,
    /// The target refused.
    #[error("the target refused the connection")]
    Refused,
    /// The target did not answer in time.
    #[error("the target did not answer")]
    TimedOut,
    /// No route, no free socket, or another error of the system.
    #[error("the other side cannot reach the target")]
    Unreachable,
    /// The message was not valid.
    #[error("the other side does not understand the request")]
    Malformed,
}

impl OpenAnswer {
    const ALL: [Self; 7] = [
        Self::Connected,
        Self::NotAllowed,
        Self::NotFound,
        Self::Refused,
        Self::TimedOut,
        Self::Unreachable,
        Self::Malformed,
    ];

    /// Its byte.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The answer about an attempt to connect to a target.
    pub(super) fn about<T>(connected: &Result<T, Self>) -> Self {
        connected.as_ref().err().copied().unwrap_or(Self::Connected)
    }

    /// The answer of a byte; unknown ones are [`Self::Unreachable`], so that later versions can add reasons.
    pub fn of(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unreachable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(mut bytes: &[u8]) -> (io::Result<Open>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let before = bytes.len();
        let read = runtime.block_on(Open::read(&mut bytes));
        (read, before - bytes.len())
    }

    #[test]
    fn messages_have_the_bytes_of_the_document() {
        let target = Open::Target(Target::new("localhost", 22).unwrap());
        assert_eq!(target.encode(), b"\x01\x00\x00\x16\x09localhost");
        assert_eq!(Open::Listener(0x0102).encode(), [1, 1, 1, 2]);
        let flow = Open::Flow(0x0304, Target::new("dns", 53).unwrap());
        assert_eq!(flow.encode(), b"\x01\x02\x00\x35\x03dns\x03\x04");
    }

    #[test]
    fn lies_are_refused() {
        let error = |bytes: &[u8]| read(bytes).0.unwrap_err().kind();
        for lie in [
            // Another version, another kind.
            &[2, 0, 0, 22, 1, b'h'][..],
            &[1, 7, 0, 22, 1, b'h'],
            // No host, no port, and what is no host.
            &[1, 0, 0, 22, 0],
            &[1, 0, 0, 0, 1, b'h'],
            &[1, 0, 0, 22, 1, b'\n'],
            &[1, 0, 0, 22, 2, 0xff, 0xfe],
        ] {
            assert_eq!(error(lie), io::ErrorKind::InvalidData, "{lie:?}");
        }
        // Longer than it is.
        assert_eq!(error(&[1, 0, 0, 22, 200, b'h']), io::ErrorKind::UnexpectedEof);
        assert_eq!(error(&[1]), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn answers_are_read_back() {
        for (code, answer) in (0..).zip(OpenAnswer::ALL) {
            assert_eq!((answer.code(), OpenAnswer::of(code)), (code, answer));
        }
        assert_eq!(OpenAnswer::of(200), OpenAnswer::Unreachable);
    }

    proptest! {
        #[test]
        fn messages_are_read_back_and_not_a_byte_more(host in "[a-z0-9.-]{1,255}", port in 1u16.., id: u16, after in 0usize..9) {
            let target = Target::new(&host, port).unwrap();
            for open in [Open::Target(target.clone()), Open::Flow(id, target), Open::Listener(id)] {
                let encoded = open.encode();
                let (found, taken) = read(&[encoded.as_slice(), &vec![7; after]].concat());
                prop_assert_eq!((found.unwrap(), taken), (open, encoded.len()));
            }
        }

        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (_, taken) = read(&bytes);
            prop_assert!(taken <= 7 + HOST_BYTES_MAX);
        }
    }
}
