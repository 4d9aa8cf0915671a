//! The budget of short packets in a queue, shared between the ports where they entered.
//!
//! The limit of a queue is in bytes, because that is what its link carries. A packet also costs memory and time of its
//! own: packets of 29 bytes, which any process can send, take a dozen times the memory of their bytes, and a queue full of
//! them takes longer to write than its link takes to transmit them. So there may be [`SHORT_MAX`] short packets, whatever
//! the limit in bytes.
//!
//! Each port may hold as many as are still free for all (dynamic thresholds with alpha = 1, Choudhury and Hahne, *Dynamic
//! Queue Length Thresholds for Shared-Memory Packet Switches*, 1998): one port that floods gets half of them, and other
//! ports always find room. Longer packets are limited by their bytes alone, so a discipline treats them as it should.

/// Packets shorter than this are short, in bytes of IP. Longer ones take at most half as much memory again as their bytes.
const SHORT_BELOW: u64 = 256;
/// Most short packets in a queue: half of them, from one port, are written within some ten milliseconds.
const SHORT_MAX: usize = 8192;

/// Short packets in a queue, by the port where they entered.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    held: Vec<usize>,
    total: usize,
}

impl Shares {
    /// Counts a packet of this length from a port; false if the port has used up its share.
    pub(crate) fn admit(&mut self, from: usize, len: u64) -> bool {
        if len >= SHORT_BELOW {
            return true;
        }
        if self.held.len() <= from {
            self.held.resize(from + 1, 0);
        }
        let held = &mut self.held[from];
        let admitted = *held < SHORT_MAX - self.total;
        if admitted {
            *held += 1;
            self.total += 1;
        }
        admitted
    }

    /// An admitted packet has left the queue.
    pub(crate) fn release(&mut self, from: usize, len: u64) {
        if len < SHORT_BELOW {
            self.held[from] -= 1;
            self.total -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 29 bytes that a port gets in, of as many as it likes.
    fn flood(shares: &mut Shares, from: usize) -> usize {
        (0..10 * SHORT_MAX).filter(|_| shares.admit(from, 29)).count()
    }

    #[test]
    fn ports_that_flood_leave_room_for_others() {
        let mut shares = Shares::default();
        assert_eq!(flood(&mut shares, 0), SHORT_MAX / 2);
        assert_eq!(flood(&mut shares, 3), SHORT_MAX / 4);
        for quiet in [1, 2, 4] {
            assert!(shares.admit(quiet, SHORT_BELOW - 1));
        }
        assert!(shares.total < SHORT_MAX);
    }

    #[test]
    fn long_packets_take_no_share() {
        let mut shares = Shares::default();
        assert!((0..10 * SHORT_MAX).all(|_| shares.admit(0, SHORT_BELOW)));
        assert_eq!(flood(&mut shares, 0), SHORT_MAX / 2);
    }

    #[test]
    fn a_share_is_free_again_once_its_packets_have_left() {
        let mut shares = Shares::default();
        let first = flood(&mut shares, 0);
        assert!(!shares.admit(0, 29) && shares.admit(0, SHORT_BELOW));
        (0..first).for_each(|_| shares.release(0, 29));
        shares.release(0, SHORT_BELOW);
        assert_eq!((shares.total, flood(&mut shares, 0)), (0, first));
    }
}
