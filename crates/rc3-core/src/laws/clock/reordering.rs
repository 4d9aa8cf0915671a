//! Reordering on the path (RFC 4737): packets that others overtook, and that arrived all the same.
//!
//! Without it, jitter looks like a queue of other traffic, late packets look lost, and a burst that jitter spread looks
//! like a slower path. A queue keeps the order, so what overtakes shows how much of the differences is not a queue.

use std::time::Duration;

use crate::laws::constants::Law;

/// Packets seen late.
#[derive(Debug, Default)]
pub(super) struct Reordering {
    /// The most that were overtaken at once and had not arrived yet.
    overtaken: u64,
    /// The most of them that came later.
    late: u64,
}

/// How far packets on the path overtake each other: by how many packets, and by how many seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) packets: u64,
    pub(super) seconds: f64,
}

impl Reordering {
    /// By a new report, `overtaken` datagrams have not arrived.
    pub(super) fn on_report(&mut self, overtaken: u64) {
        self.late = self.late.max(self.overtaken.saturating_sub(overtaken));
        self.overtaken = self.overtaken.max(overtaken);
    }

    /// On a link that takes `service` seconds for a packet. At most `most`, because a receiver can make up what it counts.
    pub(super) fn extent(&self, law: &Law, service: f64, most: Duration) -> Extent {
        if service <= 0.0 {
            return Extent::default();
        }
        let seconds = (law.reordering_seen * self.late as f64 * service).min(most.as_secs_f64());
        Extent { packets: (seconds / service) as u64, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_what_comes_after_it_was_overtaken_is_late() {
        let mut reordering = Reordering::default();
        let mut packets = |overtaken: &[u64]| {
            overtaken.iter().for_each(|&overtaken| reordering.on_report(overtaken));
            reordering.extent(&Law::default(), 1e-3, 10 * MS).packets
        };
        // Losses.
        assert_eq!(packets(&[1, 1, 2, 7, 7]), 0);
        assert_eq!(packets(&[8, 5, 6, 9, 8]), 6);
        assert_eq!(packets(&[5]), 8);
        // At most ten milliseconds.
        assert_eq!(packets(&[200, 5]), 10);
    }

    #[test]
    fn without_a_rate_nothing_is_known() {
        let mut reordering = Reordering::default();
        reordering.on_report(3);
        reordering.on_report(0);
        assert_eq!(reordering.extent(&Law::default(), 0.0, MS).packets, 0);
    }
}
