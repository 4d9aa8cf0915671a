//! What the file transfer makes of its control stream and of a ticket. Apart from the other targets because it needs
//! `rc3`; replayed by that crate's tests.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use rc3::transfer::{
    message::{self, FromReceiver, FromSender, MESSAGE_BYTES_MAX, MessageError},
    paths::{NEXT_RECORD, Rules, SafePath, name_bytes},
    ticket::Ticket,
};
use serde::{Serialize, de::DeserializeOwned};

/// A row of messages, whatever a peer sends, means the same when it is written and read again; a path that is taken
/// leads nowhere else.
pub(crate) fn messages(input: &[u8]) {
    let Some((&kind, stream)) = input.split_first() else { return };
    match kind % 3 {
        0 => {
            for message in read_all::<FromSender>(stream) {
                if let FromSender::Entry(entry) = message {
                    path(&entry.path);
                }
            }
        }
        1 => drop(read_all::<FromReceiver>(stream)),
        _ => {
            path(stream);
            let Ok(text) = std::str::from_utf8(stream) else { return };
            if let Ok(ticket) = text.parse::<Ticket>() {
                assert_eq!(ticket.to_string().parse(), Ok(ticket));
            }
        }
    }
}

fn path(bytes: &[u8]) {
    for rules in [Rules::Unix, Rules::Windows] {
        let Ok(safe) = SafePath::parse(bytes, rules) else { continue };
        assert_eq!(safe.as_bytes(), bytes);
        let mut names = bytes.split(|&byte| byte == b'/');
        assert!(names.all(|name| !name.is_empty() && name != b"." && name != b".."), "{bytes:?}");
        assert!(!bytes.contains(&0));
        assert!(safe.as_path().is_relative());
        let part = safe.part("0123abcd", NEXT_RECORD);
        let name = part.file_name().and_then(name_bytes).expect("a name");
        assert!(name.len() <= 255 && SafePath::parse(name, rules).is_err(), "a peer may name {part:?}");
    }
}

fn read_all<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(mut stream: &[u8]) -> Vec<M> {
    let whole = stream.len();
    let mut messages = Vec::new();
    loop {
        match read::<M>(&mut stream) {
            Ok(message) => messages.push(message),
            Err(MessageError::Ended) => {
                assert!(stream.is_empty());
                break;
            }
            Err(_) => break,
        }
    }
    assert!(messages.len() * 5 <= whole, "a message takes at least five bytes");
    let mut again = Vec::new();
    for message in &messages {
        let frame = message::encode(message);
        assert!(frame.len() <= 4 + MESSAGE_BYTES_MAX);
        again.extend(frame);
    }
    let mut again = &again[..];
    for message in &messages {
        assert_eq!(&read::<M>(&mut again).expect("what was just written"), message);
    }
    assert!(again.is_empty());
    messages
}

/// A slice never makes its reader wait.
fn read<M: DeserializeOwned>(stream: &mut &[u8]) -> Result<M, MessageError> {
    match pin!(message::read(stream)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a slice that has to be waited for"),
    }
}
