//! Whether the peers of running transfers and tunnels are still there.
//!
//! A killed sender closes nothing, so its connection lives until the idle timeout, which also spans outages. While nobody
//! else waits that costs nothing. If another sender does, the silent one gives way: its part stays, so it can continue
//! later, and the next one, often the same sender started again, finds the part free.

use std::{net::SocketAddr, time::Duration};

use rc3_net::{Connection, VarInt};

use super::{FAILED, addresses::canonical, outage::silence};

/// A sender that acknowledges nothing for this long gives way to one that waits.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// Whether a peer has acknowledged nothing for so long that it gives way to others.
pub(crate) fn gives_way(connection: &Connection) -> bool {
    silence(connection).is_some_and(|silence| silence > SILENT_MAX)
}

/// The connections of running transfers, or of the peers of a tunnel.
#[derive(Default)]
pub(crate) struct Pulses(Vec<Connection>);

impl Pulses {
    pub(crate) fn add(&mut self, connection: Connection) {
        self.0.retain(|connection| connection.close_reason().is_none());
        self.0.push(connection);
    }

    /// Closes the connections of silent peers, since another one waits; returns whether there were any.
    pub(crate) fn give_way(&self, reason: &str) -> bool {
        let silent =
            self.0.iter().filter(|connection| connection.close_reason().is_none() && gives_way(connection));
        silent.inspect(|connection| connection.close(FAILED, reason.as_bytes())).count() > 0
    }

    /// Closes those whose way was through this relay.
    pub(super) fn lose(&self, relay: SocketAddr) {
        let through = |connection: &&Connection| canonical(connection.remote_address()) == relay;
        self.0.iter().filter(through).for_each(|connection| connection.close(FAILED, b"lost the relay"));
    }

    /// Closes all.
    pub(super) fn close(&self, code: VarInt, reason: &str) {
        self.0.iter().for_each(|connection| connection.close(code, reason.as_bytes()));
    }
}
