//! What a receiver reports about when datagrams arrived, and in which order: the content of ARRIVAL and ORDER frames.

use std::time::Instant;

use crate::wire::{arrival::Arrival, order::Order};

/// Arrivals on one connection.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// The peer has asked for them.
    wanted: bool,
    /// When the clock of the reports started.
    since: Option<Instant>,
    bytes: u64,
    datagrams: u64,
    newest: Option<Arrival>,
    reported: bool,
    /// What the newest PROBE has met, and whether that was reported.
    order: Option<Order>,
    order_reported: bool,
}

impl Arrivals {
    /// The peer says whether it wants reports.
    pub(crate) fn on_wanted(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Whether it does.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// A datagram of `bytes` (UDP payload) has come, by either loop.
    pub(crate) fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// It was authentic and carried DATA.
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

    /// It was authentic and a PROBE.
    pub(crate) fn on_probe(&mut self, packet_number: u64) {
        if self.order.is_none_or(|order| order.packet_number < packet_number) {
            self.order = Some(Order { packet_number, came: self.datagrams, overtaken: 0 });
            self.order_reported = false;
        }
    }

    /// What to report of the order, as [`Self::take_report`].
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        let due = self.wanted && !std::mem::replace(&mut self.order_reported, true);
        self.order.filter(|_| due)
    }

    /// What to report now: news, to a peer that wants them.
    pub(crate) fn take_report(&mut self) -> Option<Arrival> {
        let due = self.wanted && !std::mem::replace(&mut self.reported, true);
        self.newest.filter(|_| due)
    }
}
