//! Replaces the rate signals without the feature `kickass`: lengths of fragments mean nothing, and the peer's reports
//! are ignored.

use std::time::Instant;

use super::Connection;
use crate::transmit::Transmit;

impl Connection {
    pub(crate) fn on_leading(&mut self, _len: u16) {}

    pub(super) fn process_rate_signals(&mut self, _now: Instant) {}

    pub(super) fn on_signal(&mut self, _leading: u64) {}

    pub(super) fn note_departure(&mut self, _now: Instant, _bytes: usize) {}

    pub(super) fn write_indicator(&mut self, _now: Instant, _buf: &mut Vec<u8>) -> Option<Transmit> {
        None
    }
}
