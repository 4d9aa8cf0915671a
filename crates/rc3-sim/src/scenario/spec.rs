//! A scenario file as it is written: every table and key, with its unit and default.
//!
//! Keys are the names below with hyphens, `initial-window`. Rates, sizes and times are strings with a unit
//! (`"1Gbit"`, `"5MB"`, `"40ms"`). A key without meaning beside the others is an error.
//!
//! [`super::keys`] turns the comments of this file into a page for users (docs/reproduction/keys.md): a
//! sentence here is a sentence there.

use std::{collections::BTreeMap, time::Duration};

use rc3_core::units::Rate;
use serde::Deserialize;

use super::quantity::{self, BufferSize, Factor, Rung, Share};
use crate::{record::Fct, registry::Parameters};

/// The keys at the top of a scenario file, and its tables.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    /// Name of the experiment, and of the folder with its results.
    pub name: String,
    /// Title of the report, one line.
    pub title: String,
    /// A scenario whose keys hold where this file has none: the name of a [base](#bases), or another file, whose path is
    /// relative to this one. A table is changed key by key, one of a list by its name (`[scheme.guard]`); another list
    /// replaces that of the base.
    #[serde(default)]
    pub base: String,
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
    /// The schemes that can carry flows.
    pub scheme: Vec<SchemeSpec>,
    /// Which flows use which scheme. Without any, each scheme has a run in which all flows use it.
    #[serde(default)]
    pub run: Vec<RunSpec>,
    /// How much is measured.
    #[serde(default)]
    pub measure: MeasureSpec,
    /// Dotted keys and the values that each takes in turn, `workload.load = [0.1, 0.3]`. Several keys make their product; the
    /// last one varies fastest.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Named sets of changes; each repeats all runs.
    #[serde(default)]
    pub case: Vec<CaseSpec>,
    /// What the printed figures say about this experiment. Default `independent`.
    #[serde(default)]
    pub basis: Basis,
    /// Printed figures to put beside the measured ones.
    #[serde(default)]
    pub expect: Vec<ExpectSpec>,
    /// The pictures of the report.
    #[serde(default)]
    pub picture: Vec<PictureSpec>,
}

impl Spec {
    /// Its runs; without any, one for each scheme.
    pub fn runs(&self) -> Vec<RunSpec> {
        let everybody = |scheme: &SchemeSpec| {
            let name = scheme.name.clone();
            RunSpec { name: name.clone(), scheme: name, mix: None, background: None }
        };
        if self.run.is_empty() { self.scheme.iter().map(everybody).collect() } else { self.run.clone() }
    }
}

/// `[topology]`: a network and its changes. All kinds take `rate`, `rtt`, `core-rates`, `without-priorities`, `batch`, `reads`
/// and `stamps`; the list of kinds names the other keys of each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TopologySpec {
    /// Name of a [topology](#topologies).
    pub kind: String,
    /// Rate of the bottleneck of a single flow: of the core links in a dumbbell, a bottleneck and a parking lot, of the uplinks in all others.
    /// In kind `file` it is the uplinks' rate and the reference of `load`. Default `1Gbit`, of a fat tree `100Gbit`.
    #[serde(default, deserialize_with = "quantity::rate")]
    pub rate: Option<Rate>,
    /// Round trip of a typical path, without access links: the mean over all paths of a map, of two core links in `internet2`,
    /// of the longest path in a fat tree, of one core link in a parking lot. Default `40ms`, of a fat tree `96us`. A file has
    /// delays of its own: there the default is their mean, and only buffers in `bdp` depend on the key.
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
    /// Largest random time that a host takes for each packet it sends. Default none. The service time of a bottleneck packet
    /// avoids phase effects, in which packets of one flow always meet a full queue (Floyd and Jacobson, On Traffic Phase
    /// Effects in Packet-Switched Gateways, 1992).
    #[serde(default, deserialize_with = "quantity::time")]
    pub overhead: Option<Duration>,
    /// Delay, one way, of each access link: every round trip is longer by four times that. Default none.
    #[serde(default, deserialize_with = "quantity::time")]
    pub access_delay: Option<Duration>,
    /// Ports of a fat tree's switches; even. Default 8.
    pub ports: Option<u32>,
    /// Core links of a parking lot. Default 3.
    pub links: Option<u32>,
    /// CSV file of kind `file`, with the columns `a,b,one_way_delay_ms,rate_mbps`: a row for each core link, between routers of
    /// any name. The path is relative to the scenario file.
    pub file: Option<String>,
    /// Two rates, `["500Mbit", "2Gbit"]`: each core link has a random one between them (RC3 §5.1.2, link heterogeneity).
    /// `workload.load` is then the mean utilisation of the core links, some of which may be overloaded.
    #[serde(default, deserialize_with = "quantity::rates")]
    pub core_rates: Option<(Rate, Rate)>,
    /// Two round trips, `["10ms", "250ms"]`: those of the access links of the first and of the last host at router 0. The hosts
    /// between them are spread evenly. It replaces `access-delay` for these hosts.
    #[serde(default, deserialize_with = "quantity::times")]
    pub access_rtts: Option<(Duration, Duration)>,
    /// Share of the routers, 0 to 1, without priority queues (RC3 §6, partial support). Default 0.
    #[serde(default)]
    pub without_priorities: Share,
    /// Share of the hosts of each router, 0 to 1, whose uplinks serve packets in order of arrival. Default 0.
    #[serde(default)]
    pub hosts_without_priorities: Share,
    /// Rate of the hosts' uplinks in kind `bottleneck`, in multiples of `rate`, 1 to 1000. Default 10.
    pub card: Option<u32>,
    /// Packets that a host hands to its uplink at once at most, as with segmentation offload. Default 1.
    pub batch: Option<u32>,
    /// Hosts beyond router 0 read what has arrived at multiples of this time, as processes that other programs delay. Default: at
    /// once.
    #[serde(default, deserialize_with = "quantity::time")]
    pub reads: Option<Duration>,
    /// Whether the kernels of those hosts stamp packets on arrival, and rc3 reads the stamps. Default no.
    #[serde(default)]
    pub stamps: bool,
    /// Parameters of a topology from outside the crate; its author documents them.
    #[serde(default)]
    pub parameters: Parameters,
}

/// `[queue]`: the queues in front of the links.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct QueueSpec {
    /// Name of a [queue discipline](#queue-disciplines). Default `priority`.
    pub discipline: Option<String>,
    /// Limit of each core and downlink queue, or each class. Default `1bdp`.
    pub buffer: BufferSize,
    /// Least limit of those queues, whatever `buffer` says. Default 0.
    #[serde(deserialize_with = "quantity::size")]
    pub buffer_min: u64,
    /// Name of the discipline of the queues at the uplinks. Default `discipline`.
    pub uplink_discipline: Option<String>,
    /// Limit of the queues at the uplinks, or of each class. Default `unlimited`, as in the simulation of RC3's authors.
    pub uplink_buffer: Option<BufferSize>,
    /// RLP pauses while the queue of its uplink holds this much, above 0; so its packets leave as fast as the link takes them, and
    /// none after the loops have met. Default `unlimited`: all of RLP enters the queue at once, as in the papers' kernel.
    pub uplink_backlog: Option<BufferSize>,
    /// Probability that a link loses a packet, `0.005` or `"0.5%"` (RC3 Fig. 11). Default 0.
    pub loss: Share,
    /// Which links lose packets, in both directions, handshakes and acknowledgements too. Default `core`.
    pub loss_links: LossLinks,
    /// Bound of a random extra delay of each packet on a core link, which reorders packets. Default none.
    pub jitter: DirectionsSpec,
    /// Packets reach the end of a core link together, at multiples of this time. Default: each at its own.
    pub aggregation: DirectionsSpec,
    /// What routers without priority queues do with RLP packets. Default `pass`.
    pub low_priority: LowPriority,
    /// Which queues signal rates by where they fragment packets (Kick-Ass §2): `true` for all links with a rate, the hosts'
    /// uplinks among them, or a list of router numbers. Runs of RCP ignore it: RCP routers signal in their own headers. Default
    /// `false`.
    pub kickass: KickAssSpec,
    /// Round trips for which such a queue must not exceed half of its buffer until its signals return; an empty queue ends the
    /// wait. The paper's rule is 0. Default 8.
    pub kickass_resume: Option<u32>,
    /// When a queue above half of its buffer stops signalling (Kick-Ass §2.3.2). Default `ignored`.
    pub kickass_silence: SilenceSpec,
    /// Parameters of `discipline` from outside the crate; its author documents them.
    pub parameters: Parameters,
}

/// A time for each direction of a core link, `{ back = "3ms" }`, at most a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DirectionsSpec {
    /// From the router with the lower number, where the senders of a bottleneck are. Default none.
    #[serde(deserialize_with = "quantity::short_time")]
    pub there: Duration,
    /// The other way. Default none.
    #[serde(deserialize_with = "quantity::short_time")]
    pub back: Duration,
}

/// The links that lose packets at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossLinks {
    /// Those between routers.
    #[default]
    Core,
    /// Those of the hosts as well, as in the simulation of RC3's authors.
    All,
}

/// When a queue above half of its buffer stops signalling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SilenceSpec {
    /// At once, as in the paper.
    Threshold,
    /// Once senders ignore its rate: neither load nor queue falls.
    #[default]
    Ignored,
}

/// Which queues signal rates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum KickAssSpec {
    /// All queues, or none.
    All(bool),
    /// The queues of these routers.
    Routers(Vec<usize>),
}

impl Default for KickAssSpec {
    fn default() -> Self {
        Self::All(false)
    }
}

/// What a router without priority queues does with RLP packets (RC3 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LowPriority {
    /// It serves them like all others.
    #[default]
    Pass,
    /// It drops them.
    Drop,
}

/// `[workload]`, and each `[[background]]`: flows. The list of `arrivals` names the keys of each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadSpec {
    /// Where flows come from.
    pub arrivals: Arrivals,
    /// Sizes of the flows.
    pub sizes: Option<SizesSpec>,
    /// Offered traffic of all flows together, TCP's headers included, as a share (0 to 1) of a reference. The reference is the sum
    /// of all hosts' `rate`; in a dumbbell and a parking lot it is the `rate` of one core link. There the traffic of both
    /// directions counts: with hosts of both sides sending, `load = 0.9` offers 45 % of the link in each direction, and `from =
    /// [0]` with `to = [1]` offers 90 % in one. `rc3-lab sim run` prints the offered load of the busiest link before, and its
    /// utilisation after the run. More than 100 % of any link is an error, unless `measure.until` ends the world.
    /// Of `arrivals = "short"` it is bytes of the application as a share, below 1, of `topology.rate`.
    pub load: Option<Share>,
    /// Numbers of the routers whose hosts send. Default all.
    pub from: Option<Vec<usize>>,
    /// Numbers of the routers whose hosts receive. Default all.
    pub to: Option<Vec<usize>>,
    /// CSV file of arrivals, ordered by time, with the columns `time_s,source,destination` (hosts, from 0) and either `packets`
    /// (of 1460 bytes) or `bytes`. The path is relative to the scenario file.
    pub file: Option<String>,
    /// The flows, `[{ from = 0, to = 10, size = "1MB" }]`.
    pub flows: Option<Vec<ListedFlow>>,
    /// Bytes of the flow of `arrivals = "one"`.
    #[serde(default, deserialize_with = "quantity::size")]
    pub size: Option<u64>,
    /// An earlier flow of the same hosts has taught the sender, while the bottleneck had so many times its rate, 0.001 to 1000. It
    /// matters to schemes that remember: kind `rc3`, and Careful Resume. It has the path alone; others begin after it. Default: none
    /// has.
    pub taught_at: Option<Factor>,
    /// That flow went to another host behind the same bottleneck, which needs `topology.hosts` of 2. Default: false.
    #[serde(default)]
    pub taught_elsewhere: bool,
    /// When half of the flow could have arrived, the rate of the bottleneck becomes so many times its first value, 0.001 to 1000.
    /// Default: it stays.
    pub rate_change: Option<Factor>,
    /// How many flows of `arrivals = "long"`, 1 to 64.
    pub count: Option<u32>,
    /// The sources of `arrivals = "closed-loop"`.
    pub closed_loop: Option<ClosedLoopSpec>,
    /// How the application writes its bytes. Default all at once.
    pub writes: Option<WritesSpec>,
    /// Time after which the application gives up a flow, counted from its connect. Not with `writes`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub give_up: Option<Duration>,
}

/// Where flows come from, with the keys of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Exponential gaps between random hosts at different routers. Keys: `sizes`, `load`, `from`, `to`, `writes`, `give-up`.
    Poisson,
    /// Sources that start their next flow a think time after the last one has ended. Keys: `closed-loop`, `sizes`, `from`, `to`,
    /// `writes`, `give-up`.
    ClosedLoop,
    /// The flows of a file. Keys: `file`, `writes`, `give-up`.
    Csv,
    /// The flows of the key `flows`. Keys: `flows`, `writes`, `give-up`.
    List,
    /// One flow over a topology of kind `bottleneck`, from host 0 to host 1, once what is beside it has settled. Keys: `size`,
    /// `taught-at`, `taught-elsewhere`, `rate-change`, `writes`.
    One,
    /// Flows without end beside one flow, each between two hosts of its own. They begin within ten round trips. Keys: `count`.
    Long,
    /// Flows of 10, 30 or 100 kB beside one flow, with exponential gaps. Keys: `load`.
    Short,
}

/// Flow sizes, in packets of 1460 bytes: a name, or a table with one key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizesSpec {
    /// The distribution of the papers' evaluation (Allman 2013): 1 to 2107 packets, mean 184.5.
    Allman2013,
    /// A stand-in for the campus workload of 2000 in RC3's Table 1: 1 to 1800 packets, mean 9.63.
    Campus2000,
    /// TCP flows of a campus in 2015, cut off at 1 MB: 1 to 685 packets.
    Agh2015,
    /// A data centre's distribution with a heavy tail ("data mining"): 1 to 666,667 packets.
    Datamining,
    /// A data centre's distribution ("web search", DCTCP): 6 to 20,000 packets.
    Dctcp,
    /// All flows have one size, `{ fixed = 100 }`.
    Fixed(u64),
    /// Each size is equally likely, `{ uniform = { min = 1, max = 100 } }`.
    Uniform(UniformSpec),
    /// A heavy tail, `{ pareto = { mean = 100, shape = 1.8, min = 1, max = 2000 } }`.
    Pareto(ParetoSpec),
    /// A CSV file with the columns `packets,cumulative`, `{ file = "sizes.csv" }`. The path is relative to the scenario file.
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

/// A Pareto distribution, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ParetoSpec {
    /// Its mean before values are clamped to `min` and `max`.
    pub mean: f64,
    /// Exponent of its tail, above 1.
    pub shape: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// One flow of a list, or several alike.
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
    /// Number of such flows, each between the hosts after those of the flow before. Default 1.
    pub count: Option<u32>,
    /// Time from one of them to the next. Default `0s`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub every: Option<Duration>,
}

/// Sources each of which starts its next flow after the last one has ended and a think time has passed. A flow ends when its
/// sender knows that every byte has arrived, or gives up. Sources start at random times within a first think time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClosedLoopSpec {
    /// Number of sources.
    pub sources: u32,
    /// Mean of the think times, which are exponential.
    #[serde(deserialize_with = "quantity::time")]
    pub think: Duration,
}

/// An application that writes a first part and then a chunk at a time (RC3 §5.1.2, application pacing).
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
    #[serde(deserialize_with = "quantity::time")]
    pub every: Duration,
}

/// `[[scheme]]`: a transport that carries flows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SchemeSpec {
    /// Its name in runs and results.
    pub name: String,
    /// Its kind.
    pub kind: SchemeKind,
    /// Whose choices hold where the other keys say nothing. Default `papers`.
    #[serde(default)]
    pub defaults: Defaults,
    /// When RLP sends; of kind `rc3` only. Default `trust`, since simulated routers honour the marks; of the library `guard`.
    pub mode: Option<Mode>,
    /// The rate that RLP takes for that of the sender's card; of the library only, the papers have none. Default `uplink`.
    pub rlp_rate: Option<RlpRate>,
    /// Name of a [congestion controller](#congestion-controllers), for the primary loop. Default `newreno`, of the library `cubic`.
    pub congestion: Option<String>,
    /// Initial congestion window in packets. Default 4, of the library 10. A controller from outside the crate may ignore it.
    pub initial_window: Option<u64>,
    /// Receivers acknowledge every so many packets: 2 for TCP's delayed ACKs. Default 1, as in the papers. Of the papers only, as
    /// `paced` and `ladder`.
    pub ack_every: Option<u32>,
    /// Whether the primary loop paces. Default no.
    pub paced: Option<bool>,
    /// Packets of each RLP level, from the end of the flow: `[40, 400, 4000, "rest"]`, which is the default. `"rest"` is the last
    /// level and unlimited. Of kind `rc3` only.
    pub ladder: Option<Vec<Rung>>,
    /// Level of the primary loop's packets, 0 to 15. RC3 Fig. 14b has critical flows at 0 and all others at 1. Default 0.
    #[serde(default)]
    pub level: u8,
    /// Whether packets are encrypted. Default no: sizes and round trips are the same, and worlds run faster.
    #[serde(default)]
    pub real_crypto: bool,
    /// Numbers of RLP's law that differ from the product's, by name, times in seconds: `{ gain = 1 }`; `docs/CLOCK.md`. Of mode
    /// `guard` only.
    #[serde(default)]
    pub constants: BTreeMap<String, f64>,
    /// Parameters of a congestion controller from outside the crate; its author documents them.
    #[serde(default)]
    pub parameters: Parameters,
}

/// Whose choices a scheme has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defaults {
    /// Those of the RC3 papers: packets of 1460 bytes, each of them acknowledged, no pacing. Receivers take RLP from everybody.
    #[default]
    Papers,
    /// Those of rc3 as programs use it: MTU discovery, delayed ACKs, pacing. Receivers have the settings of the scheme with
    /// RLP, if any.
    Library,
}

/// A rate that RLP sends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RlpRate {
    /// That of the uplink of host 0.
    #[default]
    Uplink,
    /// That of the bottleneck, `topology.rate`: what a perfect estimate would give.
    Bottleneck,
}

/// Kind of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeKind {
    /// rc3 with both loops.
    Rc3,
    /// The primary loop alone, as in plain QUIC.
    Plain,
    /// The Rate Control Protocol, with its routers.
    Rcp,
}

/// When RLP sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Always.
    Trust,
    /// Unless measurements show that the path ignores the marks.
    Guard,
    /// Never; it is not offered.
    Off,
}

/// `[[run]]`: which flows use which scheme.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunSpec {
    /// Its name in results.
    pub name: String,
    /// The scheme of all flows, except those of `mix` and `background`.
    pub scheme: String,
    /// Another scheme for some of the measured flows.
    pub mix: Option<MixSpec>,
    /// Another scheme for the flows of `[[background]]`.
    pub background: Option<String>,
}

/// A second scheme for some of the measured flows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MixSpec {
    /// The scheme.
    pub scheme: String,
    /// Share that uses it, 0 to 1.
    pub share: Share,
    /// Whether that is a share of the hosts or of the flows.
    pub of: MixOf,
}

/// What a share counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixOf {
    /// Hosts: the first ones at each router send with the second scheme (RC3 §5.1.3).
    Hosts,
    /// Flows: random ones, the same in all runs of a seed (RC3 §5.1.4, critical flows).
    Flows,
}

/// `[measure]`: how much to measure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MeasureSpec {
    /// Flows measured in each world; a `list` or a file may have fewer. Default 10,000; with `until` all that start before.
    pub flows: Option<u64>,
    /// Flows before the measured ones, while queues fill. Default 6000 (0.44 s of the papers' baseline, the mean FCT of a byte
    /// under TCP); for a `list` or a file, and with `from`, 0; for closed-loop sources one flow of each.
    pub warm_up: Option<u64>,
    /// Virtual time from which on flows that start are measured, in place of `warm-up`.
    #[serde(deserialize_with = "quantity::time")]
    pub from: Option<Duration>,
    /// Hosts at each router in a quick run of a scenario that leaves their number at ten. Default 1: the bottleneck of a path is
    /// the uplink of its host, so completion times are as with ten. More where shares of the hosts differ.
    pub quick_hosts: u32,
    /// Repetitions of each world, each with a seed of its own. Default 1.
    pub repetitions: u32,
    /// Seed of everything random. Default 1.
    pub seed: u64,
    /// Definition of the FCT. Default `connect-to-last-byte`.
    pub fct: Fct,
    /// Virtual time at which the world ends. Flows under way then do not count. Default: when all measured flows have ended.
    #[serde(deserialize_with = "quantity::time")]
    pub until: Option<Duration>,
    /// Whether only those flows count that have ended in every run of the same setting and repetition, as in the evaluation of
    /// RC3's authors. `flows.csv` has the others too. Default no.
    pub pair: bool,
    /// Most flows under way at a time; more are an error, since memory grows with them. Default 100,000.
    pub max_in_flight: u64,
    /// A link that is sampled at regular intervals.
    pub sample: Option<SampleSpec>,
}

/// A link that is sampled, with the senders of the flows that cross it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SampleSpec {
    /// The link: `core:0-1`, `uplink:3` or `downlink:3`.
    pub link: String,
    /// Interval of the samples. Default `100ms`.
    #[serde(default, deserialize_with = "quantity::time")]
    pub every: Option<Duration>,
    /// Times at which one row of the report ends and the next begins, `["0s", "10s", "20s"]`.
    #[serde(deserialize_with = "quantity::instants")]
    pub epochs: Vec<Duration>,
}

impl Default for MeasureSpec {
    fn default() -> Self {
        Self {
            flows: None,
            warm_up: None,
            from: None,
            quick_hosts: 1,
            repetitions: 1,
            seed: 1,
            fct: Fct::default(),
            until: None,
            pair: false,
            max_in_flight: 100_000,
            sample: None,
        }
    }
}

impl MeasureSpec {
    /// Flows measured in each world, at most.
    pub fn flows(&self) -> u64 {
        self.flows.unwrap_or_else(|| if self.until.is_some() { u64::MAX } else { 10_000 })
    }
}

/// `[[case]]`: named changes of keys.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaseSpec {
    /// Its name in results, for example `Telstra Topology`.
    pub name: String,
    /// Dotted keys and their values, `{ topology.kind = "telstra" }`.
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
    /// What makes the figure differ, if it does and that was tested: a few words by which differences are counted.
    #[serde(default)]
    pub cause: String,
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
            Self::Fct | Self::FctBytes | Self::Delay | Self::Queueing | Self::QueueingP99 => "s",
            Self::FlowRate => "Mbit/s",
            Self::Speedup => "x",
            _ => "%",
        }
    }
}

/// `[[picture]]`: a picture of the report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PictureSpec {
    /// Its kind.
    pub kind: PictureKind,
    /// Its title. Default: the scenario's.
    pub title: Option<String>,
    /// The swept key on the horizontal axis, or of the groups.
    pub x: Option<String>,
    /// Runs to draw. Default all.
    pub runs: Option<Vec<String>>,
    /// Flow sizes in packets, for distributions of single sizes.
    pub sizes: Option<Vec<u64>>,
}

/// Kinds of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PictureKind {
    /// Reduction of the FCT by flow size (RC3 Figs. 7, 8, 9, 12, 14).
    ReductionBySize,
    /// Mean FCT against a swept key (RC3 Fig. 11).
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
    /// Utilisation of the sampled link against time (Kick-Ass Figs. 2b, 5b, 7b).
    UtilisationOverTime,
    /// Queue of the sampled link against time (Kick-Ass Fig. 2c).
    QueueOverTime,
    /// Share of flows in Kick-Ass mode against time.
    ModeOverTime,
    /// Cumulative distribution of the queueing delay at the sampled link (Kick-Ass Fig. 9).
    QueueingDistribution,
}
