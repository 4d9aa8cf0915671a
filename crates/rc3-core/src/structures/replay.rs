//! Which packet numbers were received: a packet opens once.
//!
//! A bitmap slides over the packet numbers, one bit each, and always ends with the word of the highest seen (RFC 6479).
//! Numbers below the window count as seen.

/// How far behind the highest packet number a packet may still arrive, in packets.
///
/// Far more than in other protocols (64 by default in RFC 9147 §4.5.1): a packet at a bad level waits in the queues of
/// the path while better packets are sent, and the next logical flow starts at level 1 and overtakes it. So an honest
/// path reorders by whole ladders of packets and whole bandwidth-delay products, and a shorter window would discard
/// packets that the network has delivered. It costs 2 KiB for each connection.
pub(crate) const WINDOW: u64 = 16_384;

const WORD_BITS: u64 = u64::BITS as u64;
/// The window begins anywhere in a word, so it lies in one more than it fills.
const WORDS: usize = (WINDOW / WORD_BITS) as usize + 1;

/// The state of a packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Not seen.
    New,
    /// Inside the window, and seen.
    Duplicate,
    /// Below the window: unknown, so it must be refused.
    TooOld,
}

/// The last [`WINDOW`] packet numbers up to the highest seen, with a bit for each.
#[derive(Clone)]
pub(crate) struct ReplayWindow {
    /// The word of the numbers from `64 w` on is at `w % WORDS`. Bits from `next` on are clear.
    words: Box<[u64; WORDS]>,
    /// One above the highest packet number seen.
    pub(crate) next: u64,
}

impl ReplayWindow {
    /// An empty window.
    pub(crate) fn new() -> Self {
        Self { words: Box::new([0; WORDS]), next: 0 }
    }

    /// The state of `packet_number`.
    fn check(&self, packet_number: u64) -> Freshness {
        if packet_number >= self.next {
            Freshness::New
        } else if self.next - packet_number > WINDOW {
            Freshness::TooOld
        } else if self.words[place_of(packet_number / WORD_BITS)] & bit(packet_number) != 0 {
            Freshness::Duplicate
        } else {
            Freshness::New
        }
    }

    /// Marks `packet_number` as seen and advances the window if it is the highest. Returns its state before.
    ///
    /// Takes constant time, except for a jump ahead, which clears the words that it begins: at most 257.
    pub(crate) fn insert(&mut self, packet_number: u64) -> Freshness {
        let state = self.check(packet_number);
        if state != Freshness::New {
            return state;
        }
        if packet_number >= self.next {
            let last = self.next.saturating_sub(1) / WORD_BITS;
            for word in (last + 1..=packet_number / WORD_BITS).take(WORDS) {
                self.words[place_of(word)] = 0;
            }
            self.next = packet_number.saturating_add(1);
        }
        self.words[place_of(packet_number / WORD_BITS)] |= bit(packet_number);
        state
    }
}

const fn place_of(word: u64) -> usize {
    (word % WORDS as u64) as usize
}

const fn bit(packet_number: u64) -> u64 {
    1 << (packet_number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Oracle(BTreeSet<u64>);

    impl Oracle {
        fn check(&self, number: u64) -> Freshness {
            let Some(&highest) = self.0.last() else { return Freshness::New };
            if number.saturating_add(WINDOW) <= highest {
                Freshness::TooOld
            } else if self.0.contains(&number) {
                Freshness::Duplicate
            } else {
                Freshness::New
            }
        }
    }

    #[test]
    fn the_window_is_exactly_as_long_as_it_says() {
        let mut window = ReplayWindow::new();
        window.insert(WINDOW);
        assert_eq!(window.check(0), Freshness::TooOld);
        assert_eq!(window.check(1), Freshness::New);
        window.insert(1);
        assert_eq!(window.check(1), Freshness::Duplicate);
        window.insert(WINDOW + 1);
        assert_eq!(window.check(1), Freshness::TooOld);
        assert_eq!(window.check(WINDOW), Freshness::Duplicate);
    }

    #[test]
    fn the_end_of_the_number_space_is_harmless() {
        let mut window = ReplayWindow::new();
        for number in [u64::MAX - 70, u64::MAX - 1] {
            assert_eq!(window.check(number), Freshness::New);
            window.insert(number);
            assert_eq!(window.check(number), Freshness::Duplicate);
        }
    }

    proptest! {
        #[test]
        fn verdicts_are_those_of_a_set(
            base in prop_oneof![Just(0), 0..1_u64 << 61],
            moves in prop::collection::vec(
                (
                    any::<bool>(),
                    prop_oneof![0..4_u64, 0..200_u64, 0..2 * WINDOW, Just(WINDOW), 0..1_u64 << 40],
                ),
                1..400,
            ),
        ) {
            let mut window = ReplayWindow::new();
            let mut oracle = Oracle::default();
            let mut highest = base;
            for (ahead, distance) in moves {
                let number = if ahead { highest + distance } else { highest.saturating_sub(distance) };
                let state = oracle.check(number);
                if state == Freshness::New {
                    oracle.0.insert(number);
                }
                prop_assert_eq!(window.insert(number), state, "{}", number);
                highest = highest.max(number);
                prop_assert_eq!(window.next, oracle.0.last().map_or(0, |last| last + 1));
            }
            for number in highest.saturating_sub(WINDOW + 2)..=highest + 2 {
                prop_assert_eq!(window.check(number), oracle.check(number), "{}", number);
            }
        }
    }
}
