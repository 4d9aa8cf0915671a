//! What a receiver reports about arrival times and order: the content of ARRIVAL and ORDER frames.

use std::time::Instant;

use crate::wire::{arrival::Arrival, order::Order};

/// Reports stored between two SACKs: one for each packet of the clock's first flight. Of more, every second one is dropped:
/// the first and the last are what a rate is measured between.
const REPORTS_MAX: usize = 16;

/// Arrivals on one connection.
#[derive(Debug, Default)]
pub(crate) struct ArrivalCounts {
    /// Whether the peer wants reports, once it has said so. Until then they are stored.
    wanted: Option<bool>,
    /// Epoch of the reported times.
    since: Option<Instant>,
    bytes: u64,
    datagrams: u64,
    newest: Option<Arrival>,
    /// Arrivals to report, in ascending order, each at another time.
    reports: Vec<Arrival>,
    /// The counts of the newest PROBE, and whether they were reported.
    order: Option<Order>,
    order_reported: bool,
}

impl ArrivalCounts {
    /// Sets whether the peer wants reports.
    pub(crate) fn on_wanted(&mut self, wanted: bool) {
        self.wanted = Some(wanted);
        if !wanted {
            self.reports = Vec::new();
        }
    }

    /// Whether the peer wants reports.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted == Some(true)
    }

    /// A datagram of `bytes` (UDP payload) arrived at `arrived`, by either loop.
    pub(crate) fn on_bytes(&mut self, arrived: Instant, bytes: usize) {
        self.bytes += bytes as u64;
        // A report counts all bytes of its time: those that the order of reading puts behind its packet would look as
        // if they had taken no time.
        let Some(mut newest) = self.newest.filter(|newest| newest.micros == self.micros(arrived)) else {
            return;
        };
        newest.bytes = self.bytes;
        self.newest = Some(newest);
        if let Some(report) = self.reports.last_mut().filter(|report| report.micros == newest.micros) {
            report.bytes = self.bytes;
        }
    }

    /// An authentic datagram with DATA, which the system received at `arrived`.
    pub(crate) fn on_data(&mut self, arrived: Instant, packet_number: u64) {
        self.datagrams += 1;
        if let Some(order) = self.order.as_mut().filter(|order| packet_number < order.packet_number) {
            order.overtaken += 1;
            self.order_reported = false;
        }
        if self.newest.is_some_and(|newest| packet_number <= newest.packet_number) {
            return;
        }
        self.since.get_or_insert(arrived);
        // Time does not go backwards, though stamps may when the system's clock is set.
        let earliest = self.newest.map_or(0, |newest| newest.micros);
        let newest = Arrival {
            packet_number,
            datagrams: self.datagrams,
            bytes: self.bytes,
            micros: self.micros(arrived).max(earliest),
        };
        self.newest = Some(newest);
        if self.wanted != Some(false) {
            self.add_report(newest);
        }
    }

    /// A time in the units of reports.
    fn micros(&self, at: Instant) -> u64 {
        let since = self.since.unwrap_or(at);
        u64::try_from(at.saturating_duration_since(since).as_micros()).unwrap_or(u64::MAX)
    }

    /// Simultaneous arrivals are one report, of the last.
    fn add_report(&mut self, arrival: Arrival) {
        if self.reports.last().is_some_and(|last| last.micros == arrival.micros) {
            self.reports.pop();
        }
        if self.reports.len() == REPORTS_MAX {
            let mut kept = false;
            self.reports.retain(|_| {
                kept = !kept;
                kept
            });
        }
        self.reports.push(arrival);
    }

    /// An authentic datagram with a PROBE.
    pub(crate) fn on_probe(&mut self, packet_number: u64) {
        if self.order.is_none_or(|order| order.packet_number < packet_number) {
            self.order = Some(Order { packet_number, came: self.datagrams, overtaken: 0 });
            self.order_reported = false;
        }
    }

    /// The ORDER report that is due, like [`Self::take_reports`].
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        let due = self.are_wanted() && !std::mem::replace(&mut self.order_reported, true);
        self.order.filter(|_| due)
    }

    /// The reports that are due: arrivals since the last, if the peer wants them.
    pub(crate) fn take_reports(&mut self) -> Vec<Arrival> {
        if self.are_wanted() { std::mem::take(&mut self.reports) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The reports after packets with these numbers arrived at these times, in microseconds.
    fn reports(packets: impl IntoIterator<Item = (u64, u64)>) -> Vec<Arrival> {
        let mut arrivals = ArrivalCounts::default();
        let epoch = Instant::now() + Duration::from_secs(1);
        arrivals.on_wanted(true);
        for (number, micros) in packets {
            let at = epoch + Duration::from_micros(micros);
            arrivals.on_bytes(at, 1000);
            arrivals.on_data(at, number);
        }
        let reports = arrivals.take_reports();
        assert!(arrivals.take_reports().is_empty(), "each is reported once");
        reports
    }

    fn times(reports: &[Arrival]) -> Vec<(u64, u64)> {
        reports.iter().map(|report| (report.packet_number, report.micros)).collect()
    }

    #[test]
    fn packets_read_together_are_reported_by_when_each_arrived() {
        let reports = reports([(0, 5), (1, 29), (2, 53), (3, 53), (4, 80)]);
        assert_eq!(times(&reports), [(0, 0), (1, 24), (3, 48), (4, 75)]);
        assert_eq!(reports[2], Arrival { packet_number: 3, datagrams: 4, bytes: 4000, micros: 48 });
    }

    #[test]
    fn bytes_of_the_primary_count_from_the_time_at_which_they_arrived() {
        let mut arrivals = ArrivalCounts::default();
        let epoch = Instant::now();
        arrivals.on_wanted(true);
        let at = |micros| epoch + Duration::from_micros(micros);
        // Each read brings a packet of RLP and then some of the primary.
        for (number, micros, primary) in [(0, 0, 1000), (1, 5000, 9000), (2, 10_000, 2000)] {
            arrivals.on_bytes(at(micros), 1000);
            arrivals.on_data(at(micros), number);
            arrivals.on_bytes(at(micros), primary);
        }
        // Later, so in no report.
        arrivals.on_bytes(at(10_001), 500);
        let reports: Vec<_> = arrivals.take_reports().iter().map(|report| report.bytes).collect();
        assert_eq!(reports, [2000, 12_000, 15_000]);
    }

    #[test]
    fn packets_that_were_overtaken_are_only_counted() {
        let reports = reports([(3, 0), (1, 10), (2, 20), (4, 30)]);
        assert_eq!(times(&reports), [(3, 0), (4, 30)]);
        assert_eq!(reports[1].datagrams, 4);
    }

    #[test]
    fn many_reports_are_thinned_but_first_and_last_remain() {
        let reports = reports((0..1000).map(|nth| (nth, 3 * nth)));
        assert!((REPORTS_MAX / 2..=REPORTS_MAX).contains(&reports.len()), "{reports:?}");
        assert_eq!((reports[0].packet_number, reports[reports.len() - 1].packet_number), (0, 999));
        assert!(reports.is_sorted_by_key(|report| report.micros));
    }

    /// A peer that has not said yet gets reports of what came before it did.
    #[test]
    fn a_peer_that_wants_no_reports_costs_none() {
        let mut arrivals = ArrivalCounts::default();
        let epoch = Instant::now();
        arrivals.on_data(epoch, 0);
        assert_eq!(arrivals.reports.len(), 1);
        arrivals.on_wanted(false);
        (1..9).for_each(|number| arrivals.on_data(epoch + Duration::from_micros(number), number));
        assert!(arrivals.reports.is_empty() && arrivals.take_reports().is_empty());
    }

    #[test]
    fn time_does_not_go_backwards_when_stamps_do() {
        let reports = reports([(0, 500), (1, 700), (2, 100), (3, 650), (4, 900)]);
        assert_eq!(times(&reports), [(0, 0), (3, 200), (4, 400)]);
    }
}
