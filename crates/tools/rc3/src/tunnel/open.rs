//! The first message of a stream, and its answer.
//!
//! The opener writes an [`Open`] message, in the frame of [`crate::transfer::message`], and without waiting the bytes of its
//! TCP connection. The other side answers with one byte, an [`OpenAnswer`], and then the bytes of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::AsyncRead;

use super::address::Target;
use crate::transfer::{
    message::{self, MessageError},
    ticket::HOST_BYTES_MAX,
};

/// Time limit for the first message of a stream.
pub(super) const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// Longest message: a kind, two numbers and a host with its length.
const BYTES_MAX: usize = 1 + 3 + 3 + 2 + HOST_BYTES_MAX;

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Open {
    /// Client to listening side: connect to this target.
    Target(Target),
    /// Client to listening side: exchange UDP datagrams of the flow with this number with this target.
    Flow(u16, Target),
    /// Listening side to client: a connection arrived at this remote listener.
    Listener(u16),
}

impl Open {
    /// Reads one message and nothing beyond it.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, MessageError> {
        message::read_up_to(BYTES_MAX, stream).await
    }
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
    use crate::transfer::message::{decode, encode};

    fn read(mut bytes: &[u8]) -> (Result<Open, MessageError>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let before = bytes.len();
        let read = runtime.block_on(Open::read(&mut bytes));
        (read, before - bytes.len())
    }

    #[test]
    fn messages_have_the_bytes_of_the_document() {
        let target = Open::Target(Target::new("localhost", 22).unwrap());
        assert_eq!(encode(&target), b"\0\0\0\x0c\x00\x09localhost\x16");
        assert_eq!(encode(&Open::Listener(5)), [0, 0, 0, 2, 2, 5]);
        let flow = Open::Flow(3, Target::new("dns", 53).unwrap());
        assert_eq!(encode(&flow), b"\0\0\0\x07\x01\x03\x03dns\x35");
    }

    #[test]
    fn lies_are_refused() {
        for lie in [
            // Another kind, no host, no port, and what is no host.
            &[3, 1, b'h', 22][..],
            &[0, 0, 22],
            &[0, 1, b'h', 0],
            &[0, 1, b'\n', 22],
            &[0, 2, 0xff, 0xfe, 22],
            // Longer than it is, and shorter.
            &[0, 200, b'h', 22],
            &[0, 1, b'h', 22, 22],
        ] {
            assert_eq!(decode::<Open>(lie), None, "{lie:?}");
        }
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
        fn messages_are_read_back_and_not_a_byte_more(host in "[a-z0-9.-]{1,255}|n{255}", port in 1u16.., id: u16, after in 0usize..9) {
            let target = Target::new(&host, port).unwrap();
            for open in [Open::Target(target.clone()), Open::Flow(id, target), Open::Listener(id)] {
                let encoded = encode(&open);
                let (found, taken) = read(&[encoded.as_slice(), &vec![7; after]].concat());
                prop_assert_eq!((found.unwrap(), taken), (open, encoded.len()));
            }
        }

        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (_, taken) = read(&bytes);
            prop_assert!(taken <= 4 + BYTES_MAX);
        }
    }
}
