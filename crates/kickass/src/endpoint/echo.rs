//! What a receiver tells its sender about leading fragments.

use std::time::{Duration, Instant};

use crate::code::Code;

/// Codes on their way back: the last one counts, and a sender hears of it often enough to know that routers still
/// signal.
///
/// A code that is another than the one told last goes at once, the same one again so many times per round trip.
#[derive(Debug, Clone, Default)]
pub struct Echo {
    /// The code of the latest leading fragment, unless it has been told.
    fresh: Option<Code>,
    told: Option<(Code, Instant)>,
}

/// How often the same code is told again in a round trip: twice in the time after which a sender gives up waiting, so
/// that jitter of half a round trip is no silence.
const PER_RTT: u32 = 2;

impl Echo {
    /// Nothing has been seen.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet has come whose leading fragment carried `len` bytes behind the IP header. Lengths that are no code are
    /// those of fragments that somebody else made, and are ignored.
    pub fn on_leading(&mut self, len: usize) {
        if let Some(code) = Code::from_len(len) {
            self.fresh = Some(code);
        }
    }

    /// What to tell the sender at `now`, if anything; `rtt` is the round trip as far as it is known.
    pub fn poll(&mut self, now: Instant, rtt: Duration) -> Option<Code> {
        let code = self.fresh?;
        let due = match self.told {
            Some((told, at)) => told != code || now >= at + rtt / PER_RTT,
            None => true,
        };
        if !due {
            return None;
        }
        self.fresh = None;
        self.told = Some((code, now));
        Some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    #[test]
    fn a_new_code_goes_at_once_and_the_same_one_twice_per_round_trip() {
        let start = Instant::now();
        let mut echo = Echo::new();
        assert_eq!(echo.poll(start, RTT), None);
        echo.on_leading(408);
        assert_eq!(echo.poll(start, RTT), Code::from_len(408));
        echo.on_leading(408);
        assert_eq!(echo.poll(start + RTT / 4, RTT), None);
        assert_eq!(echo.poll(start + RTT / 2, RTT), Code::from_len(408));
        echo.on_leading(400);
        assert_eq!(echo.poll(start + RTT / 2, RTT), Code::from_len(400));
    }

    #[test]
    fn where_no_fragment_comes_nothing_is_told() {
        let start = Instant::now();
        let mut echo = Echo::new();
        echo.on_leading(408);
        echo.poll(start, RTT);
        assert_eq!(echo.poll(start + 10 * RTT, RTT), None);
        // 100 is no multiple of 8, 16 below the lowest rate.
        echo.on_leading(100);
        echo.on_leading(16);
        assert_eq!(echo.poll(start + 20 * RTT, RTT), None);
    }
}
