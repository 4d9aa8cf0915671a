//! The world of a cell: pairs of hosts on both sides of the bottleneck.

use std::{sync::Arc, time::Duration};

use rc3_core::{Congestion, RlpMode, TransportConfig};

use super::{Cell, Company, Discipline, Scheme};
use crate::{
    Crypto, DropTail, Impairments, LinkConfig, StrictPriority,
    agent::{Flow, FlowId, HostId, SchemeId, Writes},
    host::{Host, HostConfig, Reads},
    random::{Random, derive},
    world::{LinkId, World},
};

/// The bottleneck towards the receivers, and back. Behind them come uplink and downlink of each host.
pub(super) const FORWARD: LinkId = LinkId(0);
const CORES: u32 = 2;

/// Packets that go to the socket at once, as with segmentation offload.
const BATCH: usize = 10;

/// The scheme under test, and that of the cross traffic.
const OURS: SchemeId = SchemeId(0);
const OTHERS: SchemeId = SchemeId(1);

/// The sender and receiver under test, and the first sender of the cross traffic. Senders have even numbers.
const SENDER: HostId = HostId(0);
const OTHER: HostId = HostId(2);

/// Flows of others have numbers from here on.
const FLOWS_OF_OTHERS: u32 = 1000;

/// Sizes of the short flows, in bytes.
const SHORT: [u64; 3] = [10_000, 30_000, 100_000];

/// One flow of ours, to the same receiver each time.
pub(super) fn ours(nth: u32, at: Duration, bytes: u64) -> Flow {
    let (from, to) = (SENDER, HostId(SENDER.0 + 1));
    Flow { id: FlowId(nth), at, from, to, bytes, scheme: OURS, writes: Writes::AtOnce }
}

/// Whether a flow is cross traffic.
pub(super) fn is_others(flow: FlowId) -> bool {
    flow.0 >= FLOWS_OF_OTHERS
}

/// The world at rest.
pub(super) fn world(cell: &Cell, scheme: Scheme) -> World {
    let path = &cell.path;
    let mut world = World::new(Box::new(|from, to| {
        [LinkId(CORES + 2 * from.0), LinkId(from.0 % 2), LinkId(CORES + 2 * to.0 + 1)].into()
    }));
    let trouble = &path.trouble;
    for back in [false, true] {
        let mut impairments = Impairments::loss(trouble.loss);
        impairments.jitter.fill(if back { trouble.jitter } else { trouble.reordering });
        let seed = derive(cell.seed, u64::from(back));
        let config = LinkConfig {
            // What passes a policer goes on at line rate.
            rate: if path.discipline == Discipline::Policer { path.card_rate() } else { Some(path.rate) },
            delay: path.rtt / 2,
            aggregation: if back { trouble.aggregation_back } else { trouble.aggregation },
            impairments,
            seed,
            ..LinkConfig::default()
        };
        world.add_link(config, path.discipline.queue(path.limit(), path.rate, seed));
    }
    let mut others = TransportConfig::default();
    others.rlp(RlpMode::Off);
    if let Company::Rivals(_, congestion) = cell.company {
        others.congestion(congestion);
    }
    let schemes = [scheme.transport(cell), others];
    let mut config = HostConfig::new(schemes, scheme.transport(cell), Crypto::None, cell.seed);
    config.batch = BATCH;
    let sender = Arc::new(config.clone());
    config.reads = Reads { every: trouble.reads, stamped: trouble.stamps };
    let receiver = Arc::new(config);
    let rivals = match cell.company {
        Company::Nobody => 0,
        Company::Rivals(count, _) => count,
        Company::Load(_) => 1,
    };
    for host in (0..2 + 2 * rivals).map(HostId) {
        let card = LinkConfig { rate: path.card_rate(), ..LinkConfig::default() };
        let uplink = world.add_link(card, Box::new(StrictPriority::by_level(u64::MAX)));
        world.add_link(LinkConfig::default(), Box::new(DropTail::new(u64::MAX)));
        let config = if host.0 % 2 == 0 { &sender } else { &receiver };
        world.add_host(Box::new(Host::new(host, config.clone())), uplink);
    }
    world
}

/// The flows of the cross traffic, in order of time, from the beginning of the world until `until`.
pub(super) fn others(cell: &Cell, until: Duration) -> Vec<Flow> {
    let mut random = Random::new(derive(cell.seed, 2));
    let flow = |nth: u32, pair: u32, at, bytes, writes| {
        let from = HostId(OTHER.0 + 2 * pair);
        let (id, to) = (FlowId(FLOWS_OF_OTHERS + nth), HostId(from.0 + 1));
        Flow { id, at, from, to, bytes, scheme: OTHERS, writes }
    };
    match cell.company {
        Company::Nobody => Vec::new(),
        // Spread over some round trips, so that they do not go up and down together.
        Company::Rivals(count, _) => {
            let mut at: Vec<_> = (0..count).map(|_| cell.path.rtt.mul_f64(10.0 * random.unit())).collect();
            at.sort_unstable();
            (0..).zip(at).map(|(nth, at)| flow(nth, nth, at, u64::MAX >> 8, Writes::Until(until))).collect()
        }
        Company::Load(share) => {
            let mean = SHORT.iter().sum::<u64>() as f64 / SHORT.len() as f64;
            let bytes_per_second = cell.path.rate.bits_per_second() as f64 / 8.0 * share;
            let Ok(gap) = Duration::try_from_secs_f64(mean / bytes_per_second) else { return Vec::new() };
            let mut at = Duration::ZERO;
            (0..)
                .map_while(|nth| {
                    at += random.exponential(gap).max(Duration::from_nanos(1));
                    let bytes = SHORT[random.below(SHORT.len())];
                    (at < until).then(|| flow(nth, 0, at, bytes, Writes::AtOnce))
                })
                .collect()
        }
    }
}

/// How long others have the path to themselves before ours begins; the phase depends on the seed.
pub(super) fn lead(cell: &Cell) -> Duration {
    let rtt = cell.path.rtt;
    match cell.company {
        Company::Nobody => Duration::ZERO,
        // Slow start is over, and CUBIC has come round more than once on most paths.
        Company::Rivals(_, _) => {
            let phase = Random::new(derive(cell.seed, 3)).unit();
            (100 * rtt).max(Duration::from_secs(4)) + Duration::from_secs(2).mul_f64(phase)
        }
        Company::Load(_) => Duration::from_secs(1),
    }
}

/// The name of a controller in files.
pub(super) fn congestion(name: &str) -> Option<Congestion> {
    match name {
        "cubic" => Some(Congestion::Cubic),
        "newreno" => Some(Congestion::NewReno),
        _ => None,
    }
}
