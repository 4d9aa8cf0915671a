//! Messages on the control stream, and their framing.
//!
//! The sender opens one bidirectional stream and writes, without waiting for answers: `Hello`, one `Entry` per file and
//! directory and link, `ManifestEnd`. The receiver reads only `Hello` until the secret is right, and answers `Accepted`
//! or `Refused`. Before `Accepted` it settles what need not be sent. If a file of the same name and length exists, it
//! requests the sender's hash with `Compare`, gets a `Hash`, and answers `Have` if the hashes match. An entry that it
//! will not create is a `Skip`. If it has parts of a file, it lists the rest in `Missing`. Then every file with missing
//! bytes goes on its own unidirectional stream, in the order of the manifest: the missing bytes without the holes of
//! the manifest, raw and back to back. After reading a file the sender writes `FileSent` with the hash of the whole
//! file. The receiver answers each, and each link, with `FileDone` or `FileFailed`, and at the end with `Finished`.
//! Between messages it regularly sends `Working`.
//!
//! After `DryRun` in the manifest nothing is created or sent: the receiver adds `Would` and ends with `Accepted`.
//!
//! Links count as files. Indices of files and of entries are those of the manifest, from 0.
//!
//! A sender that reads a pipe writes `Pipe` instead of a manifest. After `Accepted` one unidirectional stream carries the
//! bytes, and `FileSent` for file 0 confirms their end; the receiver answers `Finished` or `FileFailed`.
//!
//! Faults of single files end nothing. In the manifest, `Absent` names what the sender cannot read. In place of `Hash` or
//! `FileSent`, `Omit` leaves a file out. `Again`, once for each file, says that a file changed while it was sent: what
//! arrived of it is void, and its content follows on one more stream, after those of the manifest and in the order of
//! these messages. A stream that is reset needs one of the two. The receiver leaves entries out with `Skip` (directories
//! also just before `Finished`) and `FileFailed`.
//!
//! A message is its length in four bytes, big-endian, then that many bytes of postcard. Invariant: no message makes the
//! reader allocate more than [`MESSAGE_BYTES_MAX`].

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt, BufReader},
    sync::mpsc,
};

use super::{gaps::GAPS_MAX, paths::PATH_BYTES_MAX, ticket::SECRET_BYTES};

/// The protocol version. A receiver refuses others.
pub const VERSION: u16 = 5;

/// Application protocol name on the connection.
pub const ALPN: &[u8] = b"rc3-copy/1";

/// Most bytes of one message, without its length field.
/// A link's entry has two paths. A file's has one, and holes of at most 20 bytes each.
pub const MESSAGE_BYTES_MAX: usize = 2 * PATH_BYTES_MAX + 256;

/// Most bytes of a link's target: what common systems accept.
pub const LINK_BYTES_MAX: usize = 4095;

/// Messages read in advance.
pub const MESSAGES_AHEAD: usize = 64;

/// Most bytes of a reason as text; longer ones are truncated.
const REASON_BYTES_MAX: usize = 1024;

// The longest entries fit.
const _: () = assert!(20 * GAPS_MAX < PATH_BYTES_MAX && LINK_BYTES_MAX < PATH_BYTES_MAX);

/// Sender to receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSender {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// The ticket's secret.
        secret: [u8; SECRET_BYTES],
    },
    /// One more file or directory.
    Entry(Entry),
    /// The manifest is complete.
    ManifestEnd,
    /// The sender has read the file completely.
    FileSent {
        /// Its index among the files of the manifest, from 0.
        file: u32,
        /// BLAKE3 of its content.
        hash: [u8; 32],
    },
    /// The sender cannot continue.
    Abort {
        /// The reason as text.
        reason: String,
    },
    /// The answer to [`FromReceiver::Compare`].
    Hash {
        /// The file's index among the files of the manifest, from 0.
        file: u32,
        /// BLAKE3 of its content.
        hash: [u8; 32],
    },
    /// Before [`Self::ManifestEnd`]: only requests what would happen.
    DryRun,
    /// Instead of a manifest: one stream of unknown length.
    Pipe {
        /// The name of the file to write, if the sender has one. Untrusted: see [`super::paths::SafePath`].
        name: Option<Vec<u8>>,
    },
    /// Instead of [`Self::FileSent`], once for each file: it changed while it was sent, and is sent again.
    Again {
        /// Its index among the files of the manifest, from 0.
        file: u32,
        /// Its properties now; a file still.
        kind: Kind,
    },
    /// Instead of [`Self::FileSent`] or [`Self::Hash`]: the sender leaves the file out.
    Omit {
        /// Its index among the files of the manifest, from 0.
        file: u32,
        /// Why.
        omission: Omission,
    },
    /// Before [`Self::ManifestEnd`]: the sender cannot read this, and the manifest does not have it.
    Absent {
        /// Relative, with `/` between names. Untrusted: see [`super::paths::SafePath`].
        path: Vec<u8>,
        /// The reason as text.
        reason: String,
    },
}

impl FromSender {
    /// The name that the receiver would use, if the message has one. Only names that the receiver asked for may be used:
    /// see `super::asked::Asked`.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Entry(entry) => Some(&entry.path),
            Self::Absent { path, .. } => Some(path),
            Self::Pipe { name } => name.as_deref(),
            Self::Hello { .. }
            | Self::ManifestEnd
            | Self::FileSent { .. }
            | Self::Abort { .. }
            | Self::Hash { .. }
            | Self::DryRun
            | Self::Again { .. }
            | Self::Omit { .. } => None,
        }
    }
}

/// Why a sender leaves out a file of its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Omission {
    /// It changed each time it was sent.
    Changed,
    /// It cannot be read: the reason as text.
    Unreadable(String),
}

/// Receiver to sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromReceiver {
    /// The receiver refuses the transfer.
    Refused {
        /// The reason as a code.
        refusal: Refusal,
        /// The reason as text.
        reason: String,
    },
    /// Parts of this file exist from an earlier run.
    Missing {
        /// The file's index among the files of the manifest, from 0.
        file: u32,
        /// Start and end of each missing range in bytes of the file: ascending, and at most
        /// [`GAPS_MAX`].
        gaps: Vec<(u64, u64)>,
    },
    /// The manifest is accepted: send.
    Accepted,
    /// The file is verified and in place.
    FileDone {
        /// The file's index.
        file: u32,
    },
    /// The file was not kept. The transfer ends only after [`Fault::Storage`].
    FileFailed {
        /// The file's index.
        file: u32,
        /// The reason as a code.
        fault: Fault,
        /// The reason as text.
        reason: String,
    },
    /// Everything is in place.
    Finished,
    /// A file of this name and length exists: requests the sender's hash.
    Compare {
        /// The file's index among the files of the manifest, from 0.
        file: u32,
    },
    /// The existing file has that hash: do not send it.
    Have {
        /// The file's index.
        file: u32,
    },
    /// The receiver is busy; repeated regularly.
    Working(Work),
    /// The receiver does not create this entry: do not send it.
    Skip {
        /// Its index among the entries of the manifest, from 0.
        entry: u32,
        /// Why.
        skip: Skip,
    },
    /// In a dry run: what would happen to a file that exists with other content.
    Would {
        /// The file's index among the files of the manifest, from 0.
        file: u32,
        /// What.
        change: Change,
    },
}

/// Why a receiver does not create an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// A file of its size and time exists, which counts as the same.
    SameTime,
    /// A link with its target exists.
    SameLink,
    /// Other content has its name.
    Conflict,
    /// The receiving file system does not accept its name, or has no such links.
    Name,
    /// A link that leads out of the destination, or could.
    Outside,
    /// Another entry of the transfer has the same file there.
    Shared,
    /// The receiving system refuses it: the reason as text.
    Refused(String),
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
}

/// Why the receiver refuses a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The secret is wrong.
    Unauthorised,
    /// Another version of the protocol.
    Version,
    /// The manifest has a forbidden path, or is too long.
    Manifest,
    /// An error of the receiver's disk or permissions.
    Storage,
    /// The name of a pipe's file is taken.
    Exists,
}

/// Why a file was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The received content differs from the sent content.
    NotVerified,
    /// Another entry with that name appeared during the transfer.
    Exists,
    /// The receiving file system does not accept its name.
    Name,
    /// An error of the receiver that other files would meet too, as a full disk.
    Storage,
    /// The receiving system refuses this file.
    Refused,
    /// Another entry of the transfer has the same file there.
    Shared,
    /// The answer to [`FromSender::Omit`].
    Omitted,
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
    #[error("a message of {0} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// Not a message of this version.
    #[error("a message that does not parse")]
    Malformed,
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
    let mut length = [0; 4];
    // An end before the first byte is a normal end; later it is an error.
    if stream.read(&mut length[..1]).await? == 0 {
        return Err(MessageError::Ended);
    }
    stream.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
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
    let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
    tokio::spawn(async move {
        let mut stream = BufReader::new(stream);
        loop {
            let message = read(&mut stream).await;
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
        (path(), prop_oneof![directory, file, link]).prop_map(|(path, kind)| Entry { path, kind })
    }

    fn from_sender() -> impl Strategy<Value = FromSender> {
        prop_oneof![
            (any::<u16>(), any::<[u8; 16]>())
                .prop_map(|(version, secret)| FromSender::Hello { version, secret }),
            entry().prop_map(FromSender::Entry),
            Just(FromSender::ManifestEnd),
            Just(FromSender::DryRun),
            (any::<u32>(), any::<[u8; 32]>()).prop_map(|(file, hash)| FromSender::FileSent { file, hash }),
            ".{0,100}".prop_map(|reason| FromSender::Abort { reason }),
            (any::<u32>(), any::<[u8; 32]>()).prop_map(|(file, hash)| FromSender::Hash { file, hash }),
            any::<Option<Vec<u8>>>().prop_map(|name| FromSender::Pipe { name }),
            (any::<u32>(), entry()).prop_map(|(file, entry)| FromSender::Again { file, kind: entry.kind }),
            (any::<u32>(), ".{0,100}")
                .prop_map(|(file, reason)| FromSender::Omit { file, omission: Omission::Unreadable(reason) }),
            any::<u32>().prop_map(|file| FromSender::Omit { file, omission: Omission::Changed }),
            (any::<Vec<u8>>(), ".{0,100}").prop_map(|(path, reason)| FromSender::Absent { path, reason }),
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
        let longest = FromReceiver::FileFailed { file: u32::MAX, fault: Fault::Storage, reason };
        assert_eq!(read_all::<FromReceiver>(&encode(&longest)).unwrap(), longest);
        let gaps = vec![(u64::MAX, u64::MAX); super::super::gaps::GAPS_MAX];
        let longest = FromReceiver::Missing { file: u32::MAX, gaps };
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
