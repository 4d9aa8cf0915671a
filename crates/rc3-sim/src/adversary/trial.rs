//! One lie in one setting: a world of six hosts, and what everybody got in it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rc3_core::{ConnectionStats, RlpMode, TransportConfig};

use super::{
    Lie, Setting,
    cross::{Count, Cross},
    liar::{Got, Liar},
};
use crate::{
    Crypto, DropTail, LinkConfig, StrictPriority,
    agent::{Agent, Flow, FlowId, HostId, SchemeId, Writes},
    host::{Host, HostConfig},
    random::Random,
    world::{LinkId, World},
};

/// Links to the receivers' side of the bottleneck and back; behind them come uplink and downlink of each host.
const CORES: u32 = 2;

/// Hosts: senders have even numbers, the next one receives.
const SENDER: HostId = HostId(0);
const LIAR: HostId = HostId(1);
const CROSS: HostId = HostId(2);
const THIRD: HostId = HostId(4);
const HOSTS: u32 = 6;

/// Flows of the liar have numbers from 0 on, those of the honest third from here on.
const THIRD_FLOWS: u32 = 1000;
const CROSS_FLOW: FlowId = FlowId(2000);

/// Parts of the bottleneck for cross traffic and for the short flows, and the time from one short flow to the next.
const CROSS_PART: f64 = 0.3;
const THIRD_PART: f64 = 0.08;
const THIRD_EVERY: Duration = Duration::from_millis(500);

/// About so long others have the path for themselves before the liar's flow begins; what is under way in the end may arrive
/// for so long.
const LEAD: Duration = Duration::from_millis(200);
const REST: Duration = Duration::from_millis(500);

/// From one look at the sender to the next.
const STRIDE: Duration = Duration::from_millis(20);

/// Worlds of a confirmation, in those of a trial.
const CONFIRMATION: u64 = 4;

/// Rate of the cards, in rates of the bottleneck.
const CARD: f64 = 100.0;

/// A lie in a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Where.
    pub setting: Setting,
    /// Which.
    pub lie: Lie,
}

/// What everybody got in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrialResult {
    /// How long the liar received.
    pub lasted: Duration,
    /// RLP bytes that went to the liar, UDP payload.
    pub rlp_sent: u64,
    /// Of these, bytes that the path did not carry.
    pub rlp_lost: u64,
    /// Part of the cross traffic that was lost, 0 to 1.
    pub cross_loss: f64,
    /// The most memory that the sender used for records of the liar's streams, in bytes.
    pub records: u64,
    /// Packets and frames that the sender handled.
    pub work: u64,
    /// Mean completion time of the third's flows in seconds; those that did not complete count as if at the end.
    pub third: f64,
    /// Bytes of the stream that the liar received.
    pub read: u64,
}

impl TrialResult {
    /// Rate of RLP to the liar in bit/s.
    pub fn rlp_rate(&self) -> f64 {
        self.rlp_sent as f64 * 8.0 / self.lasted.as_secs_f64()
    }

    /// Rate at which the liar received its stream, in bit/s.
    pub fn reading_rate(&self) -> f64 {
        self.read as f64 * 8.0 / self.lasted.as_secs_f64()
    }
}

impl Trial {
    /// An honest receiver.
    pub fn honest(setting: Setting) -> Self {
        Self { setting, lie: Lie::default() }
    }

    /// The mean of the setting's worlds: the same each time.
    pub fn run(&self) -> TrialResult {
        self.mean_of(self.setting.worlds)
    }

    /// The mean of four times as many worlds: differences of a few percent between two of these are no chance.
    pub fn confirm(&self) -> TrialResult {
        self.mean_of(self.setting.worlds * CONFIRMATION)
    }

    fn mean_of(&self, worlds: u64) -> TrialResult {
        let seeds = (0..worlds.max(1)).map(|nth| self.setting.seed + nth);
        TrialResult::mean(&seeds.map(|seed| self.run_world(seed)).collect::<Vec<_>>())
    }

    fn run_world(&self, seed: u64) -> TrialResult {
        let (count, got) = (Arc::new(Mutex::new(Count::default())), Arc::new(Mutex::new(Got::default())));
        let begins = Begins::random(seed);
        let mut world = self.world(seed, &count, &got);
        let end = begins.liar + self.setting.lasts;
        let thirds = self.thirds(&begins);
        let mut flows = [self.ours(&begins), thirds.clone()].concat();
        flows.sort_by_key(|flow| flow.at);
        let mut waiting = flows.iter().peekable();
        world.start(&Flow { id: CROSS_FLOW, at: begins.cross, ..Flow::new(CROSS, HostId(CROSS.0 + 1), 0) });
        let mut records = 0;
        let mut senders = vec![ConnectionStats::default(); self.setting.flows as usize];
        while world.elapsed() < end {
            let next = (world.elapsed() + STRIDE).min(end);
            while let Some(flow) = waiting.next_if(|flow| flow.at <= next) {
                world.start(flow);
            }
            world.run_until(next);
            for (flow, stats) in (0..).map(FlowId).zip(&mut senders) {
                *stats = world.sender_stats(SENDER, flow).unwrap_or(*stats);
            }
            records = records.max(senders.iter().map(|stats| stats.sent.overhead_bytes).sum());
        }
        let got = got.lock().unwrap_or_else(PoisonError::into_inner).clone();
        world.run_until(end + REST);
        let count = *count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = TrialResult { lasted: self.setting.lasts, records, ..TrialResult::default() };
        senders.iter().for_each(|stats| outcome.add(stats));
        outcome.read = got.bytes.values().sum();
        outcome.rlp_lost = outcome.rlp_sent.saturating_sub(got.rlp_bytes);
        outcome.cross_loss = 1.0 - count.received as f64 / count.sent.max(1) as f64;
        outcome.third = mean_fct(&mut world, &thirds);
        outcome
    }

    fn world(&self, seed: u64, count: &Arc<Mutex<Count>>, got: &Arc<Mutex<Got>>) -> World {
        let lasts = self.setting.lasts;
        let mut world = World::new(Box::new(|from, to| {
            [LinkId(CORES + 2 * from.0), LinkId(from.0 % 2), LinkId(CORES + 2 * to.0 + 1)].into()
        }));
        for nth in 0..CORES {
            let (config, queue) = self.setting.link(seed + u64::from(nth));
            world.add_link(config, queue);
        }
        let card = self.setting.share_of_rate(CARD);
        let mut transport = TransportConfig::default();
        transport.rlp(RlpMode::Guard).nic_rate(Some(card));
        let mut config = HostConfig::new([transport.clone()], transport, Crypto::None, seed);
        config.batch = 10;
        let config = Arc::new(config);
        for host in (0..HOSTS).map(HostId) {
            let link = LinkConfig { rate: Some(card), ..LinkConfig::default() };
            let uplink = world.add_link(link, Box::new(StrictPriority::by_level(u64::MAX)));
            world.add_link(LinkConfig::default(), Box::new(DropTail::new(u64::MAX)));
            let honest = || Host::new(host, config.clone());
            let agent: Box<dyn Agent + Send> = match host {
                LIAR => Box::new(Liar::new(honest(), self.lie.clone(), seed, got.clone())),
                HostId(2 | 3) => {
                    Box::new(Cross::new(self.setting.share_of_rate(CROSS_PART), LEAD + lasts, count.clone()))
                }
                _ => Box::new(honest()),
            };
            world.add_host(agent, uplink);
        }
        world
    }

    /// The flows of the liar.
    fn ours(&self, begins: &Begins) -> Vec<Flow> {
        let Setting { flows, bytes, writes, lasts, .. } = self.setting;
        let flow = |nth: u32| {
            let at = begins.liar + lasts * nth / flows.max(1);
            Flow { id: FlowId(nth), at, writes, ..Flow::new(SENDER, LIAR, bytes) }
        };
        (0..flows).map(flow).collect()
    }

    /// The short flows of the third, while the liar receives.
    fn thirds(&self, begins: &Begins) -> Vec<Flow> {
        let bytes = self.setting.share_of_rate(THIRD_PART).bytes_in(THIRD_EVERY);
        let flow = |nth: u32| Flow {
            id: FlowId(THIRD_FLOWS + nth),
            at: begins.third + THIRD_EVERY * nth,
            scheme: SchemeId(0),
            writes: Writes::AtOnce,
            ..Flow::new(THIRD, HostId(THIRD.0 + 1), bytes)
        };
        let last = begins.liar + self.setting.lasts - THIRD_EVERY;
        (0..).map(flow).take_while(|flow| flow.at <= last).collect()
    }
}

impl TrialResult {
    fn mean(outcomes: &[Self]) -> Self {
        let count = outcomes.len().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| outcomes.iter().map(of).sum::<f64>() / count;
        Self {
            lasted: outcomes.first().map(|outcome| outcome.lasted).unwrap_or_default(),
            rlp_sent: mean(|outcome| outcome.rlp_sent as f64) as u64,
            rlp_lost: mean(|outcome| outcome.rlp_lost as f64) as u64,
            cross_loss: mean(|outcome| outcome.cross_loss),
            records: mean(|outcome| outcome.records as f64) as u64,
            work: mean(|outcome| outcome.work as f64) as u64,
            third: mean(|outcome| outcome.third),
            read: mean(|outcome| outcome.read as f64) as u64,
        }
    }

    /// Takes in the counters of a sender.
    fn add(&mut self, stats: &ConnectionStats) {
        let (sent, levels) = (&stats.sent, &stats.sent.levels);
        self.rlp_sent += levels.iter().map(|level| level.bytes).sum::<u64>();
        let rlp_packets: u64 = levels.iter().map(|level| level.packets).sum();
        self.work += stats.udp_tx.datagrams + stats.udp_rx.datagrams + rlp_packets + sent.sacks;
    }
}

/// When flows begin.
struct Begins {
    cross: Duration,
    liar: Duration,
    third: Duration,
}

impl Begins {
    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut within = |bound: Duration| bound.mul_f64(random.unit());
        let (cross, liar) = (within(LEAD / 4), LEAD + within(LEAD / 4));
        Self { cross, liar, third: liar + within(THIRD_EVERY) }
    }
}

/// Mean completion time of these flows in seconds.
fn mean_fct(world: &mut World, flows: &[Flow]) -> f64 {
    let now = world.elapsed();
    let mut times: Vec<Duration> = flows.iter().map(|flow| now.saturating_sub(flow.at)).collect();
    while let Some(record) = world.poll_record() {
        let index = record.flow.0.checked_sub(THIRD_FLOWS).map(|index| index as usize);
        if let (Some(time), Some(fct)) = (index.and_then(|index| times.get_mut(index)), record.fct) {
            *time = fct;
        }
    }
    times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len().max(1) as f64
}
