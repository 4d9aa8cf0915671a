//! Which connection an RLP datagram is for, by its receiver id.
//!
//! Ids are derived from the secrets of a connection, so that datagrams can leave with the first keys. If the endpoint
//! chooses ids itself, because a load balancer or the kernel routes by them, the peer gets such an id for each path,
//! and datagrams with derived ids become rare. Until then they may arrive at another worker on the port, which finds
//! the right one by [`RouteChange`]s.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
};

use crate::{
    machines::connection::Connection,
    quic::ConnectionHandle,
    seams::{
        keys::{ReceiverId, receiver_id},
        primary::quinn::QuicEndpoint,
    },
    structures::undecryptable::{StoredDatagram, Undecryptable},
};

/// Draws for an id that no connection has. Two random ids of eight bytes are never equal in practice; a generator may
/// repeat itself, and then the derived id stays.
const DRAWS_MAX: usize = 4;

/// A change that concerns the other endpoints on the port: which of them the datagrams of a client are for that do not
/// carry an id of the endpoint's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange {
    /// This endpoint accepts a derived receiver id.
    Issued([u8; 8]),
    /// It accepts a receiver id no longer.
    Retired([u8; 8]),
    /// A handshake with this address has begun, where there was none: RLP datagrams from there may be early data of it.
    Begun(SocketAddr),
    /// No handshake with this address is in progress any more.
    Ended(SocketAddr),
}

/// What [`Receivers::register`] has found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registered {
    /// There are new derived ids.
    pub(crate) issued: bool,
    /// Ids were chosen, which the peer must be informed of.
    pub(crate) chosen: bool,
}

/// The receiver ids of an endpoint's connections.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    /// Hashed with a key: peers influence the ids from the exporter.
    ids: HashMap<ReceiverId, ConnectionHandle>,
    /// Present on an endpoint that shares its port.
    pub(crate) changes: Option<VecDeque<RouteChange>>,
    /// Datagrams that arrived before their keys: of unknown connections, while a handshake with their sender is in
    /// progress.
    pub(crate) undecryptable: Undecryptable,
}

impl Receivers {
    /// `shared`: other endpoints have the same port.
    pub(crate) fn new(shared: bool) -> Self {
        let changes = shared.then(VecDeque::new);
        Self { ids: HashMap::new(), changes, undecryptable: Undecryptable::default() }
    }

    /// Whether other endpoints have the same port.
    pub(crate) fn is_shared(&self) -> bool {
        self.changes.is_some()
    }

    /// The connection with this id.
    pub(crate) fn find(&self, id: ReceiverId) -> Option<ConnectionHandle> {
        self.ids.get(&id).copied()
    }

    /// Routes datagrams with the connection's ids to it, and chooses some if the endpoint does so.
    pub(crate) fn register(
        &mut self,
        handle: ConnectionHandle,
        connection: &mut Connection,
        quic: &QuicEndpoint,
    ) -> Registered {
        let mut chosen = false;
        if let Some(ids) = &quic.receiver_ids {
            for number in connection.take_unchosen_ids() {
                let mut draws = (0..DRAWS_MAX).filter_map(|_| ids.receiver_id());
                let free = draws.find(|id| !self.ids.contains_key(id));
                chosen |= free.is_some_and(|id| connection.choose_id(number, id));
            }
        }
        let change = connection.take_id_change();
        let issued = !change.issued.is_empty();
        for id in change.issued {
            self.ids.insert(id, handle);
            self.queue_change(RouteChange::Issued(id.0));
        }
        self.ids.extend(change.chosen.into_iter().map(|id| (id, handle)));
        // An id may have been issued and retired since.
        for id in change.retired {
            self.remove(id);
        }
        Registered { issued, chosen }
    }

    /// The connection has ended.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        connection.receiver_ids().for_each(|id| self.remove(id));
    }

    /// A handshake with `remote` has begun: RLP datagrams may arrive before their keys.
    pub(crate) fn begin_handshake(&mut self, remote: SocketAddr) {
        if self.undecryptable.begin(remote) {
            self.queue_change(RouteChange::Begun(remote));
        }
    }

    /// A handshake with `remote` was not accepted.
    pub(crate) fn give_up_handshake(&mut self, remote: SocketAddr) {
        self.undecryptable.give_up(remote);
        self.on_handshake_end(remote);
    }

    /// A handshake with `remote` has ended, and all was taken that arrived before its keys.
    pub(crate) fn on_handshake_end(&mut self, remote: SocketAddr) {
        if !self.undecryptable.is_waiting(remote) {
            self.queue_change(RouteChange::Ended(remote));
        }
    }

    /// Takes the stored datagrams from `remote` that the connection's keys open. `ended`: its handshake has.
    pub(crate) fn take_undecryptable(
        &mut self,
        handle: ConnectionHandle,
        remote: SocketAddr,
        ended: bool,
    ) -> Vec<StoredDatagram> {
        let Self { ids, undecryptable, .. } = self;
        let ours = |datagram: &[u8]| receiver_id(datagram).and_then(|id| ids.get(&id)) == Some(&handle);
        if ended { undecryptable.end(remote, &ours) } else { undecryptable.take(remote, &ours) }
    }

    fn queue_change(&mut self, change: RouteChange) {
        if let Some(changes) = &mut self.changes {
            changes.push_back(change);
        }
    }

    fn remove(&mut self, id: ReceiverId) {
        self.ids.remove(&id);
        self.queue_change(RouteChange::Retired(id.0));
    }
}
