//! The rate at which the path brings data, by the receiver's clock. What holds up acknowledgements on their way back does not
//! touch it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::wire::arrival::Arrival;

/// A sample covers at least so many bytes: six packets.
const SAMPLE_BYTES: u64 = 7000;
/// Arrivals in memory.
const ARRIVALS_MAX: usize = 64;
/// Samples are taken over a part of the round trip, so that bursts of links which collect packets even out.
const PARTS_PER_ROUND_TRIP: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Point {
    micros: u64,
    bytes: u64,
    /// When the datagram left.
    departed: Instant,
}

/// Bytes per second.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    points: VecDeque<Point>,
    /// The greatest sample of late: of this round trip and the one before, of samples that the path limited.
    windows: [f64; 2],
    window_began: Option<Instant>,
    /// The greatest rate that the path took without being the limit.
    floor: f64,
}

impl Estimate {
    /// Something came that left at `departed`. Whether there is a new sample.
    pub(super) fn on_arrival(&mut self, now: Instant, arrival: Arrival, departed: Instant, rtt: Duration) {
        let point = Point { micros: arrival.micros, bytes: arrival.bytes, departed };
        let span = (rtt / PARTS_PER_ROUND_TRIP).as_micros() as u64;
        let is_old = |old: &Point, next: &Point| {
            next.micros + span <= point.micros
                && next.bytes + SAMPLE_BYTES <= point.bytes
                && old.micros <= next.micros
        };
        while self.points.len() >= 2
            && (is_old(&self.points[0], &self.points[1]) || self.points.len() >= ARRIVALS_MAX)
        {
            self.points.pop_front();
        }
        if let Some(first) = self.points.front().copied() {
            self.sample(now, first, point, rtt);
        }
        self.points.push_back(point);
    }

    fn sample(&mut self, now: Instant, from: Point, to: Point, rtt: Duration) {
        let bytes = to.bytes.saturating_sub(from.bytes);
        let micros = to.micros.saturating_sub(from.micros);
        if bytes < SAMPLE_BYTES || micros == 0 {
            return;
        }
        let rate = bytes as f64 * 1e6 / micros as f64;
        let sent = to.departed.saturating_duration_since(from.departed).as_micros() as u64;
        if self.window_began.is_none_or(|began| now >= began + rtt) {
            self.windows = [self.windows[1], 0.0];
            self.window_began = Some(now);
        }
        // They came more slowly than they left: that is the path.
        if micros > sent + sent / 10 {
            self.windows[1] = self.windows[1].max(rate);
            self.floor = self.floor.min(rate);
        } else {
            self.floor = self.floor.max(rate);
        }
    }

    /// The path's rate in bytes per second, and whether it is known rather than a lower bound.
    pub(super) fn rate(&self) -> Option<(f64, bool)> {
        let limited = self.windows[0].max(self.windows[1]);
        let rate = limited.max(self.floor);
        (rate > 0.0).then_some((rate, limited > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Packets of 1200 bytes that leave every `sent` microseconds and come every `came`.
    fn stream(estimate: &mut Estimate, packets: u64, sent: u64, came: impl Fn(u64) -> u64) {
        let start = Instant::now();
        for nth in 0..packets {
            let micros = came(nth);
            let departed = start + Duration::from_micros(nth * sent);
            let arrival = Arrival { packet_number: nth, datagrams: nth + 1, bytes: (nth + 1) * 1200, micros };
            estimate.on_arrival(start + RTT + Duration::from_micros(micros), arrival, departed, RTT);
        }
    }

    fn mbits(estimate: &Estimate) -> (f64, bool) {
        let (rate, known) = estimate.rate().expect("a rate");
        (rate * 8e-6, known)
    }

    #[test]
    fn a_burst_comes_at_the_rate_of_the_path() {
        let mut estimate = Estimate::default();
        stream(&mut estimate, 16, 0, |nth| nth * 96);
        assert_eq!(mbits(&estimate), (100.0, true));
    }

    #[test]
    fn what_comes_as_it_left_is_a_lower_bound() {
        let mut estimate = Estimate::default();
        stream(&mut estimate, 60, 1000, |nth| nth * 1000);
        let (rate, known) = mbits(&estimate);
        assert!((rate - 9.6).abs() < 0.1 && !known, "{rate}");
    }

    #[test]
    fn links_that_collect_packets_do_not_look_fast() {
        // 32 packets at once every 3.84 ms: 80 Mbit/s, sent at twice that.
        let mut estimate = Estimate::default();
        stream(&mut estimate, 2000, 60, |nth| nth / 32 * 3840);
        let (rate, known) = mbits(&estimate);
        assert!((40.0..180.0).contains(&rate) && known, "{rate}");
    }

    #[test]
    fn a_path_that_slows_down_is_followed() {
        let mut estimate = Estimate::default();
        // 100 Mbit/s, then 25.
        stream(
            &mut estimate,
            3000,
            96,
            |nth| if nth < 1000 { nth * 96 } else { 96_000 + (nth - 1000) * 384 },
        );
        let (rate, _) = mbits(&estimate);
        assert!((rate - 25.0).abs() < 1.0, "{rate}");
    }
}
