//! What a receiver reports about arrival times and order: the content of ARRIVAL and ORDER frames.

use std::time::Instant;

use crate::wire::{arrival::Arrival, order::Order};

/// Arrivals on one connection.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Whether the peer has requested reports.
    wanted: bool,
    /// Epoch of the reported times.
    since: Option<Instant>,
    bytes: u64,
    datagrams: u64,
    newest: Option<Arrival>,
    reported: bool,
    /// The counts of the newest PROBE, and whether they were reported.
    order: Option<Order>,
    order_reported: bool,
}

impl Arrivals {
    /// Sets whether the peer wants reports.
    pub(crate) fn on_wanted(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Whether the peer wants reports.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// A datagram of `bytes` (UDP payload) has arrived, by either loop.
    pub(crate) fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// An authentic datagram with DATA.
    pub(crate) fn on_data(&mut self, now: Instant, packet_number: u64) {
        self.datagrams += 1;
        if let Some(order) = self.order.as_mut().filter(|order| packet_number < order.packet_number) {
            order.overtaken += 1;
            self.order_reported = false;
        }
        if self.newest.is_some_and(|newest| packet_number <= newest.packet_number) {
            return;
        }
        let since = *self.since.get_or_insert(now);
        let micros = now.saturating_duration_since(since).as_micros();
        self.newest = Some(Arrival {
            packet_number,
            datagrams: self.datagrams,
            bytes: self.bytes,
            micros: u64::try_from(micros).unwrap_or(u64::MAX),
        });
        self.reported = false;
    }

    /// An authentic datagram with a PROBE.
    pub(crate) fn on_probe(&mut self, packet_number: u64) {
        if self.order.is_none_or(|order| order.packet_number < packet_number) {
            self.order = Some(Order { packet_number, came: self.datagrams, overtaken: 0 });
            self.order_reported = false;
        }
    }

    /// The ORDER report that is due, like [`Self::take_report`].
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        let due = self.wanted && !std::mem::replace(&mut self.order_reported, true);
        self.order.filter(|_| due)
    }

    /// The report that is due: changed counts, if the peer wants them.
    pub(crate) fn take_report(&mut self) -> Option<Arrival> {
        let due = self.wanted && !std::mem::replace(&mut self.reported, true);
        self.newest.filter(|_| due)
    }
}
