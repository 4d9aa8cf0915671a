//! What the connections of an endpoint have learned about paths, for later ones.

use std::{net::IpAddr, time::Instant};

use crate::{
    laws::{
        path_mtu::{self, PathMtu},
        verdicts::{self, DestinationVerdict, Verdicts},
    },
    machines::connection::Connection,
    quic::Side,
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
        if self.drops.recall(now, connection.remote_address().ip()).is_some() {
            connection.forbid_fragments(now);
        }
    }

    /// The record of the path of a connection to `remote`, its peer.
    pub(super) fn recall(
        &mut self,
        now: Instant,
        connection: &Connection,
        remote: IpAddr,
    ) -> Option<DestinationVerdict> {
        self.verdicts.recall_from(now, connection.network(), remote)
    }

    /// Lets a connection know what is remembered of the path to `remote`, its peer; or else what rate to expect from others: a
    /// client's paths begin in the same network, those of a server's clients may end in one.
    pub(super) fn prepare(&mut self, now: Instant, connection: &mut Connection, remote: IpAddr) {
        let record = self.recall(now, connection, remote);
        if let Some(record) = record {
            connection.recall(now, record);
        }
        if record.is_some_and(|record| record.pace.is_some()) {
            return;
        }
        let (network, side) = (connection.network(), connection.side());
        let is_near = |record: &DestinationVerdict| match side {
            Side::Client => network.is_some() && record.network == network,
            Side::Server => verdicts::are_neighbours(record.destination, remote),
        };
        if let Some(rate) = self.verdicts.expected_rate(now, connection.rtt(), is_near) {
            connection.expect_rate(rate);
        }
    }

    /// Stores what a connection has found since the last call. Returns a new verdict.
    pub(super) fn learn(&mut self, now: Instant, connection: &mut Connection) -> Option<DestinationVerdict> {
        let remote = connection.remote_address().ip();
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
        Some(self.verdicts.learn(now, record))
    }
}
