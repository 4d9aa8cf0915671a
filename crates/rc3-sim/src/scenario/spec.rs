//! A scenario file as it is written: every table and key, with its unit and default.
//!
//! Keys are the names below with hyphens, `initial-window`. Rates, sizes and times are strings with a unit
//! (`"1Gbit"`, `"5MB"`, `"40ms"`, see [`crate::units`]). A key that means nothing beside the others is an error, not
//! a silent default.

use std::time::Duration;

use rc3_core::units::Rate;
use serde::Deserialize;

use super::quantity::{self, BufferSize, Probability, Rung, Share};
use crate::record::Fct;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// What `rc3-lab sim run` calls it; also the folder of its results.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Figure, table or section it reproduces, for example `RC3 Fig. 8`.
    #[serde(default)]
    pub source: String,
    /// What to expect and why, in a paragraph for the report.
    #[serde(default)]
    pub about: String,
    /// The network.
    pub topology: TopologySpec,
    /// The queues in front of its links.
    #[serde(default)]
    pub queue: QueueSpec,
    /// The flows that are measured.
    pub workload: WorkloadSpec,
    /// Flows beside them.
    #[serde(default)]
    pub background: Vec<WorkloadSpec>,
    /// What can carry a flow.
    pub scheme: Vec<SchemeSpec>,
    /// Who uses which scheme. Without any, each scheme is used by everybody once.
    #[serde(default)]
    pub run: Vec<RunSpec>,
    /// How much is measured.
    #[serde(default)]
    pub measure: MeasureSpec,
    /// Dotted key to the values it takes in turn; several keys make their product, the last one runs fastest.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Named sets of changes, each an experiment of its own.
    #[serde(default)]
    pub case: Vec<CaseSpec>,
    /// What the printed figures say about this experiment. Default `independent`.
    #[serde(default)]
    pub basis: Basis,
    /// Printed figures to put beside the measured ones.
    #[serde(default)]
    pub expect: Vec<ExpectSpec>,
    /// What to draw.
    #[serde(default)]
    pub picture: Vec<PictureSpec>,
}

/// `[topology]`: a network and its changes. Which keys a kind takes: see [`TopologyKind`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TopologySpec {
    /// Which network.
    pub kind: TopologyKind,
    /// Rate of the bottleneck of a single flow. Default `1Gbit`, of a fat tree `100Gbit`.
    #[serde(default, deserialize_with = "quantity::rate")]
    pub rate: Option<Rate>,
    /// Round trip of a typical path: the mean one of a map, for internet2 that of two core links, of a fat tree
    /// that of the longest path, of a parking lot that of one link. Default `40ms`, of a fat tree `96us`; of a
    /// file the mean one, and only the limit of queues follows from it.
    #[serde(default, deserialize_with = "quantity::time")]
    pub rtt: Option<Duration>,
    /// Hosts at each router, and at each side of a dumbbell. Default 10; a fat tree has its own number.
    pub hosts: Option<u32>,
    /// Rate of a host's uplink. Default `rate`; in a dumbbell and a parking lot ten times that.
    #[serde(default, deserialize_with = "quantity::rate")]
    pub uplink: Option<Rate>,
    /// Rate of a host's downlink. Default: that of its uplink.
    #[serde(default, deserialize_with = "quantity::rate")]
    pub downlink: Option<Rate>,
    /// Random time that a host takes for each packet it sends, at most. Default none. With the service time of the
    /// bottleneck it keeps packets of one size from always meeting the same place in a full queue (Floyd and Jacobson,
    /// On Traffic Phase Effects in Packet-Switched Gateways, 1992).
    #[serde(default, deserialize_with = "quantity::time")]
    pub overhead: Option<Duration>,
    /// Ports of a fat tree's switches; even. Default 8.
    pub ports: Option<u32>,
    /// Core links of a parking lot. Default 3.
    pub links: Option<u32>,
    /// CSV file of kind `file`, `a,b,one_way_delay_ms,rate_mbps`, from the folder of the scenario file.
    pub file: Option<String>,
    /// Each core link's rate is multiplied by a number drawn uniformly between these two, `[0.5, 2]` (RC3
    /// §5.1.2, link heterogeneity).
    #[serde(default, deserialize_with = "quantity::factors")]
    pub core_factors: Option<(f64, f64)>,
    /// Round trips that the access links of the hosts of router 0 add, those of the first and the last host; evenly
    /// spread between them, `["10ms", "250ms"]`. In a dumbbell and a parking lot.
    #[serde(default, deserialize_with = "quantity::times")]
    pub access_rtts: Option<(Duration, Duration)>,
    /// Share of the routers, 0 to 1, without queues by priority (RC3 §6, partial support). Default 0.
    #[serde(default)]
    pub without_priorities: Share,
    /// Share of the hosts of each router, 0 to 1, whose uplinks serve packets in order of arrival. Default 0.
    #[serde(default)]
    pub hosts_without_priorities: Share,
}

/// The networks there are, with the keys each of them takes besides `kind`, `rate`, `rtt`, `core-factors`,
/// `without-priorities` and `hosts-without-priorities`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// Ten routers, sixteen core links: the papers' Internet-2. `hosts`, `uplink`, `downlink`.
    Internet2,
    /// Rocketfuel's AS 1221. As internet2.
    Telstra,
    /// The academic network of Latin America. As internet2.
    Redclara,
    /// The network of the U.S. Department of Energy. As internet2.
    Esnet,
    /// Internet-2 as Topology Zoo has it. As internet2.
    Abilene,
    /// A data centre's, with links of the same rate everywhere. `ports`.
    FatTree,
    /// One bottleneck of `rate` with hosts on both sides. As internet2.
    Dumbbell,
    /// Routers in a row. As internet2, and `links`.
    ParkingLot,
    /// Core links from a file. As internet2, and `file`.
    File,
}

/// `[queue]`: what waits in front of the links.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct QueueSpec {
    /// Order of service. Default `priority`.
    pub discipline: Discipline,
    /// Limit of each core and downlink queue, shared by all levels. Default `1bdp`.
    pub buffer: BufferSize,
    /// Limit of the queues at the uplinks, shared by all levels. Default `1bdp`: "all queues" have it (RC3 §5.1).
    pub uplink_buffer: BufferSize,
    /// RLP waits while this much waits at its uplink, so that its packets leave as fast as the card takes them, and
    /// none once the loops have met; above 0. Default `unlimited`: all of RLP is handed over at once, as by the
    /// papers' kernel.
    pub uplink_backlog: Option<BufferSize>,
    /// Probability, 0 to 1, that a core link loses a packet (RC3 Fig. 11). Default 0.
    pub loss: Probability,
    /// Probability, 0 to 1, that the first packet of a flow does not get through, for whatever reason networks
    /// have; its sender tries again after three seconds (RFC 2988 §2). Default 0.
    pub first_loss: Probability,
    /// What routers without priorities do with low ones. Default `pass`.
    pub low_priority: LowPriority,
    /// Which queues tell rates by where they fragment packets (Kick-Ass §2): `true` for those of all links with a
    /// rate, the hosts' uplinks among them, or the numbers of routers. Not in runs of RCP, whose routers have means of
    /// their own. Default `false`.
    pub kickass: KickAssSpec,
    /// Part of the buffer, 0 to 1, beyond which such a queue may fall silent (Kick-Ass §2.3.2). Default 0.5.
    pub kickass_threshold: Option<Probability>,
    /// When it does.
    pub kickass_silence: SilenceSpec,
}

/// When a queue beyond its threshold falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SilenceSpec {
    /// At once, as in the paper.
    Threshold,
    /// Once neither load nor queue falls by what it tells.
    #[default]
    Ignored,
}

/// Which queues tell rates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum KickAssSpec {
    /// All, or none.
    All(bool),
    /// Those of these routers.
    Routers(Vec<usize>),
}

impl Default for KickAssSpec {
    fn default() -> Self {
        Self::All(false)
    }
}

/// Order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Strict priority with a shared limit; an arrival pushes out worse packets.
    #[default]
    Priority,
    /// First come, first served.
    DropTail,
    /// Flows take turns, and what has waited for too long is marked or dropped (RFC 8290). Levels make no difference.
    FqCodel,
}

/// What a router without priorities does with packets of a low one (RC3 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LowPriority {
    /// Serves them like the others.
    #[default]
    Pass,
    /// Drops them.
    Drop,
}

/// `[workload]`, and each `[[background]]`: flows. Which keys go with which `arrivals`: see [`Arrivals`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadSpec {
    /// Where flows come from.
    pub arrivals: Arrivals,
    /// How long they are.
    pub sizes: Option<SizesSpec>,
    /// Offered load, 0 to 1: the share of all hosts' `rate`, in a dumbbell and a parking lot of one core link's. With
    /// headers of full packets.
    pub load: Option<Share>,
    /// Routers whose hosts send; all of them without.
    pub from: Option<Vec<usize>>,
    /// Routers whose hosts receive; all of them without.
    pub to: Option<Vec<usize>>,
    /// CSV of arrivals, `time_s,source,destination,packets`, from the folder of the scenario file.
    pub file: Option<String>,
    /// The flows themselves.
    pub flows: Option<Vec<ListedFlow>>,
    /// Sources that alternate between sending and silence.
    pub on_off: Option<OnOffSpec>,
    /// How the application hands its bytes over; all at once without.
    pub writes: Option<WritesSpec>,
    /// Flows that have not ended so long after their connect are given up. Not with `writes`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub give_up: Option<Duration>,
}

/// Where flows come from, and the keys that go with it besides `writes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Exponential gaps between random hosts at different routers. `sizes`, `load`, `from`, `to`.
    Poisson,
    /// Pareto on-off sources between random hosts. `on-off`, `from`, `to`.
    OnOff,
    /// A file, replayed. `file`.
    Csv,
    /// The flows written down here. `flows`.
    List,
}

/// Flow sizes, in packets of 1460 bytes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizesSpec {
    /// See [`crate::workload::Sizes::allman2013`].
    Allman2013,
    /// See [`crate::workload::Sizes::campus2000`].
    Campus2000,
    /// See [`crate::workload::Sizes::agh2015`].
    Agh2015,
    /// See [`crate::workload::Sizes::datamining`].
    Datamining,
    /// See [`crate::workload::Sizes::dctcp`].
    Dctcp,
    /// All alike, `{ fixed = 100 }`.
    Fixed(u64),
    /// Each equally likely, `{ uniform = { min = 1, max = 100 } }`.
    Uniform(UniformSpec),
    /// A heavy tail, `{ pareto = { mean = 100, shape = 1.8, min = 1, max = 2000 } }`.
    Pareto(ParetoSpec),
    /// `{ file = "sizes.csv" }`, `packets,cumulative`, from the folder of the scenario file.
    File(String),
}

/// Bounds of equally likely sizes, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UniformSpec {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// A Pareto law, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ParetoSpec {
    /// Its mean before its values are brought within `min` and `max`.
    pub mean: f64,
    /// Exponent of its tail, above 1.
    pub shape: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// One flow written down.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListedFlow {
    /// When it connects. Default `0s`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub at: Option<Duration>,
    /// The sending host.
    pub from: u32,
    /// The receiving host.
    pub to: u32,
    /// Its length.
    #[serde(deserialize_with = "quantity::size")]
    pub size: u64,
    /// So many like it, each from and to the hosts after those of the one before. Default 1.
    pub count: Option<u32>,
    /// How much later each of them connects than the one before. Default `0s`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub every: Option<Duration>,
}

/// Sources whose silences and bursts have Pareto lengths. While on, a source is one flow that is written at its
/// peak rate, a chunk every 10 ms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnOffSpec {
    /// How many sources.
    pub sources: u32,
    /// What a source writes while on.
    #[serde(deserialize_with = "quantity::required_rate")]
    pub peak: Rate,
    /// Mean time on.
    #[serde(deserialize_with = "quantity::required_time")]
    pub on: Duration,
    /// Mean time off.
    #[serde(deserialize_with = "quantity::required_time")]
    pub off: Duration,
    /// Exponent of both tails, above 1. Default 1.5.
    pub shape: Option<f64>,
}

/// An application that hands over a first part and then a chunk at a time (RC3 §5.1.2, application pacing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WritesSpec {
    /// The first part.
    #[serde(deserialize_with = "quantity::size")]
    pub first: u64,
    /// Each chunk.
    #[serde(deserialize_with = "quantity::size")]
    pub chunk: u64,
    /// From one chunk to the next.
    #[serde(deserialize_with = "quantity::required_time")]
    pub every: Duration,
}

/// `[[scheme]]`: something that carries flows. Defaults are the papers' choices.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SchemeSpec {
    /// What runs and results call it.
    pub name: String,
    /// What it is.
    pub kind: SchemeKind,
    /// When RLP sends; of `rc3` only. Default `trust`: the simulated routers honour the marks.
    pub mode: Option<Mode>,
    /// Congestion controller of the primary loop. Default `newreno`.
    pub congestion: Option<Congestion>,
    /// Initial congestion window in packets. Default 4.
    pub initial_window: Option<u64>,
    /// Round trip assumed before one has been measured (RFC 9002 §6.2.2); a first packet is sent again after three
    /// of them. Receivers assume the longest of the schemes in the world. Default `1s`: TCP's three seconds (RFC 2988 §2), which
    /// the papers' simulator has.
    #[serde(default, deserialize_with = "quantity::time")]
    pub initial_rtt: Option<Duration>,
    /// Whether the primary loop paces. Default no.
    pub paced: Option<bool>,
    /// Packets of each level, from the end of the flow; `"rest"` is without end and only the last may be it.
    /// Of `rc3` only. Default 40, 400, 4000 and the rest.
    pub ladder: Option<Vec<Rung>>,
    /// How `ladder` is read. Default `counts`.
    pub ladder_reading: Option<LadderReading>,
    /// Level of the primary loop's packets, 0 to 15; all that is not critical goes at 1 where critical flows go
    /// at 0 (RC3 Fig. 14b). Default 0.
    #[serde(default)]
    pub level: u8,
    /// Whether cryptography is real. Default no: sizes and round trips are the same.
    #[serde(default)]
    pub real_crypto: bool,
}

/// What carries a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeKind {
    /// Both loops.
    Rc3,
    /// The primary loop alone.
    Plain,
    /// The Rate Control Protocol, whose routers take part.
    Rcp,
}

/// When RLP sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Always.
    Trust,
    /// Unless the path seems to ignore the marks.
    Guard,
    /// Never, but it is negotiated.
    Off,
}

/// Congestion controllers. quinn-proto's BBR is not among them: see [`rc3_core::Congestion::Bbr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// RFC 9002 §7.
    #[default]
    Newreno,
    /// RFC 9438.
    Cubic,
    /// The rates that routers tell, NewReno where they tell none (Kick-Ass §2.3).
    Kickass,
    /// See [`crate::pcc`].
    Pcc,
}

/// The two readings of the papers' ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LadderReading {
    /// 40, then 400 more, then 4000 more (RC3 §2.1, Fig. 12).
    #[default]
    Counts,
    /// Up to the 40th packet, up to the 400th, up to the 4000th (RC3 §4.1.1).
    Thresholds,
}

/// `[[run]]`: who uses which scheme.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunSpec {
    /// What results call it.
    pub name: String,
    /// The scheme of all flows but those named below.
    pub scheme: String,
    /// Another scheme for some of the measured flows.
    pub mix: Option<MixSpec>,
    /// Another scheme for the flows of `[[background]]`.
    pub background: Option<String>,
}

/// A second scheme for some.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MixSpec {
    /// The scheme.
    pub scheme: String,
    /// How many use it, 0 to 1.
    pub share: Share,
    /// Of what.
    pub of: MixOf,
}

/// What is divided between two schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixOf {
    /// The sending hosts of each router: the first of them use the second scheme (RC3 §5.1.3).
    Hosts,
    /// Flows, at random, the same ones in all runs of a seed (RC3 §5.1.4, critical flows).
    Flows,
}

/// `[measure]`: how much is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MeasureSpec {
    /// Flows measured in each world. A `list` or a file may have fewer. Default 10,000.
    pub flows: u64,
    /// Flows before them that are not, while queues fill. Default 6000, of the papers' baseline 0.44 s, the mean
    /// FCT of a byte under TCP; where the flows are a `list` or a file, none.
    pub warm_up: Option<u64>,
    /// Worlds of each kind, with seeds of their own. Default 1.
    pub repetitions: u32,
    /// The seed all others follow from. Default 1.
    pub seed: u64,
    /// From when to when a flow takes. Default `connect-to-last-byte`.
    pub fct: Fct,
    /// When the world ends, whatever is under way: a flow that has not ended by then is not counted. Without, it ends when
    /// all measured flows have.
    #[serde(deserialize_with = "quantity::time")]
    pub until: Option<Duration>,
    /// A link that is looked at again and again.
    pub sample: Option<SampleSpec>,
}

/// What is looked at while a world runs: a link, and the senders of the flows that cross it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SampleSpec {
    /// The link, `core:0-1`; see [`crate::topology::Site`].
    pub link: String,
    /// From one look to the next. Default `100ms`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub every: Option<Duration>,
    /// Where a line of the report ends and the next begins; the first and the last are its ends.
    #[serde(deserialize_with = "quantity::instants")]
    pub epochs: Vec<Duration>,
}

impl Default for MeasureSpec {
    fn default() -> Self {
        Self {
            flows: 10_000,
            warm_up: None,
            repetitions: 1,
            seed: 1,
            fct: Fct::default(),
            until: None,
            sample: None,
        }
    }
}

/// `[[case]]`: named changes of other keys.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaseSpec {
    /// What results call it, for example `Telstra Topology`.
    pub name: String,
    /// Dotted key to value.
    #[serde(default)]
    pub set: toml::Table,
}

/// Whether the setting of an experiment was chosen without looking at the printed figures beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The papers, or data published elsewhere, define the setting: the figures are compared.
    #[default]
    Independent,
    /// A free number was chosen so that printed figures are met. Agreement shows nothing.
    Fit,
    /// The setting is not that of the papers: it shows how much one assumption changes.
    WhatIf,
}

/// What a paper prints instead of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The value or more.
    AtLeast,
    /// The value or less.
    AtMost,
}

/// `[[expect]]`: a figure printed in a paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectSpec {
    /// Of which run.
    pub run: String,
    /// Compared with which run, for metrics that are reductions.
    pub against: Option<String>,
    /// Of which case.
    pub case: Option<String>,
    /// At which values of the keys swept, dotted key to value.
    #[serde(default)]
    pub at: toml::Table,
    /// Which flows, by scheme, where a run has several.
    pub scheme: Option<String>,
    /// Which flows, by size in packets of 1460 bytes: the smallest and the largest.
    pub packets: Option<(u64, u64)>,
    /// Between which instants, of metrics that a link is sampled for; all the time without.
    #[serde(default, deserialize_with = "quantity::times")]
    pub between: Option<(Duration, Duration)>,
    /// What is printed.
    pub metric: Metric,
    /// The printed value, in the metric's unit.
    pub value: f64,
    /// Whether the paper prints a bound rather than the value itself.
    pub bound: Option<Bound>,
    /// Of this figure only; without, that of the experiment.
    pub basis: Option<Basis>,
    /// Remarks, for example on a misprint.
    #[serde(default)]
    pub note: String,
}

/// What can be printed and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Mean FCT over flows, in seconds.
    Fct,
    /// Mean FCT weighted by bytes, in seconds.
    FctBytes,
    /// Reduction of the mean FCT over flows, in per cent.
    Reduction,
    /// Reduction of the mean FCT weighted by bytes, in per cent.
    ReductionBytes,
    /// How many times as long the mean FCT over flows is in the run compared with (`against`).
    Speedup,
    /// How much longer the mean FCT over flows is than in the run compared with, in seconds.
    Delay,
    /// FCT that 99 % of the flows do not exceed, in seconds.
    FctP99,
    /// Reduction of it, in per cent.
    ReductionP99,
    /// Share of packets lost, in per cent.
    Loss,
    /// Share of the sampled link's rate in use, in per cent.
    Utilisation,
    /// Jain's index of the flows' throughputs on the sampled link, in per cent: 100 if all are alike.
    Fairness,
    /// Mean throughput of a flow on the sampled link, in Mbit/s.
    FlowRate,
    /// Mean wait in front of the sampled link, in seconds.
    Queueing,
    /// Wait in front of the sampled link that 99 % of the looks do not exceed, in seconds.
    QueueingP99,
    /// Share of the flows that are in Kick-Ass mode, in per cent.
    KickassMode,
}

impl Metric {
    /// The unit of its values: `s`, `%`, `x` or `Mbit/s`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Fct | Self::FctBytes | Self::FctP99 | Self::Delay | Self::Queueing | Self::QueueingP99 => {
                "s"
            }
            Self::FlowRate => "Mbit/s",
            Self::Speedup => "x",
            Self::Reduction
            | Self::ReductionBytes
            | Self::ReductionP99
            | Self::Loss
            | Self::Utilisation
            | Self::Fairness
            | Self::KickassMode => "%",
        }
    }
}

/// `[[picture]]`: something to draw.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PictureSpec {
    /// What it shows.
    pub kind: PictureKind,
    /// Its title; the scenario's without.
    pub title: Option<String>,
    /// The key swept that makes the horizontal axis or the groups.
    pub x: Option<String>,
    /// Runs to draw; all without.
    pub runs: Option<Vec<String>>,
    /// The run reductions are relative to.
    pub against: Option<String>,
    /// Flow sizes in packets, for distributions of single sizes.
    pub sizes: Option<Vec<u64>>,
}

/// What a picture can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PictureKind {
    /// Reduction of the FCT by flow size (RC3 Figs. 7, 8, 9, 12, 14).
    ReductionBySize,
    /// Mean FCT against a key swept (RC3 Fig. 11).
    FctByKey,
    /// Cumulative distribution of FCTs (RC3 Fig. 10).
    FctDistribution,
    /// Median throughput by flow size (RC3 Fig. 13).
    ThroughputBySize,
    /// Offsets sent by both loops against time (RC3 Fig. 2).
    TimeLine,
    /// Packets of each level in each round trip (RC3 Fig. 3).
    PacketsByRound,
    /// The model of RC3 §3 (Fig. 4).
    Model,
    /// Mean FCT by flow size (Kick-Ass Figs. 3, 4, 8).
    FctBySize,
    /// Throughput of the first flow on the sampled link against time (Kick-Ass Figs. 2a, 5a, 7a).
    RateOverTime,
    /// Use of the sampled link against time (Kick-Ass Figs. 2b, 5b, 7b).
    UtilisationOverTime,
    /// What waits in front of the sampled link against time (Kick-Ass Fig. 2c).
    QueueOverTime,
    /// Share of the flows in Kick-Ass mode against time.
    ModeOverTime,
    /// Cumulative distribution of the wait in front of the sampled link (Kick-Ass Fig. 9).
    QueueingDistribution,
}
