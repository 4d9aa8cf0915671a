//! What the connections of an endpoint have learned about paths, for later ones.

use std::{net::SocketAddr, time::Instant};

use crate::laws::fragments::Drops;
use crate::{
    laws::{
        path_mtu::PathMtu,
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
    mtus: DestinationCache<PathMtu>,
    /// Paths that drop fragments.
    drops: DestinationCache<Drops>,
}

impl PathMemory {
    /// The path MTU to `remote`, if it is known.
    pub(super) fn mtu(&mut self, now: Instant, remote: SocketAddr) -> Option<PathMtu> {
        self.mtus.recall(now, remote)
    }

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
        self.learn_drops(now, connection);
        match connection.primary_mut().take_path_mtu(now) {
            Some(Found::Mtu(found)) => self.mtus.remember(connection.remote_address(), found),
            Some(Found::Outdated) => self.mtus.forget(connection.remote_address()),
            None => {}
        }
        let record = connection.take_record(now)?;
        Some(self.verdicts.learn(now, connection.proven_address(), record))
    }

    /// Records whether fragments reach the peer, once it is known.
    fn learn_drops(&mut self, now: Instant, connection: &mut Connection) {
        if let Some(found) = connection.take_drops(now) {
            self.drops.remember(connection.remote_address(), found);
        }
        if connection.take_refutation() {
            self.drops.forget(connection.remote_address());
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.verdicts.clear();
        self.mtus.clear();
        self.drops.clear();
    }
}
