//! What the two ends of `rc3 copy` say to each other through ssh.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    cli::low::{CongestionChoice, MarksChoice, RlpChoice},
    transfer::{
        destination::{Existing, Fsync, Policy},
        manifest::Selection,
        patterns::Patterns,
        ticket::{FINGERPRINT_BYTES, SECRET_BYTES},
    },
};

/// The first message, to the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) action: Action,
    pub(super) carrier: Carrier,
    pub(super) rlp: RlpChoice,
    pub(super) congestion: CongestionChoice,
    pub(super) marks: MarksChoice,
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
        policy: Handling,
    },
    /// Sends.
    Send {
        paths: Vec<Vec<u8>>,
        choice: Choice,
        /// The new name of the only source.
        rename: Option<Vec<u8>>,
        /// In bits per second.
        rate_limit: Option<u64>,
    },
}

/// See [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Choice {
    pub(super) links: bool,
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

impl Choice {
    /// # Errors
    /// When a pattern is malformed.
    pub(super) fn selection(&self) -> Result<Selection, globset::Error> {
        let patterns = Patterns::new(&self.include, &self.exclude)?;
        Ok(Selection { links: self.links, patterns })
    }
}

/// See [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handling {
    pub(super) force: bool,
    pub(super) keep_both: bool,
    pub(super) quick_check: bool,
    pub(super) fsync: bool,
    pub(super) discard_partial: bool,
}

impl From<Handling> for Policy {
    fn from(handling: Handling) -> Self {
        let Handling { force, keep_both, quick_check, fsync, discard_partial } = handling;
        let existing = match (force, keep_both) {
            (true, _) => Existing::Replace,
            (false, true) => Existing::KeepBoth,
            (false, false) => Existing::Report,
        };
        let fsync = if fsync { Fsync::File } else { Fsync::None };
        Self { existing, quick_check, fsync, discard_partial }
    }
}

/// How datagrams travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Carrier {
    /// As UDP, to the first free port from the first to the second; 0 is any.
    Udp { first: u16, last: u16 },
    /// As frames through ssh.
    Ssh,
}

/// From the far end. New variants stand last, so that the others keep their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Connect.
    Listening {
        /// The address that ssh reached, if sshd reports it.
        address: Option<IpAddr>,
        port: u16,
        fingerprint: [u8; FINGERPRINT_BYTES],
        secret: [u8; SECRET_BYTES],
        /// The new name of the only source, if the destination is not a directory.
        rename: Option<Vec<u8>>,
    },
    /// The transfer cannot begin.
    Failed { message: String, hint: String },
    /// The far end is done.
    Done {
        /// How many sources it skipped without a word in the manifest.
        left_out: u32,
    },
    /// It prepares the transfer; repeated regularly, from the request on.
    Working,
}
