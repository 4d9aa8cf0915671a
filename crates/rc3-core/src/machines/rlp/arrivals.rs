//! What a receiver tells of the times at which datagrams came: the content of ARRIVAL frames.

use std::time::Instant;

use crate::wire::arrival::Arrival;

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

    /// What to report now: news, to a peer that wants them.
    pub(crate) fn take_report(&mut self) -> Option<Arrival> {
        let due = self.wanted && !std::mem::replace(&mut self.reported, true);
        self.newest.filter(|_| due)
    }
}
