//! How a receiver reports the codes of leading fragments to its sender.

use std::time::{Duration, Instant};

use crate::code::Code;

/// Codes on their way back. Only the latest counts; it is reported often enough that the sender knows routers still
/// signal.
///
/// A changed code is reported at once, an unchanged one twice per round trip.
#[derive(Debug, Clone, Default)]
pub struct Echo {
    /// The code of the latest leading fragment, unless already reported.
    fresh: Option<Code>,
    reported: Option<(Code, Instant)>,
}

/// Reports of an unchanged code per round trip: two within the time after which a sender stops waiting, so that jitter
/// of half a round trip does not end Kick-Ass mode.
const PER_RTT: u32 = 2;

impl Echo {
    /// A packet arrived whose leading fragment carried `len` bytes behind the IP header. A length that is not a code
    /// comes from other fragmentation and is ignored.
    pub fn on_leading(&mut self, len: usize) {
        if let Some(code) = Code::from_len(len) {
            self.fresh = Some(code);
        }
    }

    /// The code to report at `now`, if any; `rtt` is the best known round trip.
    pub fn poll(&mut self, now: Instant, rtt: Duration) -> Option<Code> {
        let code = self.fresh?;
        let due = match self.reported {
            Some((reported, at)) => reported != code || now >= at + rtt / PER_RTT,
            None => true,
        };
        if !due {
            return None;
        }
        self.fresh = None;
        self.reported = Some((code, now));
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
        let mut echo = Echo::default();
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
    fn without_fragments_nothing_is_reported() {
        let start = Instant::now();
        let mut echo = Echo::default();
        echo.on_leading(408);
        echo.poll(start, RTT);
        assert_eq!(echo.poll(start + 10 * RTT, RTT), None);
        // 100 is not a multiple of 8, and 16 is below the lowest rate.
        echo.on_leading(100);
        echo.on_leading(16);
        assert_eq!(echo.poll(start + 20 * RTT, RTT), None);
    }
}
