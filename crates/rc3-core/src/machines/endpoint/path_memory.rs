//! What the connections of an endpoint have learned about paths, for later ones.

use std::{net::SocketAddr, time::Instant};

use crate::{
    laws::{
        path_mtu::{self, PathMtu},
        verdicts::{DestinationVerdict, PathRecord, Verdicts},
    },
    machines::connection::Connection,
    seams::primary::quinn::Found,
    structures::destination_cache::DestinationCache,
};

/// The memory of paths, by destination.
#[derive(Debug, Default)]
pub(super) struct PathMemory {
    pub(super) verdicts: Verdicts,
    pub(super) mtus: DestinationCache<PathMtu>,
    /// Paths that drop fragments.
    drops: DestinationCache<()>,
}

impl PathMemory {
    /// Lets a new connection know that fragments do not reach its peer.
    pub(super) fn recall_drops(&mut self, now: Instant, connection: &mut Connection) {
        if self.drops.recall(now, connection.remote_address()).is_some() {
            connection.forbid_fragments(now);
        }
    }

    /// The record of the path of a connection to `remote`, its peer.
    pub(super) fn recall(
        &mut self,
        now: Instant,
        connection: &Connection,
        remote: SocketAddr,
    ) -> Option<PathRecord> {
        self.verdicts.recall_from(now, connection.network(), remote)
    }

    /// Stores what a connection has found since the last call. Returns a new verdict.
    pub(super) fn learn(&mut self, now: Instant, connection: &mut Connection) -> Option<DestinationVerdict> {
        let remote = connection.remote_address();
        match connection.take_drops_change() {
            Some(true) => self.drops.remember(remote, now..now + connection.verdict_age(), ()),
            Some(false) => self.drops.forget(remote),
            None => {}
        }
        match connection.primary.take_path_mtu() {
            Some(Found::Mtu(found)) => self.mtus.remember(remote, now..now + path_mtu::AGE, found),
            Some(Found::Outdated) => self.mtus.forget(remote),
            None => {}
        }
        let record = connection.take_record(now)?;
        Some(self.verdicts.learn(now, connection.proven_address(), record))
    }
}
