//! An experiment from its scenario to its files, with flows made up.

use std::{num::NonZero, path::Path, time::Duration};

use rc3_sim::{
    agent::{FlowId, HostId, ReceiverCounters, SchemeId, SenderCounters},
    record::FlowRecord,
    registry::Registry,
    sample::{FlowSample, LinkSample},
    scenario::Run,
};

use super::{
    compare::FigureVerdict,
    engine::{Cost, Engine, SentPacket, WorldOutcome},
    experiment::{Experiment, ExperimentError, ExperimentPlan},
    figures::{self, Network},
    report::{Provenance, measured},
    results::Results,
    table::{FlowRow, SummaryRow},
    work::WorldProgress,
};

/// A scenario with the most common network and flows; `keys` stand before its tables, `tables` after them.
pub(super) fn scenario(keys: &str, tables: &str) -> String {
    let network = "[topology]\nkind = \"internet2\"\n";
    let flows = "[workload]\narrivals = \"poisson\"\nsizes = \"allman2013\"\nload = 0.3\n";
    format!("name = \"made-up\"\ntitle = \"Made up\"\n{keys}{network}{flows}{tables}")
}

/// A flow that never ended.
pub(super) fn record(index: u32) -> FlowRecord {
    FlowRecord {
        flow: FlowId(index),
        start: Duration::from_millis(u64::from(index)),
        from: HostId(index % 100),
        to: HostId(99 - index % 100),
        bytes: 1460,
        scheme: SchemeId(0),
        hops: 2,
        fct: None,
        fct_data: None,
        fct_acked: None,
        received: ReceiverCounters::default(),
        sent: SenderCounters::default(),
    }
}

const KEYS: &str = r#"
source = "nowhere"
about = "Flows take 100 ms with plain, 60 ms with rc3; those of the second size twice as long."
expect = [
  { at = { workload.load = 0.1 }, run = "plain", metric = "fct", value = 0.150 },
  { at = { workload.load = 0.1 }, run = "rc3", metric = "reduction", value = 45.0, note = "a note" },
  { at = { workload.load = 0.2 }, run = "rc3", metric = "reduction", value = 40.0, basis = "fit" },
  { at = { workload.load = 0.2 }, run = "rc3", metric = "reduction", value = 40.0, packets = [1, 1] },
  { at = { workload.load = 0.9 }, run = "rc3", metric = "reduction", value = 70.0 },
  { at = { workload.load = 0.1 }, run = "rc3", between = ["0s", "1s"], metric = "utilisation", value = 95.0 },
  { at = { workload.load = 0.2 }, run = "rc3", metric = "speedup", value = 2.0, bound = "at-least" },
]
"#;

const TABLES: &str = r#"
[[scheme]]
name = "plain"
kind = "plain"

[[scheme]]
name = "rc3"
kind = "rc3"

[measure]
flows = 40
warm-up = 0
repetitions = 2
sample = { link = "uplink:0", every = "1s", epochs = ["0s", "1s", "2s"] }

[sweep]
workload.load = [0.1, 0.2]

[[picture]]
kind = "reduction-by-size"

[[picture]]
kind = "fct-by-key"
x = "workload.load"

[[picture]]
kind = "fct-distribution"
sizes = [1]

[[picture]]
kind = "throughput-by-size"

[[picture]]
kind = "time-line"

[[picture]]
kind = "packets-by-round"

[[picture]]
kind = "model"

[[picture]]
kind = "fct-by-size"

[[picture]]
kind = "rate-over-time"

[[picture]]
kind = "utilisation-over-time"

[[picture]]
kind = "queue-over-time"

[[picture]]
kind = "mode-over-time"

[[picture]]
kind = "queueing-distribution"
"#;

/// Flows of one and of ten packets in turn; later worlds are quicker done.
struct MadeUp;

impl Engine for MadeUp {
    fn simulate(
        &self,
        run: &Run,
        trace: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<WorldOutcome, String> {
        std::thread::sleep(Duration::from_millis(if run.label.repetition == 0 { 20 } else { 1 }));
        progress(40);
        let rc3 = run.label.run == "rc3";
        let ended = |index: u32| {
            let large = u64::from(index % 2);
            let fct = Duration::from_millis(if rc3 { 60 } else { 100 } * (1 + large));
            FlowRecord {
                bytes: 1460 * (1 + 9 * large),
                scheme: run.assignment.scheme,
                fct: (index != 39).then_some(fct),
                fct_data: (index != 39).then(|| fct - Duration::from_millis(40)),
                received: ReceiverCounters { primary_bytes: 1460, rlp_bytes: 1460 * 9 * large },
                sent: SenderCounters {
                    lost_packets: large,
                    primary_packets: 2,
                    rlp_packets: 9 * large,
                    guard: None,
                },
                ..record(index)
            }
        };
        let packet = |index: u64| SentPacket {
            at: Duration::from_millis(40 * (index / 4)),
            level: (index % 3) as u8,
            size: 1496,
        };
        Ok(WorldOutcome {
            records: (0..40).map(ended).collect(),
            sent: if trace { (0..12).map(packet).collect() } else { Vec::new() },
            samples: samples(rc3),
            beside: None,
            links: Vec::new(),
            cost: Cost { flows: 40, events: 1000, link_packets: 500 },
        })
    }
}

/// A link of 1 Gbit/s that two flows share evenly in the first second; the second flow ends with it.
fn samples(kickass: bool) -> Vec<LinkSample> {
    let flow = |number| FlowSample {
        flow: FlowId(number),
        scheme: SchemeId(u16::from(kickass)),
        bytes: 62_500_000,
        kickass: kickass.then_some(number == 0),
    };
    let sample = |second: u32, flows| LinkSample {
        at: Duration::from_secs(1) * second,
        queue_bytes: 125_000,
        flows: (0..flows).map(flow).collect(),
    };
    vec![sample(1, 2), sample(2, 1)]
}

fn plan(out: &Path, threads: usize) -> ExperimentPlan {
    let registry = Registry::default();
    ExperimentPlan {
        threads: NonZero::new(threads).unwrap(),
        ..ExperimentPlan::new(out.to_owned(), &registry)
    }
}

fn experiment(folder: &Path) -> Experiment {
    let file = folder.join("made-up.toml");
    std::fs::write(&file, scenario(KEYS, TABLES)).unwrap();
    Experiment::load(file.to_str().unwrap(), &plan(folder, 1)).unwrap()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join("made-up").join(name)).unwrap()
}

#[test]
fn printed_figures_stand_beside_measured_ones() {
    let folder = tempfile::tempdir().unwrap();
    let finding = experiment(folder.path()).run(&MadeUp, &plan(folder.path(), 1), |_| ()).unwrap();
    let verdicts: Vec<FigureVerdict> =
        finding.rows.iter().map(super::compare::ComparedFigure::verdict).collect();
    // The mean of plain is (20 x 100 + 19 x 200) / 39 ms, 0.8 % below the printed one.
    use FigureVerdict::{Agrees, Differs, Missing, NotScored};
    let expected = [Agrees, Differs, NotScored, Agrees, Missing, Agrees, Differs];
    assert_eq!(verdicts, expected);
    let text = read(folder.path(), "report.md");
    for line in [
        "# Made up",
        "| load 0.1 | plain | FCT over flows | 0.1500 s | 0.1487 ± 0.0000 s | -0.9 % | agrees |  |  |",
        "| load 0.1 | rc3 | reduction over flows | 45.00 % | 40.00 ± 0.00 % | -11.1 % | differs |  | a note |",
        "| load 0.2 | rc3 | reduction over flows | 40.00 % | 40.00 ± 0.00 % | +0.0 % | not scored | fit |  |",
        "| load 0.9 | rc3 | reduction over flows | 70.00 % |  |  | not measured |  |  |",
        "| load 0.2 | rc3 | times as fast | ≥ 2.00 x | 1.67 ± 0.00 x |  | differs |  |  |",
        "| load 0.2 | rc3 | 78 | 2 | 0.0892 ± 0.0000 | 0.1143 ± 0.0000 | 0.0600 | 0.0600 | 0.1200 | \
         40.00 ± 0.00 % | 40.00 ± 0.00 % | 25.00 % | 81.82 % |",
        "| load 0.1 | plain | 0 to 1 s | 2 | 500.000 Mbit/s | 100.00 % | 100.00 % | 1.00 ms |  |",
        "| load 0.2 | rc3 | 1 to 2 s | 1 | 500.000 Mbit/s | 50.00 % | 100.00 % | 1.00 ms | 100.0 % |",
    ] {
        assert!(text.lines().any(|there| there == line), "{line}\nis missing in\n{text}");
    }
    let page = read(folder.path(), "report.html");
    for (file, _) in &finding.pictures {
        assert!(page.contains(file) && text.contains(file), "{file}");
        let picture = read(folder.path(), file);
        roxmltree::Document::parse(&picture).unwrap();
        assert!(picture.len() < 60_000, "{file} has {} bytes", picture.len());
    }
    assert_eq!(finding.pictures.len(), 13);
}

#[test]
fn a_flow_that_did_not_end_in_one_run_counts_in_none_if_flows_are_paired() {
    struct Uneven;
    impl Engine for Uneven {
        fn simulate(
            &self,
            run: &Run,
            _: bool,
            progress: &mut dyn FnMut(u64),
        ) -> Result<WorldOutcome, String> {
            let mut outcome = MadeUp.simulate(run, false, progress)?;
            if run.label.run == "plain" {
                outcome.records.remove(1);
            } else {
                outcome.records[0].fct = None;
            }
            Ok(outcome)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made-up.toml");
    let paired = TABLES.replace("[measure]", "[measure]\npair = true");
    std::fs::write(&file, scenario(KEYS, &paired)).unwrap();
    let experiment = Experiment::load(file.to_str().unwrap(), &plan(folder.path(), 1)).unwrap();
    let finding = experiment.run(&Uneven, &plan(folder.path(), 2), |_| ()).unwrap();
    // Without those two and the one that never ends, in each of two repetitions.
    let flows: Vec<usize> =
        finding.summary.iter().filter(|row| row.from_bytes.is_none()).map(|row| row.flows).collect();
    assert_eq!(flows, [74; 4]);
    assert_eq!(read(folder.path(), "flows.csv").lines().count(), 1 + 4 * (39 + 40));
}

/// The round trips of its hosts are longer than those of the network, by which the small worlds of the fingerprint end.
#[test]
fn an_experiment_has_its_report_though_no_flow_ends_in_its_small_worlds() {
    let folder = tempfile::tempdir().unwrap();
    let slow = "kind = \"internet2\"\nrtt = \"10ms\"\nrate = \"100Mbit\"\naccess-delay = \"150ms\"";
    let unsampled = TABLES.lines().filter(|line| !line.starts_with("sample")).collect::<Vec<_>>().join("\n");
    let text = scenario("", &unsampled).replace("kind = \"internet2\"", slow);
    let file = folder.path().join("made-up.toml");
    std::fs::write(&file, text).unwrap();
    let experiment = Experiment::load(file.to_str().unwrap(), &plan(folder.path(), 1)).unwrap();
    experiment.run(&MadeUp, &plan(folder.path(), 1), |_| ()).unwrap();
    assert!(read(folder.path(), "report.md").contains("ingerprint "));
}

#[test]
fn tables_read_back_as_they_were_measured() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path()).run(&MadeUp, &plan(folder.path(), 1), |_| ()).unwrap();
    let text = read(folder.path(), "flows.csv");
    let rows: Vec<FlowRow> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 2 * 2 * 2 * 40);
    let row = &rows[1];
    assert_eq!((row.setting.as_str(), row.run.as_str(), row.scheme.as_str()), ("load 0.1", "plain", "plain"));
    assert_eq!((row.start_s.as_str(), row.fct_s.as_deref()), ("0.001000000", Some("0.200000000")));
    assert_eq!((row.bytes, row.lost_packets, row.fct_acked_s.as_deref()), (14_600, 1, None));
    assert_eq!(rows[39].fct_s, None);

    let text = read(folder.path(), "summary.csv");
    let rows: Vec<SummaryRow> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap();
    // Four places, each with all sizes and two buckets.
    assert_eq!(rows.len(), 4 * 3);
    let large = rows.iter().find(|row| row.run == "rc3" && row.from_bytes == Some(14_600)).unwrap();
    assert_eq!((large.flows, large.fct_s, large.reduction_percent), (38, Some(0.12), Some(40.0)));
}

#[test]
fn files_do_not_depend_on_threads() {
    let folders = [1, 3].map(|threads| {
        let folder = tempfile::tempdir().unwrap();
        let mut worlds = Vec::new();
        let tell = |step: &WorldProgress| {
            if let WorldProgress::World(index, _) = step {
                worlds.push(*index);
            }
        };
        experiment(folder.path()).run(&MadeUp, &plan(folder.path(), threads), tell).unwrap();
        assert_eq!(worlds, (0..8).collect::<Vec<_>>());
        folder
    });
    let mut names: Vec<_> = std::fs::read_dir(folders[0].path().join("made-up"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    // Four tables, two reports, the scenario, and pictures twice.
    assert_eq!(names.len(), 7 + 2 * 13);
    for name in names.iter().filter(|name| *name != "report.md" && *name != "report.html") {
        let [one, three] =
            folders.each_ref().map(|folder| std::fs::read(folder.path().join("made-up").join(name)).unwrap());
        assert!(one == three, "{name:?} differs");
    }
}

/// Nothing works.
struct Broken;

impl Engine for Broken {
    fn simulate(&self, run: &Run, _: bool, _: &mut dyn FnMut(u64)) -> Result<WorldOutcome, String> {
        if run.label.run == "rc3" {
            Err("it broke".to_owned())
        } else {
            MadeUp.simulate(run, false, &mut |_| ())
        }
    }
}

#[test]
fn world_that_fails_is_named_and_leaves_the_files_of_an_earlier_run() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path()).run(&MadeUp, &plan(folder.path(), 2), |_| ()).unwrap();
    let tables = || ["flows.csv", "links.csv"].map(|name| read(folder.path(), name));
    let earlier = tables();
    let error = experiment(folder.path()).run(&Broken, &plan(folder.path(), 2), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "workload.load=0.1, rc3: it broke");
    assert!(!error.is_usage());
    assert_eq!(tables(), earlier);
}

#[test]
fn unknown_names_keys_and_files_have_errors_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, change: &str| {
        let changes = vec![change.to_owned()];
        Experiment::load(name, &ExperimentPlan { changes, ..plan(folder.path(), 1) }).unwrap_err()
    };
    assert!(matches!(load("fig99", "a=1"), ExperimentError::Unknown(_)));
    assert!(matches!(load("/none.toml", "a=1"), ExperimentError::Read { .. }));
    let error = load("fig8", "workload.lod=0.1");
    assert!(error.is_usage() && error.to_string().contains("lod"), "{error}");
}

#[test]
fn a_report_has_the_repetitions_and_ends_of_all_cases() {
    let experiment = Experiment::load("fig9", &plan(Path::new(""), 1)).unwrap();
    let provenance = Provenance { commit: None, fingerprint: "f".to_owned() };
    assert_eq!(
        measured(1, experiment.runs(), &provenance),
        "Flows that start from 2 s on and end by 5 s or 10 s, and in every run, 1 to 5 times, seed 1. Fingerprint f."
    );
    let folder = tempfile::tempdir().unwrap();
    let finding = self::experiment(folder.path()).run(&MadeUp, &plan(folder.path(), 1), |_| ()).unwrap();
    assert!(finding.measured.starts_with("At most 40 flows measured in each world, 2 times, seed 1. "));
    assert_eq!(finding.over_time.title, "Over time, first repetition");
}

#[test]
fn a_picture_by_key_reads_units_and_has_a_line_for_each_setting_of_the_other_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made-up.toml");
    let tables = TABLES.replace("[sweep]", "[sweep]\nqueue.loss = ['0.1%', '1%']");
    let tables = tables.replace("x = \"workload.load\"", "x = \"queue.loss\"");
    std::fs::write(&file, scenario("", &tables)).unwrap();
    let experiment = Experiment::load(file.to_str().unwrap(), &plan(folder.path(), 1)).unwrap();
    let mut results = Results::default();
    for run in experiment.runs() {
        results.add(run, MadeUp.simulate(run, false, &mut |_| ()).unwrap());
    }
    let spec = experiment.scenario().spec();
    let network = Network { rate: 125e6, rtt: Duration::from_millis(40), load: 0.0 };
    let chart = figures::chart(&spec.picture[1], spec, &results, network).expect("a chart");
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["plain, load 0.1", "rc3, load 0.1", "plain, load 0.2", "rc3, load 0.2"]);
    for series in &chart.series {
        assert_eq!(series.points.iter().map(|point| point.x).collect::<Vec<_>>(), [0.001, 0.01]);
    }
}

#[test]
fn overview_counts_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let finding = experiment(folder.path()).run(&MadeUp, &plan(folder.path(), 1), |_| ()).unwrap();
    let text = super::report::overview(&[finding]).markdown();
    assert!(text.contains("| made-up | nowhere | 7 | 3 | 0 | 2 | 1 | 1 |"), "{text}");
    assert!(text.contains("![Made up](made-up/made-up.svg)"));
    assert!(text.contains("[All figures](made-up/report.md)"));
}
