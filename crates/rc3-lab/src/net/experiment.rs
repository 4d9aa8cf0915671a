//! The experiments: which cells each of them has, or what else it does.

use std::{path::PathBuf, time::Duration};

use rc3_core::units::Rate;

use super::{
    args::NetRunArgs,
    cell::{Cell, Company},
    error::NetError,
    forwarder, fragments, kickass, memory,
    path::{Card, Discipline, Loss, Path},
    priorities, programs,
    report::Section,
    run::Lab,
    scheme::{self, Scheme},
    streams, workers,
};

/// An experiment by name.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Whether `all` means it, too.
    pub in_all: bool,
    /// What it does.
    pub work: Work,
}

/// What an experiment does.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Flows of each scheme in each of these cells.
    Flows(fn(&Options) -> Vec<Cell>),
    /// Something else, which makes parts of the report by itself.
    Other {
        /// What it needs.
        ground: Ground,
        /// Does it.
        measure: fn(&mut Lab) -> Result<Vec<Section>, NetError>,
    },
}

/// Where an experiment takes place.
#[derive(Debug, Clone, Copy)]
pub enum Ground {
    /// On loopback: everybody can do it.
    Loopback,
    /// Between network namespaces of its own.
    Namespaces,
    /// Over the WAN, with these paths.
    Wan(fn(&Options) -> Vec<Path>),
}

/// What the command line changes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// As typed.
    pub args: NetRunArgs,
    /// Traces, with their mean rates.
    pub traces: Vec<(PathBuf, Rate)>,
}

/// All experiments.
pub const EXPERIMENTS: [Experiment; 27] = [
    flows("idle", "FCT by size on an idle path: drop-tail, one BDP, fast card", idle).in_all(),
    flows("queues", "FCT with each queue discipline", queues).in_all(),
    flows("card", "FCT when the sender's card is as fast as the link", card).in_all(),
    flows("beside", "FCT beside one long CUBIC flow, and its goodput and the ping meanwhile", beside)
        .in_all(),
    flows("load", "FCT at 30 % load of CUBIC flows, and their FCT and the ping meanwhile", load).in_all(),
    flows("loss", "FCT with 0.1 % and 1 % random loss, and 1 % in bursts", loss).in_all(),
    flows("repeat", "connection setup and FCT of four connections one after the other", repeat).in_all(),
    flows("cpu", "CPU time per byte of sender and receiver, 30 MB at the rate", cpu).in_all(),
    flows("trace", "FCT on a link whose rate follows a trace (--trace)", trace),
    flows(
        "fig15",
        "RC3 Fig. 15: FCT over size at 1 Gbit/s x 20 ms, beside the simulation of the same setting",
        fig15,
    ),
    other(
        "fig16",
        "RC3 Fig. 16: goodput over time of a high and a low priority flow, queue at the sender's card",
        Ground::Wan(|options| vec![priorities::card(options)]),
        |lab| priorities::measure(lab, "fig16", &priorities::card(&lab.options)),
    ),
    other(
        "fig17",
        "RC3 Fig. 17: the same with the queue at the router",
        Ground::Wan(|options| vec![priorities::router(options)]),
        |lab| priorities::measure(lab, "fig17", &priorities::router(&lab.options)),
    ),
    flows("fig18", "RC3 Fig. 18: FCT with and without segmentation offload at the sender", fig18),
    other(
        "kickass-fig8",
        "Kick-Ass Fig. 8: FCT under light load, with and without signals",
        Ground::Namespaces,
        kickass::light,
    ),
    other(
        "kickass-fig9",
        "Kick-Ass Figs. 9 and 10: queueing delay and throughput under heavy load",
        Ground::Namespaces,
        kickass::heavy,
    ),
    other(
        "kickass-fig11",
        "Kick-Ass Fig. 11: time in Kick-Ass mode over two routers",
        Ground::Namespaces,
        kickass::path,
    ),
    other(
        "kickass-fig12",
        "Kick-Ass Fig. 12: lengths of packets and leading fragments that pass middleboxes",
        Ground::Wan(|options| fragments::paths(options).into_iter().map(|(_, path)| path).collect()),
        fragments::measure,
    ),
    other(
        "kickass-shared",
        "FCT of kernel TCP alone and beside Kick-Ass, under light load",
        Ground::Namespaces,
        kickass::shared,
    ),
    other(
        "forwarder",
        "capacity of kickass forward: CPU time per packet, loss and delay up to 10 Gbit/s",
        Ground::Namespaces,
        forwarder::measure,
    ),
    other(
        "bulk",
        "one long stream over a veth pair: Gbit/s, and Gbit per CPU second of both ends",
        Ground::Namespaces,
        |lab| streams::bulk(lab, &streams::Hosts::veth(lab.options.args.mtu)?),
    ),
    other("bulk-loopback", "the same on loopback", Ground::Loopback, |lab| {
        streams::bulk(lab, &streams::Hosts::loopback(lab.options.args.mtu))
    }),
    other(
        "exchanges",
        "requests and responses over a veth pair: percentiles of their times, and times over quinn's",
        Ground::Namespaces,
        |lab| streams::exchanges(lab, &streams::Hosts::veth(lab.options.args.mtu)?),
    ),
    other(
        "exchanges-loopback",
        "the same on loopback, on one connection and each on a new one",
        Ground::Loopback,
        |lab| streams::exchanges(lab, &streams::Hosts::loopback(lab.options.args.mtu)),
    ),
    other("transfer", "a file by rc3 send over a veth pair", Ground::Namespaces, programs::transfer),
    other(
        "tunnel",
        "echo of keystrokes through rc3 tunnel and over kernel TCP, idle and beside bulk data",
        Ground::Wan(|options| vec![programs::tunnel_path(options)]),
        programs::tunnel,
    ),
    other(
        "memory",
        "memory of many connections and streams, and what idle ones cost",
        Ground::Loopback,
        memory::measure,
    ),
    other(
        "workers",
        "one worker of an endpoint beside several: connections, exchanges and bits per second",
        Ground::Loopback,
        workers::measure,
    ),
];

const fn flows(name: &'static str, about: &'static str, cells: fn(&Options) -> Vec<Cell>) -> Experiment {
    Experiment { name, about, in_all: false, work: Work::Flows(cells) }
}

const fn other(
    name: &'static str,
    about: &'static str,
    ground: Ground,
    measure: fn(&mut Lab) -> Result<Vec<Section>, NetError>,
) -> Experiment {
    Experiment { name, about, in_all: false, work: Work::Other { ground, measure } }
}

impl Experiment {
    const fn in_all(self) -> Self {
        Self { in_all: true, ..self }
    }

    /// Paths of the WAN that it uses.
    pub fn paths(&self, options: &Options) -> Vec<Path> {
        match self.work {
            Work::Flows(cells) => cells(options).into_iter().map(|cell| cell.path).collect(),
            Work::Other { ground: Ground::Wan(paths), .. } => paths(options),
            Work::Other { .. } => Vec::new(),
        }
    }

    /// Whether it needs root and network namespaces.
    pub fn needs_namespaces(&self) -> bool {
        !matches!(self.work, Work::Other { ground: Ground::Loopback, .. })
    }
}

/// The experiments of these names; `all` is those of the comparison.
///
/// # Errors
/// If a name is none of them.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, NetError> {
    let mut chosen = Vec::new();
    for name in names {
        match EXPERIMENTS.iter().find(|experiment| experiment.name == *name) {
            Some(experiment) => chosen.push(experiment),
            None if name == "all" => chosen.extend(EXPERIMENTS.iter().filter(|experiment| experiment.in_all)),
            None => return Err(NetError::NoExperiment(name.clone())),
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
        self.args.runs.unwrap_or(if self.args.quick { RUNS_QUICK } else { RUNS })
    }

    /// The value typed, or the usual one, or that of a quick run.
    pub fn pick<T>(&self, typed: Option<T>, usual: T, quick: T) -> T {
        typed.unwrap_or(if self.args.quick { quick } else { usual })
    }

    /// The schemes typed, or those of these names that `all` has.
    ///
    /// # Errors
    /// If a typed one is not there.
    pub fn schemes(&self, all: Vec<Scheme>, usual: &[&str]) -> Result<Vec<Scheme>, NetError> {
        match self.args.schemes.as_slice() {
            [] => Ok(usual
                .iter()
                .filter_map(|name| scheme::chosen(all.clone(), &[(*name).to_owned()]).ok()?.pop())
                .collect()),
            typed => scheme::chosen(all, typed),
        }
    }

    /// The usual path, unless the command line says otherwise.
    pub fn path(&self) -> Path {
        self.path_of(100, 40)
    }

    /// A path of this rate in Mbit/s and round trip in ms, unless the command line says otherwise.
    pub fn path_of(&self, megabits: u32, millis: u64) -> Path {
        let usual = Rate::from_bits_per_second(u64::from(megabits) * 1_000_000);
        let rate = self.args.rate.or(usual).expect("experiments have rates above zero");
        Path::new(rate, self.args.rtt.unwrap_or_else(|| Duration::from_millis(millis)))
    }

    /// The sizes typed, or the usual ones, or those of a quick run.
    pub fn sizes(&self, all: &[u64], quick: &[u64]) -> Vec<u64> {
        match (self.args.sizes.as_slice(), self.args.quick) {
            ([], true) => quick.to_vec(),
            ([], false) => all.to_vec(),
            (sizes, _) => sizes.to_vec(),
        }
    }

    fn cell(&self, name: &str, path: Path, sizes: &[u64], quick: &[u64]) -> Cell {
        let sizes = self.sizes(sizes, quick);
        Cell {
            name: name.to_owned(),
            path,
            company: Company::Nobody,
            sizes,
            connections: 1,
            card_known: false,
        }
    }
}

/// 10 kB to 30 MB.
const SIZES: [u64; 8] = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
const QUICK: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// Where there are many cells.
const FEW: [u64; 3] = [100_000, 1_000_000, 10_000_000];
const QUICK_FEW: [u64; 2] = [100_000, 1_000_000];

fn idle(options: &Options) -> Vec<Cell> {
    vec![options.cell("idle", options.path(), &SIZES, &QUICK)]
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
    let cell = |(discipline, buffer, name)| {
        let path = Path { discipline, buffer, ..options.path() };
        options.cell(name, path, &FEW, &QUICK_FEW)
    };
    queues.into_iter().map(cell).collect()
}

fn card(options: &Options) -> Vec<Cell> {
    let cell = |(name, discipline)| {
        let path = Path { card: Card::AsLink, discipline, ..options.path() };
        options.cell(name, path, &FEW, &QUICK_FEW)
    };
    [("card-as-link", Discipline::DropTail), ("card-as-link-priority", Discipline::Priority)]
        .into_iter()
        .map(cell)
        .collect()
}

fn beside(options: &Options) -> Vec<Cell> {
    let cell = |(name, discipline)| {
        let path = Path { discipline, ..options.path() };
        Cell { company: Company::Long, ..options.cell(name, path, &FEW, &QUICK_FEW) }
    };
    [("beside-cubic", Discipline::DropTail), ("beside-cubic-priority", Discipline::Priority)]
        .into_iter()
        .map(cell)
        .collect()
}

fn load(options: &Options) -> Vec<Cell> {
    let cell = options.cell("load-30", options.path(), &FEW, &QUICK_FEW);
    vec![Cell { company: Company::Load(0.3), ..cell }]
}

fn loss(options: &Options) -> Vec<Cell> {
    let losses = [("loss-0.1", 0.001, 1.0), ("loss-1", 0.01, 1.0), ("loss-1-bursts", 0.01, 5.0)];
    let cell = |(name, share, burst)| {
        let path = Path { loss: Loss { share, burst }, ..options.path() };
        options.cell(name, path, &FEW, &QUICK_FEW)
    };
    losses.into_iter().map(cell).collect()
}

fn repeat(options: &Options) -> Vec<Cell> {
    let cell = options.cell("repeat", options.path(), &[100_000, 1_000_000], &[1_000_000]);
    vec![Cell { connections: 4, ..cell }]
}

fn cpu(options: &Options) -> Vec<Cell> {
    vec![options.cell("cpu", options.path_of(200, 10), &[30_000_000], &[30_000_000])]
}

fn trace(options: &Options) -> Vec<Cell> {
    let cell = |(nth, (file, rate)): (usize, &(PathBuf, Rate))| {
        let path = Path { trace: Some(file.clone()), rate: *rate, ..options.path() };
        options.cell(&format!("trace-{}", nth + 1), path, &FEW, &QUICK_FEW)
    };
    options.traces.iter().enumerate().map(cell).collect()
}

fn fig15(options: &Options) -> Vec<Cell> {
    let path = Path { discipline: Discipline::Priority, card: Card::AsLink, ..options.path_of(1000, 20) };
    // As in the paper, where the sender knows the rate of its card.
    vec![Cell { card_known: true, ..options.cell("fig15", path, &SIZES, &QUICK) }]
}

fn fig18(options: &Options) -> Vec<Cell> {
    let cell = |(name, offload)| {
        let path = Path { discipline: Discipline::Priority, offload, ..options.path_of(1000, 20) };
        options.cell(name, path, &SIZES, &QUICK)
    };
    [("offload", true), ("no-offload", false)].into_iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_is_the_comparison_and_a_wrong_name_is_an_error() {
        let all = chosen(&["all".to_owned()]).unwrap();
        assert_eq!(all.len(), EXPERIMENTS.iter().filter(|experiment| experiment.in_all).count());
        assert!(matches!(chosen(&["idel".to_owned()]), Err(NetError::NoExperiment(_))));
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
