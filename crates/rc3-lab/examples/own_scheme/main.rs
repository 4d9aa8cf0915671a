//! The laboratory with a congestion controller, a queue and a topology of your own (docs/EXTENDING.md).
//!
//! ```text
//! cargo run --release -p rc3-lab --example own_scheme -- sim run crates/rc3-lab/examples/own_scheme/own_scheme.toml
//! cargo run --release -p rc3-lab --example own_scheme -- sim keys
//! ```
#![forbid(unsafe_code)]

mod aimd;
mod early_drop;
mod ring;

use std::process::ExitCode;

use rc3_sim::registry::Registry;

/// The built-in names and three more.
fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.congestion.insert("aimd".to_owned(), aimd::AIMD);
    registry.disciplines.insert("early-drop".to_owned(), early_drop::EARLY_DROP);
    registry.topologies.insert("ring".to_owned(), ring::RING);
    registry
}

fn main() -> ExitCode {
    rc3_lab::main(&registry())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rc3_core::units::Level;
    use rc3_lab::sim::{
        experiment::{Experiment, ExperimentPlan},
        simulator::Simulator,
    };
    use rc3_sim::{record::FlowRecord, scenario::Scenario, simulation::Simulation, topology::Site};

    use super::*;

    const TEXT: &str = include_str!("own_scheme.toml");

    fn scenario(changes: &[&str]) -> Scenario {
        let mut scenario = Scenario::parse_with(TEXT, "own_scheme.toml", &registry()).unwrap();
        changes.iter().for_each(|change| scenario.set(change).unwrap());
        scenario
    }

    /// The measured flows of a run, and the packets that its core links dropped.
    fn simulate(scenario: &Scenario, run: &str) -> (Vec<FlowRecord>, u64) {
        let run = scenario.expand().unwrap().into_iter().find(|world| world.label.run == run).unwrap();
        let mut simulation = Simulation::new(&run).unwrap();
        let mut records = Vec::new();
        while simulation.step().unwrap() {
            records.extend(std::iter::from_fn(|| simulation.poll_record()));
        }
        let links = simulation.link_reports().into_iter();
        let cores = links.filter(|link| matches!(link.site, Site::Core(..)));
        (records, cores.map(|link| link.stats.level(Level::PRIMARY).dropped.packets).sum())
    }

    fn mean(records: &[FlowRecord]) -> f64 {
        let times = records.iter().map(|record| record.fct.expect("it ended").as_secs_f64());
        times.sum::<f64>() / records.len() as f64
    }

    #[test]
    fn the_controller_decides_how_long_flows_take() {
        let (slow, _) = simulate(&scenario(&[]), "AIMD");
        let (fast, _) = simulate(&scenario(&["scheme.AIMD.parameters.increase=8"]), "AIMD");
        let (newreno, _) = simulate(&scenario(&[]), "NewReno");
        assert!(mean(&fast) < 0.9 * mean(&slow), "{} s, slower {} s", mean(&fast), mean(&slow));
        assert!(mean(&newreno) < mean(&slow), "without slow start: {} s", mean(&slow));
    }

    #[test]
    fn the_queue_drops_before_it_is_full() {
        let load = ["workload.load=0.12"];
        let (_, late) = simulate(&scenario(&[&load[..], &["queue.parameters.from=1.0"]].concat()), "NewReno");
        let (_, early) =
            simulate(&scenario(&[&load[..], &["queue.parameters.from=0.0"]].concat()), "NewReno");
        assert!(early > late, "{early} packets early, {late} late");
    }

    #[test]
    fn the_ring_has_two_ways_round() {
        let run = scenario(&[]).expand().unwrap().remove(0);
        let routes = run.topology.routes();
        let host = |router: usize| run.topology.hosts.iter().position(|host| host.router == router).unwrap();
        let hops = |to: usize| {
            let [from, to] = [host(0), host(to)].map(|host| rc3_sim::agent::HostId(host as u32));
            routes.hops(from, to)
        };
        assert_eq!([1, 2, 3, 4, 5].map(hops), [1, 2, 3, 2, 1].map(Some));
    }

    #[test]
    fn parameters_are_checked_when_the_file_is_read() {
        for (change, expected) in [
            ("scheme.AIMD.parameters.increase=0", "`scheme.0.parameters.increase`: not above zero"),
            ("scheme.AIMD.parameters.gain=1", "unknown field `gain`"),
            ("queue.parameters.from=2", "`queue.parameters.from`: not within 0 to 1"),
            ("topology.parameters.routers=2", "`topology.parameters.routers`: not within 3 to 1000"),
        ] {
            let error = scenario(&[change]).expand().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_command_runs_it_with_all_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let plan = ExperimentPlan {
            changes: vec!["measure.flows=30".to_owned(), "measure.warm-up=0".to_owned()],
            ..ExperimentPlan::new(folder.path().to_owned(), &registry())
        };
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/own_scheme/own_scheme.toml");
        let experiment = Experiment::load(file.to_str().unwrap(), &plan).unwrap();
        experiment.run(&Simulator, &plan, |_| ()).unwrap();
        let flows = fs::read_to_string(folder.path().join("own-scheme/flows.csv")).unwrap();
        assert_eq!(flows.lines().count(), 1 + 2 * 30);
        let links = fs::read_to_string(folder.path().join("own-scheme/links.csv")).unwrap();
        assert!(links.contains("core:0-5") && links.contains("AIMD"), "{links}");
        let page = rc3_sim::scenario::keys::page(&registry());
        for name in ["aimd", "early-drop", "ring"] {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
