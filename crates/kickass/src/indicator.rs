//! RTT indicators: packets whose length signals the sender's round-trip time to routers (Kick-Ass §2.2).
//!
//! In each [`INTERVAL`] a sender gives one packet the length of its round-trip time's bucket, IP header included, and
//! sets Don't Fragment so that the length stays. There are twelve lengths, 600 to 611 bytes: 600 is a round trip of 1
//! ms, 600 + *k* one of 2^*k* to 2^(*k*+1) - 1 ms, 611 one of 2048 ms or more. Routers use the middle.
//!
//! One in 900 packets has such a length by chance (Kick-Ass §4.3). A single packet therefore proves nothing, and laws
//! use means.

use std::time::Duration;

/// Time between two indicators of a sender: 100 ms.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// IP total length of the first bucket, in bytes.
const FIRST_LEN: usize = 600;

/// A range of round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u8);

impl Bucket {
    /// How many there are.
    pub const COUNT: usize = 12;

    /// The bucket of a round trip. Round trips below 1 ms go into the first bucket.
    pub fn of(rtt: Duration) -> Self {
        let exponent = rtt.as_millis().checked_ilog2().unwrap_or(0);
        Self(exponent.min(Self::COUNT as u32 - 1) as u8)
    }

    /// The bucket that a packet with this IP total length in bytes indicates.
    pub fn from_total_len(len: usize) -> Option<Self> {
        let exponent = len.checked_sub(FIRST_LEN)?;
        (exponent < Self::COUNT).then_some(Self(exponent as u8))
    }

    /// Length of the packets that indicate it, in bytes, IP header included.
    pub fn total_len(self) -> usize {
        FIRST_LEN + usize::from(self.0)
    }

    /// The shortest round trip of the bucket. The first bucket also holds round trips below it.
    pub fn low(self) -> Duration {
        Duration::from_millis(1 << self.0)
    }

    /// The round trip that routers assume: the middle of the bucket as a range of real numbers; 3072 ms for the last
    /// one, whose middle the paper does not give.
    pub fn rtt(self) -> Duration {
        self.low() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_holds() {
        // Length, first and last whole millisecond, middle in microseconds.
        let table = [
            (600, 1, 1, 1_500),
            (601, 2, 3, 3_000),
            (602, 4, 7, 6_000),
            (603, 8, 15, 12_000),
            (604, 16, 31, 24_000),
            (605, 32, 63, 48_000),
            (606, 64, 127, 96_000),
            (607, 128, 255, 192_000),
            (608, 256, 511, 384_000),
            (609, 512, 1023, 768_000),
            (610, 1024, 2047, 1_536_000),
            (611, 2048, 10_000_000, 3_072_000),
        ];
        assert_eq!(table.len(), Bucket::COUNT);
        for (len, first, last, middle) in table {
            let bucket = Bucket::from_total_len(len).unwrap();
            assert_eq!(bucket.total_len(), len);
            for millis in [first, last] {
                assert_eq!(Bucket::of(Duration::from_millis(millis)), bucket, "{millis} ms");
            }
            let end = Duration::from_millis(last + 1) - Duration::from_nanos(1);
            assert_eq!(Bucket::of(end), bucket);
            assert_eq!(bucket.rtt(), Duration::from_micros(middle));
            assert_eq!(bucket.low(), Duration::from_millis(first));
        }
        assert_eq!((Bucket::from_total_len(599), Bucket::from_total_len(612)), (None, None));
        assert_eq!(Bucket::of(Duration::ZERO), Bucket::of(Duration::from_millis(1)));
    }

    proptest! {
        #[test]
        fn an_indicated_round_trip_is_less_than_half_off(micros in 1_000..4_096_000_u64) {
            let rtt = Duration::from_micros(micros);
            let indicated = Bucket::of(rtt).rtt();
            prop_assert!(indicated * 4 >= rtt * 3 && indicated * 2 <= rtt * 3, "{rtt:?} as {indicated:?}");
        }
    }
}
