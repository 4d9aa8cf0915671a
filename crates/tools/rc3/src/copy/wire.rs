//! Messages between the two ends of `rc3 copy`, through the standard input and output of ssh.
//!
//! The far end first prints a line with [`MAGIC`] and its version; what a shell printed before it is skipped, up to
//! [`BANNER_BYTES_MAX`]. Then both ends write [`Frame`]s, in the form of [`crate::transfer::message`]. Invariant: no frame
//! makes the reader allocate more than [`FRAME_BYTES_MAX`].

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use data_encoding::BASE32_NOPAD_NOCASE as BASE32;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    sync::oneshot,
};

use super::{place::path_of, relay::Relay};
use crate::{
    cli::low::{LoopArgs, PolicyArgs, SelectionArgs},
    error::Error,
    transfer::{
        addresses::single_host,
        attributes::Preserve,
        message::{MessageError, Messages, encode},
        network::Marking,
        paths::directory_of,
        session::Outbox,
        ticket::{FINGERPRINT_BYTES, SECRET_BYTES},
    },
};

/// The version of the frames.
pub const VERSION: u16 = 8;
/// Begins the first line of the far end; ends with its version.
pub(super) const MAGIC: &str = "rc3-copy-peer ";
/// Most bytes of a remote shell before the magic line.
const BANNER_BYTES_MAX: u64 = 256 << 10;
/// Most bytes of a frame: a request lists paths.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;

/// What either end says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Frame {
    /// A UDP datagram.
    Datagram(Bytes),
    /// The first frame, to the far end.
    Request(Request),
    /// From the far end.
    Reply(Reply),
    /// To the far end: UDP does not reach it. From now on datagrams go through ssh, with the same fingerprint and secret.
    ThroughSsh,
    /// From either end, once: its gateway takes packets for it here.
    Mapped(SocketAddr),
}

/// How both ends meet. Other users of the far host can read it: it is the argument of the command there, so that the far
/// end need not wait for ssh to take input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Terms {
    /// Whether the far end sends.
    pub(super) sends: bool,
    /// How UDP may reach each end; `None` if datagrams go through ssh.
    pub(super) udp: Option<UdpTerms>,
    pub(super) loops: LoopArgs,
    pub(super) marks: Marking,
    /// Whether the far end uses and stores remembered paths.
    pub(super) remembers: bool,
    /// As [`NetworkArgs::give_up_after`](crate::cli::low::NetworkArgs::give_up_after).
    pub(super) give_up_after: Duration,
}

/// Where the far end listens, and where the near end waits for packets that open the way of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UdpTerms {
    /// The far end takes the first free port from the first to the second; 0 is any.
    pub(super) ports: (u16, u16),
    /// The UDP port of the near end.
    pub(super) near_port: u16,
    /// Addresses of the near end besides the one that ssh comes from.
    pub(super) near: Vec<IpAddr>,
    /// Whether the far end may ask its gateway for a port.
    pub(super) maps_ports: bool,
}

impl Terms {
    /// A word for the remote shell.
    pub(super) fn to_word(&self) -> String {
        // Serializing into a vector cannot fail for these types: no maps, no unsized sequences.
        BASE32.encode(&postcard::to_stdvec(self).unwrap_or_default()).to_lowercase()
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        postcard::from_bytes(&BASE32.decode(word.as_bytes()).ok()?).ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) action: Action,
    pub(super) preserve: Preserve,
}

/// What the far end does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    /// Receives into a directory, or a single source under a new name.
    Receive {
        /// The destination.
        path: Vec<u8>,
        /// How many sources.
        sources: u32,
        policy: PolicyArgs,
        fsync: bool,
    },
    /// Sends.
    Send {
        paths: Vec<Vec<u8>>,
        selection: SelectionArgs,
        /// The new name of the only source.
        rename: Option<Vec<u8>>,
        /// In bits per second.
        rate_limit: Option<u64>,
    },
}

impl Action {
    /// A single source has its new name: another attempt asks for the directory above it, or it would land inside itself.
    pub(super) fn on_renamed(&mut self) {
        if let Self::Receive { path, .. } = self {
            let there = path_of(path);
            *path = directory_of(&there).as_os_str().as_encoded_bytes().to_owned();
        }
    }
}

/// How datagrams travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// As UDP.
    Udp,
    /// As frames through ssh.
    Ssh,
}

/// From the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Connect.
    Listening {
        /// The address that ssh reached, if sshd reports it; then others of that host.
        addresses: Vec<IpAddr>,
        port: u16,
        fingerprint: [u8; FINGERPRINT_BYTES],
        secret: [u8; SECRET_BYTES],
    },
    /// The transfer cannot begin.
    Failed { message: String, hint: String },
    /// It prepares the transfer; repeated regularly, from the request until it is ready.
    Working,
    /// It has prepared the transfer.
    Ready {
        /// The new name of the only source, if the destination is not a directory.
        rename: Option<Vec<u8>>,
        /// How many sources it skips without a word in the manifest.
        left_out: u32,
    },
}

/// The way through ssh while a transfer runs: datagrams for the relay.
pub(super) struct Wire {
    pub(super) messages: Messages<Frame>,
    pub(super) outbox: Outbox,
    pub(super) relay: Option<Relay>,
    /// Takes the first address that the other end has of its gateway: more could make this host send to many.
    mapped: Option<oneshot::Sender<SocketAddr>>,
}

impl Wire {
    /// Without a relay so far.
    pub(super) fn new(messages: Messages<Frame>, outbox: Outbox) -> Self {
        Self { messages, outbox, relay: None, mapped: None }
    }

    /// The address that the other end has of its gateway; it may come later, or never.
    pub(super) fn mapped(&mut self) -> oneshot::Receiver<SocketAddr> {
        let (to, mapped) = oneshot::channel();
        self.mapped = Some(to);
        mapped
    }

    /// Sends a reply; a broken pipe shows when reading.
    pub(super) async fn reply(&self, reply: Reply) {
        let _ = self.outbox.send(encode(&Frame::Reply(reply))).await;
    }

    /// Delivers datagrams until ssh or the other end ends.
    ///
    /// Cancel-safe: dropping the future loses at most one datagram.
    pub(super) async fn run(&mut self) {
        while self.hear().await.is_ok() {}
    }

    /// Carries datagrams of the endpoint at `port` of loopback from now on. Returns where that reaches the other end.
    pub(super) async fn relay_to(&mut self, port: u16) -> Result<SocketAddr, Error> {
        let failed = |error| Error::local("relay through ssh", error);
        let (relay, address) = Relay::start(port, self.outbox.clone()).await.map_err(failed)?;
        self.relay = Some(relay);
        Ok(address)
    }

    /// Delivers datagrams until another frame comes.
    ///
    /// Cancel-safe, as [`Self::run`].
    pub(super) async fn hear(&mut self) -> Result<Frame, MessageError> {
        loop {
            match self.messages.recv().await.unwrap_or(Err(MessageError::Ended))? {
                Frame::Datagram(datagram) => {
                    if let Some(relay) = &self.relay {
                        relay.deliver(&datagram).await;
                    }
                }
                Frame::Mapped(address) => {
                    if let (Some(to), Some(address)) = (self.mapped.take(), single_host(address)) {
                        let _ = to.send(address);
                    }
                }
                frame => return Ok(frame),
            }
        }
    }

    /// Keeps delivering while `work` runs.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = self.run() => {}
        }
        work.await
    }
}

/// Why the far end is not ready.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// ssh ended.
    Ended,
    /// It has another version of the frames.
    Version(u16),
    /// A step took longer than its limit.
    Silent(&'static str, Duration),
    /// It says something else.
    Invalid(String),
    /// It cannot begin, for this reason.
    Failed { message: String, hint: String },
    /// The cause is at this end or between both.
    Here(Error),
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<MessageError> for Unanswered {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Ended => Self::Ended,
            error => Self::Invalid(error.to_string()),
        }
    }
}

/// Reads up to the end of the magic line.
pub(super) async fn skip_banner(from: &mut (impl AsyncBufRead + Unpin)) -> Result<(), Unanswered> {
    let mut left = BANNER_BYTES_MAX;
    loop {
        let mut line = Vec::new();
        let read = (&mut *from).take(left).read_until(b'\n', &mut line).await;
        let read = read.map_err(MessageError::from)?;
        left -= read as u64;
        if let Some(version) = version(&line) {
            return if version == VERSION { Ok(()) } else { Err(Unanswered::Version(version)) };
        }
        if left == 0 {
            return Err(Unanswered::Invalid(format!("no answer of rc3 within {BANNER_BYTES_MAX} bytes")));
        }
        if read == 0 {
            return Err(Unanswered::Ended);
        }
    }
}

/// The version in a magic line.
fn version(line: &[u8]) -> Option<u16> {
    let version = line.strip_prefix(MAGIC.as_bytes())?.strip_suffix(b"\n")?;
    std::str::from_utf8(version).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::{io::BufReader, runtime::Builder};

    use super::*;
    use crate::{
        cli::low::{CongestionChoice, RlpChoice},
        transfer::{message::listen_up_to, session::outbox},
    };

    fn skip(mut from: impl AsyncBufRead + Unpin) -> Result<(), Unanswered> {
        Builder::new_current_thread().build().unwrap().block_on(skip_banner(&mut from))
    }

    #[test]
    fn banners_are_skipped_up_to_a_limit() {
        let banner = format!("Welcome\nto {MAGIC}{VERSION}\n\n{MAGIC}{VERSION}\nrest");
        assert!(skip(banner.as_bytes()).is_ok());
        assert!(matches!(skip(&b"rc3-copy-peer 27\n"[..]), Err(Unanswered::Version(27))));
        assert!(matches!(skip(&b"rc3-copy-peer 4"[..]), Err(Unanswered::Ended)));
        assert!(matches!(skip(&b"Welcome\n"[..]), Err(Unanswered::Ended)));
        let endless = tokio::io::repeat(b'y');
        assert!(matches!(skip(BufReader::new(endless)), Err(Unanswered::Invalid(_))));
    }

    #[test]
    fn the_terms_are_one_word_whatever_they_are() {
        let near = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let udp = UdpTerms { ports: (4433, 4440), near_port: 50_000, near, maps_ports: true };
        for udp in [None, Some(udp)] {
            let (rlp, congestion) = (RlpChoice::Guard, CongestionChoice::Cubic);
            let loops = LoopArgs { rlp, congestion, background: false };
            let (marks, give_up_after) = (Marking::Auto, Duration::from_secs(7200));
            let terms = Terms { sends: true, udp, loops, marks, remembers: false, give_up_after };
            let word = terms.to_word();
            assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{word}");
            assert_eq!(Terms::from_word(&word), Some(terms));
        }
        assert_eq!(Terms::from_word("copy-peer"), None);
    }

    #[tokio::test]
    async fn the_other_end_names_one_address_of_its_gateway() {
        let at = |text: &str| Frame::Mapped(text.parse().unwrap());
        for (said, heard) in [
            (["198.51.100.7:9", "198.51.100.8:9"], Some("198.51.100.7:9")),
            (["224.0.0.1:9", "198.51.100.8:9"], None),
            (["127.0.0.1:9", "198.51.100.8:9"], None),
            (["198.51.100.7:0", "198.51.100.8:9"], None),
        ] {
            let frames = [encode(&at(said[0])), encode(&at(said[1])), encode(&Frame::ThroughSsh)].concat();
            let messages = listen_up_to(FRAME_BYTES_MAX, std::io::Cursor::new(frames));
            let mut wire = Wire::new(messages, outbox(tokio::io::sink()).0);
            let mapped = wire.mapped();
            assert_eq!(wire.hear().await.unwrap(), Frame::ThroughSsh);
            assert_eq!(mapped.await.ok(), heard.map(|at| at.parse().unwrap()), "{said:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_frame_or_refused(bytes: Vec<u8>) {
            let _ = (crate::transfer::message::decode::<Frame>(&bytes), skip(&bytes[..]));
        }
    }
}
