//! The part of a graceful restart: another process takes the port over, or had it before.

#[cfg(all(target_os = "linux", not(rc3_portable)))]
use super::Bound;
use super::EndpointState;
use crate::{handed_over::Detours, relay::SuccessorLink, waiters::EndpointWaiters};

/// Without a restart this stays as it begins.
#[derive(Default)]
pub(crate) struct Restart {
    /// Another process has taken the port over. Until then its link must stay open, because its end shows that the
    /// process has failed.
    successor_reads: bool,
    /// Its link, for the driver.
    pub(crate) successor: Option<SuccessorLink>,
    /// Datagrams exchanged with the processes that have the port before and after this one.
    pub(crate) detours: Detours,
}

impl EndpointState {
    /// Another process takes the port over: from now on this one only sends, by `bound`.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn hand_over(&mut self, bound: Bound, successor: SuccessorLink) {
        self.bound = bound;
        // Without a driver nobody would stop reading, and the caller would wait for that.
        self.restart.successor = Some(successor).filter(|_| self.lifetime.failure.is_none());
        self.core.retire(self.runtime.now());
        self.wake_driver();
    }

    /// The other process reads the port.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn on_successor_reads(&mut self) {
        // It may have gone by now, and this one read again.
        self.restart.successor_reads = self.is_handed_over();
        self.wake_driver();
    }

    /// That process is gone: this one reads again, by `bound`.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn take_back(&mut self, bound: Bound) {
        bound.set_shared(self.core.has_predecessor());
        self.bound = bound;
        self.restart.successor_reads = false;
        self.restart.successor = None;
        self.core.resume();
        self.wake_driver();
    }

    /// Another process, which had the port before, has no connections any more.
    pub(crate) fn on_predecessor_gone(&mut self, waiters: &EndpointWaiters) {
        self.core.handle_predecessor_gone();
        self.bound.set_shared(self.is_handed_over());
        waiters.idle.notify_waiters();
        self.wake_driver();
    }

    /// Whether another process takes the port over, or has done so.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.core.is_retired()
    }

    /// Whether datagrams from one process to another pass through this one.
    pub(crate) fn is_between(&self) -> bool {
        self.is_handed_over() && self.core.has_predecessor() && self.lifetime.failure.is_none()
    }

    /// Whether nothing will ever happen again after a hand-over: no connection is left, no peer waits.
    pub(crate) fn is_done(&self) -> bool {
        self.restart.successor_reads
            && !self.core.has_predecessor()
            && self.member.open_connections() == 0
            && self.core.incoming_stats().waiting == 0
    }

    /// Whether a peer may come that has not asked yet. While it is open whether another process really takes the port
    /// over, one may.
    pub(crate) fn may_get_peers(&self) -> bool {
        !self.is_closed() && !self.restart.successor_reads
    }
}
