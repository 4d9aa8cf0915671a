//! Rows of messages in the frames of the commands, for the targets `messages` and `check`.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use rc3::transfer::message::{self, MESSAGE_BYTES_MAX, MessageError};
use serde::{Serialize, de::DeserializeOwned};

/// The messages of a stream up to its first fault, and whether it has none. Written and read again, they are the same, by
/// their bytes: a time that is not a number does not equal itself.
pub(crate) fn read_all<M: Serialize + DeserializeOwned>(mut stream: &[u8]) -> (Vec<M>, bool) {
    let whole = stream.len();
    let mut messages = Vec::new();
    let is_faultless = loop {
        match read::<M>(&mut stream) {
            Ok(message) => messages.push(message),
            Err(MessageError::Ended) => {
                assert!(stream.is_empty());
                break true;
            }
            Err(_) => break false,
        }
    };
    assert!(messages.len() * 5 <= whole, "a message takes at least five bytes");
    for message in &messages {
        let frame = message::encode(message);
        assert!(frame.len() <= 4 + MESSAGE_BYTES_MAX);
        let mut rest = &frame[..];
        let again = read::<M>(&mut rest).expect("what was just written");
        assert!(rest.is_empty());
        assert_eq!(message::encode(&again), frame);
    }
    (messages, is_faultless)
}

/// A slice never makes its reader wait.
fn read<M: DeserializeOwned>(stream: &mut &[u8]) -> Result<M, MessageError> {
    match pin!(message::read(stream)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a slice that has to be waited for"),
    }
}
