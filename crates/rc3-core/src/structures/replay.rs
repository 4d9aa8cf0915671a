//! Which packet numbers were received: a packet opens once.
//!
//! A bitmap slides over the packet numbers, one bit each, and always ends with the highest seen. Numbers below it count
//! as seen.

/// How far behind the highest packet number a packet may still arrive, in packets.
///
/// Far more than in other protocols (64 by default in RFC 9147 §4.5.1): a packet at a bad level waits in the queues of
/// the path while better packets are sent, and the next logical flow starts at level 1 and overtakes it. So an honest
/// path reorders by whole ladders of packets and whole bandwidth-delay products, and a shorter window would discard
/// packets that the network has delivered. It costs 2 KiB for each connection.
pub(crate) const WINDOW: u64 = 16_384;

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

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
    /// Bit `n % WINDOW` belongs to packet number `n`. All bits outside `next - WINDOW..next` are clear.
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
        } else if self.words[word_index(packet_number)] & bit(packet_number) != 0 {
            Freshness::Duplicate
        } else {
            Freshness::New
        }
    }

    /// Marks `packet_number` as seen and advances the window if it is the highest. Returns its state before.
    ///
    /// Takes constant time, except for a jump ahead, which clears the words it skips: at most 256.
    pub(crate) fn insert(&mut self, packet_number: u64) -> Freshness {
        let state = self.check(packet_number);
        if state != Freshness::New {
            return state;
        }
        if packet_number >= self.next {
            self.clear_to(packet_number);
            self.next = packet_number.saturating_add(1);
        }
        self.words[word_index(packet_number)] |= bit(packet_number);
        state
    }

    /// Clears the bits that `next..=last` take over from the numbers one window earlier.
    fn clear_to(&mut self, last: u64) {
        if last - self.next >= WINDOW {
            self.words.fill(0);
            return;
        }
        let mut number = self.next;
        while number <= last {
            let word_last = number | (WORD_BITS - 1);
            let keep_above = if word_last > last { !0 << (last % WORD_BITS) << 1 } else { 0 };
            let keep_below = bit(number) - 1;
            self.words[word_index(number)] &= keep_above | keep_below;
            let Some(following) = word_last.checked_add(1) else { return };
            number = following;
        }
    }
}

const fn word_index(packet_number: u64) -> usize {
    (packet_number % WINDOW / WORD_BITS) as usize
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
