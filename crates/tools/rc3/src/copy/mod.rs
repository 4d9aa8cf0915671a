//! `rc3 copy`: files from or to another host, where ssh starts the peer.
//!
//! The near end starts `ssh HOST -- rc3 copy-peer`; both ends talk in frames (`wire`) through the standard input and
//! output of ssh. The far end listens on UDP and replies with its port, fingerprint and secret; the transfer is that of
//! `rc3 send` and `rc3 recv` (`transfer::once`). With `--via-ssh`, frames carry the datagrams too (`relay`).

use std::path::PathBuf;

use rc3_core::units::Rate;
use rc3_net::marks::MarkChoice;

pub use near::{copy, copy_until};
pub use peer::serve;
pub use place::Place;

use crate::{
    cli::low::{CongestionChoice, MarksChoice, RlpChoice},
    transfer::{
        IDLE_TIMEOUT,
        manifest::Selection,
        network::{Marking, Network},
        once::Settings,
        send::{PATIENCE, SendJob},
        ticket::Ticket,
    },
};

pub mod cli;
pub mod error;
mod landing;
mod link;
mod message;
mod near;
mod peer;
mod place;
mod relay;
mod ssh;
mod wire;

/// Parameters of a copy.
#[derive(Debug, Clone)]
pub struct CopyJob {
    direction: Direction,
    /// As ssh takes it.
    host: String,
    /// The program for ssh and its options; empty: ssh.
    ssh: Vec<String>,
    rc3_path: String,
    /// First and last UDP port to try there; 0 is any.
    ports: (u16, u16),
    /// Where UDP reaches the host, instead of the address that ssh reached.
    address: Option<String>,
    via_ssh: ViaSsh,
    policy: message::Handling,
    /// As words for the other host.
    choice: message::Choice,
    /// The same, for this host.
    selection: Selection,
    rate_limit: Option<Rate>,
    rlp: RlpChoice,
    congestion: CongestionChoice,
    marks: MarksChoice,
    network: Network,
}

/// From where to where.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Direction {
    Upload { sources: Vec<PathBuf>, path: Vec<u8> },
    Download { sources: Vec<Vec<u8>>, path: PathBuf },
}

/// Whether ssh carries the datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ViaSsh {
    /// Always
    Always,
    /// If UDP does not answer
    Auto,
    /// Never
    Never,
}

/// Network settings for a path through ssh, where nothing reads marks and no address is worth remembering.
fn unmarked() -> Network {
    Network { marking: Marking::Chosen(MarkChoice::None), path_memory: None }
}

/// A sender's job without paths: they are scanned before.
fn send_job(ticket: Ticket, settings: Settings, rate_limit: Option<Rate>) -> SendJob {
    SendJob {
        paths: Vec::new(),
        ticket,
        selection: Selection::default(),
        dry_run: false,
        rate_limit,
        rlp: settings.rlp,
        congestion: settings.congestion,
        mtu: None,
        network: settings.network,
        qlog: None,
        idle_timeout: IDLE_TIMEOUT,
        patience: PATIENCE,
    }
}
