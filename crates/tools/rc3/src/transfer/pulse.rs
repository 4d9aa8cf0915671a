//! Whether the senders of running transfers are still there.
//!
//! A killed sender closes nothing, so its connection lives until the idle timeout, which also spans outages. While nobody
//! else waits that costs nothing. If another sender does, the silent one gives way: its part stays, so it can continue
//! later, and the next one, often the same sender started again, finds the part free.

use std::time::{Duration, Instant};

use rc3_net::{Connection, VarInt};

use super::FAILED;

/// Time between two packets that ask a quiet sender for an acknowledgement.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(1);
/// A sender that acknowledges nothing for this long gives way to one that waits.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// The connections of running transfers.
#[derive(Default)]
pub(super) struct Pulses(Vec<Pulse>);

struct Pulse {
    connection: Connection,
    /// Counts what the peer proves that it has sent.
    heard: u64,
    at: Instant,
}

impl Pulses {
    pub(super) fn add(&mut self, connection: Connection) {
        self.0.push(Pulse { connection, heard: 0, at: Instant::now() });
    }

    /// Updates what was heard; to be called regularly.
    pub(super) fn listen(&mut self) {
        self.0.retain(|pulse| pulse.connection.close_reason().is_none());
        for pulse in &mut self.0 {
            let heard = heard(&pulse.connection);
            if heard != pulse.heard {
                (pulse.heard, pulse.at) = (heard, Instant::now());
            }
        }
    }

    /// Closes the connections of silent senders; returns whether there were any.
    pub(super) fn close_silent(&self) -> bool {
        let silent = |pulse: &&Pulse| pulse.at.elapsed() >= SILENT_MAX;
        let closed = self.0.iter().filter(silent);
        closed.map(|pulse| pulse.connection.close(FAILED, b"was silent while another sender waited")).count()
            > 0
    }

    /// Closes all.
    pub(super) fn close(&self, code: VarInt, reason: &str) {
        self.0.iter().for_each(|pulse| pulse.connection.close(code, reason.as_bytes()));
    }
}

/// Authenticated frames and bytes of a connection so far.
fn heard(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let (frames, received) = (stats.frame_rx, stats.received);
    frames.acks
        + frames.ping
        + frames.stream
        + received.primary_bytes
        + received.rlp_bytes.iter().sum::<u64>()
}
