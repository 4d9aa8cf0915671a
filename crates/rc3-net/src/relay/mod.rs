//! Links between the processes that have a port one after the other (a graceful restart). Each worker has one to its
//! counterpart in the process before and one in the process after; most have neither.
//!
//! [`crate::takeover`] makes the links, `driver/restart.rs` uses them. Without a restart nothing here runs.

#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod link;
#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod message;

#[cfg(any(not(target_os = "linux"), rc3_portable))]
#[path = "no_link.rs"]
mod link;

use rc3_core::{Detour, FromPredecessor};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::link::RelayLink;
#[cfg(all(target_os = "linux", not(rc3_portable)))]
pub(crate) use self::link::{prepare_descriptor, socket_pair};

/// A message of the other process.
#[cfg_attr(any(not(target_os = "linux"), rc3_portable), expect(dead_code, reason = "no hand-overs"))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RelayMessage {
    /// Datagrams for the predecessor.
    Datagrams(Vec<Detour>),
    /// The successor has handed the port on to its own successor, or has it again.
    HandedOn(bool),
    /// For the successor.
    Report(FromPredecessor),
}

/// What has arrived on a [`RelayLink`].
#[cfg_attr(any(not(target_os = "linux"), rc3_portable), expect(dead_code, reason = "no hand-overs"))]
#[derive(Debug)]
pub(crate) enum RelayReceived {
    /// A message.
    Message(RelayMessage),
    /// Bytes of no meaning.
    Malformed,
    /// The other process has closed its end, or has ended.
    Closed,
}

/// One worker's end of the link to the process that takes the port over.
#[derive(Debug)]
pub(crate) struct SuccessorLink {
    pub(crate) link: RelayLink,
    /// Notified when the worker has stopped reading its sockets.
    pub(crate) stopped: Option<oneshot::Sender<()>>,
    /// Notified if the successor is gone although connections are left here.
    pub(crate) gone: mpsc::Sender<()>,
    /// It has a successor itself, which reads the port.
    pub(crate) handed_on: bool,
}
