//! Messages on the control stream, and their framing.
//!
//! The side that connects opens one bidirectional stream and writes [`Hello`], which the side that listens reads before
//! anything else; if the secret is wrong, it closes the connection. Which side sends files is agreed on before: see [`ALPN`].
//!
//! The sender writes, without waiting for answers, one `Entry` per file, directory and link, each `Attribute` of a file or
//! directory after its entry, and `ManifestEnd`. Before
//! `Accepted` the receiver settles what need not be sent. If a file of the same name and length exists, it requests the
//! sender's hash with `Compare` and gets a `Hash`. What exists already, or will not be created, is `Settled`. If the receiver
//! has parts of a file, it lists the rest in `Missing`. Then every file with missing bytes goes on its own unidirectional
//! stream, in the order of the manifest: raw and back to back. Holes of the manifest are neither sent nor hashed: offsets of
//! missing bytes, and the hash, are those of the file's data without them. Once it has read a file the sender writes the
//! `Hash` of all its data. The receiver settles each file and link once, and at the
//! end says `Finished`. Between messages it regularly sends `Working`.
//!
//! The first files, if they are small, do not wait for `Accepted`: whatever the receiver decides, each has its stream and its
//! word (`Hash`, `Omit` or `Again`), and no `Compare` or `Missing` is about it.
//!
//! After a `ManifestEnd` of a dry run nothing is created or sent: the receiver adds `Would` and ends with `Accepted`.
//!
//! Entries are counted from 0, in the order of the manifest. An entry of the kind `Pipe` stands alone; its stream has all
//! bytes to its end, and nothing of it exists before or is sent again.
//!
//! Faults of single files end nothing. In the manifest, `Absent` names what the sender cannot read. In place of `Hash`, or
//! after it if bytes that were lost cannot be read again, `Omit` leaves a file out, and no verdict need follow. `Again`, once for each file of the
//! manifest, says that a file changed while it was sent: what arrived of it is void, and it is one more entry, whose index
//! follows those of the manifest and of earlier `Again`s, and whose stream follows theirs. A verdict on the first entry that
//! crosses this message counts for the second. A stream that is reset needs one of the two. The receiver may settle directories just before `Finished`.
//!
//! A message is its length in four bytes, big-endian, then that many bytes of postcard. Invariant: no message makes the
//! reader allocate more than its maximum, usually [`MESSAGE_BYTES_MAX`].

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
};

use super::{
    attributes::{Attribute, NAME_BYTES_MAX, VALUE_BYTES_MAX},
    gaps::GAPS_MAX,
    paths::PATH_BYTES_MAX,
    ticket::SECRET_BYTES,
    verdict::{Omission, Verdict},
};
use crate::error::Error;

/// The protocol version. A listening side refuses others.
pub const VERSION: u16 = 8;

/// Application protocol of a connection from the sender.
pub const ALPN: &[u8] = b"rc3-copy/1";
/// Application protocol of a connection from the receiver.
pub const FETCH_ALPN: &[u8] = b"rc3-fetch/1";

/// Most bytes of one message, without its length field.
/// A link's entry has two paths. A file's has one, and holes of at most 20 bytes each.
pub const MESSAGE_BYTES_MAX: usize = 2 * PATH_BYTES_MAX + 256;

/// Most bytes of a link's target: what common systems accept.
pub const LINK_BYTES_MAX: usize = 4095;

/// Most files that are sent before the manifest is accepted: as many streams as a peer has before its ticket is seen.
pub const EARLY_FILES_MAX: u32 = 800;

/// Messages read in advance.
pub const MESSAGES_AHEAD: usize = 64;

/// Most bytes of a reason as text; longer ones are truncated.
const REASON_BYTES_MAX: usize = 1024;

// The longest entries fit.
const _: () = assert!(20 * GAPS_MAX < PATH_BYTES_MAX && LINK_BYTES_MAX < PATH_BYTES_MAX);
const _: () = assert!(VALUE_BYTES_MAX + NAME_BYTES_MAX + 16 < MESSAGE_BYTES_MAX);

/// The first message of the side that connects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u16,
    /// The secret of the ticket.
    pub secret: [u8; SECRET_BYTES],
}

/// Sender to receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSender {
    /// One more file, directory, link, or the only pipe.
    Entry(Entry),
    /// Before [`Self::ManifestEnd`]: the sender cannot read this, and the manifest does not have it.
    Absent {
        /// Relative, with `/` between names. Untrusted: see [`super::paths::SafePath`].
        path: Vec<u8>,
        /// The reason as text.
        reason: String,
    },
    /// The manifest is complete.
    ManifestEnd {
        /// Only requests what would happen.
        dry_run: bool,
        /// Files of entries below this index are sent at once: at most [`EARLY_FILES_MAX`].
        early: u32,
    },
    /// The hash of a file as it is now: the answer to [`FromReceiver::Compare`], and later the end of each file.
    Hash {
        /// The file's index in the manifest.
        entry: u32,
        /// BLAKE3 of its data.
        hash: [u8; 32],
    },
    /// The sender cannot continue.
    Abort {
        /// The reason as text.
        reason: String,
    },
    /// Instead of [`Self::Hash`], once for each file: it changed while it was sent, and is sent again.
    Again {
        /// The file's index in the manifest.
        entry: u32,
        /// Its properties now; a file still.
        kind: Kind,
    },
    /// Instead of [`Self::Hash`]: the sender leaves the file out.
    Omit {
        /// The file's index in the manifest.
        entry: u32,
        /// Why.
        omission: Omission,
    },
    /// Before [`Self::ManifestEnd`]: an attribute of the file or directory whose entry came last. Untrusted.
    Attribute(Attribute),
}

impl FromSender {
    /// The entry whose hash this is, or that it is about instead of a hash.
    pub(super) fn about(&self) -> Option<u32> {
        match self {
            Self::Hash { entry, .. } | Self::Again { entry, .. } | Self::Omit { entry, .. } => Some(*entry),
            Self::Entry(_)
            | Self::Absent { .. }
            | Self::ManifestEnd { .. }
            | Self::Abort { .. }
            | Self::Attribute(_) => None,
        }
    }

    /// The name that the receiver would use, if the message has one. Only names that the receiver asked for may be used:
    /// see `super::asked::Asked`.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Entry(Entry { path, .. }) | Self::Absent { path, .. } => Some(path),
            Self::ManifestEnd { .. }
            | Self::Hash { .. }
            | Self::Abort { .. }
            | Self::Again { .. }
            | Self::Omit { .. }
            | Self::Attribute(_) => None,
        }
    }
}

/// Receiver to sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromReceiver {
    /// The receiver ends the transfer.
    Refused {
        /// The reason as a code.
        refusal: Refusal,
        /// The reason as text.
        reason: String,
    },
    /// A file of this name and length exists: requests the sender's hash.
    Compare {
        /// The file's index in the manifest.
        entry: u32,
    },
    /// Parts of this file exist from an earlier run.
    Missing {
        /// The file's index in the manifest.
        entry: u32,
        /// Start and end of each missing range in bytes of the file's data: ascending, and at most
        /// [`GAPS_MAX`].
        gaps: Vec<(u64, u64)>,
    },
    /// In a dry run: what would happen to a file that exists with other content.
    Would {
        /// The file's index in the manifest.
        entry: u32,
        /// What.
        change: Change,
    },
    /// What has become of an entry.
    Settled {
        /// Its index in the manifest.
        entry: u32,
        /// What.
        verdict: Verdict,
    },
    /// The manifest is accepted: send.
    Accepted,
    /// The receiver is busy; repeated regularly.
    Working(Work),
    /// Everything is settled.
    Finished,
}

/// What happens to a file that exists with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The sent file replaces it.
    Replace,
    /// The sent file gets another name.
    KeepBoth,
}

/// What a receiver is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Another transfer.
    AnotherTransfer,
    /// Comparing existing files.
    Comparing,
    /// Writing to disk.
    Storing,
}

/// One file or directory of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative, with `/` between names, UTF-8 or not. Untrusted: see [`super::paths::SafePath`].
    pub path: Vec<u8>,
    /// File, directory or link.
    pub kind: Kind,
}

/// When content last changed: seconds and nanoseconds since 1970.
pub type Modified = (i64, u32);

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A directory; listed so that empty ones are created too.
    Directory {
        /// Its permission bits, if the system has them. Untrusted.
        mode: Option<u32>,
        /// When its list of names last changed, if known.
        modified: Option<Modified>,
    },
    /// A file.
    File {
        /// Its length.
        bytes: u64,
        /// Its permission bits, if the system has them. Untrusted.
        mode: Option<u32>,
        /// When its content last changed, if known.
        modified: Option<Modified>,
        /// Start and end of ranges without data, which read as zeros and are not sent: ascending, and at most
        /// [`GAPS_MAX`]. Untrusted.
        holes: Vec<(u64, u64)>,
    },
    /// A symbolic link.
    Link {
        /// Its target. Untrusted.
        target: Vec<u8>,
        /// When it was made, if known.
        modified: Option<Modified>,
    },
    /// A stream of unknown length, to be stored as a file; without a path only on standard output.
    Pipe,
    /// Another name of a file.
    HardLink {
        /// The index of that file, which comes earlier in the manifest.
        first: u32,
    },
}

/// Why the receiver ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The manifest has a forbidden path, or is too long, or something in it is not what was asked for.
    Manifest,
    /// An error of the receiver that every entry would meet, such as a full disk.
    Storage,
}

/// Why a message could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The stream ended between messages.
    #[error("the control stream ended")]
    Ended,
    /// The stream broke.
    #[error("the control stream broke: {0}")]
    Io(#[from] std::io::Error),
    /// Longer than any valid message.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// Not a message of this version.
    #[error("a message that does not parse")]
    Malformed,
}

impl From<MessageError> for Error {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Ended | MessageError::Io(_) => Self::lost(error),
            MessageError::TooLong(_) | MessageError::Malformed => Self::protocol(error),
        }
    }
}

/// A message in its frame.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    let mut frame = vec![0; 4];
    // Serializing into a vector cannot fail for these types: no maps, no unsized sequences.
    if let Ok(body) = postcard::to_stdvec(message) {
        frame.extend_from_slice(&body);
    }
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads one message.
///
/// # Errors
/// See [`MessageError`].
pub async fn read<M: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<M, MessageError> {
    read_up_to(MESSAGE_BYTES_MAX, stream).await
}

/// Reads one message of at most this many bytes.
pub(crate) async fn read_up_to<M: DeserializeOwned>(
    bytes_max: usize,
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<M, MessageError> {
    let mut length = [0; 4];
    // An end before the first byte is a normal end; later it is an error.
    if stream.read(&mut length[..1]).await? == 0 {
        return Err(MessageError::Ended);
    }
    stream.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > bytes_max {
        return Err(MessageError::TooLong(length));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    decode(&body).ok_or(MessageError::Malformed)
}

/// Incoming messages, read by a separate task because reading one is not cancel-safe. An error comes last.
pub type Messages<M> = mpsc::Receiver<Result<M, MessageError>>;

/// Begins to read messages, [`MESSAGES_AHEAD`] ahead.
///
/// # Panics
/// Outside a tokio runtime.
pub fn listen<M: DeserializeOwned + Send + 'static>(
    stream: impl AsyncRead + Unpin + Send + 'static,
) -> Messages<M> {
    listen_up_to(MESSAGE_BYTES_MAX, stream)
}

/// Begins to read messages of at most this many bytes.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn listen_up_to<M: DeserializeOwned + Send + 'static>(
    bytes_max: usize,
    mut stream: impl AsyncRead + Unpin + Send + 'static,
) -> Messages<M> {
    let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
    tokio::spawn(async move {
        loop {
            let message = read_up_to(bytes_max, &mut stream).await;
            let over = message.is_err();
            if sender.send(message).await.is_err() || over {
                return;
            }
        }
    });
    messages
}

/// A reason as text, truncated to fit into a message.
pub fn reason(text: impl ToString) -> String {
    let mut text = text.to_string();
    let cut = (0..=REASON_BYTES_MAX.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.truncate(cut.unwrap_or(0));
    text
}

/// Decodes the body of a frame that must be exactly one message.
pub fn decode<M: DeserializeOwned>(body: &[u8]) -> Option<M> {
    let (message, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, MessageError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut &bytes[..]))
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let time = any::<Option<Modified>>;
        let holes = proptest::collection::vec(any::<(u64, u64)>(), 0..10);
        let file = (any::<u64>(), any::<Option<u32>>(), time(), holes)
            .prop_map(|(bytes, mode, modified, holes)| Kind::File { bytes, mode, modified, holes });
        let directory =
            (any::<Option<u32>>(), time()).prop_map(|(mode, modified)| Kind::Directory { mode, modified });
        let path = || proptest::collection::vec(any::<u8>(), 0..100);
        let link = (path(), time()).prop_map(|(target, modified)| Kind::Link { target, modified });
        let name = any::<u32>().prop_map(|first| Kind::HardLink { first });
        (path(), prop_oneof![directory, file, link, name, Just(Kind::Pipe)])
            .prop_map(|(path, kind)| Entry { path, kind })
    }

    fn from_sender() -> impl Strategy<Value = FromSender> {
        prop_oneof![
            entry().prop_map(FromSender::Entry),
            (any::<Vec<u8>>(), ".{0,100}").prop_map(|(path, reason)| FromSender::Absent { path, reason }),
            any::<(bool, u32)>().prop_map(|(dry_run, early)| FromSender::ManifestEnd { dry_run, early }),
            (any::<u32>(), any::<[u8; 32]>()).prop_map(|(entry, hash)| FromSender::Hash { entry, hash }),
            ".{0,100}".prop_map(|reason| FromSender::Abort { reason }),
            (any::<u32>(), entry()).prop_map(|(entry, Entry { kind, .. })| FromSender::Again { entry, kind }),
            (any::<u32>(), ".{0,100}").prop_map(|(entry, reason)| FromSender::Omit {
                entry,
                omission: Omission::Unreadable(reason)
            }),
            any::<u32>().prop_map(|entry| FromSender::Omit { entry, omission: Omission::Changed }),
            any::<(Vec<u8>, Vec<u8>)>()
                .prop_map(|(name, value)| FromSender::Attribute(Attribute { name, value })),
        ]
    }

    #[test]
    fn longest_path_fits_into_a_message() {
        let modified = Some((i64::MIN, u32::MAX));
        let holes = vec![(u64::MAX, u64::MAX); GAPS_MAX];
        let file = Kind::File { bytes: u64::MAX, mode: Some(u32::MAX), modified, holes };
        let link = Kind::Link { target: vec![b'n'; LINK_BYTES_MAX], modified };
        for kind in [file, link] {
            let longest = FromSender::Entry(Entry { path: vec![b'n'; PATH_BYTES_MAX], kind });
            assert_eq!(read_all::<FromSender>(&encode(&longest)).unwrap(), longest);
        }
        let reason = reason("é".repeat(5000));
        assert_eq!(reason.len(), REASON_BYTES_MAX);
        let longest = FromReceiver::Settled { entry: u32::MAX, verdict: Verdict::Refused(reason) };
        assert_eq!(read_all::<FromReceiver>(&encode(&longest)).unwrap(), longest);
        let gaps = vec![(u64::MAX, u64::MAX); GAPS_MAX];
        let longest = FromReceiver::Missing { entry: u32::MAX, gaps };
        assert_eq!(read_all::<FromReceiver>(&encode(&longest)).unwrap(), longest);
    }

    #[test]
    fn long_frames_are_refused_before_they_are_read() {
        let mut frame = vec![0xff; 4];
        frame.push(0);
        assert!(matches!(read_all::<FromSender>(&frame), Err(MessageError::TooLong(0xffff_ffff))));
    }

    #[test]
    fn end_and_break_have_distinct_errors() {
        assert!(matches!(read_all::<FromSender>(&[]), Err(MessageError::Ended)));
        assert!(matches!(read_all::<FromSender>(&[0, 0]), Err(MessageError::Io(_))));
        assert!(matches!(read_all::<FromSender>(&[0, 0, 0, 9, 1]), Err(MessageError::Io(_))));
        assert!(matches!(read_all::<FromSender>(&[0, 0, 0, 0]), Err(MessageError::Malformed)));
    }

    #[test]
    fn text_that_claims_more_than_is_there_is_malformed() {
        // An abort whose reason claims 2^63 bytes.
        let body = [4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        let frame = [&[0, 0, 0, 10], &body[..]].concat();
        assert!(matches!(read_all::<FromSender>(&frame), Err(MessageError::Malformed)));
    }

    proptest! {
        #[test]
        fn messages_are_read_back(message in from_sender()) {
            let mut frame = encode(&message);
            prop_assert_eq!(&read_all::<FromSender>(&frame).unwrap(), &message);
            // One more byte inside the frame is an error.
            frame.push(0);
            let length = u32::try_from(frame.len() - 4).unwrap();
            frame[..4].copy_from_slice(&length.to_be_bytes());
            prop_assert!(matches!(read_all::<FromSender>(&frame), Err(MessageError::Malformed)));
        }

        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
            let frame = [&length[..], &bytes].concat();
            let _ = (read_all::<FromSender>(&frame), read_all::<FromReceiver>(&frame));
            let _ = (read_all::<FromSender>(&bytes), read_all::<FromReceiver>(&bytes));
        }
    }
}
