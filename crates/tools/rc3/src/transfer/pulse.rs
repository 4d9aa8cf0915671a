//! Whether the senders of running transfers are still there.
//!
//! A killed sender closes nothing, so its connection lives until the idle timeout, which also spans outages. While nobody
//! else waits that costs nothing. If another sender does, the silent one gives way: its part stays, so it can continue
//! later, and the next one, often the same sender started again, finds the part free.

use std::time::Duration;

use rc3_net::{Connection, VarInt};

use super::{FAILED, moved::Moved};

/// Time between two packets that ask a quiet sender for an acknowledgement.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(1);
/// A sender that acknowledges nothing for this long gives way to one that waits.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// The connections of running transfers.
#[derive(Default)]
pub(super) struct Pulses(Vec<(Connection, Moved)>);

impl Pulses {
    pub(super) fn add(&mut self, connection: Connection) {
        self.0.push((connection, Moved::new(SILENT_MAX)));
    }

    /// Updates what was heard, to be called regularly. With `close` it closes the connections of silent senders; returns
    /// whether there were any.
    pub(super) fn listen(&mut self, close: bool) -> bool {
        self.0.retain(|(connection, _)| connection.close_reason().is_none());
        let mut closed = false;
        for (connection, moved) in &mut self.0 {
            if moved.check(heard(connection)).is_err() && close {
                connection.close(FAILED, b"was silent while another sender waited");
                closed = true;
            }
        }
        closed
    }

    /// Closes all.
    pub(super) fn close(&self, code: VarInt, reason: &str) {
        self.0.iter().for_each(|(connection, _)| connection.close(code, reason.as_bytes()));
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
