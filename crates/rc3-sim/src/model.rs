//! The performance model of RC3 §3, and slow start by the book.
//!
//! The model knows no queueing, no loss and no handshake: it is for trends. [`slow_start`] counts packets and is
//! what a single flow on an idle path does, handshake included; so does the theory of Fig. 7, [`counted_reduction`].

use std::time::Duration;

/// A path and what a flow begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Available capacity `A = (1 - u) x BW` in bytes per second.
    pub available: f64,
    /// Round-trip time in seconds.
    pub rtt: f64,
    /// Initial congestion window in bytes.
    pub initial_window: f64,
}

impl Model {
    /// Completion time in seconds of a flow of `bytes` with RC3: `RTT + N / A`.
    pub fn rc3(&self, bytes: f64) -> f64 {
        self.rtt + bytes / self.available
    }

    /// Completion time in seconds of a flow of `bytes` with slow start: `log2(min(N, A RTT) / i)` round trips
    /// more than with RC3.
    pub fn slow_start(&self, bytes: f64) -> f64 {
        let ramp = bytes.min(self.available * self.rtt) / self.initial_window;
        self.rc3(bytes) + self.rtt * ramp.max(1.0).log2()
    }

    /// By how much of slow start's completion time RC3's is shorter, 0 to 1.
    pub fn reduction(&self, bytes: f64) -> f64 {
        1.0 - self.rc3(bytes) / self.slow_start(bytes)
    }

    /// By how much of this completion time one with another initial window is shorter, 0 to 1.
    pub fn reduction_by_window(&self, initial_window: f64, bytes: f64) -> f64 {
        1.0 - Self { initial_window, ..*self }.slow_start(bytes) / self.slow_start(bytes)
    }
}

/// From connect to the last byte of `packets` full packets with RC3 on an idle path: a round trip to connect, the
/// packets without a pause, half a round trip for the last one.
pub fn rc3(packets: u64, rtt: Duration, serialisation: Duration) -> Duration {
    Duration::from_secs_f64(rtt.as_secs_f64() * 1.5 + serialisation.as_secs_f64() * packets as f64)
}

/// From connect to the last byte of `packets` full packets on an idle path, with an initial window of
/// `initial_window` packets, an acknowledgement for every packet, and nothing lost: a round trip to connect, then
/// rounds that double until they fill the path, then half a round trip for the last packet.
///
/// `serialisation` is the time one packet takes at the bottleneck.
pub fn slow_start(packets: u64, initial_window: u64, rtt: Duration, serialisation: Duration) -> Duration {
    let (rtt, packet) = (rtt.as_secs_f64(), serialisation.as_secs_f64());
    // The first acknowledgement comes back after this long, and releases the next round.
    let round = rtt + packet;
    let (mut start, mut window, mut left) = (rtt, initial_window.max(1), packets);
    // A round that takes longer than that never pauses.
    while left > window && window as f64 * packet < round {
        left -= window;
        window = window.saturating_mul(2);
        start += round;
    }
    Duration::from_secs_f64(start + left as f64 * packet + rtt / 2.0)
}

/// By how much [`rc3`] is shorter than [`slow_start`], 0 to 1: the theory that RC3's authors drew in Fig. 7, with the rate that
/// others leave.
pub fn counted_reduction(packets: u64, initial_window: u64, rtt: Duration, serialisation: Duration) -> f64 {
    let slow_start = slow_start(packets, initial_window, rtt, serialisation).as_secs_f64();
    1.0 - rc3(packets, rtt, serialisation).as_secs_f64() / slow_start
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: f64 = 1460.0;

    fn internet2() -> Model {
        Model { available: 0.7 * 125e6, rtt: 0.04, initial_window: 4.0 * PACKET }
    }

    #[test]
    fn flows_within_the_initial_window_gain_nothing() {
        let model = internet2();
        for packets in 1..=4 {
            assert_eq!(model.reduction(f64::from(packets) * PACKET), 0.0);
        }
        assert!(model.reduction(5.0 * PACKET) > 0.0);
    }

    #[test]
    fn gain_peaks_near_the_available_bandwidth_delay_product() {
        let model = internet2();
        let bdp = model.available * model.rtt;
        let peak = (bdp as u64 / 1000..2 * bdp as u64)
            .step_by(1000)
            .max_by(|a, b| model.reduction(*a as f64).total_cmp(&model.reduction(*b as f64)));
        let peak = peak.unwrap() as f64;
        assert!((bdp / 8.0..bdp).contains(&peak), "{peak}");
        // It moves with the product and grows with it.
        let longer = Model { rtt: 0.4, ..model };
        assert!(longer.reduction(10.0 * peak) > model.reduction(peak));
        // Far beyond it the gain falls as 1 / N.
        let (far, farther) = (model.reduction(1e4 * bdp), model.reduction(1e5 * bdp));
        assert!((far / farther - 10.0).abs() < 0.1, "{far} {farther}");
    }

    #[test]
    fn larger_initial_window_stays_below_rc3_until_it_is_the_product() {
        let model = internet2();
        let bdp = model.available * model.rtt;
        for bytes in [100_000.0, 1e6, bdp, 1e7] {
            assert!(model.reduction_by_window(10.0 * PACKET, bytes) < model.reduction(bytes));
            let whole = model.reduction_by_window(bdp, bytes);
            assert!((whole - model.reduction(bytes)).abs() < 1e-12);
        }
    }

    #[test]
    fn slow_start_doubles_until_the_path_is_full() {
        let (rtt, packet) = (Duration::from_millis(40), Duration::from_micros(12));
        let fct = |packets| slow_start(packets, 4, rtt, packet).as_secs_f64();
        // Within the first window: connect, four packets, half a round trip.
        assert!((fct(4) - (0.06 + 4.0 * 12e-6)).abs() < 1e-9);
        // One packet more is one round more.
        assert!((fct(5) - (0.06 + 0.04 + 2.0 * 12e-6)).abs() < 1e-9);
        assert!((fct(4 + 8 + 16) - (0.06 + 0.08 + 18.0 * 12e-6)).abs() < 1e-9);
        // 40 ms hold 3333 packets: the round of 4096 never pauses, so beyond it each packet costs its time.
        let full: u64 = (2..=12).map(|power| 1 << power).sum();
        assert!((fct(full + 1000) - fct(full) - 1000.0 * 12e-6).abs() < 1e-9);
        assert!(slow_start(0, 0, rtt, packet) >= rtt);
    }

    /// The file wan-max-30-1Gbps of the authors' plot, in per cent.
    #[test]
    fn counted_packets_are_the_theory_of_fig_7() {
        let packet = Duration::from_secs_f64(1500.0 / internet2().available);
        for (bytes, printed) in [
            (1460, 0.0),
            (2920, 0.0),
            (4380, 0.0),
            (7300, 39.937),
            (10_220, 39.924),
            (58_400, 66.336),
            (105_120, 72.203),
            (200_020, 76.049),
            (389_820, 78.501),
            (1_733_020, 79.018),
            (3_076_220, 77.175),
        ] {
            let counted = 100.0 * counted_reduction(bytes / 1460, 4, Duration::from_millis(40), packet);
            assert!((counted - printed).abs() < 0.01, "{bytes}: {counted}");
        }
    }

    #[test]
    fn model_and_packets_agree_on_the_trend() {
        // One round trip to connect, half of one less for the last byte.
        let model = Model { available: 1460.0 / 12e-6, rtt: 0.04, initial_window: 4.0 * PACKET };
        for packets in [8, 64, 512, 4096, 32_768] {
            let counted =
                slow_start(packets, 4, Duration::from_millis(40), Duration::from_micros(12)).as_secs_f64();
            let modelled = model.slow_start(packets as f64 * PACKET) + 0.02;
            assert!((counted - modelled).abs() < 0.04, "{packets}: {counted} {modelled}");
        }
    }
}
