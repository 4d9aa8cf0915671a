//! Random arrivals: Poisson.

use std::time::Duration;

use super::{PACKET, PACKET_ON_THE_WIRE, Sizes, ends::Ends};
use crate::{
    agent::{Flow, FlowId},
    random::Random,
    topology::Topology,
};

/// Flows with exponential gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Poisson {
    /// How large they are.
    pub sizes: Sizes,
    /// Offered traffic as a share of [`crate::topology::Nominal::capacity`], full packets of
    /// [`PACKET_ON_THE_WIRE`] bytes. Zero means no flows.
    pub load: f64,
    /// Senders and receivers.
    pub ends: Ends,
}

impl Poisson {
    /// Mean gap between two flows; `None` without flows.
    pub fn mean_gap(&self, topology: &Topology) -> Option<Duration> {
        let bits_per_flow = self.sizes.mean() * (8 * PACKET_ON_THE_WIRE) as f64;
        let bits_per_second = self.load * topology.nominal.capacity.bits_per_second() as f64;
        Duration::try_from_secs_f64(bits_per_flow / bits_per_second).ok().filter(|gap| !gap.is_zero())
    }

    /// The flows, without end, unless no flow is possible.
    pub(super) fn flows(&self, topology: &Topology, seed: u64) -> impl Iterator<Item = Flow> + use<> {
        let state = self.mean_gap(topology).zip(self.ends.pairs(topology));
        let sizes = self.sizes.clone();
        let mut random = Random::new(seed);
        let mut at = Duration::ZERO;
        (0..u32::MAX).map_while(move |id| {
            let (gap, pairs) = state.as_ref()?;
            at += random.exponential(*gap);
            let bytes = sizes.draw(&mut random) * PACKET;
            let (from, to) = pairs.draw(&mut random);
            Some(Flow { id: FlowId(id), at, ..Flow::new(from, to, bytes) })
        })
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Rate;

    use super::*;
    use crate::topology::{Access, Map, dumbbell};

    fn internet2() -> Topology {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        Map::Internet2.topology(rate, Duration::from_millis(40), 10, Access::uplink(rate))
    }

    fn poisson(load: f64) -> Poisson {
        Poisson { sizes: Sizes::allman2013(), load, ends: Ends::default() }
    }

    #[test]
    fn offered_load_is_the_one_asked_for() {
        let topology = internet2();
        let flows: Vec<Flow> = poisson(0.3).flows(&topology, 3).take(200_000).collect();
        let bits: f64 = flows.iter().map(|flow| (flow.bytes / PACKET * 8 * PACKET_ON_THE_WIRE) as f64).sum();
        let load = bits / flows.last().unwrap().at.as_secs_f64() / 100e9;
        assert!((load - 0.3).abs() < 0.005, "{load}");
        // 30 Gbit/s in flows of 184.475 packets.
        assert!((flows.last().unwrap().at.as_secs_f64() / 200_000.0 * 13_552.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn every_core_link_is_loaded_alike() {
        let topology = internet2();
        let routes = topology.routes();
        let mut bits = vec![0.0; 2 * topology.cores.len()];
        let mut last = Duration::ZERO;
        for flow in poisson(0.3).flows(&topology, 1).take(400_000) {
            last = flow.at;
            for step in routes.path(flow.from, flow.to) {
                bits[step.index()] += (flow.bytes / PACKET * 8 * PACKET_ON_THE_WIRE) as f64;
            }
        }
        for (direction, bits) in bits.iter().enumerate() {
            let rate = topology.cores[direction / 2].rate.bits_per_second() as f64;
            let load = bits / last.as_secs_f64() / rate;
            assert!((0.27..0.33).contains(&load), "direction {direction}: {load}");
        }
    }

    #[test]
    fn gaps_are_exponential() {
        let topology = internet2();
        let times: Vec<f64> =
            poisson(0.3).flows(&topology, 3).take(100_000).map(|flow| flow.at.as_secs_f64()).collect();
        let mean = times.last().unwrap() / times.len() as f64;
        // P(gap > 2 means) = e^-2 = 0.1353, give or take 0.0011.
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 2.0 * mean).count();
        assert!((13_000..14_060).contains(&long), "{long}");
    }

    #[test]
    fn a_seed_gives_the_same_flows_at_every_load() {
        let topology = internet2();
        let flows = |load, seed| poisson(load).flows(&topology, seed).take(1000).collect::<Vec<_>>();
        assert_eq!(flows(0.3, 1), flows(0.3, 1));
        assert_ne!(flows(0.3, 1), flows(0.3, 2));
        for (a, b) in flows(0.1, 1).iter().zip(&flows(0.5, 1)) {
            assert_eq!((a.from, a.to, a.bytes), (b.from, b.to, b.bytes));
            let ratio = a.at.as_secs_f64() / b.at.as_secs_f64();
            assert!((ratio - 5.0).abs() < 1e-3, "{ratio}");
        }
    }

    #[test]
    fn without_load_or_receivers_there_are_no_flows() {
        assert_eq!(poisson(0.0).flows(&internet2(), 1).count(), 0);
        let rate = Rate::from_bits_per_second(1).unwrap();
        let alone = dumbbell(rate, Duration::ZERO, 0, Access::uplink(rate));
        assert_eq!(poisson(0.3).flows(&alone, 1).count(), 0);
    }
}
