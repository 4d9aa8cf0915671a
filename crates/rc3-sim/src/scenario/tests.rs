use std::time::Duration;

use super::*;
use crate::{
    agent::{Flow, SchemeId, Writes},
    record::Fct,
    registry::{QueueDiscipline, QueueLimit},
};

/// As short as a scenario can be.
pub(crate) const PLAIN: &str = r#"name = "plain"
title = "Plain"

[topology]
kind = "internet2"

[workload]
arrivals = "poisson"
sizes = "allman2013"
load = 0.3

[[scheme]]
name = "TCP"
kind = "plain"

[[scheme]]
name = "RC3"
kind = "rc3"
"#;

fn parse(more: &str) -> Result<Scenario, String> {
    Scenario::parse(&format!("{PLAIN}{more}"), "my.toml").map_err(|error| error.to_string())
}

fn plain() -> Scenario {
    parse("").unwrap()
}

fn error_of(text: &str) -> String {
    let scenario = Scenario::parse(text, "my.toml");
    scenario.and_then(|scenario| scenario.expand().map(|_| ())).unwrap_err().to_string()
}

/// What is wrong with `PLAIN` when a line of it reads differently.
fn error(line: &str, instead: &str) -> String {
    assert!(PLAIN.contains(line), "{line}");
    error_of(&PLAIN.replacen(line, instead, 1))
}

/// What is wrong with `PLAIN` when more follows.
fn error_with(more: &str) -> String {
    error_of(&format!("{PLAIN}{more}"))
}

fn labels(scenario: &Scenario) -> Vec<String> {
    scenario.expand().unwrap().iter().map(|run| run.label.to_string()).collect()
}

#[test]
fn defaults_are_the_papers_choices() {
    let runs = plain().expand().unwrap();
    assert_eq!(runs.len(), 2);
    let run = &runs[1];
    assert_eq!(run.label.to_string(), "RC3");
    assert_eq!(run.queues.buffer, QueueLimit::Bytes(5_000_000));
    assert_eq!((run.queues.uplink_buffer, run.queues.uplink_backlog), (QueueLimit::UNLIMITED, None));
    assert_eq!((run.queues.discipline.name.as_str(), run.queues.loss), ("priority", 0.0));
    assert_eq!(run.topology.hosts.len(), 100);
    assert_eq!(
        run.measure,
        Measure {
            flows: 10_000,
            warm_up: 6000,
            from: Duration::ZERO,
            fct: Fct::ConnectToLastByte,
            until: None,
            pair: false,
            max_in_flight: 100_000,
            sample: None,
            window: None,
        }
    );
    assert_eq!(run.topology.mean_rtt().as_micros(), 39_555);
    let [tcp, rc3] = &run.schemes[..] else { panic!("two schemes") };
    assert_eq!(
        (tcp.kind, tcp.congestion.name.as_str(), tcp.initial_window, tcp.paced),
        (SchemeKind::Plain, "newreno", Some(4), false)
    );
    assert_eq!((rc3.kind, rc3.mode), (SchemeKind::Rc3, Mode::Trust));
    assert_eq!(run.assignment, Assignment { scheme: SchemeId(1), background: SchemeId(1), mix: None });
}

#[test]
fn errors_name_line_and_key() {
    for (line, instead, expected) in [
        ("load = 0.3", "lod = 0.3", "my.toml:10: `workload.lod`: unknown key `lod`, did you mean `load`?"),
        ("load = 0.3", "load = 3", "my.toml:10: `workload.load`: 3 is not within 0 to 1"),
        ("load = 0.3", "load = nan", "my.toml:10: `workload.load`: NaN is not within 0 to 1"),
        (
            "load = 0.3",
            "load = 0",
            "my.toml:10: `workload.load`: so small or large that no flow ever arrives, or all at once",
        ),
        (
            "load = 0.3",
            "load = true",
            "my.toml:10: `workload.load`: true is not a number from 0 to 1 such as 0.005, or \"0.5%\"",
        ),
        ("load = 0.3", "", "my.toml:7: `workload`: this kind of `arrivals` needs the key `load`"),
        ("arrivals = \"poisson\"", "", "my.toml:7: `workload`: `workload` lacks the key `arrivals`"),
        (
            "\"allman2013\"",
            "\"alman2013\"",
            "my.toml:9: `workload.sizes`: unknown value `alman2013`, did you mean `allman2013`?",
        ),
        (
            "\"allman2013\"",
            "{ fixed = 0 }",
            "my.toml:9: `workload.sizes`: sizes are 1 to 10000000 packets, not 0",
        ),
        (
            "\"allman2013\"",
            "{ uniform = { min = 1, mix = 2 } }",
            "my.toml:9: `workload.sizes.uniform.mix`: unknown key `mix`, did you mean `min`?",
        ),
        (
            "\"allman2013\"",
            "{ file = \"none.csv\" }",
            "my.toml:9: `workload.sizes`: none.csv: No such file or directory (os error 2)",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"internet\"",
            "my.toml:5: `topology.kind`: unknown value `internet`, did you mean `internet2`? registered are `abilene`, \
             `bottleneck`, `dumbbell`, `esnet`, `fat-tree`, `file`, `internet2`, `parking-lot`, `redclara`, `telstra`",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"dumbbell\"\nrate = \"1Gbitt\"",
            "my.toml:6: `topology.rate`: `Gbitt` is not a unit, write for example 200mbit",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"internet2\"\nports = 4",
            "my.toml:6: `topology.ports`: means nothing with this `kind`",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"fat-tree\"\nports = 5",
            "my.toml:6: `topology.ports`: an even number from 2 to 64",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"file\"",
            "my.toml:4: `topology`: kind `file` needs the key `file`",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"internet2\"\ncore-rates = [\"2Gbit\", \"1Gbit\"]",
            "my.toml:6: `topology.core-rates`: two rates, the smaller one first",
        ),
        (
            "kind = \"internet2\"",
            "kind = \"internet2\"\nhosts = 0",
            "my.toml:6: `topology.hosts`: not within 1 to 10000",
        ),
        (
            "kind = \"plain\"",
            "kind = \"plain\"\nladder = [40]",
            "my.toml:15: `scheme.0.ladder`: means nothing with this `kind`",
        ),
        (
            "kind = \"rc3\"",
            "kind = \"rc3\"\nladder = [\"rest\", 40]",
            "my.toml:19: `scheme.1.ladder`: only the last level takes the rest",
        ),
        (
            "kind = \"rc3\"",
            "kind = \"rc3\"\nladder = [40,\n 0]",
            "my.toml:20: `scheme.1.ladder.1`: 0 is not a number of packets above 0 or \"rest\"",
        ),
        ("kind = \"rc3\"", "kind = \"rc3\"\nlevel = 16", "my.toml:19: `scheme.1.level`: not within 0 to 15"),
        ("name = \"RC3\"", "name = \"TCP\"", "my.toml:17: `scheme.1.name`: there is another `TCP`"),
        ("title = \"Plain\"", "", "my.toml: the file lacks the key `title`"),
        ("[topology]", "[topology", "my.toml:4: unclosed table, expected `]`"),
    ] {
        assert_eq!(error(line, instead), expected);
    }
}

#[test]
fn errors_between_tables_name_line_and_key() {
    for (more, expected) in [
        (
            "[queue]\nbuffer = \"1bpd\"\n",
            "my.toml:20: `queue.buffer`: `bpd` is not a unit, write for example 10k, 5M or 1GiB",
        ),
        (
            "[queue]\nbuffer = -1\n",
            "my.toml:20: `queue.buffer`: -1 is not a size such as \"1bdp\", \"5MB\", \"100packets\" or \"unlimited\", or a number of bytes",
        ),
        (
            "[queue]\nuplink-backlog = \"0bdp\"\n",
            "my.toml:20: `queue.uplink-backlog`: is zero, so RLP would never send",
        ),
        (
            "[[run]]\nname = \"a\"\nscheme = \"RCP\"\n",
            "my.toml:21: `run.0.scheme`: there is no scheme `RCP`, did you mean `TCP`?",
        ),
        (
            "[sweep]\nworkload.load = 0.1\n",
            "my.toml:20: `sweep.workload.load`: not a list of values, write for example [1, 2]",
        ),
        ("[sweep]\nworkload.load = [0.1,\n 2]\n", "my.toml:21: `workload.load`: 2 is not within 0 to 1"),
        (
            "[sweep]\nscheme.RCP.paced = [true]\n",
            "my.toml:20: `sweep.scheme.RCP.paced.0`: there is no table `RCP`",
        ),
        (
            "[[case]]\nname = \"c\"\nset = { topology.kid = \"esnet\" }\n",
            "my.toml:21: `topology.kid`: unknown key `kid`, did you mean `kind`?",
        ),
        (
            "[workload.writes]\nfirst = 1\nchunk = 0\nevery = \"1s\"\n",
            "my.toml:19: `workload.writes`: `chunk` and `every` must be above zero",
        ),
        (
            "[measure]\nfrom = \"2s\"\nuntil = \"2s\"\n",
            "my.toml:20: `measure.from`: not before `measure.until`, so no flow would be measured",
        ),
        (
            "[measure]\nfrom = \"2s\"\nwarm-up = 9\n",
            "my.toml:21: `measure.warm-up`: means nothing with `measure.from`",
        ),
        (
            "[[run]]\nname = \"a\"\nscheme = \"TCP\"\n[measure]\npair = true\n",
            "my.toml:23: `measure.pair`: there is only one run",
        ),
        (
            "[measure]\npair = true\n[[background]]\narrivals = \"closed-loop\"\nsizes = \"allman2013\"\nclosed-loop = { sources = 1, think = \"1s\" }\n",
            "my.toml:20: `measure.pair`: runs with `closed-loop` sources have no flows in common",
        ),
        (
            "[[picture]]\nkind = \"fct-by-key\"\nx = \"workload.load\"\n",
            "my.toml:21: `picture.0.x`: `workload.load` is not simulated, there are ",
        ),
        (
            "[[expect]]\nrun = \"RCP\"\nmetric = \"fct\"\nvalue = 1\n",
            "my.toml:20: `expect.0.run`: `RCP` is not simulated, there are `TCP`, `RC3`",
        ),
        (
            "[queue]\nloss-links = \"all\"\n",
            "my.toml:20: `queue.loss-links`: means nothing without `queue.loss`",
        ),
        (
            "[[case]]\nname = \"c\"\n[[case]]\nname = \"c\"\n",
            "my.toml:22: `case.1.name`: there is another `c`",
        ),
        (
            "[sweep]\nworkload.load = [0.1, 0.1]\n",
            "my.toml:20: `sweep.workload.load.1`: there is another 0.1",
        ),
        (
            "[sweep]\nworkload.load = [0.1]\n[[case]]\nname = \"c\"\nset = { workload.load = 0.2 }\n",
            "my.toml:23: `case.0.set.workload.load`: a sweep is the same in all cases; leave the key to one of both",
        ),
        (
            "[[case]]\nname = \"c\"\nset = { sweep.workload.load = [0.2] }\n",
            "my.toml:21: `case.0.set.sweep.workload.load`: a sweep is the same in all cases; leave the key to one of both",
        ),
        (
            "[[scheme]]\nname = \"x\"\nkind = \"rc3\"\nconstants = { gain = 1 }\n",
            "my.toml:22: `scheme.2.constants`: means nothing without `mode = \"guard\"`",
        ),
        (
            "[[scheme]]\nname = \"x\"\nkind = \"rcp\"\nlevel = 1\n",
            "my.toml:22: `scheme.2.level`: means nothing with this `kind`",
        ),
        (
            "[queue]\ndiscipline = \"drop-tail\"\n[[case]]\nname = \"c\"\nset = { topology.without-priorities = 0.5 }\n",
            "my.toml:23: `topology.without-priorities`: means nothing with the discipline `drop-tail`",
        ),
        (
            "[queue]\nuplink-discipline = \"cake\"\n[[case]]\nname = \"c\"\nset = { topology.hosts-without-priorities = 0.5 }\n",
            "my.toml:23: `topology.hosts-without-priorities`: means nothing with the discipline `cake`",
        ),
        (
            "[queue]\ndiscipline = \"codel\"\nlow-priority = \"drop\"\n",
            "my.toml:21: `queue.low-priority`: means nothing with the discipline `codel`",
        ),
        (
            "[queue]\nkickass-resume = 0\n",
            "my.toml:20: `queue.kickass-resume`: means nothing without `queue.kickass`",
        ),
        (
            "[queue]\nkickass-silence = \"threshold\"\n",
            "my.toml:20: `queue.kickass-silence`: means nothing without `queue.kickass`",
        ),
        (
            "[[case]]\nname = \"c\"\nset = { topology.stamps = true }\n",
            "my.toml:21: `topology.stamps`: means nothing without `topology.reads`",
        ),
        (
            "[measure]\nrepetitions = 0\n",
            "my.toml:20: `measure.repetitions`: is zero, so nothing would be measured",
        ),
        ("[measure]\nflows = 0\n", "my.toml:20: `measure.flows`: is zero, so nothing would be measured"),
        (
            "[[background]]\narrivals = \"closed-loop\"\nsizes = \"allman2013\"\nclosed-loop = { sources = 1, think = \"0s\" }\ngive-up = \"0s\"\n",
            "my.toml:23: `background.0.give-up`: is zero, so every flow would be given up at once",
        ),
        (
            "[[picture]]\nkind = \"fct-by-kee\"\n",
            "my.toml:20: `picture.0.kind`: unknown value `fct-by-kee`, did you mean `fct-by-key`?",
        ),
    ] {
        assert_eq!(error_with(more), expected);
    }
}

#[test]
fn a_key_that_is_set_is_read_as_if_it_stood_in_the_file() {
    let mut scenario = plain();
    scenario.set("workload.load=0.5").unwrap();
    scenario.set("topology.rtt = 400ms").unwrap();
    scenario.set("queue.buffer=0.1bdp").unwrap();
    scenario.set("scheme.RC3.ladder=[10, 100, \"rest\"]").unwrap();
    scenario.set("scheme.0.name=plain").unwrap();
    scenario.set("measure.seed=9").unwrap();
    let written = PLAIN
        .replace("load = 0.3", "load = 0.5")
        .replace(
            "\"internet2\"",
            "\"internet2\"\nrtt = \"400ms\"\n[queue]\nbuffer = \"0.1bdp\"\n[measure]\nseed = 9",
        )
        .replace("\"TCP\"", "\"plain\"")
        .replace("\"rc3\"", "\"rc3\"\nladder = [10, 100, \"rest\"]");
    assert_eq!(scenario.spec(), Scenario::parse(&written, "my.toml").unwrap().spec());
    assert_eq!(scenario.expand().unwrap()[0].queues.buffer, QueueLimit::Bytes(5_000_000));
}

#[test]
fn a_swept_key_that_is_set_has_that_value_only() {
    let rates = |text: &str, changes: &[&str]| -> Vec<String> {
        let mut scenario = Scenario::parse(&format!("name = 'x'\nbase = 'today'\n{text}"), "x.toml").unwrap();
        changes.iter().for_each(|change| scenario.set(change).unwrap());
        let sweep = scenario.spec().sweep["topology"]["rate"].as_array().cloned().unwrap();
        assert!(scenario.expand().is_ok());
        sweep.iter().map(|rate| rate.as_str().unwrap().to_owned()).collect()
    };
    assert!(rates("", &[]).len() > 1);
    assert_eq!(rates("", &["topology.rate=5Mbit"]), ["5Mbit"]);
    assert_eq!(rates("topology.rate = '5Mbit'\n", &[]), ["5Mbit"]);
    let both = "topology.rate = '5Mbit'\n[sweep]\ntopology.rate = ['6Mbit', '7Mbit']\n";
    assert_eq!(rates(both, &[]), ["6Mbit", "7Mbit"]);
}

#[test]
fn what_cannot_be_set_is_refused_and_changes_nothing() {
    let mut scenario = plain();
    let before = scenario.clone();
    let mut error = |assignment: &str| scenario.set(assignment).unwrap_err().to_string();
    assert_eq!(error("workload.load"), "my.toml: `workload.load`: no value, write `key=value`");
    assert_eq!(error("workload.load=2"), "my.toml: `workload.load`: 2 is not within 0 to 1");
    assert_eq!(
        error("workload..load=2"),
        "my.toml: `workload..load`: not a key, write for example `workload.load`"
    );
    assert_eq!(error("=2"), "my.toml: not a key, write for example `workload.load`");
    assert_eq!(
        error("wrkload.load=1"),
        "my.toml: `wrkload`: unknown key `wrkload`, did you mean `workload`?"
    );
    assert_eq!(error("name.load=1"), "my.toml: `name.load`: there is no table `name`");
    assert_eq!(error("scheme.QUIC.paced=true"), "my.toml: `scheme.QUIC.paced`: there is no table `QUIC`");
    assert_eq!(error("scheme.7.paced=true"), "my.toml: `scheme.7.paced`: there is no table `7`");
    assert_eq!(scenario.to_toml(), before.to_toml());
}

#[test]
fn a_scenario_written_out_reads_the_same() {
    let mut scenario = parse(
        "[sweep]\nworkload.load = [0.1, 0.5]\n[[case]]\nname = \"c\"\nset = { \"topology.rtt\" = \"80ms\" }\n",
    )
    .unwrap();
    scenario.set("queue.buffer=unlimited").unwrap();
    let again = Scenario::parse(&scenario.to_toml(), "again.toml").unwrap();
    assert_eq!(again.spec(), scenario.spec());
    assert_eq!(labels(&again), labels(&scenario));
}

#[test]
fn a_key_that_is_set_has_its_value_in_cases_too() {
    let cases = "[[case]]\nname = \"a\"\nset = { topology.rtt = \"80ms\", measure.repetitions = 5 }\n\
                 [[case]]\nname = \"b\"\nset = { \"measure.repetitions\" = 3 }\n";
    let mut scenario = parse(cases).unwrap();
    assert_eq!(labels(&scenario).len(), 2 * (5 + 3));
    scenario.set("measure.repetitions=1").unwrap();
    assert_eq!(labels(&scenario), ["a, TCP", "a, RC3", "b, TCP", "b, RC3"]);
    assert!(scenario.expand().unwrap()[0].topology.mean_rtt() > Duration::from_millis(60));
    let again = Scenario::parse(&scenario.to_toml(), "again.toml").unwrap();
    assert_eq!(labels(&again), labels(&scenario));
}

#[test]
fn cases_sweeps_runs_and_repetitions_multiply_in_that_order() {
    let scenario = parse(
        r#"
        [sweep]
        workload.load = [0.1, 0.5]
        "topology.rtt" = ["40ms", "400ms"]
        [measure]
        repetitions = 2
        [[case]]
        name = "Default"
        [[case]]
        name = "Abilene"
        set = { topology.kind = "abilene", topology.hosts = 2 }
        "#,
    )
    .unwrap();
    let labels = labels(&scenario);
    assert_eq!(labels.len(), 32);
    assert_eq!(labels[0], "Default, workload.load=0.1, topology.rtt=40ms, TCP");
    assert_eq!(labels[1], "Default, workload.load=0.1, topology.rtt=40ms, TCP #2");
    assert_eq!(labels[2], "Default, workload.load=0.1, topology.rtt=40ms, RC3");
    assert_eq!(labels[4], "Default, workload.load=0.1, topology.rtt=400ms, TCP");
    assert_eq!(labels[8], "Default, workload.load=0.5, topology.rtt=40ms, TCP");
    assert_eq!(labels[16], "Abilene, workload.load=0.1, topology.rtt=40ms, TCP");
    let runs = scenario.expand().unwrap();
    assert_eq!((runs[0].topology.routers.len(), runs[31].topology.routers.len()), (10, 11));
    assert_eq!(runs[31].topology.hosts.len(), 22);
    assert_eq!(runs[31].topology.nominal.rtt, Duration::from_millis(400));
}

#[test]
fn runs_of_a_seed_have_the_same_flows_whatever_carries_them() {
    let mut scenario = parse("[measure]\nrepetitions = 2\n").unwrap();
    let flows = |run: &Run| -> Vec<Flow> {
        run.flows().take(1000).map(|flow| Flow { scheme: SchemeId(0), ..flow }).collect()
    };
    let runs = scenario.expand().unwrap();
    assert_eq!(flows(&runs[0]), flows(&runs[2]));
    assert_ne!(flows(&runs[0]), flows(&runs[1]));
    scenario.set("measure.seed=2").unwrap();
    assert_ne!(flows(&scenario.expand().unwrap()[0]), flows(&runs[0]));
}

#[test]
fn half_of_the_hosts_of_each_router_use_the_second_scheme() {
    let run = "[[run]]\nname = \"both\"\nscheme = \"TCP\"\nmix = { scheme = \"RC3\", share = 0.5, of = \"hosts\" }\n";
    let runs = parse(run).unwrap().expand().unwrap();
    for flow in runs[0].flows().take(10_000) {
        let rc3 = flow.from.0 % 10 < 5;
        assert_eq!(flow.scheme, SchemeId(u16::from(rc3)), "host {}", flow.from.0);
    }
}

#[test]
fn a_share_of_the_flows_uses_the_second_scheme() {
    let text = "[[run]]\nname = \"A\"\nscheme = \"TCP\"\nmix = { scheme = \"RC3\", share = 0.1, of = \"flows\" }\n\
                [[run]]\nname = \"B\"\nscheme = \"RC3\"\nmix = { scheme = \"TCP\", share = 0.1, of = \"flows\" }\n";
    let runs = parse(text).unwrap().expand().unwrap();
    let critical = |run: &Run, scheme| -> Vec<u32> {
        run.flows()
            .take(20_000)
            .filter(|flow| flow.scheme == SchemeId(scheme))
            .map(|flow| flow.id.0)
            .collect()
    };
    let chosen = critical(&runs[0], 1);
    assert!((1800..2200).contains(&chosen.len()), "{}", chosen.len());
    assert_eq!(chosen, critical(&runs[1], 0), "the same flows in both runs");
}

#[test]
fn background_flows_have_a_scheme_of_their_own() {
    let scenario = parse(
        r#"
        [[run]]
        name = "video"
        scheme = "RC3"
        background = "TCP"
        [[background]]
        arrivals = "list"
        flows = [{ from = 0, to = 99, size = "20MB" }]
        writes = { first = "1.5MB", chunk = "64KB", every = "100ms" }
        "#,
    )
    .unwrap();
    let runs = scenario.expand().unwrap();
    let flows: Vec<Flow> = runs[0].flows().take(100).collect();
    assert_eq!((flows[0].scheme, flows[0].bytes, flows[0].at), (SchemeId(0), 20_000_000, Duration::ZERO));
    let every = Duration::from_millis(100);
    assert_eq!(flows[0].writes, Writes::Chunked { first: 1_500_000, chunk: 64_000, every });
    assert!(flows[1..].iter().all(|flow| flow.scheme == SchemeId(1) && flow.writes == Writes::AtOnce));
    assert!(flows.iter().enumerate().all(|(n, flow)| flow.id.0 as usize == n));
    assert!(flows.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

#[test]
fn every_change_of_a_topology_can_be_written() {
    let scenario = parse(
        r#"
        [[case]]
        name = "heterogeneous"
        set = { topology.core-rates = ["500Mbit", "2Gbit"], measure.until = "1s" }
        [[case]]
        name = "downlink"
        set = { topology.uplink = "10Gbit", topology.downlink = "1Gbit" }
        [[case]]
        name = "partial"
        set = { topology.without-priorities = 0.2, queue.low-priority = "drop" }
        [[case]]
        name = "tree"
        set = { topology.kind = "fat-tree", topology.ports = 4 }
        [[case]]
        name = "lot"
        set = { topology.kind = "parking-lot", topology.links = 5, topology.rate = "150Mbit", topology.rtt = "25ms" }
        "#,
    )
    .unwrap();
    let runs = scenario.expand().unwrap();
    let plain = &plain().expand().unwrap()[0].topology;
    assert_ne!(runs[0].topology.cores, plain.cores);
    assert_eq!(runs[0].topology, runs[1].topology, "TCP and RC3 have the same links");
    let access = runs[2].topology.hosts[0].access;
    assert_eq!(
        access.uplink.zip(access.downlink).map(|(up, down)| up.bits_per_second() / down.bits_per_second()),
        Some(10)
    );
    assert_eq!(runs[4].topology.routers.iter().filter(|router| !router.priorities).count(), 2);
    assert_eq!(runs[4].queues.low_priority, LowPriority::Drop);
    assert_eq!(runs[6].topology.hosts.len(), 16);
    assert_eq!(runs[6].queues.buffer, QueueLimit::Bytes(1_200_000));
    assert_eq!(runs[8].topology.hosts.len(), 60);
    assert_eq!(runs[8].topology.hosts[0].access.uplink.unwrap().bits_per_second(), 1_500_000_000);
}

#[test]
fn files_are_looked_for_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("rc3-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.csv"), "a,b,one_way_delay_ms,rate_mbps\nA,B,10,1000\nB,C,5,2000\n")
        .unwrap();
    std::fs::write(folder.join("flows.csv"), "time_s,source,destination,packets\n0.25,1,0,3\n0.5,0,2,7\n")
        .unwrap();
    let text =
        PLAIN.replace("kind = \"internet2\"", "kind = \"file\"\nfile = \"net.csv\"\nhosts = 1").replace(
            "arrivals = \"poisson\"\nsizes = \"allman2013\"\nload = 0.3",
            "arrivals = \"csv\"\nfile = \"flows.csv\"",
        );
    let file = folder.join("my.toml");
    let runs = Scenario::parse(&text, file.to_str().unwrap()).and_then(|scenario| scenario.expand());
    std::fs::remove_dir_all(&folder).unwrap();
    let runs = runs.unwrap();
    assert_eq!(runs[0].measure.warm_up, 0, "a replay is measured whole");
    let flows: Vec<(u128, u64)> = runs[0].flows().map(|flow| (flow.at.as_millis(), flow.bytes)).collect();
    assert_eq!(flows, [(250, 3 * 1460), (500, 7 * 1460)]);
    assert_eq!(runs[0].topology.nominal.rtt, Duration::from_millis(20));
}

#[test]
fn a_sweep_without_end_is_refused() {
    let hundred: Vec<String> = (1..=400).map(|n| n.to_string()).collect();
    let values = hundred.join(", ");
    let more = format!("[sweep]\nmeasure.seed = [{values}]\nmeasure.flows = [{values}]\n");
    assert_eq!(error_with(&more), "my.toml:19: `sweep`: makes 160000 worlds, 100000 at most");
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_read_or_refused(at in 0..PLAIN.len(), junk in "[ -~\n]{0,12}", remove in 0..8_usize) {
            let text = format!("{}{junk}{}", &PLAIN[..at], &PLAIN[(at + remove).min(PLAIN.len())..]);
            if let Ok(scenario) = Scenario::parse(&text, "my.toml") {
                let _ = scenario.expand().map(|runs| runs.len());
            }
        }

        #[test]
        fn is_set_or_refused(assignment in "(workload|scheme|topology|sweep|case|0|x)(\\.(load|RC3|0|kind|set|name|1)){0,3}=[ -~]{0,8}") {
            let mut scenario = plain();
            if scenario.set(&assignment).is_ok() {
                let _ = scenario.expand().map(|runs| runs.len());
            }
        }
    }
}

#[test]
fn flows_that_are_alike_are_written_once_and_may_be_given_up() {
    let text = PLAIN
        .replace("internet2", "dumbbell")
        .replace("arrivals = \"poisson\"\nsizes = \"allman2013\"\nload = 0.3", "arrivals = \"list\"\ngive-up = \"20s\"\nflows = [{ at = \"1s\", from = 0, to = 10, size = 5, count = 3, every = \"2s\" }]");
    let runs = Scenario::parse(&text, "my.toml").unwrap().expand().unwrap();
    let flows: Vec<Flow> = runs[0].flows().collect();
    let found: Vec<_> = flows.iter().map(|flow| (flow.at.as_secs(), flow.from.0, flow.to.0)).collect();
    assert_eq!(found, [(1, 0, 10), (3, 1, 11), (5, 2, 12)]);
    assert!(flows.iter().all(|flow| flow.writes == Writes::Until(Duration::from_secs(20))));
    let error = |from: &str, to: &str| {
        Scenario::parse(&text.replace(from, to), "my.toml").unwrap().expand().unwrap_err().to_string()
    };
    assert!(error("count = 3", "count = 11").contains("there is no host 20, only 20 of them"));
}

#[test]
fn routers_that_tell_rates_and_links_that_are_sampled_exist() {
    for (more, expected) in [
        ("[queue]\nkickass = [10]\n", "`queue.kickass`: there is no router 10, only 10 of them"),
        (
            "[measure]\nsample = { link = \"core:0-9\", epochs = [\"0s\", \"1s\"] }\n",
            "`measure.sample.link`: there is no link core:0-9",
        ),
        ("[measure]\nsample = { link = \"core:0-1\", epochs = [\"1s\"] }\n", "at least two times"),
    ] {
        let error = error_with(more);
        assert!(error.contains(expected), "{error}");
    }
    let queues = |text: &str| parse(text).unwrap().expand().unwrap().remove(0).queues;
    assert_eq!(queues("[queue]\nkickass = [9]\n").kickass, KickAssSpec::Routers(vec![9]));
    let paper =
        queues("[queue]\nkickass = true\nkickass-silence = \"threshold\"\nkickass-resume = 0\n").signals;
    assert_eq!((paper.silence, paper.queue_resume), (kickass::silence::SilenceRule::Threshold, 0));
}

#[test]
fn access_round_trips_are_spread_over_the_hosts_of_the_first_router() {
    let text = PLAIN.replace("internet2\"", "dumbbell\"\naccess-rtts = [\"0ms\", \"240ms\"]\nhosts = 4");
    let run = Scenario::parse(&text, "my.toml").unwrap().expand().unwrap().remove(0);
    let delays: Vec<_> = run.topology.hosts.iter().map(|host| host.access.delay.as_millis()).collect();
    assert_eq!(delays, [0, 40, 80, 120, 0, 0, 0, 0]);
}

#[test]
fn hosts_have_the_overhead_of_the_topology() {
    let text = PLAIN.replace("internet2\"", "dumbbell\"\noverhead = \"80us\"\nhosts = 2");
    let run = Scenario::parse(&text, "my.toml").unwrap().expand().unwrap().remove(0);
    let overheads: Vec<_> = run.topology.hosts.iter().map(|host| host.access.overhead.as_micros()).collect();
    assert_eq!(overheads, [80; 4]);
}

/// A dumbbell of 100 Mbit/s with four hosts on each side, and these flows.
fn dumbbell(workload: &str, more: &str) -> String {
    format!(
        "name = \"d\"\ntitle = \"D\"\n[topology]\nkind = \"dumbbell\"\nrate = \"100Mbit\"\nhosts = 4\n\
         [workload]\n{workload}\n[[scheme]]\nname = \"TCP\"\nkind = \"plain\"\n{more}\n"
    )
}

const POISSON: &str = "arrivals = \"poisson\"\nsizes = \"allman2013\"\nload = 0.9";

#[test]
fn names_that_are_not_registered_are_listed() {
    let error = error_of(&dumbbell(POISSON, "congestion = \"bbr\""));
    assert!(
        error
            .contains("`scheme.0.congestion`: unknown value `bbr`, registered are `background`, `careful-resume`, `cubic`"),
        "{error}"
    );
    let error = error_of(&dumbbell(POISSON, "[queue]\ndiscipline = \"drop-tial\""));
    assert!(error.contains("did you mean `drop-tail`? registered are"), "{error}");
    let mut scenario = Scenario::parse(&dumbbell(POISSON, ""), "d.toml").unwrap();
    let error = scenario.set("topology.kind=ring").unwrap_err().to_string();
    assert!(error.contains("unknown value `ring`, registered are `abilene`"), "{error}");
}

#[test]
fn built_in_names_take_no_parameters() {
    for (more, expected) in [
        ("parameters = { gain = 2 }", "`scheme.0.parameters.gain`: no parameter is known here"),
        ("[queue]\nparameters = { target = 2 }", "`queue.parameters.target`: no parameter is known here"),
        ("[topology.parameters]\nx = 1", "`topology.parameters`: means nothing with this `kind`"),
    ] {
        let error = error_of(&dumbbell(POISSON, more));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn half_of_a_dumbbell_s_load_goes_in_each_direction() {
    let run = |more: &str| {
        let text = dumbbell(&format!("{POISSON}\n{more}"), "");
        Scenario::parse(&text, "d.toml").unwrap().expand().unwrap().remove(0)
    };
    let both = run("").offered_load().unwrap();
    assert_eq!(both.site.to_string(), "core:0-1");
    assert!((both.share - 0.45).abs() < 1e-9, "{both:?}");
    let one = run("from = [0]\nto = [1]").offered_load().unwrap();
    assert!((one.share - 0.9).abs() < 1e-9, "{one:?}");
    // The flows themselves offer that: bits of those to router 1, over the time they take to arrive.
    let flows: Vec<Flow> = run("").flows().take(100_000).collect();
    let wire = |flow: &Flow| (flow.bytes / 1460 * 1500 * 8) as f64;
    let forward: f64 = flows.iter().filter(|flow| flow.to.0 >= 4).map(wire).sum();
    let share = forward / flows.last().unwrap().at.as_secs_f64() / 100e6;
    assert!((share / both.share - 1.0).abs() < 0.03, "{share}");
}

#[test]
fn every_link_of_a_map_is_offered_the_load() {
    let offered = plain().expand().unwrap()[0].offered_load().unwrap();
    assert!((0.29..=0.301).contains(&offered.share), "{offered:?}");
}

#[test]
fn more_load_than_a_link_carries_is_refused_with_the_link() {
    let slow = "[topology]\nkind = \"file\"\nfile = \"net.csv\"";
    let folder = std::env::temp_dir().join(format!("rc3-overload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.csv"), "a,b,one_way_delay_ms,rate_mbps\nA,B,10,20\n").unwrap();
    let text = PLAIN.replace("[topology]\nkind = \"internet2\"", slow);
    let file = folder.join("my.toml");
    let outcome = |text: &str| {
        let scenario = Scenario::parse(text, file.to_str().unwrap()).unwrap();
        scenario.expand().map(|runs| runs.len()).map_err(|error| error.to_string())
    };
    let refused = outcome(&text).unwrap_err();
    let with_end = outcome(&format!("{text}[measure]\nuntil = \"1s\"\n"));
    let with_rate = outcome(&text.replace("net.csv\"", "net.csv\"\nrate = \"1Mbit\""));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(refused.contains("offers core:0-1 150.00 times its 20 Mbit/s"), "{refused}");
    assert_eq!((with_end, with_rate), (Ok(2), Ok(2)));
}

#[test]
fn a_warm_up_beyond_the_flows_is_refused() {
    let list = "arrivals = \"list\"\nflows = [{ from = 0, to = 4, size = 5, count = 3 }]";
    let error = error_of(&dumbbell(list, "[measure]\nwarm-up = 3"));
    assert!(
        error.contains("`measure.warm-up`: 3 flows before the measured ones, but the workload has only 3"),
        "{error}"
    );
    assert!(Scenario::parse(&dumbbell(list, "[measure]\nwarm-up = 2"), "d.toml").unwrap().expand().is_ok());
}

#[test]
fn flows_that_miss_the_bottleneck_are_refused() {
    let list = "arrivals = \"list\"\nflows = [{ from = 0, to = 1, size = 5 }]";
    let error = error_of(&dumbbell(list, ""));
    assert!(
        error.contains("hosts 0 and 1 are both at router 0, so the flow crosses no core link"),
        "{error}"
    );
}

#[test]
fn shares_may_be_per_cent_in_quotation_marks() {
    let loss = |value: &str| {
        let text = dumbbell(POISSON, &format!("[queue]\nloss = {value}"));
        Scenario::parse(&text, "d.toml").map(|scenario| scenario.expand().unwrap().remove(0).queues.loss)
    };
    assert_eq!(loss("\"0.5%\"").unwrap(), 0.005);
    assert_eq!(loss("1").unwrap(), 1.0);
    let error = loss("0.5%").unwrap_err().to_string();
    assert!(error.contains("; write 0.5 % as 0.005 or \"0.5%\""), "{error}");
    let error = loss("\"half\"").unwrap_err().to_string();
    assert!(error.contains("is not a number from 0 to 1 such as 0.005, or \"0.5%\""), "{error}");
}

#[test]
fn buffers_hold_a_packet_and_may_count_packets() {
    let limit = |value: &str| {
        let text = dumbbell(POISSON, &format!("[queue]\nuplink-buffer = {value}"));
        let runs = Scenario::parse(&text, "d.toml").and_then(|scenario| scenario.expand());
        runs.map(|runs| runs[0].queues.uplink_buffer).map_err(|error| error.to_string())
    };
    assert_eq!(limit("\"100packets\""), Ok(QueueLimit::Packets(100)));
    assert_eq!(limit("\"1 packet\""), Ok(QueueLimit::Packets(1)));
    assert_eq!(limit("\"30KB\""), Ok(QueueLimit::Bytes(30_000)));
    for small in ["\"3\"", "3", "\"0packets\"", "\"0.0001bdp\""] {
        let error = limit(small).unwrap_err();
        assert!(
            error.contains("do not hold a packet of 1540 bytes, write for example \"100packets\""),
            "{error}"
        );
    }
    let text = dumbbell(POISSON, "[queue]\ndiscipline = \"fq-codel\"\nbuffer = \"100packets\"");
    assert!(error_of(&text).contains("`queue.buffer`: this discipline counts bytes"));
    let text = dumbbell(POISSON, "[queue]\nuplink-discipline = \"codel\"\nuplink-buffer = \"100packets\"");
    assert!(error_of(&text).contains("`queue.uplink-buffer`: this discipline counts bytes"));
    let text = dumbbell(POISSON, "[queue]\nbuffer = \"0packets\"\nbuffer-min = 15000");
    let runs = Scenario::parse(&text, "d.toml").unwrap().expand().unwrap();
    assert_eq!(runs[0].queues.buffer, QueueLimit::Packets(10));
}

#[test]
fn parameters_are_those_of_the_discipline_and_not_of_another_one_at_the_uplinks() {
    let mut registry = Registry::default();
    let own = QueueDiscipline::new("Own.", |request| match request.parameters.none() {
        Ok(()) => Err(Fault::new("parameters", "there are none")),
        Err(_) => Ok(Box::new(crate::DropTail::new(9000))),
    });
    registry.disciplines.insert("own".to_owned(), own);
    for uplink in ["", "uplink-discipline = \"priority\"\n"] {
        let more = format!("[queue]\ndiscipline = \"own\"\n{uplink}parameters = {{ x = 1 }}");
        let scenario = Scenario::parse_with(&dumbbell(POISSON, &more), "d.toml", &registry);
        assert_eq!(scenario.unwrap().expand().map(|runs| runs.len()), Ok(1), "{uplink}");
    }
}

#[test]
fn times_may_be_written_as_programs_print_them() {
    assert_eq!(parse_time("8.1e-05s"), Ok(Duration::from_micros(81)));
    assert_eq!(parse_time("1e3 us"), Ok(Duration::from_millis(1)));
    assert_eq!(parse_time("0.30000000000000004s"), Ok(Duration::from_millis(300)));
    for text in ["-1s", "1e400s", "infs", "nans", "8.1e-05", "s"] {
        assert!(parse_time(text).is_err(), "{text}");
    }
}

#[test]
fn every_topology_with_hosts_has_access_delays() {
    for kind in ["internet2", "dumbbell", "parking-lot"] {
        let mut scenario = plain();
        scenario.set(&format!("topology.kind={kind}")).unwrap();
        scenario.set("topology.access-delay=2ms").unwrap();
        scenario.set("topology.access-rtts=[\"10ms\", \"10ms\"]").unwrap();
        let hosts = scenario.expand().unwrap().remove(0).topology.hosts;
        let delays: Vec<u128> = hosts.iter().map(|host| host.access.delay.as_millis()).collect();
        assert_eq!((delays[0], delays[9], delays[10]), (5, 5, 2), "{kind}");
    }
    let error = error("kind = \"internet2\"", "kind = \"fat-tree\"\naccess-delay = \"1ms\"");
    assert!(error.contains("means nothing with this `kind`"), "{error}");
}

#[test]
fn closed_loops_need_sources_and_sizes() {
    let closed = "arrivals = \"closed-loop\"\nclosed-loop = { sources = 0, think = \"1s\" }";
    assert!(error_of(&dumbbell(closed, "")).contains("needs the key `sizes`"));
    let closed = format!("{closed}\nsizes = \"allman2013\"");
    assert!(
        error_of(&dumbbell(&closed, "")).contains("`workload.closed-loop.sources`: not within 1 to 1000000")
    );
    let closed = closed.replace("sources = 0", "sources = 7");
    let run = Scenario::parse(&dumbbell(&closed, ""), "d.toml").unwrap().expand().unwrap().remove(0);
    assert_eq!((run.measure.warm_up, run.closed_loops().len()), (7, 7));
}

/// A scenario on the base `today`.
fn today(keys: &str) -> Result<Vec<Run>, ScenarioError> {
    Scenario::parse(&format!("name = 'x'\nbase = 'today'\n{keys}"), "x.toml")?.expand()
}

#[test]
fn keys_of_a_file_replace_those_of_its_base() {
    let runs =
        today("queue.discipline = 'codel'\nscheme.guard.level = 1\n[sweep]\ntopology.rtt = ['20ms']\n")
            .unwrap();
    assert_eq!(runs.len(), 2 * 3 * 4 * 7);
    assert_eq!((runs[0].queues.discipline.name.as_str(), runs[1].scheme().level.get()), ("codel", 1));
    let label = runs[1].label.to_string();
    assert_eq!(
        label,
        "topology.rate=20Mbit, topology.rtt=20ms, queue.buffer=0.1bdp, workload.size=30k, measure.seed=1, guard"
    );
    assert_eq!((runs[0].queues.buffer, runs[0].card()), (QueueLimit::Bytes(15_000), 10));
    assert!(runs.iter().all(|run| run.base.is_none()), "nobody is beside it");
    let beside = today("topology.hosts = 2\n[[background]]\narrivals = 'long'\ncount = 1\n").unwrap();
    assert!(beside[0].base.is_none() && beside[1].base.as_deref() == Some(&beside[0]));
}

#[test]
fn a_file_adds_schemes_to_those_of_its_base() {
    let mine = "run = [{ name = 'mine', scheme = 'mine' }]\nscheme.mine.congestion = 'suss'\n";
    let runs = today(&format!("{mine}scheme.mine.kind = 'plain'\n")).unwrap();
    assert_eq!((runs[0].scheme().name.as_str(), runs.len()), ("mine", 3 * 3 * 4 * 7));
    let error = today(mine).unwrap_err().to_string();
    assert!(error.contains("there is no table `mine`"), "{error}");
}

/// What a world with one flow does not do is refused, with the key and its line.
#[test]
fn one_flow_refuses_what_it_does_not_do() {
    let long = "topology.hosts = 2\n[[background]]\narrivals = 'long'\ncount = 1\n";
    for (keys, expected) in [
        (long.replace("count = 1", "count = 0"), "x.toml:4: `background.0.count`: not within 1 to 64"),
        (long.replace("hosts = 2", "hosts = 1"), "x.toml:3: `topology.hosts`: 1 flows beside"),
        (long.replace("count = 1", "load = 0.3"), "x.toml:4: `background.0.load`: means nothing with"),
        (long.replace("'long'\ncount = 1", "'short'\nload = 1"), "x.toml:4: `background.0.load`: not above 0 and below 1"),
        (long.replace("'long'\ncount = 1", "'poisson'\nload = 0.1\nsizes = 'dctcp'"), "x.toml:4: `background.0.arrivals`: beside one"),
        ("queue.discipline = 'policer'\nworkload.rate-change = 0.5\n".to_owned(), "x.toml:4: `workload.rate-change`: the rate of a policer"),
        ("workload.rate-change = 0.0\n".to_owned(), "x.toml:3: `workload.rate-change`: 0 is not within 0.001 to 1000"),
        ("queue.jitter.back = '90s'\n".to_owned(), "x.toml:3: `queue.jitter.back`: longer than 60s"),
        ("topology.card = 0\n".to_owned(), "x.toml:3: `topology.card`: not within 1 to 1000"),
        ("topology.kind = 'dumbbell'\ntopology.card = 2\n".to_owned(), "x.toml:4: `topology.card`: means nothing with"),
        ("topology.hosts = 2\nworkload.taught-elsewhere = true\n".to_owned(), "x.toml:4: `workload.taught-elsewhere`: means nothing without `taught-at`"),
        ("measure.flows = 3\n".to_owned(), "x.toml:3: `measure.flows`: means nothing with"),
        ("measure.quick-hosts = 3\n".to_owned(), "x.toml:3: `measure.quick-hosts`: means nothing with"),
        ("measure.max-in-flight = 3\n".to_owned(), "x.toml:3: `measure.max-in-flight`: means nothing with"),
        ("measure.until = '1s'\n".to_owned(), "x.toml:3: `measure.until`: means nothing with"),
        ("measure.sample = { link = 'core:0-1', epochs = ['0s', '1s'] }\n".to_owned(), "x.toml:3: `measure.sample`: means nothing with"),
        ("scheme.guard.paced = true\n".to_owned(), "x.toml:3: `scheme.1.paced`: means nothing with the library's"),
        ("scheme.plain.rlp-rate = 'uplink'\n".to_owned(), "x.toml:3: `scheme.0.rlp-rate`: means nothing with this `kind`"),
        ("workload.give-up = '1s'\n".to_owned(), "x.toml:3: `workload.give-up`: means nothing with these"),
        ("run = [{ name = 'a', scheme = 'plain', mix = { scheme = 'guard', share = 0.5, of = 'flows' } }]\n".to_owned(), "x.toml:3: `run.0.mix`: means nothing with"),
        ("unknown = 1\n".to_owned(), "x.toml:3: `unknown`: unknown key"),
    ] {
        let error = today(&keys).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{keys}: {error}");
    }
    let none = Scenario::parse("name = 'x'\nbase = 'tomorrow'\n", "x.toml").unwrap_err().to_string();
    assert!(none.starts_with("x.toml:2: `base`: ") && none.contains("built in are `rc3`, `today`"), "{none}");
}
