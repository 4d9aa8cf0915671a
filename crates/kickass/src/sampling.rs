//! Which packets carry a signal: most would repeat the last signal of their flow (Kick-Ass §5).

use std::time::{Duration, Instant};

use crate::{indicator::Bucket, packet::FlowKey};

/// How often whole packets are fragmented to carry a signal.
///
/// A signal set by an upstream router is always lowered, whatever this says: the flow must not take the upstream rate
/// for that of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Sampling {
    /// Every packet that can carry one.
    #[default]
    Always,
    /// Once in this time, over all flows. With many flows some get no signal for a round trip and fall back to TCP, so
    /// use it on links with few flows.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "rc3_text::units::deserialize_time"))]
    Interval(Duration),
    /// About twice per flow and round trip, so that every flow gets a signal each round trip. Round trips come from RTT
    /// indicators; flows without an indicator are signalled on every packet.
    ///
    /// The number is that of remembered flows, at 40 bytes each. Others are signalled more often than necessary.
    Flows(usize),
}

/// Decides when a flow's next signal is due.
#[derive(Debug)]
pub(crate) struct Sampler {
    key: u64,
    rule: SamplingRule,
}

#[derive(Debug)]
enum SamplingRule {
    Always,
    Interval {
        every: Duration,
        next: Option<Instant>,
    },
    /// By hash of the flow; a new flow replaces the one in its place.
    Flows(Vec<Option<SampledFlow>>),
}

/// A flow whose round trip is known.
#[derive(Debug, Clone, Copy)]
struct SampledFlow {
    hash: u64,
    rtt: Bucket,
    next: Option<Instant>,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, key: u64) -> Self {
        let rule = match sampling {
            Sampling::Always | Sampling::Flows(0) => SamplingRule::Always,
            Sampling::Interval(every) => SamplingRule::Interval { every, next: None },
            Sampling::Flows(table) => SamplingRule::Flows(vec![None; table]),
        };
        Self { key, rule }
    }

    /// The flow indicated its round trip.
    pub(crate) fn on_indicator(&mut self, flow: impl FnOnce() -> FlowKey, rtt: Bucket) {
        let SamplingRule::Flows(table) = &mut self.rule else { return };
        let (hash, slot) = look_up(table, self.key, flow());
        let next = slot.filter(|entry| entry.hash == hash).and_then(|entry| entry.next);
        *slot = Some(SampledFlow { hash, rtt, next });
    }

    /// Lets a packet of the flow carry a signal if one is due, and returns whether it was. The next one is due later then.
    pub(crate) fn take_turn(&mut self, now: Instant, flow: impl FnOnce() -> FlowKey) -> bool {
        let (next, every) = match &mut self.rule {
            SamplingRule::Always => return true,
            SamplingRule::Interval { every, next } => (next, *every),
            SamplingRule::Flows(table) => {
                let (hash, slot) = look_up(table, self.key, flow());
                let Some(entry) = slot.as_mut().filter(|entry| entry.hash == hash) else { return true };
                (&mut entry.next, entry.rtt.low() / 2)
            }
        };
        let due = next.is_none_or(|next| next <= now);
        if due {
            *next = now.checked_add(every);
        }
        due
    }
}

/// The hash of a flow and its place in a table, which must not be empty.
fn look_up(table: &mut [Option<SampledFlow>], key: u64, flow: FlowKey) -> (u64, &mut Option<SampledFlow>) {
    let hash = flow.hash(key);
    let index = (hash % table.len() as u64) as usize;
    (hash, &mut table[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> FlowKey {
        FlowKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: 17,
            ports: Some((port, 443)),
        }
    }

    /// How many of the packets, one each 100 us for a second, are sampled.
    fn sampled(sampler: &mut Sampler, start: Instant, port: u16) -> usize {
        let times = (0..10_000).map(|nth| start + Duration::from_micros(100) * nth);
        times.filter(|&now| sampler.take_turn(now, || flow(port))).count()
    }

    #[test]
    fn an_interval_holds_over_all_flows() {
        let start = Instant::now();
        let mut sampler = Sampler::new(Sampling::Interval(Duration::from_millis(10)), 0);
        assert_eq!(sampled(&mut sampler, start, 1), 100);
        assert!(!sampler.take_turn(start + Duration::from_micros(999_900), || flow(2)));
        assert!(sampler.take_turn(start + Duration::from_secs(1), || flow(2)));
    }

    #[test]
    fn a_flow_is_sampled_twice_per_round_trip_that_it_indicated() {
        let start = Instant::now();
        let mut sampler = Sampler::new(Sampling::Flows(64), 0);
        assert_eq!(sampled(&mut sampler, start, 1), 10_000, "its round trip is unknown");
        sampler.on_indicator(|| flow(1), Bucket::of(Duration::from_millis(100)));
        // The bucket begins at 64 ms.
        assert_eq!(sampled(&mut sampler, start, 1), 1000_usize.div_ceil(32));
        assert_eq!(sampled(&mut sampler, start, 2), 10_000, "another flow");
    }

    #[test]
    fn flows_in_one_place_are_sampled_too_often_and_not_too_seldom() {
        let start = Instant::now();
        let mut sampler = Sampler::new(Sampling::Flows(1), 0);
        let rtt = Bucket::of(Duration::from_millis(100));
        sampler.on_indicator(|| flow(1), rtt);
        sampler.on_indicator(|| flow(2), rtt);
        assert_eq!(sampled(&mut sampler, start, 1), 10_000);
        assert_eq!(sampled(&mut sampler, start, 2), 32);
    }
}
