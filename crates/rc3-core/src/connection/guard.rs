//! What the guard is told and what it says: samples of both loops in, withdrawal and probes out.

use std::time::Instant;

use super::Connection;
use crate::{
    ledger::State,
    overlay::Overlay,
    primary::{Primary, Waiting},
    rlp::guard::{Guard, Record},
};

impl Connection {
    /// What earlier connections have learned about the path.
    pub(crate) fn recall(&mut self, now: Instant, record: Record) {
        if let Some(rlp) = self.rlp() {
            rlp.recall(now, record);
        }
    }

    /// What later connections should know about the path, if there is something new.
    pub(crate) fn take_record(&mut self) -> Option<Record> {
        self.guard()?.take_record()
    }

    /// Whether the primary was given a probe to send since the last call.
    pub(crate) fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.place.probe_due)
    }

    pub(super) fn guard(&mut self) -> Option<&mut Guard> {
        self.rlp()?.guard()
    }

    /// Tells the guard what became of packets of the primary.
    pub(super) fn watch_primary(&mut self, now: Instant) {
        let sample = self.primary.take_path_sample(now);
        let Some(guard) = self.guard() else { return };
        if let Some((sent, rtt)) = sample.acked {
            guard.on_primary_acked(now, sent, rtt);
        }
        if let Some(sent) = sample.lost {
            guard.on_primary_lost(now, sent);
        }
        if sample != Default::default() {
            self.judge(now);
        }
    }

    /// Lets the guard judge what has been learned.
    pub(super) fn judge(&mut self, now: Instant) {
        let Self { overlay: Some(Overlay { rlp: Some(rlp), .. }), streams, .. } = self else { return };
        let Some(guard) = rlp.guard() else { return };
        let withdrawn = guard.judge(now, |id, offset| {
            streams.send(id).is_some_and(|stream| matches!(stream.ledger.state(offset), State::Rlp(_)))
        });
        let stats = guard.stats();
        // What RLP waited for may have come.
        if stats.withdrawn_until.is_none() {
            self.rlp_wake = None;
        }
        if withdrawn {
            tracing::warn!(
                remote = %self.primary.addresses().0,
                waited = stats.waited,
                lost = stats.lost,
                overtook = stats.overtook,
                "the path does not honour priorities: the primary waits and is lost like RLP, which is withdrawn",
            );
        }
    }

    /// RLP has nothing to send: a packet of the primary behind it shows how the path treats both.
    pub(super) fn probe(&mut self, now: Instant) {
        let window = self.primary.window();
        if window.waiting != Waiting::Nothing || window.packets() == 0 {
            return;
        }
        if self.guard().is_some_and(|guard| guard.wants_probe(now)) {
            self.primary.probe();
            self.place.probe_due = true;
        }
    }
}
