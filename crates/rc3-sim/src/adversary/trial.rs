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

const FLOW: FlowId = FlowId(0);
const CROSS_FLOW: FlowId = FlowId(1);
/// Flows of the honest third have numbers from here on.
const THIRD_FLOWS: u32 = 2;

/// Parts of the bottleneck for cross traffic and for the short flows, and the time from one short flow to the next.
const CROSS_PART: f64 = 0.3;
const THIRD_PART: f64 = 0.08;
const THIRD_EVERY: Duration = Duration::from_millis(500);

/// Others have the path for themselves before the liar's flow begins, and what is under way in the end may arrive.
const LEAD: Duration = Duration::from_millis(200);
const REST: Duration = Duration::from_millis(500);

/// From one look at the sender to the next.
const STRIDE: Duration = Duration::from_millis(50);

/// Rate of the cards, in rates of the bottleneck.
const CARD: f64 = 100.0;

/// More than passes in any setting.
const BYTES: u64 = 1 << 30;

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
pub struct Outcome {
    /// How long the liar received.
    pub lasted: Duration,
    /// RLP bytes that went to the liar, UDP payload.
    pub rlp_sent: u64,
    /// Of these, bytes that the path did not carry.
    pub rlp_lost: u64,
    /// Part of the cross traffic that was lost, 0 to 1.
    pub cross_loss: f64,
    /// The most memory that the sender used for records of the liar's stream, in bytes.
    pub records: u64,
    /// Packets and frames that the sender handled.
    pub work: u64,
    /// Mean completion time of the third's flows in seconds; those that did not complete count as if at the end.
    pub third: f64,
    /// Bytes of the stream that the liar received.
    pub read: u64,
}

impl Outcome {
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

    /// Runs it: the same each time.
    pub fn run(&self) -> Outcome {
        let (count, got) = (Arc::new(Mutex::new(Count::default())), Arc::new(Mutex::new(Got::default())));
        let mut world = self.world(&count, &got);
        let mut outcome = Outcome { lasted: self.setting.lasts, ..Outcome::default() };
        let end = LEAD + self.setting.lasts;
        let mut thirds = self.thirds().into_iter().peekable();
        world.start(&Flow { id: CROSS_FLOW, at: Duration::ZERO, ..Flow::new(CROSS, HostId(CROSS.0 + 1), 0) });
        let ours = Flow { at: LEAD, bytes: BYTES, writes: self.setting.writes, ..Flow::new(SENDER, LIAR, 0) };
        world.start(&ours);
        while world.elapsed() < end {
            let next = world.elapsed() + STRIDE;
            while let Some(flow) = thirds.next_if(|flow| flow.at <= next) {
                world.start(&flow);
            }
            world.run_until(next);
            if let Some(stats) = world.sender_stats(SENDER, FLOW) {
                outcome.look(&stats);
            }
        }
        let got = *got.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.read = got.bytes;
        outcome.rlp_lost = outcome.rlp_sent.saturating_sub(got.rlp_bytes);
        world.run_until(end + REST);
        let count = *count.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.cross_loss = 1.0 - count.received as f64 / count.sent.max(1) as f64;
        outcome.third = third(&mut world, &self.thirds());
        outcome
    }

    fn world(&self, count: &Arc<Mutex<Count>>, got: &Arc<Mutex<Got>>) -> World {
        let Setting { rtt, lasts, seed, .. } = self.setting;
        let mut world = World::new(Box::new(|from, to| {
            [LinkId(CORES + 2 * from.0), LinkId(from.0 % 2), LinkId(CORES + 2 * to.0 + 1)].into()
        }));
        let rate = self.setting.part(1.0);
        for nth in 0..CORES {
            let config = LinkConfig {
                rate: Some(rate),
                delay: rtt / 2,
                seed: seed + u64::from(nth),
                ..LinkConfig::default()
            };
            world.add_link(config, Box::new(DropTail::new(rate.bytes_in(rtt).max(15_000))));
        }
        let card = self.setting.part(CARD);
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
                LIAR => Box::new(Liar::new(honest(), FLOW, &self.lie, seed, got.clone())),
                HostId(2 | 3) => {
                    Box::new(Cross::new(self.setting.part(CROSS_PART), LEAD + lasts, count.clone()))
                }
                _ => Box::new(honest()),
            };
            world.add_host(agent, uplink);
        }
        world
    }

    /// The short flows of the third, while the liar receives.
    fn thirds(&self) -> Vec<Flow> {
        let bytes = self.setting.part(THIRD_PART).bytes_in(THIRD_EVERY);
        let flow = |nth: u32| Flow {
            id: FlowId(THIRD_FLOWS + nth),
            at: LEAD + THIRD_EVERY * nth + THIRD_EVERY / 2,
            scheme: SchemeId(0),
            writes: Writes::AtOnce,
            ..Flow::new(THIRD, HostId(THIRD.0 + 1), bytes)
        };
        (0..).map(flow).take_while(|flow| flow.at + THIRD_EVERY / 2 <= LEAD + self.setting.lasts).collect()
    }
}

impl Outcome {
    /// Takes in the counters of the sender.
    fn look(&mut self, stats: &ConnectionStats) {
        let (sent, levels) = (&stats.sent, &stats.sent.levels);
        self.rlp_sent = levels.iter().map(|level| level.bytes).sum();
        self.records = self.records.max(sent.overhead_bytes);
        let rlp_packets: u64 = levels.iter().map(|level| level.packets).sum();
        self.work = stats.udp_tx.datagrams + stats.udp_rx.datagrams + rlp_packets + sent.sacks;
    }
}

/// Mean completion time of these flows in seconds.
fn third(world: &mut World, flows: &[Flow]) -> f64 {
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
