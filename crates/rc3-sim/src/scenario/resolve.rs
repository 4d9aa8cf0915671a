//! From what is written to what it means: topologies, workloads and schemes of one world.

use std::{fs, path::Path, time::Duration};

use kickass::{signal, silence::Rule};
use rc3_core::{
    Ladder,
    units::{Level, Rate},
};
use rc3_text::document::{Fault, nearest, quoted};

use super::{
    quantity::Rung,
    run::{Assignment, Measure, Mix, Mixed, Queues, Sampling, Scheme},
    spec::{
        Arrivals, Congestion, KickAssSpec, LadderReading, ListedFlow, MeasureSpec, MixOf, MixSpec, Mode,
        QueueSpec, RunSpec, SampleSpec, SchemeKind, SchemeSpec, SilenceSpec, SizesSpec, TopologyKind,
        TopologySpec, WorkloadSpec,
    },
};
use crate::{
    agent::{HostId, SchemeId, Writes},
    random::{self, derive},
    topology::{Access, Map, Site, Topology, dumbbell, fat_tree, from_csv, parking_lot},
    workload::{self, Ends, Listed, OnOff, Poisson, Sizes, Workload},
};

/// A topology of more hosts than this was a slip of the finger.
const HOSTS_MAX: u32 = 10_000;

/// The network, with everything random about it drawn by `seed`; files are looked for in `folder`.
pub(super) fn topology(spec: &TopologySpec, folder: &Path, seed: u64) -> Result<Topology, Fault> {
    check_topology_keys(spec)?;
    let mut topology = plain_topology(spec, folder)?;
    if let Some((low, high)) = spec.core_factors {
        topology.vary_core_rates(low, high, derive(seed, random::CORE_RATES));
    }
    if let Some((first, last)) = spec.access_rtts {
        topology.spread_access(0, first, last);
    }
    topology.withdraw_priorities(spec.without_priorities.get(), derive(seed, random::WITHOUT_PRIORITIES));
    topology.withdraw_priorities_of_hosts(spec.hosts_without_priorities.get());
    Ok(topology)
}

fn plain_topology(spec: &TopologySpec, folder: &Path) -> Result<Topology, Fault> {
    use TopologyKind as Kind;
    let megabits = |megabits: u64| Rate::from_bits_per_second(megabits * 1_000_000).expect("not zero");
    let tree = spec.kind == Kind::FatTree;
    let rate = spec.rate.unwrap_or_else(|| megabits(if tree { 100_000 } else { 1000 }));
    let rtt = spec.rtt.unwrap_or(if tree { Duration::from_micros(96) } else { Duration::from_millis(40) });
    let hosts = spec.hosts.unwrap_or(10);
    if !(1..=HOSTS_MAX).contains(&hosts) {
        return Err(Fault::new("topology.hosts", format!("not within 1 to {HOSTS_MAX}")));
    }
    let wide = || Rate::from_bits_per_second(rate.bits_per_second().saturating_mul(10)).unwrap_or(rate);
    let uplink = match spec.kind {
        Kind::Dumbbell | Kind::ParkingLot => spec.uplink.unwrap_or_else(wide),
        _ => spec.uplink.unwrap_or(rate),
    };
    let access = Access {
        downlink: Some(spec.downlink.unwrap_or(uplink)),
        overhead: spec.overhead.unwrap_or_default(),
        ..Access::uplink(uplink)
    };
    let map = |map: Map| map.topology(rate, rtt, hosts, access);
    Ok(match spec.kind {
        Kind::Internet2 => map(Map::Internet2),
        Kind::Telstra => map(Map::Telstra),
        Kind::Redclara => map(Map::Redclara),
        Kind::Esnet => map(Map::Esnet),
        Kind::Abilene => map(Map::Abilene),
        Kind::FatTree => match spec.ports.unwrap_or(8) {
            ports @ 2..=64 if ports % 2 == 0 => fat_tree(ports, rate, rtt),
            _ => return Err(Fault::new("topology.ports", "an even number from 2 to 64")),
        },
        Kind::Dumbbell => dumbbell(rate, rtt, hosts, access),
        Kind::ParkingLot => match spec.links.unwrap_or(3) {
            links @ 1..=100 => parking_lot(links, rate, rtt, hosts, access),
            _ => return Err(Fault::new("topology.links", "a number from 1 to 100")),
        },
        Kind::File => {
            let file = spec
                .file
                .as_ref()
                .ok_or_else(|| Fault::new("topology", "kind `file` needs the key `file`"))?;
            let text = read(folder, file, "topology.file")?;
            let mut topology = from_csv(&text, file, hosts, access, rate)
                .map_err(|error| Fault::new("topology.file", error))?;
            topology.nominal.rtt = spec.rtt.unwrap_or(topology.nominal.rtt);
            topology
        }
    })
}

fn check_topology_keys(spec: &TopologySpec) -> Result<(), Fault> {
    use TopologyKind as Kind;
    let tree = spec.kind == Kind::FatTree;
    let given = [
        ("hosts", spec.hosts.is_some(), !tree),
        ("uplink", spec.uplink.is_some(), !tree),
        ("downlink", spec.downlink.is_some(), !tree),
        ("overhead", spec.overhead.is_some(), !tree),
        ("ports", spec.ports.is_some(), tree),
        ("links", spec.links.is_some(), spec.kind == Kind::ParkingLot),
        ("file", spec.file.is_some(), spec.kind == Kind::File),
        ("access-rtts", spec.access_rtts.is_some(), matches!(spec.kind, Kind::Dumbbell | Kind::ParkingLot)),
    ];
    refuse("topology", &given, "this `kind`")
}

/// Keys that are given and mean nothing beside the others. Each: name, whether given, whether it has a meaning.
fn refuse(table: &str, given: &[(&str, bool, bool)], beside: &str) -> Result<(), Fault> {
    match given.iter().find(|(_, given, meant)| *given && !meant) {
        Some((key, ..)) => Err(Fault::new(format!("{table}.{key}"), format!("means nothing with {beside}"))),
        None => Ok(()),
    }
}

/// Keys that are missing. Each: name, whether given.
fn demand(table: &str, given: &[(&str, bool)], beside: &str) -> Result<(), Fault> {
    match given.iter().find(|(_, given)| !given) {
        Some((key, _)) => Err(Fault::new(table, format!("{beside} needs the key `{key}`"))),
        None => Ok(()),
    }
}

fn read(folder: &Path, file: &str, key: &str) -> Result<String, Fault> {
    fs::read_to_string(folder.join(file)).map_err(|error| Fault::new(key, format!("{file}: {error}")))
}

/// The queues of a network.
pub(super) fn queues(spec: &QueueSpec, topology: &Topology) -> Result<Queues, Fault> {
    let QueueSpec {
        discipline,
        buffer,
        uplink_buffer,
        uplink_backlog,
        loss,
        first_loss,
        low_priority,
        kickass,
        kickass_threshold,
        kickass_silence,
    } = spec;
    let silence = match kickass_silence {
        SilenceSpec::Threshold => Rule::Threshold,
        SilenceSpec::Ignored => Rule::Ignored,
    };
    let mut signals = signal::SignalConfig { silence, ..signal::SignalConfig::default() };
    if let Some(threshold) = kickass_threshold {
        signals.queue_threshold = threshold.get();
    }
    let bdp = topology.nominal.bdp();
    if let KickAssSpec::Routers(routers) = kickass
        && let Some(router) = routers.iter().find(|router| **router >= topology.routers.len())
    {
        let message = format!("there is no router {router}, only {} of them", topology.routers.len());
        return Err(Fault::new("queue.kickass", message));
    }
    let uplink_backlog = uplink_backlog.and_then(|backlog| backlog.bytes(bdp));
    if uplink_backlog == Some(0) {
        return Err(Fault::new("queue.uplink-backlog", "RLP would wait even where nothing does"));
    }
    Ok(Queues {
        discipline: *discipline,
        buffer: buffer.bytes(bdp),
        uplink_buffer: uplink_buffer.bytes(bdp),
        uplink_backlog,
        loss: loss.get(),
        first_loss: first_loss.get(),
        low_priority: *low_priority,
        kickass: kickass.clone(),
        signals,
    })
}

/// How many flows are measured, and how many before them are not.
pub(super) fn measure(spec: &MeasureSpec, arrivals: Arrivals, topology: &Topology) -> Result<Measure, Fault> {
    let warm_up = match arrivals {
        Arrivals::Poisson | Arrivals::OnOff => 6000,
        Arrivals::Csv | Arrivals::List => 0,
    };
    let warm_up = spec.warm_up.unwrap_or(warm_up);
    let sample = spec.sample.as_ref().map(|sample| sampling(sample, topology)).transpose()?;
    Ok(Measure { flows: spec.flows, warm_up, fct: spec.fct, until: spec.until, sample })
}

fn sampling(spec: &SampleSpec, topology: &Topology) -> Result<Sampling, Fault> {
    let site: Site = spec.link.parse().map_err(|error| Fault::new("measure.sample.link", error))?;
    if site.link(topology).is_none() {
        return Err(Fault::new("measure.sample.link", format!("there is no link {site}")));
    }
    let every = spec.every.unwrap_or(Duration::from_millis(100));
    if every.is_zero() {
        return Err(Fault::new("measure.sample.every", "no time at all"));
    }
    Ok(Sampling { site, every })
}

/// The flows of the table `key`.
pub(super) fn workload(
    spec: &WorkloadSpec,
    key: &str,
    folder: &Path,
    topology: &Topology,
) -> Result<Workload, Fault> {
    check_workload_keys(spec, key)?;
    let arrivals = match spec.arrivals {
        Arrivals::Poisson => {
            let (Some(sizes), Some(load)) = (&spec.sizes, spec.load) else { unreachable!("checked") };
            let sizes = self::sizes(sizes, &format!("{key}.sizes"), folder)?;
            let poisson = Poisson { sizes, load: load.get(), ends: ends(spec, key, topology)? };
            if poisson.mean_gap(topology).is_none() {
                return Err(Fault::new(format!("{key}.load"), "so that no flow ever comes, or all at once"));
            }
            workload::Arrivals::Poisson(poisson)
        }
        Arrivals::OnOff => {
            let Some(on_off) = &spec.on_off else { unreachable!("checked") };
            let shape = on_off.shape.unwrap_or(1.5);
            if !(shape > 1.0 && shape.is_finite()) {
                return Err(Fault::new(format!("{key}.on-off.shape"), "not above 1, so there is no mean"));
            }
            if (on_off.on + on_off.off).is_zero() {
                return Err(Fault::new(format!("{key}.on-off"), "neither on nor off takes any time"));
            }
            let (sources, peak, on, off) = (on_off.sources, on_off.peak, on_off.on, on_off.off);
            workload::Arrivals::OnOff(OnOff {
                sources,
                peak,
                on,
                off,
                shape,
                ends: ends(spec, key, topology)?,
            })
        }
        Arrivals::Csv => {
            let Some(file) = &spec.file else { unreachable!("checked") };
            let place = format!("{key}.file");
            let text = read(folder, file, &place)?;
            let flows = workload::replay(&text, file, topology).map_err(|error| Fault::new(place, error))?;
            workload::Arrivals::List(flows)
        }
        Arrivals::List => {
            let flows = spec.flows.iter().flatten().enumerate();
            let flows = flows.map(|(n, flow)| listed(flow, &format!("{key}.flows.{n}"), topology));
            let flows = flows.collect::<Result<Vec<Vec<Listed>>, Fault>>()?;
            let mut flows = flows.concat();
            flows.sort_by_key(|flow| flow.at);
            workload::Arrivals::List(flows)
        }
    };
    let writes = match spec.writes {
        None => spec.give_up.map_or(Writes::AtOnce, Writes::Until),
        Some(_) if spec.give_up.is_some() => {
            return Err(Fault::new(format!("{key}.give-up"), "means nothing with `writes`"));
        }
        Some(writes) if writes.chunk == 0 || writes.every.is_zero() => {
            return Err(Fault::new(format!("{key}.writes"), "chunks and what lies between them are above 0"));
        }
        Some(writes) => Writes::Chunked { first: writes.first, chunk: writes.chunk, every: writes.every },
    };
    Ok(Workload { arrivals, writes })
}

fn check_workload_keys(spec: &WorkloadSpec, key: &str) -> Result<(), Fault> {
    let [poisson, on_off, csv, list] = [Arrivals::Poisson, Arrivals::OnOff, Arrivals::Csv, Arrivals::List]
        .map(|arrivals| spec.arrivals == arrivals);
    let given = [
        ("sizes", spec.sizes.is_some(), poisson),
        ("load", spec.load.is_some(), poisson),
        ("from", spec.from.is_some(), poisson || on_off),
        ("to", spec.to.is_some(), poisson || on_off),
        ("file", spec.file.is_some(), csv),
        ("flows", spec.flows.is_some(), list),
        ("on-off", spec.on_off.is_some(), on_off),
        ("writes", spec.writes.is_some(), !on_off),
        ("give-up", spec.give_up.is_some(), !on_off),
    ];
    refuse(key, &given, "these `arrivals`")?;
    let needed: &[(&str, bool)] = match spec.arrivals {
        Arrivals::Poisson => &[("sizes", spec.sizes.is_some()), ("load", spec.load.is_some())],
        Arrivals::OnOff => &[("on-off", spec.on_off.is_some())],
        Arrivals::Csv => &[("file", spec.file.is_some())],
        Arrivals::List => &[("flows", spec.flows.is_some())],
    };
    demand(key, needed, "this kind of `arrivals`")
}

fn sizes(spec: &SizesSpec, key: &str, folder: &Path) -> Result<Sizes, Fault> {
    let sizes = match spec {
        SizesSpec::Allman2013 => Ok(Sizes::allman2013()),
        SizesSpec::Campus2000 => Ok(Sizes::campus2000()),
        SizesSpec::Agh2015 => Ok(Sizes::agh2015()),
        SizesSpec::Datamining => Ok(Sizes::datamining()),
        SizesSpec::Dctcp => Ok(Sizes::dctcp()),
        SizesSpec::Fixed(packets) => Sizes::fixed(*packets),
        SizesSpec::Uniform(law) => Sizes::uniform(law.min, law.max),
        SizesSpec::Pareto(law) => Sizes::pareto(law.mean, law.shape, law.min, law.max),
        SizesSpec::File(file) => Sizes::from_csv(&read(folder, file, key)?, file),
    };
    sizes.map_err(|error| Fault::new(key, error))
}

fn ends(spec: &WorkloadSpec, key: &str, topology: &Topology) -> Result<Ends, Fault> {
    for (name, routers) in [("from", &spec.from), ("to", &spec.to)] {
        for (n, router) in routers.iter().flatten().enumerate() {
            if *router >= topology.routers.len() {
                let message = format!("there is no router {router}, only {} of them", topology.routers.len());
                return Err(Fault::new(format!("{key}.{name}.{n}"), message));
            }
        }
    }
    let ends = Ends { from: spec.from.clone(), to: spec.to.clone() };
    if ends.pairs(topology).is_none() {
        return Err(Fault::new(key, "a host has no host at another router to send to"));
    }
    Ok(ends)
}

/// A flow and those that are like it.
fn listed(flow: &ListedFlow, key: &str, topology: &Topology) -> Result<Vec<Listed>, Fault> {
    let count = flow.count.unwrap_or(1);
    for (name, host) in [("from", flow.from), ("to", flow.to)] {
        let last = u64::from(host) + u64::from(count.saturating_sub(1));
        if last >= topology.hosts.len() as u64 {
            let message = format!("there is no host {last}, only {} of them", topology.hosts.len());
            return Err(Fault::new(format!("{key}.{name}"), message));
        }
    }
    if flow.from == flow.to {
        return Err(Fault::new(key, "a host that sends to itself"));
    }
    if flow.size == 0 {
        return Err(Fault::new(format!("{key}.size"), "a flow without bytes"));
    }
    let (at, every) = (flow.at.unwrap_or_default(), flow.every.unwrap_or_default());
    let like = (0..count).map(|n| Listed {
        at: at + every * n,
        from: HostId(flow.from + n),
        to: HostId(flow.to + n),
        bytes: flow.size,
    });
    Ok(like.collect())
}

/// All schemes, whose names must differ.
pub(super) fn schemes(specs: &[SchemeSpec]) -> Result<Vec<Scheme>, Fault> {
    if specs.is_empty() {
        return Err(Fault::new("scheme", "nothing carries the flows, write `[[scheme]]`"));
    }
    if specs.len() > usize::from(u16::MAX) {
        return Err(Fault::new("scheme", "more than anybody can tell apart"));
    }
    let mut schemes: Vec<Scheme> = Vec::with_capacity(specs.len());
    for (n, spec) in specs.iter().enumerate() {
        let key = format!("scheme.{n}");
        if schemes.iter().any(|scheme| scheme.name == spec.name) {
            return Err(Fault::new(format!("{key}.name"), format!("there is another `{}`", spec.name)));
        }
        schemes.push(scheme(spec, &key)?);
    }
    Ok(schemes)
}

fn scheme(spec: &SchemeSpec, key: &str) -> Result<Scheme, Fault> {
    let (rc3, loops) = (spec.kind == SchemeKind::Rc3, spec.kind != SchemeKind::Rcp);
    let given = [
        ("mode", spec.mode.is_some(), rc3),
        ("congestion", spec.congestion.is_some(), loops),
        ("initial-window", spec.initial_window.is_some(), loops),
        ("initial-rtt", spec.initial_rtt.is_some(), loops),
        ("paced", spec.paced.is_some(), loops),
        ("ladder", spec.ladder.is_some(), rc3),
        ("ladder-reading", spec.ladder_reading.is_some(), rc3),
        ("real-crypto", spec.real_crypto, loops),
    ];
    refuse(key, &given, "this `kind`")?;
    let initial_window = spec.initial_window.unwrap_or(4);
    if !(1..=1_000_000).contains(&initial_window) {
        return Err(Fault::new(format!("{key}.initial-window"), "not within 1 to 1,000,000 packets"));
    }
    if spec.initial_rtt.is_some_and(|rtt| rtt.is_zero()) {
        return Err(Fault::new(format!("{key}.initial-rtt"), "no time at all"));
    }
    let level = Level::new(spec.level)
        .ok_or_else(|| Fault::new(format!("{key}.level"), format!("not within 0 to {}", Level::MAX)))?;
    let default = [Rung::Packets(40), Rung::Packets(400), Rung::Packets(4000), Rung::Rest];
    let rungs = spec.ladder.as_deref().unwrap_or(&default);
    let ladder = ladder(rungs, spec.ladder_reading.unwrap_or_default())
        .map_err(|message| Fault::new(format!("{key}.ladder"), message))?;
    Ok(Scheme {
        name: spec.name.clone(),
        kind: spec.kind,
        mode: spec.mode.unwrap_or(if rc3 { Mode::Trust } else { Mode::Off }),
        congestion: spec.congestion.unwrap_or(Congestion::Newreno),
        initial_window,
        initial_rtt: spec.initial_rtt.unwrap_or(Duration::from_secs(1)),
        paced: spec.paced.unwrap_or(false),
        ladder,
        level,
        real_crypto: spec.real_crypto,
    })
}

fn ladder(rungs: &[Rung], reading: LadderReading) -> Result<Ladder, String> {
    let mut counts = Vec::with_capacity(rungs.len());
    let mut before = 0;
    for (n, rung) in rungs.iter().enumerate() {
        counts.push(match (rung, reading) {
            (Rung::Rest, _) if n + 1 == rungs.len() => u64::MAX,
            (Rung::Rest, _) => return Err("only the last level takes the rest".to_owned()),
            (Rung::Packets(packets), LadderReading::Counts) => *packets,
            (Rung::Packets(packets), LadderReading::Thresholds) if *packets > before => {
                packets - std::mem::replace(&mut before, *packets)
            }
            (Rung::Packets(_), LadderReading::Thresholds) => return Err("thresholds must rise".to_owned()),
        });
    }
    Ladder::new(&counts).map_err(|error| error.to_string())
}

/// Who uses which of the schemes in run `n`.
pub(super) fn assignment(
    run: &RunSpec,
    n: usize,
    schemes: &[Scheme],
    topology: &Topology,
    seed: u64,
) -> Result<Assignment, Fault> {
    let find = |name: &str, key: &str| find(name, &format!("run.{n}.{key}"), schemes);
    let scheme = find(&run.scheme, "scheme")?;
    let background = match &run.background {
        Some(name) => find(name, "background")?,
        None => scheme,
    };
    let mix = match &run.mix {
        Some(mix) => Some(Mix { scheme: find(&mix.scheme, "mix.scheme")?, of: mixed(mix, topology, seed) }),
        None => None,
    };
    Ok(Assignment { scheme, background, mix })
}

fn mixed(mix: &MixSpec, topology: &Topology, seed: u64) -> Mixed {
    let share = mix.share.get();
    match mix.of {
        MixOf::Flows => Mixed::Flows { share, seed: derive(seed, random::MIX) },
        MixOf::Hosts => {
            let mut attached = vec![0_u32; topology.routers.len()];
            topology.hosts.iter().for_each(|host| attached[host.router] += 1);
            let mut taken = vec![0_u32; topology.routers.len()];
            let takes = topology.hosts.iter().map(|host| {
                let taken = &mut taken[host.router];
                let takes = f64::from(*taken) < (share * f64::from(attached[host.router])).round();
                *taken += 1;
                takes
            });
            Mixed::Hosts(takes.collect())
        }
    }
}

fn find(name: &str, key: &str, schemes: &[Scheme]) -> Result<SchemeId, Fault> {
    if let Some(at) = schemes.iter().position(|scheme| scheme.name == name) {
        return Ok(SchemeId(u16::try_from(at).expect("counted before")));
    }
    let known: Vec<&str> = schemes.iter().map(|scheme| scheme.name.as_str()).collect();
    let hint = match nearest(name, &known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("there are {}", quoted(&known)),
    };
    Err(Fault::new(key, format!("there is no scheme `{name}`, {hint}")))
}
