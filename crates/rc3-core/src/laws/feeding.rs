//! How many bytes to hand to the primary at a time.
//!
//! Bytes given to the primary cannot be taken back, so they are given late: RLP may deliver them first, and the primary
//! then skips them. Three facts about quinn-proto bound the amount from both sides:
//! - it sends no ACK while stream data waits for the window, so no data may stay waiting: never more than the window
//!   allows, and a little less than a full packet, for the ACK that shares it;
//! - its send buffer searches unacknowledged writes one by one, so at large windows a write should be large;
//! - its pacer sends bursts of two milliseconds at once, which should be one batch for the kernel, or whole windows if
//!   they last no longer.

use std::time::Duration;

use crate::laws::{departures::DepartureRate, primary_window::Window};

/// Bytes of a full packet that are not stream data: short header with an 8-byte id (13), AEAD tag (16), STREAM
/// frame header (11), room for an ACK frame (40).
const PACKET_OVERHEAD: u64 = 80;

/// Packets handed over at once are this fraction of the window, within the two bounds below.
const QUANTA_PER_WINDOW: u64 = 32;
const QUANTUM_PACKETS_MIN: u64 = 4;
const QUANTUM_PACKETS_MAX: u64 = 256;

/// The pacer sends at once what it would spread over this time.
const BURST: Duration = Duration::from_millis(2);
/// Packets in a batch for the kernel.
const BATCH_PACKETS: u64 = 44;

/// Full packets that a signalled rate allows in [`BURST`]. At least two: the first is then full, and an ACK waits for
/// the other no longer than one packet's time.
pub(crate) fn due(rate: DepartureRate, mtu: u16) -> u64 {
    let bytes = rate.bytes_per_second() * BURST.as_secs_f64();
    (bytes as u64 / u64::from(mtu)).max(2)
}

/// Stream bytes the primary should be handed now, with this round-trip time; 0 while its window is closed.
pub(crate) fn quantum(window: &Window, rtt: Duration) -> u64 {
    let mtu = u64::from(window.mtu);
    let packets = window.cwnd / mtu;
    let burst = u128::from(packets) * BURST.as_nanos() / rtt.as_nanos().max(1);
    let burst_max = if rtt < BURST { QUANTUM_PACKETS_MAX } else { BATCH_PACKETS };
    let burst = burst.min(burst_max.into()) as u64;
    let wanted = (packets / QUANTA_PER_WINDOW).clamp(QUANTUM_PACKETS_MIN, QUANTUM_PACKETS_MAX).max(burst);
    window.packets().min(window.due).min(wanted) * mtu.saturating_sub(PACKET_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::primary_window::Waiting;

    const RTT: Duration = Duration::from_millis(40);

    fn window(cwnd: u64, in_flight: u64) -> Window {
        Window { cwnd, in_flight, mtu: 1460, waiting: Waiting::Nothing, due: u64::MAX }
    }

    #[test]
    fn initial_window_of_four_packets_is_handed_over_whole() {
        assert_eq!(quantum(&window(4 * 1460 + 1, 0), RTT), 4 * 1380);
        // quinn-proto's test is `in_flight + mtu >= cwnd`: one byte less and only three go.
        assert_eq!(quantum(&window(4 * 1460, 0), RTT), 3 * 1380);
    }

    #[test]
    fn closed_window_takes_nothing() {
        assert_eq!(quantum(&window(4 * 1460 + 1, 4 * 1460), RTT), 0);
        assert_eq!(quantum(&window(2 * 1460, 9 * 1460), RTT), 0);
    }

    #[test]
    fn what_the_pacer_lets_go_at_once_is_handed_over_at_once() {
        // 2 ms of 200 packets per round trip.
        assert_eq!(quantum(&window(200 * 1460, 0), RTT), 10 * 1380);
        assert_eq!(quantum(&window(200 * 1460, 0), RTT / 10), 44 * 1380);
        assert_eq!(quantum(&window(200 * 1460, 195 * 1460), RTT / 10), 4 * 1380);
    }

    #[test]
    fn a_window_of_less_than_a_burst_is_handed_over_whole() {
        assert_eq!(quantum(&window(200 * 1460 + 1, 0), RTT / 40), 200 * 1380);
        assert_eq!(quantum(&window(200 * 1460 + 1, 0), Duration::ZERO), 200 * 1380);
        assert_eq!(quantum(&window(1000 * 1460, 0), RTT / 40), 256 * 1380);
    }

    #[test]
    fn large_windows_are_fed_in_large_pieces() {
        assert_eq!(quantum(&window(1 << 30, 0), RTT), 256 * 1380);
        assert_eq!(quantum(&window(320 * 1460, 0), 10 * RTT), 10 * 1380);
    }
}
