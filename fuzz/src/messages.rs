//! What the file transfer makes of its control stream and of a ticket. Apart from the other targets because it needs
//! `rc3`; replayed by that crate's tests.

use rc3::transfer::{
    message::{FromReceiver, FromSender},
    paths::{NEXT_RECORD, Rules, SafePath},
    ticket::Ticket,
};

use super::rows::read_all;

/// A row of messages, whatever a peer sends, means the same when it is written and read again; a path that is taken
/// leads nowhere else. Returns whether the input has no fault of form.
pub(crate) fn messages(input: &[u8]) -> bool {
    let Some((&kind, stream)) = input.split_first() else { return false };
    match kind % 3 {
        0 => {
            let (messages, is_faultless) = read_all::<FromSender>(stream);
            for name in messages.iter().filter_map(FromSender::name) {
                path(name);
            }
            is_faultless
        }
        1 => read_all::<FromReceiver>(stream).1,
        _ => path(stream) || str::from_utf8(stream).is_ok_and(ticket),
    }
}

fn ticket(text: &str) -> bool {
    let Ok(ticket) = text.parse::<Ticket>() else { return false };
    assert_eq!(ticket.to_string().parse(), Ok(ticket));
    true
}

/// Returns whether any system would take it.
fn path(bytes: &[u8]) -> bool {
    let mut is_taken = false;
    for rules in [Rules::Unix, Rules::Windows] {
        let Ok(safe) = SafePath::parse_by(rules, bytes) else { continue };
        is_taken = true;
        assert_eq!(safe.as_bytes(), bytes);
        let mut names = bytes.split(|&byte| byte == b'/');
        assert!(names.all(|name| !name.is_empty() && name != b"." && name != b".."), "{bytes:?}");
        assert!(!bytes.contains(&0));
        assert!(safe.as_path().is_relative());
        let part = safe.part("0123abcd", NEXT_RECORD);
        let name = part.file_name().expect("a name").as_encoded_bytes();
        assert!(name.len() <= 255 && SafePath::parse_by(rules, name).is_err(), "a peer may name {part:?}");
    }
    is_taken
}
