use std::time::Duration;

use super::*;
use crate::{
    agent::{Flow, SchemeId, Writes},
    record::Fct,
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

/// What is wrong with `PLAIN` when a line of it reads differently.
fn error(line: &str, instead: &str) -> String {
    assert!(PLAIN.contains(line), "{line}");
    let text = PLAIN.replacen(line, instead, 1);
    match Scenario::parse(&text, "my.toml") {
        Err(error) => error.to_string(),
        Ok(scenario) => scenario.expand().unwrap_err().to_string(),
    }
}

/// What is wrong with `PLAIN` when more follows.
fn error_with(more: &str) -> String {
    match parse(more) {
        Err(error) => error,
        Ok(scenario) => scenario.expand().unwrap_err().to_string(),
    }
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
    assert_eq!(run.queues.buffer, Some(5_000_000));
    assert_eq!((run.queues.uplink_buffer, run.queues.uplink_backlog), (Some(5_000_000), None));
    assert_eq!((run.queues.discipline, run.queues.loss), (Discipline::Priority, 0.0));
    assert_eq!(run.topology.hosts.len(), 100);
    assert_eq!(
        run.measure,
        Measure { flows: 10_000, warm_up: 6000, fct: Fct::ConnectToLastByte, until: None, sample: None }
    );
    assert_eq!(run.topology.mean_rtt().as_micros(), 39_555);
    let [tcp, rc3] = &run.schemes[..] else { panic!("two schemes") };
    assert_eq!(
        (tcp.kind, tcp.congestion, tcp.initial_window, tcp.paced),
        (SchemeKind::Plain, Congestion::Newreno, 4, false)
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
        ("load = 0.3", "load = 0", "my.toml:10: `workload.load`: so that no flow ever comes, or all at once"),
        (
            "load = 0.3",
            "load = true",
            "my.toml:10: `workload.load`: invalid type: boolean `true`, expected f64",
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
            "my.toml:5: `topology.kind`: unknown value `internet`, did you mean `internet2`?",
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
            "kind = \"internet2\"\ncore-factors = [2, 0.5]",
            "my.toml:6: `topology.core-factors`: two factors above 0, the smaller one first",
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
            "my.toml:20: `scheme.1.ladder.1`: invalid value: integer `0`, expected a number of packets above 0 or \"rest\"",
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
            "my.toml:20: `queue.buffer`: invalid value: integer `-1`, expected a size such as \"1bdp\", \"5MB\" or \"unlimited\", or a number of bytes",
        ),
        (
            "[queue]\nuplink-backlog = \"0bdp\"\n",
            "my.toml:20: `queue.uplink-backlog`: RLP would wait even where nothing does",
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
            "my.toml:19: `workload.writes`: chunks and what lies between them are above 0",
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
    assert_eq!(scenario.expand().unwrap()[0].queues.buffer, Some(5_000_000));
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
    assert_eq!(scenario, before);
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
fn both_readings_of_the_ladder_are_those_of_the_papers() {
    let ladder = |reading: &str| {
        let text = PLAIN.replace(
            "kind = \"rc3\"",
            &format!("kind = \"rc3\"\nladder = [40, 400, 4000]\nladder-reading = \"{reading}\""),
        );
        Scenario::parse(&text, "my.toml").unwrap().expand().unwrap()[0].schemes[1].ladder
    };
    use rc3_core::Ladder;
    assert_eq!(ladder("counts"), Ladder::new(&[40, 400, 4000]).unwrap());
    assert_eq!(ladder("thresholds"), Ladder::new(&[40, 360, 3600]).unwrap());
}

#[test]
fn every_change_of_a_topology_can_be_written() {
    let scenario = parse(
        r#"
        [[case]]
        name = "heterogeneous"
        set = { topology.core-factors = [0.5, 2] }
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
    assert_eq!(runs[6].queues.buffer, Some(1_200_000));
    assert_eq!(runs[8].topology.hosts.len(), 60);
    assert_eq!(runs[8].topology.hosts[0].access.uplink.unwrap().bits_per_second(), 1_500_000_000);
}

#[test]
fn files_are_looked_for_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("rc3-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.csv"), "a,b,one_way_delay_ms,rate_mbps\nA,B,10,1000\nB,C,5,2000\n")
        .unwrap();
    std::fs::write(folder.join("flows.csv"), "time_s,source,destination,packets\n0.5,0,2,7\n0.25,1,0,3\n")
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
    let some = queues("[queue]\nkickass = [9]\n");
    assert_eq!((some.kickass, some.signals.queue_threshold), (KickAssSpec::Routers(vec![9]), 0.5));
    assert_eq!(queues("[queue]\nkickass-threshold = 0.9\n").signals.queue_threshold, 0.9);
    let paper = queues("[queue]\nkickass-silence = \"threshold\"\n");
    assert_eq!(paper.signals.silence, kickass::silence::Rule::Threshold);
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

#[test]
fn quinn_s_bbr_is_refused_and_the_others_are_named() {
    let text = PLAIN.replace("internet2\"", "dumbbell\"");
    let mut scenario = Scenario::parse(&text, "my.toml").unwrap();
    let outcome = scenario.set("scheme.TCP.congestion=bbr").map_err(|error| error.to_string());
    let error = match outcome {
        Err(error) => error,
        Ok(()) => scenario.expand().unwrap_err().to_string(),
    };
    assert!(error.contains("bbr") && error.contains("cubic"), "{error}");
}
