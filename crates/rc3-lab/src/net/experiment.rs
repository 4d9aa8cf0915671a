//! The experiments: which cells each of them has, or what else it does.

use std::{num::NonZero, path::PathBuf, time::Duration};

use super::{
    args::NetRunArgs,
    cell::{Cell, Company},
    copies,
    error::NetError,
    forwarder, fragments, interop, kickass, memory, nats, outages,
    path::{Card, Discipline, Loss, Path},
    priorities, programs,
    recipe::Recipe,
    run::Lab,
    streams::{self, Hosts},
    workers,
};
use crate::document::Document;

/// An experiment by name.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// What it does.
    pub work: Work,
    /// An error if what was typed names nothing of it, or the host lacks a program that only it needs.
    pub require: fn(&Options) -> Result<(), NetError>,
}

/// What an experiment does.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Flows of each scheme in each of these cells.
    Flows(Cells),
    /// Something else on loopback, which makes parts of the report by itself: everybody can do it.
    Local(Measure),
    /// The same between network namespaces.
    Namespaces(Measure),
}

type Measure = fn(&mut Lab) -> Result<Vec<Document>, NetError>;

/// What the command line changes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// As typed.
    pub args: NetRunArgs,
    /// Traces, with their mean rates.
    pub traces: Vec<(PathBuf, NonZero<u64>)>,
}

/// All experiments. The first eight are the comparison of schemes.
pub const EXPERIMENTS: [Experiment; 33] = [
    flows("idle", "FCT by size on an idle path: drop-tail, one BDP, fast card", idle),
    flows("queues", "FCT with each queue discipline", queues),
    flows("card", "FCT when the sender's card is as fast as the link", card),
    flows("beside", "FCT beside one long CUBIC flow, and its goodput and the ping meanwhile", beside),
    flows("load", "FCT at 30 % load of CUBIC flows, and their FCT and the ping meanwhile", load),
    flows("loss", "FCT with 0.1 % and 1 % random loss, and 1 % in bursts", loss),
    flows("repeat", "connection setup and FCT of four connections one after the other", repeat),
    flows("cpu", "CPU time per byte of sender and receiver, 30 MB at the rate", cpu),
    flows("trace", "FCT on a link whose rate follows a trace (--trace)", trace),
    flows(
        "fig15",
        "RC3 Fig. 15: FCT over size at 1 Gbit/s x 20 ms, beside the simulation of the same setting",
        fig15,
    ),
    hosts(
        "fig16",
        "RC3 Fig. 16: goodput over time of a high and a low priority flow, queue at the sender's card",
        |lab| priorities::measure(lab, "fig16", Card::AsLink, Discipline::DropTail),
    ),
    hosts("fig17", "RC3 Fig. 17: the same with the queue at the router", |lab| {
        priorities::measure(lab, "fig17", Card::Fast, Discipline::Priority)
    }),
    flows("fig18", "RC3 Fig. 18: FCT with and without segmentation offload at the sender", fig18),
    hosts("kickass-fig8", "Kick-Ass Fig. 8: FCT under light load, with and without signals", kickass::light),
    hosts(
        "kickass-fig9",
        "Kick-Ass Figs. 9 and 10: queueing delay and throughput under heavy load",
        kickass::heavy,
    ),
    hosts("kickass-fig11", "Kick-Ass Fig. 11: time in Kick-Ass mode over two routers", kickass::path),
    hosts(
        "kickass-fig12",
        "Kick-Ass Fig. 12: lengths of packets and leading fragments that pass middleboxes",
        fragments::measure,
    ),
    hosts("kickass-shared", "FCT of kernel TCP alone and beside Kick-Ass, under light load", kickass::shared),
    hosts(
        "forwarder",
        "capacity of kickass forward: CPU time per packet, loss and delay up to 10 Gbit/s",
        forwarder::measure,
    ),
    hosts("bulk", "one long stream over a veth pair: Gbit/s, and Gbit per CPU second of both ends", |lab| {
        streams::bulk(lab, &Hosts::veth(lab.options.args.mtu)?)
    }),
    local("bulk-loopback", "the same on loopback", |lab| {
        streams::bulk(lab, &Hosts::loopback(lab.options.args.mtu))
    }),
    hosts(
        "exchanges",
        "requests and responses over a veth pair: percentiles of their times, and times over quinn's",
        |lab| streams::exchanges(lab, &Hosts::veth(lab.options.args.mtu)?),
    ),
    local("exchanges-loopback", "the same on loopback, on one connection and each on a new one", |lab| {
        streams::exchanges(lab, &Hosts::loopback(lab.options.args.mtu))
    }),
    hosts(
        "tunnel",
        "echo of keystrokes through rc3 tunnel and over kernel TCP, idle and beside bulk data",
        programs::tunnel,
    )
    .requiring(|_| programs::rc3().map(drop)),
    flows(
        "operators",
        "FCT beside flows of the same scheme with each queue of docs/OPERATORS.md; packets behind worse ones",
        operators,
    ),
    hosts(
        "outages",
        "transfers, copies and tunnels over outages, new addresses, sleep and restarts of the other side",
        outages::measure,
    )
    .requiring(|_| programs::rc3().map(drop)),
    hosts(
        "nats",
        "copies between hosts behind NATs of each kind: directly or through ssh, and what that costs",
        nats::measure,
    )
    .requiring(|_| programs::rc3().map(drop)),
    hosts(
        "codes",
        "files sent by codes between hosts behind NATs of each kind: directly or through the relay, and what that costs",
        nats::meet,
    )
    .requiring(|_| programs::rc3().map(drop)),
    hosts(
        "copies",
        "seconds of rc3 send and copy, scp, rsync and tar for small and large files, with and without a login",
        copies::measure,
    )
    .requiring(copies::require),
    hosts(
        "interop",
        "the cases of quic-interop-runner against other QUIC implementations, in both roles",
        interop::measure,
    )
    .requiring(interop::require),
    flows(
        "each-second",
        "3 MB each second beside one long CUBIC flow, without and with 30 % load of short flows: FCT, and its goodput",
        each_second,
    ),
    local("memory", "memory of many connections and streams, and what idle ones cost", memory::measure),
    local(
        "workers",
        "one worker of an endpoint beside several: connections, exchanges and bits per second",
        workers::measure,
    ),
];
/// How many of them `all` means.
const COMPARISON: usize = 8;

type Cells = fn(&Options) -> Vec<Cell>;

const fn flows(name: &'static str, about: &'static str, cells: Cells) -> Experiment {
    Experiment { name, about, work: Work::Flows(cells), require: |_| Ok(()) }
}

const fn local(name: &'static str, about: &'static str, measure: Measure) -> Experiment {
    Experiment { name, about, work: Work::Local(measure), require: |_| Ok(()) }
}

const fn hosts(name: &'static str, about: &'static str, measure: Measure) -> Experiment {
    Experiment { name, about, work: Work::Namespaces(measure), require: |_| Ok(()) }
}

impl Experiment {
    const fn requiring(self, require: fn(&Options) -> Result<(), NetError>) -> Self {
        Self { require, ..self }
    }

    /// Whether it needs neither root nor network namespaces.
    pub fn is_local(&self) -> bool {
        matches!(self.work, Work::Local(_))
    }
}

/// The experiments of these names, each once; `all` is those of the comparison.
///
/// # Errors
/// If a name is none of them.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, NetError> {
    let mut chosen: Vec<&Experiment> = Vec::new();
    for name in names {
        let named = match EXPERIMENTS.iter().position(|experiment| experiment.name == *name) {
            Some(nth) => nth..nth + 1,
            None if name == "all" => 0..COMPARISON,
            None => return Err(NetError::NoExperiment(name.clone())),
        };
        for experiment in &EXPERIMENTS[named] {
            if chosen.iter().all(|other| other.name != experiment.name) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

/// Turns of each scheme, unless the command line says otherwise.
const RUNS: u32 = 10;
const RUNS_QUICK: u32 = 3;

impl Options {
    /// How often each scheme takes its turn.
    pub fn runs(&self) -> u32 {
        self.pick(self.args.runs, RUNS, RUNS_QUICK)
    }

    /// The value typed, or the usual one, or that of a quick run.
    pub fn pick<T>(&self, typed: Option<T>, usual: T, quick: T) -> T {
        typed.unwrap_or(if self.args.quick { quick } else { usual })
    }

    /// The time typed, or so many seconds, or those of a quick run.
    pub fn time(&self, usual: u64, quick: u64) -> Duration {
        self.pick(self.args.time, Duration::from_secs(usual), Duration::from_secs(quick))
    }

    /// The usual path, unless the command line says otherwise.
    pub fn path(&self) -> Path {
        self.path_of(100, 40)
    }

    /// A path of this rate in Mbit/s and round trip in ms, unless the command line says otherwise.
    pub fn path_of(&self, megabits: u64, millis: u64) -> Path {
        let usual = Path::of(megabits, millis);
        Path::new(self.args.rate.unwrap_or(usual.rate), self.args.rtt.unwrap_or(usual.rtt))
    }

    /// The sizes typed, or the usual ones, or those of a quick run.
    pub fn sizes(&self, usual: &[u64], quick: &[u64]) -> Vec<u64> {
        let typed = Some(self.args.sizes.clone()).filter(|typed| !typed.is_empty());
        self.pick(typed, usual.to_vec(), quick.to_vec())
    }

    /// A cell with all sizes.
    fn cell(&self, name: &str, path: Path) -> Cell {
        Cell { sizes: self.sizes(&SIZES, &QUICK), ..Cell::new(name, path) }
    }

    /// One of many cells.
    fn short(&self, name: &str, path: Path) -> Cell {
        Cell { sizes: self.sizes(&FEW, &QUICK_FEW), ..Cell::new(name, path) }
    }
}

/// 10 kB to 30 MB.
const SIZES: [u64; 8] = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
const QUICK: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// Where there are many cells.
const FEW: [u64; 3] = [100_000, 1_000_000, 10_000_000];
const QUICK_FEW: [u64; 2] = [100_000, 1_000_000];

fn idle(options: &Options) -> Vec<Cell> {
    vec![options.cell("idle", options.path())]
}

fn queues(options: &Options) -> Vec<Cell> {
    let queues = [
        (Discipline::DropTail, 0.1, "drop-tail-0.1"),
        (Discipline::DropTail, 0.25, "drop-tail-0.25"),
        (Discipline::DropTail, 0.5, "drop-tail-0.5"),
        (Discipline::DropTail, 4.0, "drop-tail-4"),
        (Discipline::DropFront, 1.0, "drop-front"),
        (Discipline::Codel, 1.0, "codel"),
        (Discipline::FqCodel, 1.0, "fq-codel"),
        (Discipline::Cake, 1.0, "cake"),
        (Discipline::Policer, 0.5, "policer"),
        (Discipline::Priority, 1.0, "priority"),
    ];
    let cell =
        |(discipline, buffer, name)| options.short(name, Path { discipline, buffer, ..options.path() });
    queues.map(cell).into()
}

/// A FIFO, and a queue with priorities.
const FIFO_AND_PRIORITY: [(Discipline, &str); 2] =
    [(Discipline::DropTail, ""), (Discipline::Priority, "-priority")];

fn card(options: &Options) -> Vec<Cell> {
    let path = Path { card: Card::AsLink, ..options.path() };
    let cell = |(discipline, suffix)| {
        options.short(&format!("card-as-link{suffix}"), Path { discipline, ..path.clone() })
    };
    FIFO_AND_PRIORITY.map(cell).into()
}

fn beside(options: &Options) -> Vec<Cell> {
    let cell = |(discipline, suffix)| {
        let path = Path { discipline, ..options.path() };
        Cell { company: Company::Long, ..options.short(&format!("beside-cubic{suffix}"), path) }
    };
    FIFO_AND_PRIORITY.map(cell).into()
}

fn each_second(options: &Options) -> Vec<Cell> {
    let times = options.time(30, 5).as_secs().max(1) as u32;
    let sizes = options.sizes(&[3_000_000], &[3_000_000]);
    let cell =
        |(name, company)| Cell { company, sizes: sizes.clone(), times, ..Cell::new(name, options.path()) };
    [("each-second", Company::Long), ("each-second-load", Company::LongAndLoad(0.3))].map(cell).into()
}

fn load(options: &Options) -> Vec<Cell> {
    vec![Cell { company: Company::Load(0.3), ..options.short("load-30", options.path()) }]
}

fn loss(options: &Options) -> Vec<Cell> {
    let losses = [("loss-0.1", 0.001, 1.0), ("loss-1", 0.01, 1.0), ("loss-1-bursts", 0.01, 5.0)];
    let cell =
        |(name, share, burst)| options.short(name, Path { loss: Loss { share, burst }, ..options.path() });
    losses.map(cell).into()
}

fn repeat(options: &Options) -> Vec<Cell> {
    let sizes = options.sizes(&[100_000, 1_000_000], &[1_000_000]);
    vec![Cell { sizes, connections: 4, ..Cell::new("repeat", options.path()) }]
}

fn cpu(options: &Options) -> Vec<Cell> {
    let sizes = options.sizes(&[30_000_000], &[30_000_000]);
    vec![Cell { sizes, ..Cell::new("cpu", options.path_of(200, 10)) }]
}

fn trace(options: &Options) -> Vec<Cell> {
    let cell = |(nth, (file, rate)): (usize, &(PathBuf, NonZero<u64>))| {
        let path = Path { trace: Some(file.clone()), rate: *rate, ..options.path() };
        options.short(&format!("trace-{nth}"), path)
    };
    (1..).zip(&options.traces).map(cell).collect()
}

fn fig15(options: &Options) -> Vec<Cell> {
    let path = Path { discipline: Discipline::Priority, card: Card::AsLink, ..options.path_of(1000, 20) };
    // As in the paper, where the sender knows the rate of its card.
    vec![Cell { card_known: true, ..options.cell("fig15", path) }]
}

fn fig18(options: &Options) -> Vec<Cell> {
    let path = Path { discipline: Discipline::Priority, ..options.path_of(1000, 20) };
    let cell = |(name, offload)| options.cell(name, Path { offload, ..path.clone() });
    [("offload", true), ("no-offload", false)].map(cell).into()
}

/// Load of others, as much as makes levels differ.
const OPERATORS_LOAD: f64 = 0.5;

fn operators(options: &Options) -> Vec<Cell> {
    // Routers see single packets.
    let path = Path { offload: false, ..options.path_of(50, 40) };
    let sizes = options.sizes(&[1_000_000], &[1_000_000]);
    let cell = |name: &str, path| Cell {
        company: Company::Own(OPERATORS_LOAD),
        sizes: sizes.clone(),
        ..Cell::new(format!("operators-{name}"), path)
    };
    let of_recipe =
        |recipe: Recipe| cell(&recipe.name, Path { recipe: Some(recipe.name.clone()), ..path.clone() });
    let forwarder = Path { discipline: Discipline::Priority, ..path.clone() };
    let recipes = Recipe::all().into_iter().filter(Recipe::has_rate).map(of_recipe);
    recipes.chain([cell("forwarder", forwarder)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_is_the_comparison_and_a_wrong_name_is_an_error() {
        let all = chosen(&["all".to_owned()]).unwrap();
        assert_eq!(all.last().unwrap().name, "cpu");
        assert!(matches!(chosen(&["idel".to_owned()]), Err(NetError::NoExperiment(_))));
        assert_eq!(chosen(&["idle", "all"].map(str::to_owned)).unwrap().len(), all.len(), "each once");
    }

    #[test]
    fn cells_have_names_of_their_own_and_the_sizes_of_the_command_line() {
        let args = NetRunArgs { sizes: vec![5000], ..NetRunArgs::default() };
        let options = Options { args, ..Options::default() };
        let mut names = HashSet::new();
        for experiment in &EXPERIMENTS {
            if let Work::Flows(cells) = experiment.work {
                for cell in cells(&options) {
                    assert_eq!(cell.sizes, [5000]);
                    assert!(names.insert(cell.name.clone()), "{} twice", cell.name);
                }
            }
        }
    }

    #[test]
    fn each_second_has_a_flow_even_in_less_than_a_second() {
        let args = NetRunArgs { time: Some(Duration::from_millis(500)), ..NetRunArgs::default() };
        let cells = each_second(&Options { args, ..Options::default() });
        assert!(cells.iter().all(|cell| cell.times == 1));
    }

    #[test]
    fn a_wrong_case_is_an_error_before_anything_runs() {
        let args = NetRunArgs { cases: vec!["handshke".to_owned()], ..NetRunArgs::default() };
        let options = Options { args, ..Options::default() };
        let interop = chosen(&["interop".to_owned()]).unwrap()[0];
        let error = (interop.require)(&options).unwrap_err();
        assert!(
            matches!(error, NetError::NoCase { .. }) && error.to_string().contains("handshake, "),
            "{error}"
        );
    }

    #[test]
    fn names_are_those_of_one_experiment_and_quick_runs_have_less() {
        let names: HashSet<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        let usual = Options::default();
        let quick =
            Options { args: NetRunArgs { quick: true, ..NetRunArgs::default() }, ..Options::default() };
        assert_eq!((usual.runs(), quick.runs()), (10, 3));
        assert_eq!((usual.pick(None, 2, 1), quick.pick(None, 2, 1), quick.pick(Some(5), 2, 1)), (2, 1, 5));
    }
}
