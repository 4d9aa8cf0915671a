//! What a peer's primary may send: the window that quinn-proto offers, and credit beyond it that cannot be taken back.
//!
//! quinn-proto grants what the application has read plus the window. If the window shrinks, the grants stay, and reads
//! grant nothing until they have made up for the difference, the debt.
//!
//! Unit: bytes.

use super::shares::FLOOR;

/// A smaller increase than this fraction of the window is not worth a frame ...
const STEPS_PER_WINDOW: u64 = 8;

/// ... unless it doubles the offer, from this on.
const LEAST: u64 = FLOOR / 4;

/// An offer, and the debt of earlier ones.
#[derive(Debug)]
pub(crate) struct Offer {
    offered: u64,
    debt: u64,
}

impl Offer {
    pub(crate) fn new(offered: u64) -> Self {
        Self { offered, debt: 0 }
    }

    /// What may still arrive beyond the bytes that were read. Too high for a while after bytes were dropped unread.
    pub(crate) fn promised(&self) -> u64 {
        self.offered + self.debt
    }

    /// `bytes` were read.
    pub(crate) fn on_read(&mut self, bytes: u64) {
        self.debt = self.debt.saturating_sub(bytes);
    }

    /// The new offer of at most `window` bytes, if it differs enough. A smaller one costs no frame.
    pub(crate) fn change(&mut self, offer: u64, window: u64) -> Option<u64> {
        let more = offer.saturating_sub(self.offered);
        let worth_a_frame = more >= (window / STEPS_PER_WINDOW).min(self.offered.max(LEAST));
        if offer == self.offered || (more > 0 && offer < window && !worth_a_frame) {
            return None;
        }
        self.debt += self.offered.saturating_sub(offer);
        self.offered = offer;
        Some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 4 << 20;

    #[test]
    fn credit_stays_promised_until_it_is_used() {
        let mut offer = Offer::new(WINDOW);
        assert_eq!(offer.change(WINDOW / 2, WINDOW), Some(WINDOW / 2));
        assert_eq!(offer.promised(), WINDOW);
        offer.on_read(WINDOW / 4);
        assert_eq!(offer.promised(), WINDOW * 3 / 4);
        offer.on_read(WINDOW);
        assert_eq!(offer.promised(), WINDOW / 2);
    }

    #[test]
    fn every_decrease_counts_and_increases_come_in_steps() {
        let mut offer = Offer::new(WINDOW);
        assert_eq!(offer.change(WINDOW - 1, WINDOW), Some(WINDOW - 1));
        assert_eq!(offer.change(WINDOW, WINDOW), Some(WINDOW));
        assert_eq!(offer.change(WINDOW / 2, WINDOW), Some(WINDOW / 2));
        assert_eq!(offer.change(WINDOW / 2 + 1, WINDOW), None);
        assert_eq!(offer.change(WINDOW * 5 / 8, WINDOW), Some(WINDOW * 5 / 8));
        // A peer with little gets the floor, however large the window.
        assert_eq!(offer.change(0, WINDOW), Some(0));
        assert_eq!(offer.change(LEAST - 1, WINDOW), None);
        assert_eq!(offer.change(FLOOR, WINDOW), Some(FLOOR));
    }
}
