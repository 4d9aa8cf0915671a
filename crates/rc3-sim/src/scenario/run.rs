//! One concrete world: everything that a simulation needs, resolved.

use std::{fmt, sync::Arc, time::Duration};

use rc3_core::{Ladder, internals::law::Constants, units::Level};

use super::spec::{Defaults, DirectionsSpec, KickAssSpec, LossLinks, LowPriority, Mode, RlpRate, SchemeKind};
use crate::{
    agent::{Flow, FlowId, HostId, SchemeId},
    host::Reads,
    random,
    record::Fct,
    registry::{CongestionControl, QueueDiscipline, QueueLimit, Registered},
    topology::{Site, Topology},
    workload::{ArrivalProcess, LoopSource, Merge, One, Workload},
};

/// One world of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its place in the scenario.
    pub label: Label,
    /// Seed of everything random in it. Runs that differ in their schemes alone share it, and so their flows.
    pub seed: u64,
    /// The network.
    pub topology: Topology,
    /// The queues in front of its links.
    pub queues: Queues,
    /// What its hosts are like.
    pub hosts: Hosts,
    /// What can carry a flow; [`SchemeId`] is the place in here.
    pub schemes: Vec<Scheme>,
    /// Which flows use which scheme.
    pub assignment: Assignment,
    /// The flows that are measured.
    pub workload: Workload,
    /// Flows beside them.
    pub background: Vec<Workload>,
    /// How much is measured.
    pub measure: Measure,
    /// The run whose [`Measure::window`] holds in this one, too: the first of its setting, if others share the path of one flow.
    pub base: Option<Arc<Self>>,
}

impl Run {
    /// All flows except those of closed loops, in order of arrival, numbered, with their schemes; made one at a time. Random arrivals never
    /// end: the caller stops.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + use<> {
        self.arrivals().map(|(_, flow)| flow)
    }

    /// The `n`-th measured flow, counted from 0, unless closed loops make it.
    pub fn measured_flow(&self, n: u64) -> Option<Flow> {
        if let Some(one) = self.one() {
            return (n == 0).then(|| One::flow(one.bytes, self.assignment.scheme, self.workload.writes));
        }
        let place = usize::try_from(self.measure.warm_up.saturating_add(n)).ok()?;
        let measured = self.arrivals().filter(|(is_measured, _)| *is_measured).map(|(_, flow)| flow);
        measured.skip_while(|flow| flow.at < self.measure.from).nth(place)
    }

    /// The schemes that carry its flows; the same one may come twice.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Scheme> {
        let Assignment { scheme, background, mix } = &self.assignment;
        let background = (!self.background.is_empty()).then_some(*background);
        let used = [Some(*scheme), mix.as_ref().map(|mix| mix.scheme), background];
        used.into_iter().flatten().map(|scheme| &self.schemes[usize::from(scheme.0)])
    }

    /// The closed-loop sources, each with the place of its workload; 0 is the measured one.
    pub(crate) fn closed_loops(&self) -> Vec<(usize, LoopSource)> {
        let parts = std::iter::once(&self.workload).chain(&self.background).enumerate();
        let sources = parts.flat_map(|(part, workload)| {
            let sources = match &workload.arrivals {
                ArrivalProcess::ClosedLoop(closed) => {
                    closed.start(&self.topology, workload.writes, self.seed_of(part))
                }
                _ => Vec::new(),
            };
            sources.into_iter().map(move |source| (part, source))
        });
        sources.collect()
    }

    /// Gives a flow of a workload its scheme.
    pub(crate) fn with_scheme(&self) -> impl Fn(usize, &Flow) -> Flow + use<> {
        let assignment = self.assignment.clone();
        move |part, flow| Flow { scheme: assignment.scheme(part, flow), ..flow.clone() }
    }

    fn seed_of(&self, part: usize) -> u64 {
        let place = match self.workload.arrivals {
            ArrivalProcess::One(_) => random::BESIDE,
            _ => random::WORKLOADS + part as u64,
        };
        random::derive(self.seed, place)
    }

    /// The scheme of the measured flows, without those of a mix.
    pub fn scheme(&self) -> &Scheme {
        &self.schemes[usize::from(self.assignment.scheme.0)]
    }

    /// All flows, each with whether it belongs to the measured workload. Those of closed loops are not among them.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = (bool, Flow)> + use<> {
        let parts = std::iter::once(&self.workload).chain(&self.background);
        let parts =
            parts.enumerate().map(|(part, workload)| workload.flows(&self.topology, self.seed_of(part)));
        let with_scheme = self.with_scheme();
        Merge::new(parts).map(move |(part, flow)| (part == 0, with_scheme(part, &flow)))
    }
}

/// What the hosts of a world are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    /// Packets that a host makes at once at most.
    pub batch: usize,
    /// When hosts beyond router 0 read what has arrived.
    pub reads: Reads,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Flows measured, if there are so many.
    pub flows: u64,
    /// Flows before them that are not.
    pub warm_up: u64,
    /// Flows that start earlier are not measured either.
    pub from: Duration,
    /// From when to when a flow takes.
    pub fct: Fct,
    /// When the world ends, even with flows under way.
    pub until: Option<Duration>,
    /// Whether only flows count that have ended in every run of the setting.
    pub pair: bool,
    /// Most flows under way at a time.
    pub max_in_flight: u64,
    /// The link that is sampled.
    pub sample: Option<Sampling>,
    /// How long from the connect of one flow on what others have is counted, if that is known before the world runs.
    pub window: Option<Duration>,
}

/// A link that is sampled at regular intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// The link, which the topology has.
    pub site: Site,
    /// Interval of the samples, above zero.
    pub every: Duration,
}

/// The last part of a dotted key.
pub fn short_key(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A value without the quotes of a string.
fn bare(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Where in a scenario a run stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The case, if the scenario has any.
    pub case: Option<String>,
    /// The keys swept and their values here.
    pub point: Vec<(String, toml::Value)>,
    /// The run's name.
    pub run: String,
    /// Counted from 0.
    pub repetition: u32,
}

impl Label {
    /// The same for all repetitions together.
    pub fn pooled(&self) -> Self {
        Self { repetition: 0, ..self.clone() }
    }

    /// Case and point, for people; empty where there is neither.
    pub fn setting(&self) -> String {
        let value = |(key, value): &(String, toml::Value)| format!("{} {}", short_key(key), bare(value));
        self.case.iter().cloned().chain(self.point.iter().map(value)).collect::<Vec<_>>().join(", ")
    }

    /// Whether both differ in their run and repetition at most.
    pub fn is_of_setting(&self, other: &Self) -> bool {
        self.case == other.case && self.point == other.point
    }
}

impl fmt::Display for Label {
    /// For example `Telstra Topology, workload.load=0.5, RC3 #2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(case) = &self.case {
            write!(f, "{case}, ")?;
        }
        for (key, value) in &self.point {
            write!(f, "{key}={}, ", bare(value))?;
        }
        f.write_str(&self.run)?;
        if self.repetition > 0 {
            write!(f, " #{}", self.repetition + 1)?;
        }
        Ok(())
    }
}

/// The queues in front of the links.
#[derive(Debug, Clone, PartialEq)]
pub struct Queues {
    /// Order of service at routers with priorities.
    pub discipline: Registered<QueueDiscipline>,
    /// The same at uplinks.
    pub uplink_discipline: Registered<QueueDiscipline>,
    /// Limit of each core and downlink queue.
    pub buffer: QueueLimit,
    /// Limit of each uplink queue.
    pub uplink_buffer: QueueLimit,
    /// RLP waits while so many bytes wait at its uplink.
    pub uplink_backlog: Option<u64>,
    /// Probability that a link loses a packet.
    pub loss: f64,
    /// Which links lose packets.
    pub loss_links: LossLinks,
    /// Bound of the extra delay of each packet on a core link.
    pub jitter: DirectionsSpec,
    /// Packets reach the end of a core link together at multiples of this time.
    pub aggregation: DirectionsSpec,
    /// What routers without priorities ([`crate::topology::Router::priorities`]) do with low ones.
    pub low_priority: LowPriority,
    /// Which queues signal rates.
    pub kickass: KickAssSpec,
    /// How those signal.
    pub signals: kickass::signal::SignalConfig,
}

/// A transport that carries flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Scheme {
    /// Its name in results.
    pub name: String,
    /// Its kind.
    pub kind: SchemeKind,
    /// Whose choices it has beside the following.
    pub defaults: Defaults,
    /// The rate that RLP sends at, if that is of the library.
    pub rlp_rate: RlpRate,
    /// When RLP sends.
    pub mode: Mode,
    /// Congestion controller of the primary loop.
    pub congestion: Registered<CongestionControl>,
    /// Initial congestion window in packets; `None` is that of the library.
    pub initial_window: Option<u64>,
    /// Receivers acknowledge every so many packets.
    pub ack_every: u32,
    /// Whether the primary loop paces.
    pub paced: bool,
    /// The levels of RLP.
    pub ladder: Ladder,
    /// RLP's law; `None` is the product's.
    pub constants: Option<Constants>,
    /// Level of the primary loop's packets.
    pub level: Level,
    /// Whether cryptography is real.
    pub real_crypto: bool,
}

/// Which flows use which scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Of the measured flows.
    pub scheme: SchemeId,
    /// Of the flows beside them.
    pub background: SchemeId,
    /// A second scheme for some of the measured flows.
    pub mix: Option<Mix>,
}

impl Assignment {
    /// The scheme of a flow of the measured workload (`part` 0) or one beside it.
    fn scheme(&self, part: usize, flow: &Flow) -> SchemeId {
        match &self.mix {
            _ if part > 0 => self.background,
            Some(mix) if mix.takes(flow.id, flow.from) => mix.scheme,
            _ => self.scheme,
        }
    }
}

/// A second scheme for some of the flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The scheme.
    pub scheme: SchemeId,
    /// The flows that use it.
    pub of: Mixed,
}

/// The flows that use the second scheme.
#[derive(Debug, Clone, PartialEq)]
pub enum Mixed {
    /// All flows of these hosts; indexed by host.
    Hosts(Vec<bool>),
    /// A share of the flows, 0 to 1, chosen by a seed.
    Flows {
        /// The share.
        share: f64,
        /// The seed.
        seed: u64,
    },
}

impl Mix {
    fn takes(&self, flow: FlowId, from: HostId) -> bool {
        match &self.of {
            Mixed::Hosts(takes) => takes[from.0 as usize],
            Mixed::Flows { share, seed } => random::unit(random::derive(*seed, u64::from(flow.0))) < *share,
        }
    }
}
