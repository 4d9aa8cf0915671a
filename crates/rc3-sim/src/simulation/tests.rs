use std::time::Duration;

use super::*;
use crate::{
    scenario::{Defaults, Scenario, tests::PLAIN},
    topology::Site,
    world::Counts,
};

const RCP: &str = r#"
[[scheme]]
name = "RCP"
kind = "rcp"
"#;

/// Two routers and one link, with all three kinds of schemes.
fn scenario(more: &str) -> Scenario {
    let mut scenario = Scenario::parse(&format!("{PLAIN}{RCP}{more}"), "dumbbell.toml").unwrap();
    for change in [
        "topology.kind=dumbbell",
        "topology.rate=200Mbit",
        "topology.rtt=20ms",
        "topology.hosts=4",
        "workload.load=0.4",
        "measure.flows=60",
        "measure.warm-up=20",
    ] {
        scenario.set(change).unwrap();
    }
    scenario
}

fn run(changes: &[&str], name: &str) -> Run {
    let mut scenario = scenario("");
    for change in changes {
        scenario.set(change).unwrap();
    }
    scenario.expand().unwrap().into_iter().find(|run| run.label.run == name).unwrap()
}

fn simulate(run: &Run) -> (Vec<FlowRecord>, Counts) {
    let mut simulation = Simulation::new(run).unwrap();
    let mut records = Vec::new();
    while simulation.step().unwrap() {
        records.extend(std::iter::from_fn(|| simulation.poll_record()));
    }
    records.sort_by_key(|record| record.flow);
    (records, simulation.world().counts())
}

#[test]
fn a_seed_has_one_result_and_another_seed_another() {
    for name in ["TCP", "RC3", "RCP"] {
        let once = simulate(&run(&[], name));
        assert_eq!(once, simulate(&run(&[], name)), "{name}");
        assert_ne!(once.0, simulate(&run(&["measure.seed=2"], name)).0, "{name}");
    }
}

#[test]
fn as_many_flows_are_measured_as_were_asked_for_and_they_end() {
    let (records, counts) = simulate(&run(&[], "RC3"));
    assert_eq!(records.len(), 60);
    assert_eq!(records[0].flow, FlowId(20), "the warm-up is not measured");
    assert!(records.iter().all(|record| record.fct.is_some() && record.hops == 1));
    assert!(counts.flows_started > 80, "others go on arriving while measured flows are under way");
}

#[test]
fn nothing_arrives_any_more_for_the_last_flow_in_a_hundred() {
    let run = run(&["measure.flows=200", "queue.loss=0.001"], "TCP");
    let (records, counts) = simulate(&run);
    let end = records.iter().map(|record| record.start + record.fct.unwrap()).max().unwrap();
    let late = records.iter().filter(|record| record.fct.unwrap() > Duration::from_secs(3)).count();
    assert!((1..=2).contains(&late), "{late} flows begin late: choose another seed");
    let meanwhile = run.flows().take_while(|flow| flow.at <= end).count() as u64;
    assert!(counts.flows_started < meanwhile, "{} of {meanwhile}", counts.flows_started);
}

#[test]
fn what_is_under_way_at_the_end_of_the_world_is_not_counted() {
    let until = Duration::from_millis(100);
    let change = ["measure.flows=1000", "measure.warm-up=0", "measure.until=100ms"];
    let (records, counts) = simulate(&run(&change, "TCP"));
    assert!(records.iter().all(|record| record.start + record.fct.unwrap() <= until));
    let begun = run(&change, "TCP").flows().take_while(|flow| flow.at <= until).count() as u64;
    assert_eq!(counts.flows_started, begun, "all that began before");
    assert!(counts.flows_ended < begun && records.len() as u64 == counts.flows_ended);
    let whole = simulate(&run(&["measure.warm-up=0", &format!("measure.flows={begun}")], "TCP")).0;
    assert!(records.iter().all(|record| whole.contains(record)), "nothing else is different");
}

#[test]
fn a_list_beside_a_workload_without_end_ends() {
    let text = r#"
        name = "list"
        title = "A list and more"
        [topology]
        kind = "dumbbell"
        [workload]
        arrivals = "list"
        flows = [{ from = 0, to = 10, size = "10KB" }]
        [[background]]
        arrivals = "poisson"
        sizes = "allman2013"
        load = 0.1
        [[scheme]]
        name = "TCP"
        kind = "plain"
    "#;
    let run = Scenario::parse(text, "list.toml").unwrap().expand().unwrap().remove(0);
    assert_eq!(simulate(&run).0.len(), 1);
}

#[test]
fn a_scheme_that_nobody_uses_changes_nothing() {
    let alone = run(&["queue.loss=0.1"], "TCP");
    let mut beside = alone.clone();
    beside.schemes.iter_mut().skip(1).for_each(|scheme| scheme.defaults = Defaults::Library);
    assert_ne!(alone, beside);
    assert_eq!(simulate(&alone), simulate(&beside));
}

#[test]
fn a_second_scheme_has_its_rlp_beside_one_without() {
    let mix = "mix = { scheme = \"RC3\", share = 0.5, of = \"flows\" }";
    let mut scenario = scenario(&format!("[[run]]\nname = \"mixed\"\nscheme = \"TCP\"\n{mix}\n"));
    for change in ["scheme.TCP.defaults=library", "scheme.RC3.defaults=library", "scheme.RC3.mode=trust"] {
        scenario.set(change).unwrap();
    }
    let records = simulate(&scenario.expand().unwrap()[0]).0;
    let rlp = |scheme| -> u64 {
        let its = records.iter().filter(|record| record.scheme.0 == scheme);
        its.map(|record| record.sent.rlp_packets).sum()
    };
    assert!(rlp(0) == 0 && rlp(1) > 0, "{} packets", rlp(1));
}

#[test]
fn a_world_with_an_end_has_no_other() {
    let text = r#"
        name = "slow"
        title = "A flow of more than an hour"
        topology = { kind = "dumbbell", rate = "10kbit", hosts = 1 }
        queue = { buffer = "10packets" }
        workload = { arrivals = "list", flows = [{ from = 0, to = 1, size = "5MB" }] }
        measure = { until = "2h" }
        [[scheme]]
        name = "TCP"
        kind = "plain"
    "#;
    let run = Scenario::parse(text, "slow.toml").unwrap().expand().unwrap().remove(0);
    assert!(simulate(&run).0[0].fct.unwrap() > PATIENCE);
}

#[test]
fn others_are_counted_until_the_end_of_the_world_beside_a_flow_of_minutes() {
    let sweep = "topology.rate = ['250kbit']\ntopology.rtt = ['60ms']\nqueue.buffer = ['1bdp']\n\
                 workload.size = ['10500k']\n";
    let short = "[[background]]\narrivals = 'short'\nload = 0.1\n";
    let text = format!("name = 'x'\nbase = 'today'\ntopology.hosts = 2\n{short}[sweep]\n{sweep}");
    let run = Scenario::parse(&text, "x.toml").unwrap().expand().unwrap().remove(0);
    let (record, beside) = Simulation::run(&run).unwrap();
    assert!(record.unwrap().fct.unwrap() > workload::LIMIT / 2);
    assert_eq!(beside.window, Some(workload::LIMIT));
    assert!(beside.bytes > 100_000, "{beside:?}");
}

#[test]
fn schemes_share_their_flows() {
    let flows = |name| -> Vec<_> {
        let records = simulate(&run(&[], name)).0.into_iter();
        records.map(|record| (record.start, record.from, record.to, record.bytes)).collect()
    };
    assert_eq!(flows("TCP"), flows("RC3"));
    assert_eq!(flows("TCP"), flows("RCP"));
}

#[test]
fn links_of_hosts_lose_packets_only_if_all_do() {
    let lost = |links: &str| {
        let changes = ["measure.flows=300", "queue.loss=0.02", &format!("queue.loss-links={links}")];
        let run = run(&changes, "TCP");
        let mut simulation = Simulation::new(&run).unwrap();
        while simulation.step().unwrap() {}
        let reports = simulation.link_reports().into_iter();
        let hosts =
            reports.filter(|link| !matches!(link.site, Site::Core(..))).map(|link| link.stats.total());
        let (offered, lost) = hosts.fold((0, 0), |(offered, lost), stats| {
            (offered + stats.offered.packets, lost + stats.lost.packets)
        });
        lost as f64 / offered as f64
    };
    assert_eq!(lost("core"), 0.0);
    assert!((0.015..0.025).contains(&lost("all")), "{}", lost("all"));
}

#[test]
fn flows_that_start_too_early_are_not_measured() {
    let (from, until) = (Duration::from_millis(300), Duration::from_millis(900));
    let mut scenario = scenario("");
    let text = scenario.to_toml().replace("flows = 60\n", "").replace("warm-up = 20\n", "");
    scenario = Scenario::parse(&text, "from.toml").unwrap();
    scenario.set("measure.from=300ms").unwrap();
    scenario.set("measure.until=900ms").unwrap();
    let run = scenario.expand().unwrap().remove(0);
    let records = simulate(&run).0;
    let due = run.flows().take_while(|flow| flow.at <= until).filter(|flow| flow.at >= from).count();
    assert!(records.len() > due / 2 && records.len() < due, "{} of {due}", records.len());
    assert!(records.iter().all(|record| record.start >= from));
    assert_eq!(run.measured_flow(0).unwrap().id, records[0].flow, "the first is short");
}

#[test]
fn rc3_ends_flows_sooner() {
    let mean = |name| simulate(&run(&[], name)).0.iter().map(|record| record.fct.unwrap()).sum::<Duration>();
    assert!(mean("RC3") < mean("TCP").mul_f64(0.8));
}

#[test]
fn rlp_that_waits_for_the_uplink_stops_where_the_loops_meet() {
    let alone = |backlog: &str| {
        let backlog = format!("queue.uplink-backlog={backlog}");
        let flow = [
            "workload.sizes={ fixed = 2000 }",
            "workload.load=0.001",
            "measure.flows=1",
            "measure.warm-up=0",
        ];
        let changes = [&flow[..], &["topology.uplink=200Mbit", &backlog]].concat();
        let record = simulate(&run(&changes, "RC3")).0.remove(0);
        (record.sent, record.fct.unwrap())
    };
    let (at_once, fct_at_once) = alone("unlimited");
    let (waiting, fct) = alone("3KB");
    assert!(at_once.rlp_packets > 1990, "all but the first window: {at_once:?}");
    assert!(waiting.rlp_packets < 1800, "none of what the primary brought: {waiting:?}");
    assert!(fct <= fct_at_once, "{fct:?}, at once {fct_at_once:?}");
}

#[test]
fn rcp_and_other_hosts_do_not_mix() {
    let mix = "mix = { scheme = \"RCP\", share = 0.5, of = \"hosts\" }";
    let scenario = scenario(&format!("[[run]]\nname = \"mixed\"\nscheme = \"TCP\"\n{mix}\n"));
    let refused = Simulation::new(&scenario.expand().unwrap()[0]).err().unwrap();
    assert_eq!(refused, SimulationError::Mixed("mixed".to_owned()));
}

/// With loss, since slow start is the same for most.
#[test]
fn each_controller_mode_and_pacing_carries_the_same_flows_in_its_own_time() {
    let schemes = [
        ("TCP", "scheme.TCP.congestion=newreno"),
        ("TCP", "scheme.TCP.congestion=cubic"),
        ("TCP", "scheme.TCP.initial-window=10"),
        ("TCP", "scheme.TCP.paced=true"),
        ("RC3", "scheme.RC3.mode=trust"),
        ("RC3", "scheme.RC3.paced=true"),
    ];
    let fcts: Vec<Vec<Duration>> = schemes
        .iter()
        .map(|(name, change)| {
            let (records, _) = simulate(&run(&[change, "queue.loss=0.01"], name));
            assert_eq!(records.len(), 60, "{change}");
            records
                .iter()
                .map(|record| record.fct.unwrap_or_else(|| panic!("{change}: {record:?}")))
                .collect()
        })
        .collect();
    for (index, one) in fcts.iter().enumerate() {
        for (other, two) in fcts.iter().enumerate().take(index) {
            assert_ne!(one, two, "{:?} is the same as {:?}", schemes[index], schemes[other]);
        }
    }
    let guard = simulate(&run(&["scheme.RC3.mode=guard", "queue.loss=0.01"], "RC3")).0;
    let guard: Vec<_> = guard.iter().filter_map(|record| record.fct).collect();
    assert!(guard.len() == 60 && !fcts.contains(&guard), "guard mode has a clock");
    let off = simulate(&run(&["scheme.RC3.mode=off"], "RC3")).0;
    assert!(off.iter().all(|record| record.sent.rlp_packets == 0 && record.fct.is_some()));
}

#[test]
fn names_lead_to_the_links_the_world_was_built_of() {
    let text = "name='x'\ntitle='x'\n[topology]\nkind='internet2'\n[workload]\narrivals='poisson'\n\
                sizes='allman2013'\nload=0.1\n[[scheme]]\nname='rc3'\nkind='rc3'\n";
    let run = Scenario::parse(text, "x.toml").unwrap().expand().unwrap().remove(0);
    let (mut world, uplinks) = build::world(&run).unwrap();
    assert_eq!(Site::Uplink(HostId(7)).link(&run.topology), Some(uplinks[7]));
    let (from, to) = (HostId(0), HostId(99));
    let steps = run.topology.routes().path(from, to);
    let mut at = run.topology.router_of(from);
    let mut expected = vec![Site::Uplink(from)];
    for step in steps {
        let end = step.end(&run.topology);
        expected.push(Site::Core(at, end));
        at = end;
    }
    expected.push(Site::Downlink(to));
    let expected: Vec<_> = expected.iter().map(|site| site.link(&run.topology).unwrap()).collect();
    assert_eq!(world.route(from, to), expected);
    assert_eq!(Site::Core(0, 9).link(&run.topology), None);
    assert_eq!(Site::Downlink(HostId(100)).link(&run.topology), None);
}

#[test]
fn delayed_acks_send_fewer_and_slow_slow_start_down() {
    let flow =
        ["workload.sizes={ fixed = 200 }", "measure.flows=1", "measure.warm-up=0", "workload.load=0.01"];
    let alone = |more: &[&str]| {
        let run = run(&[&flow[..], more].concat(), "TCP");
        let mut simulation = Simulation::new(&run).unwrap();
        let mut fct = None;
        while simulation.step().unwrap() {
            fct = simulation.poll_record().and_then(|record| record.fct).or(fct);
        }
        // What comes back to the sender by the core link.
        let flow = run.flows().next().unwrap();
        let (a, b) = (run.topology.router_of(flow.to), run.topology.router_of(flow.from));
        let back = simulation.link_reports().into_iter().find(|link| link.site == Site::Core(a, b)).unwrap();
        (back.stats.total().delivered.packets, fct.unwrap())
    };
    let (each, fct) = alone(&[]);
    let (second, fct_of_second) = alone(&["scheme.TCP.ack-every=2"]);
    assert!((0.45..0.65).contains(&(second as f64 / each as f64)), "{second} of {each} ACKs");
    assert!(fct <= fct_of_second, "{fct:?}, delayed {fct_of_second:?}");
}

/// Sources on each side of the dumbbell.
fn closed(changes: &[&str]) -> Run {
    let text = r#"
        name = "closed"
        title = "Closed loop"
        [topology]
        kind = "dumbbell"
        rate = "100Mbit"
        rtt = "20ms"
        hosts = 4
        [workload]
        arrivals = "closed-loop"
        closed-loop = { sources = 4, think = "50ms" }
        sizes = { fixed = 10 }
        from = [0]
        to = [1]
        [measure]
        flows = 40
        [[scheme]]
        name = "TCP"
        kind = "plain"
        [[scheme]]
        name = "RC3"
        kind = "rc3"
    "#;
    let mut scenario = Scenario::parse(text, "closed.toml").unwrap();
    changes.iter().for_each(|change| scenario.set(change).unwrap());
    scenario.expand().unwrap().remove(0)
}

#[test]
fn a_closed_loop_source_waits_for_its_flow_and_thinks() {
    let (records, counts) = simulate(&closed(&[]));
    assert_eq!(records.len(), 40);
    assert_eq!(records.iter().map(|record| record.flow).min(), Some(FlowId(4)), "as many before as sources");
    let mut thought = Vec::new();
    for host in 0..4 {
        let flows: Vec<_> = records.iter().filter(|record| record.from == HostId(host)).collect();
        for pair in flows.windows(2) {
            let ended = pair[0].start + pair[0].fct_acked.unwrap();
            thought.push((pair[1].start - ended).as_secs_f64());
        }
    }
    let mean = thought.iter().sum::<f64>() / thought.len() as f64;
    // Of 36 exponential times, give or take a sixth.
    assert!(thought.len() == 36 && (0.03..0.07).contains(&mean), "{thought:?}");
    assert!(
        thought.iter().any(|&time| time < 0.025) && thought.iter().any(|&time| time > 0.075),
        "{thought:?}"
    );
    assert!(counts.flows_started <= 44 + 4, "{counts:?}");
}

#[test]
fn a_seed_has_one_closed_loop_and_each_scheme_the_same_sizes() {
    let changes = ["workload.sizes=allman2013", "measure.warm-up=0"];
    let (records, counts) = simulate(&closed(&changes));
    assert_eq!((records.clone(), counts), simulate(&closed(&changes)));
    assert_ne!(records, simulate(&closed(&[&changes[..], &["measure.seed=2"]].concat())).0);
    let rc3 = Run {
        assignment: crate::scenario::Assignment {
            scheme: crate::agent::SchemeId(1),
            ..closed(&changes).assignment
        },
        ..closed(&changes)
    };
    let of_host = |records: &[FlowRecord]| -> Vec<u64> {
        records.iter().filter(|record| record.from == HostId(2)).map(|record| record.bytes).take(5).collect()
    };
    assert_eq!(of_host(&records), of_host(&simulate(&rc3).0));
}

#[test]
fn a_closed_loop_beside_a_list_and_with_samples_ends() {
    let text = r#"
        name = "beside"
        title = "A list beside a closed loop"
        [topology]
        kind = "dumbbell"
        hosts = 4
        [workload]
        arrivals = "list"
        flows = [{ at = "1s", from = 0, to = 4, size = "100KB", count = 2 }]
        [[background]]
        arrivals = "closed-loop"
        closed-loop = { sources = 3, think = "100ms" }
        sizes = { fixed = 10 }
        [measure]
        sample = { link = "core:0-1", every = "100ms", epochs = ["0s", "1s"] }
        [[scheme]]
        name = "TCP"
        kind = "plain"
    "#;
    let run = Scenario::parse(text, "beside.toml").unwrap().expand().unwrap().remove(0);
    let mut simulation = Simulation::new(&run).unwrap();
    let mut records = Vec::new();
    while simulation.step().unwrap() {
        records.extend(std::iter::from_fn(|| simulation.poll_record()));
    }
    assert_eq!(records.len(), 2);
    assert!(simulation.world().counts().flows_started > 10, "{:?}", simulation.world().counts());
    let samples = simulation.take_samples();
    assert!(
        samples.len() >= 10
            && samples.windows(2).all(|pair| pair[1].at - pair[0].at == Duration::from_millis(100))
    );
}

#[test]
fn more_flows_under_way_than_allowed_are_an_error() {
    let run = run(&["measure.max-in-flight=3"], "TCP");
    let mut simulation = Simulation::new(&run).unwrap();
    let error = loop {
        match simulation.step() {
            Ok(goes_on) => assert!(goes_on, "it ended"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SimulationError::InFlight { max: 3, .. }), "{error}");
    assert!(error.to_string().starts_with("more than 3 flows were under way after "), "{error}");
}

#[test]
fn links_report_their_use_drops_by_level_and_longest_queue() {
    let changes = ["measure.flows=400", "queue.buffer=20packets", "workload.from=[0]", "workload.to=[1]"];
    let run = run(&changes, "RC3");
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.step().unwrap() {}
    let links = simulation.link_reports();
    let of = |site: &str| links.iter().find(|link| link.site.to_string() == site).unwrap();
    let (forward, back) = (of("core:0-1"), of("core:1-0"));
    let used = forward.utilisation.unwrap();
    let offered = run.offered_load().unwrap();
    assert_eq!(offered.site, forward.site);
    assert!((used / offered.share - 1.0).abs() < 0.35, "{used}, offered {}", offered.share);
    assert!(back.utilisation.unwrap() < 0.1 * used);
    let dropped = |level| forward.stats.level(level).dropped.packets;
    use rc3_core::units::Level;
    assert!(dropped(Level::FIRST) > 0, "RLP is dropped first: {:?}", forward.stats.total());
    // Twenty packets of 1460 bytes and their headers.
    assert!(
        (20 * 1460..20 * 1540).contains(&forward.stats.queue_bytes_max),
        "{}",
        forward.stats.queue_bytes_max
    );
    assert!(links.iter().all(|link| link.stats.total().offered.packets > 0));
}
