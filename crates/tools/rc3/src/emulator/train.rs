//! Joins consecutive datagrams into one send.
//!
//! Invariant: all datagrams of a train go from one socket to one destination with one traffic class; all except the
//! last have the same length. Order is kept: a datagram that does not fit flushes the train first.

use std::{net::SocketAddr, sync::Arc};

use rc3_net::socket::{MAX_GSO_BYTES, Outgoing, Socket};

/// The two marks of a datagram that the link preserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrafficClass {
    /// Differentiated services code point, 0 to 63.
    pub(super) dscp: u8,
    /// Explicit congestion notification, 0 to 3.
    pub(super) ecn: u8,
}

/// Datagrams waiting to be sent together.
#[derive(Debug, Default)]
pub(super) struct Train {
    /// `None` while the train is empty.
    route: Option<TrainRoute>,
    contents: Vec<u8>,
    /// Length of each datagram except the last.
    segment_size: usize,
    datagrams: usize,
    /// Datagrams that could not be sent.
    failed: u64,
}

#[derive(Debug)]
struct TrainRoute {
    socket: Arc<Socket>,
    destination: SocketAddr,
    class: TrafficClass,
}

impl Train {
    /// Adds a datagram; flushes the train first if it does not fit.
    pub(super) fn push(
        &mut self,
        socket: &Arc<Socket>,
        destination: SocketAddr,
        class: TrafficClass,
        contents: &[u8],
    ) {
        if !self.takes(socket, destination, class, contents.len()) {
            self.flush();
            self.route = Some(TrainRoute { socket: Arc::clone(socket), destination, class });
            self.segment_size = contents.len();
        }
        self.contents.extend_from_slice(contents);
        self.datagrams += 1;
    }

    /// Sends the train. A full send buffer drops it, as a real interface would drop packets.
    pub(super) fn flush(&mut self) {
        let Some(TrainRoute { socket, destination, class }) = self.route.take() else { return };
        let sent = socket.try_send(&Outgoing {
            destination,
            source: None,
            ecn: class.ecn,
            dscp: class.dscp,
            priority: None,
            contents: &self.contents,
            segment_size: Some(self.segment_size),
            dont_fragment: true,
        });
        if sent.is_err() {
            self.failed += self.datagrams as u64;
        }
        self.contents.clear();
        self.datagrams = 0;
    }

    /// Datagrams that could not be sent so far.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    fn takes(&self, socket: &Arc<Socket>, destination: SocketAddr, class: TrafficClass, len: usize) -> bool {
        let Some(route) = &self.route else { return false };
        Arc::ptr_eq(&route.socket, socket)
            && route.destination == destination
            && route.class == class
            && len <= self.segment_size
            && self.contents.len() == self.datagrams * self.segment_size
            && self.contents.len() + len <= MAX_GSO_BYTES
            && self.datagrams < socket.capabilities().gso_segments_max
    }
}
