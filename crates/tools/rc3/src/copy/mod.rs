//! `rc3 copy`: files from or to another host, where ssh starts the peer.
//!
//! The near end opens a UDP port (`direct`) and starts `ssh HOST -- rc3 copy-peer`; both ends talk in frames (`wire`)
//! through the standard input and output of ssh. The far end listens on UDP and says its addresses, port, fingerprint and
//! secret; then the request and the handshake travel at the same time. Behind NATs, first packets of the far end open its
//! own (`transfer::punch`), and tell the near end where they come from (`transfer::direct`). The transfer is that of `rc3 send` and `rc3 recv`
//! (`transfer::side`). Where UDP does not pass, frames carry the datagrams too (`relay`).

use std::{path::PathBuf, pin::pin, time::Duration};

use tokio::time::timeout;

pub use far::serve;
pub use near::copy_until;
pub use place::Place;

use cli::CopyArgs;
pub use wire::VERSION;
use wire::{Carrier, Frame, Wire};

use crate::{
    cli::{high, low::LoopArgs},
    error::{Error, Result},
    transfer::{
        direct::Met,
        mapping::Mapped,
        meet::{PATIENCE, Settings},
        message::encode,
        network::{Marking, Network},
        progress::Reporter,
        receive::wind_up,
        session::Outbox,
        side::Side,
    },
};

pub mod cli;
mod direct;
mod far;
mod near;
mod place;
mod relay;
mod ssh;
mod targets;
mod wire;

/// Time for the end of a transfer after ssh or the other end has ended, and for the other end to leave first.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Parameters of a copy.
#[derive(Debug, Clone)]
pub struct CopyJob {
    direction: Direction,
    /// As ssh takes it.
    host: String,
    /// The program for ssh and its options; empty: ssh.
    ssh: Vec<String>,
    /// All other settings, as typed.
    args: CopyArgs,
}

/// From where to where.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Direction {
    Upload { sources: Vec<PathBuf>, path: Vec<u8> },
    Download { sources: Vec<Vec<u8>>, path: PathBuf },
}

/// The transport of either end. Through ssh nothing reads marks, and no address is worth remembering.
fn settings(loops: LoopArgs, network: Network, carrier: Carrier) -> Settings {
    let network = match carrier {
        Carrier::Udp => network,
        Carrier::Ssh => Network { marking: Marking::None, path_memory: None, ..network },
    };
    Settings { rlp: high::rlp(loops.rlp), congestion: loops.congestion(), network, ..Settings::default() }
}

/// Passes on where this end's gateway takes packets for it, if it says so.
async fn tell(mapped: Mapped, outbox: Outbox) {
    let _ = outbox.send(encode(&Frame::Mapped(mapped.found().await))).await;
}

/// Transfers while the wire carries datagrams, until `stop`.
async fn transfer(
    side: &Side,
    Met { endpoint, control }: Met,
    wire: &mut Wire,
    stop: impl Future<Output = ()>,
    reporter: &mut Reporter,
) -> Result<()> {
    // Dropped after the close: the end of its streams must not arrive before the reason.
    let mut moving = pin!(side.run(&endpoint, control, PATIENCE, reporter));
    let outcome = tokio::select! {
        outcome = moving.as_mut() => outcome,
        // The last packets may still be on their way.
        () = wire.run() => match timeout(END_PATIENCE, moving.as_mut()).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::gone("ssh or the far end ended")),
        },
        () = stop => Err(Error::interrupted(0)),
    };
    wire.during(wind_up(&endpoint, side.destination(), outcome)).await
}
