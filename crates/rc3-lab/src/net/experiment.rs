//! The experiments: which cells each of them has.

use std::{path::PathBuf, time::Duration};

use rc3_core::units::Rate;

use super::{
    cell::{Cell, Company},
    error::NetError,
    fragments,
    path::{Card, Discipline, Loss, Path},
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
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Flows(fn(&Options) -> Vec<Cell>),
    Priorities(Place),
    Fragments,
}

/// What an experiment does.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Flows of each scheme in each of these cells.
    Flows(Vec<Cell>),
    /// Two long flows with different marks over a path, one after the other.
    Priorities(Place, Path),
    /// A probe of each of these paths, which have names.
    Fragments(Vec<(String, Path)>),
}

/// Where a queue with priorities is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the sender's interface.
    Card,
    /// At the router.
    Router,
}

/// What the command line changes.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Rate of the bottleneck.
    pub rate: Option<Rate>,
    /// Round-trip time.
    pub rtt: Option<Duration>,
    /// Sizes of flows.
    pub sizes: Vec<u64>,
    /// Traces, with their mean rates.
    pub traces: Vec<(PathBuf, Rate)>,
    /// Fewer sizes.
    pub quick: bool,
}

/// All experiments.
pub const EXPERIMENTS: [Experiment; 14] = [
    Experiment {
        name: "idle",
        about: "FCT by size on an idle path: drop-tail, one BDP, fast card",
        in_all: true,
        work: Work::Flows(idle),
    },
    Experiment {
        name: "queues",
        about: "FCT with each queue discipline",
        in_all: true,
        work: Work::Flows(queues),
    },
    Experiment {
        name: "card",
        about: "FCT when the sender's card is as fast as the link",
        in_all: true,
        work: Work::Flows(card),
    },
    Experiment {
        name: "beside",
        about: "FCT beside one long CUBIC flow, and its goodput and the ping meanwhile",
        in_all: true,
        work: Work::Flows(beside),
    },
    Experiment {
        name: "load",
        about: "FCT at 30 % load of CUBIC flows, and their FCT and the ping meanwhile",
        in_all: true,
        work: Work::Flows(load),
    },
    Experiment {
        name: "loss",
        about: "FCT with 0.1 % and 1 % random loss, and 1 % in bursts",
        in_all: true,
        work: Work::Flows(loss),
    },
    Experiment {
        name: "repeat",
        about: "connection setup and FCT of four connections one after the other",
        in_all: true,
        work: Work::Flows(repeat),
    },
    Experiment {
        name: "cpu",
        about: "CPU time per byte of sender and receiver, 30 MB at the rate",
        in_all: true,
        work: Work::Flows(cpu),
    },
    Experiment {
        name: "trace",
        about: "FCT on a link whose rate follows a trace (--trace)",
        in_all: false,
        work: Work::Flows(trace),
    },
    Experiment {
        name: "fig15",
        about: "RC3 Fig. 15: FCT over size at 1 Gbit/s x 20 ms, beside the simulation of the same setting",
        in_all: false,
        work: Work::Flows(fig15),
    },
    Experiment {
        name: "fig16",
        about: "RC3 Fig. 16: goodput over time of a high and a low priority flow, queue at the sender's card",
        in_all: false,
        work: Work::Priorities(Place::Card),
    },
    Experiment {
        name: "fig17",
        about: "RC3 Fig. 17: the same with the queue at the router",
        in_all: false,
        work: Work::Priorities(Place::Router),
    },
    Experiment {
        name: "fig18",
        about: "RC3 Fig. 18: FCT with and without segmentation offload at the sender",
        in_all: false,
        work: Work::Flows(fig18),
    },
    Experiment {
        name: "kickass-fig12",
        about: "Kick-Ass Fig. 12: lengths of packets and leading fragments that pass middleboxes",
        in_all: false,
        work: Work::Fragments,
    },
];

impl Experiment {
    /// What it does with these options.
    pub fn job(&self, options: &Options) -> Job {
        match self.work {
            Work::Flows(cells) => Job::Flows(cells(options)),
            Work::Priorities(place) => Job::Priorities(place, priorities(place, options)),
            Work::Fragments => Job::Fragments(fragments::paths(&options.path())),
        }
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

impl Options {
    fn path(&self) -> Path {
        self.path_of(100, 40)
    }

    /// Unless the command line says otherwise.
    fn path_of(&self, megabits: u32, millis: u64) -> Path {
        let usual = Rate::from_bits_per_second(u64::from(megabits) * 1_000_000);
        let rate = self.rate.or(usual).expect("experiments have rates above zero");
        Path::new(rate, self.rtt.unwrap_or_else(|| Duration::from_millis(millis)))
    }

    fn sizes(&self, all: &[u64], quick: &[u64]) -> Vec<u64> {
        match (self.sizes.as_slice(), self.quick) {
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
        (Discipline::DropTail, 0.25, "drop-tail-0.25"),
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

fn priorities(place: Place, options: &Options) -> Path {
    let (card, discipline) = match place {
        Place::Card => (Card::AsLink, Discipline::DropTail),
        Place::Router => (Card::Fast, Discipline::Priority),
    };
    Path { card, discipline, ..options.path_of(100, 20) }
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
        let options = Options { sizes: vec![5000], ..Options::default() };
        let mut names = HashSet::new();
        for experiment in &EXPERIMENTS {
            if let Job::Flows(cells) = experiment.job(&options) {
                for cell in cells {
                    assert_eq!(cell.sizes, [5000]);
                    assert!(names.insert(cell.name.clone()), "{} twice", cell.name);
                }
            }
        }
    }
}
