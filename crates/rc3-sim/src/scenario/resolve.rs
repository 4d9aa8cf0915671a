//! From what is written to what it means: topologies, workloads and schemes of one world.

use std::{fs, path::Path, time::Duration};

use kickass::{signal, silence::Rule};
use rc3_core::{Ladder, TransportConfig, units::Level};
use rc3_text::document::{Fault, nearest, quoted};

use super::{
    quantity::{BufferSize, Rung, Share},
    run::{Assignment, Measure, Mix, Mixed, Queues, Sampling, Scheme},
    spec::{
        Arrivals, ClosedLoopSpec, KickAssSpec, LadderReading, ListedFlow, MeasureSpec, MixOf, MixSpec, Mode,
        OnOffSpec, QueueSpec, RunSpec, SampleSpec, SchemeKind, SchemeSpec, SilenceSpec, SizesSpec, Spec,
        ThinkSpec, TopologySpec, WorkloadSpec,
    },
};
use crate::{
    agent::{HostId, SchemeId, Writes},
    random::{self, derive},
    registry::{Registered, Registry, TopologyRequest},
    topology::{Site, Topology},
    workload::{self, ClosedLoop, Ends, Listed, OnOff, Poisson, Sizes, Workload},
};

/// Defaults of `queue.discipline` and `scheme.congestion`.
const DISCIPLINE: &str = "priority";
const CONGESTION: &str = "newreno";

/// Receivers that acknowledge less often are refused: their senders would mostly wait for timeouts.
const ACK_EVERY_MAX: u32 = 1000;

/// More sources are refused as a mistake: each has a state of its own.
const SOURCES_MAX: u32 = 1_000_000;

/// Whether all registered names in a scenario are known.
pub(super) fn names(spec: &Spec, registry: &Registry) -> Result<(), Fault> {
    registry.find_topology(&spec.topology.kind, "topology.kind")?;
    let discipline = spec.queue.discipline.as_deref().unwrap_or(DISCIPLINE);
    registry.find_discipline(discipline, "queue.discipline")?;
    for (n, scheme) in spec.scheme.iter().enumerate() {
        let name = scheme.congestion.as_deref().unwrap_or(CONGESTION);
        registry.find_congestion(name, &format!("scheme.{n}.congestion"))?;
    }
    Ok(())
}

/// The network, with everything random about it drawn by `seed`; paths are relative to `folder`.
pub(super) fn topology(
    spec: &TopologySpec,
    registry: &Registry,
    folder: &Path,
    seed: u64,
) -> Result<Topology, Fault> {
    let kind = registry.find_topology(&spec.kind, "topology.kind")?;
    check_topology_keys(spec, &kind.keys())?;
    let request = TopologyRequest { spec, folder, seed: derive(seed, random::TOPOLOGY) };
    let mut topology = kind.topology(&request).map_err(|fault| within("topology", fault))?;
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

/// A fault of a key that is relative to `table`.
fn within(table: &str, fault: Fault) -> Fault {
    match fault.key.is_empty() {
        true => Fault { key: table.to_owned(), ..fault },
        false => Fault { key: format!("{table}.{}", fault.key), ..fault },
    }
}

fn check_topology_keys(spec: &TopologySpec, known: &[&str]) -> Result<(), Fault> {
    let given = [
        ("hosts", spec.hosts.is_some()),
        ("uplink", spec.uplink.is_some()),
        ("downlink", spec.downlink.is_some()),
        ("overhead", spec.overhead.is_some()),
        ("access-delay", spec.access_delay.is_some()),
        ("ports", spec.ports.is_some()),
        ("links", spec.links.is_some()),
        ("file", spec.file.is_some()),
        ("access-rtts", spec.access_rtts.is_some()),
        ("parameters", !spec.parameters.is_empty()),
    ]
    .map(|(key, given)| (key, given, known.contains(&key)));
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
pub(super) fn queues(spec: &QueueSpec, registry: &Registry, topology: &Topology) -> Result<Queues, Fault> {
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
        parameters,
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
        return Err(Fault::new("queue.uplink-backlog", "is zero, so RLP would never send"));
    }
    let limit = |buffer: BufferSize, key| buffer.limit(bdp).map_err(|message| Fault::new(key, message));
    let name = discipline.as_deref().unwrap_or(DISCIPLINE);
    let entry = registry.find_discipline(name, "queue.discipline")?;
    let queues = Queues {
        discipline: Registered::new(name, parameters.clone(), entry),
        buffer: limit(*buffer, "queue.buffer")?,
        uplink_buffer: limit(*uplink_buffer, "queue.uplink-buffer")?,
        uplink_backlog,
        loss: loss.get(),
        first_loss: first_loss.get(),
        low_priority: *low_priority,
        kickass: kickass.clone(),
        signals,
    };
    for limit in [queues.buffer, queues.uplink_buffer] {
        let rate = Some(topology.nominal.rate);
        queues.queue(true, rate, limit, 0).map_err(|fault| within("queue", fault))?;
    }
    Ok(queues)
}

/// How many flows are measured, and how many before them are not.
pub(super) fn measure(
    spec: &MeasureSpec,
    workload: &Workload,
    topology: &Topology,
) -> Result<Measure, Fault> {
    let default = match &workload.arrivals {
        workload::Arrivals::Poisson(_) | workload::Arrivals::OnOff(_) => 6000,
        workload::Arrivals::ClosedLoop(sources) => u64::from(sources.sources),
        workload::Arrivals::List(_) => 0,
    };
    let warm_up = spec.warm_up.unwrap_or(default);
    if let Some(flows) = workload.count().filter(|flows| *flows <= warm_up) {
        let message = format!("{warm_up} flows before the measured ones, but the workload has only {flows}");
        return Err(Fault::new("measure.warm-up", message));
    }
    if spec.max_in_flight == 0 {
        return Err(Fault::new("measure.max-in-flight", "no flow could start"));
    }
    let sample = spec.sample.as_ref().map(|sample| sampling(sample, topology)).transpose()?;
    Ok(Measure {
        flows: spec.flows,
        warm_up,
        fct: spec.fct,
        until: spec.until,
        max_in_flight: spec.max_in_flight,
        sample,
    })
}

fn sampling(spec: &SampleSpec, topology: &Topology) -> Result<Sampling, Fault> {
    let site: Site = spec.link.parse().map_err(|error| Fault::new("measure.sample.link", error))?;
    if site.link(topology).is_none() {
        return Err(Fault::new("measure.sample.link", format!("there is no link {site}")));
    }
    let every = spec.every.unwrap_or(Duration::from_millis(100));
    if every.is_zero() {
        return Err(Fault::new("measure.sample.every", "not above zero"));
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
    let arrivals = match (spec.arrivals, &spec.sizes, &spec.on_off, spec.closed_loop) {
        (Arrivals::Poisson, Some(sizes), ..) => {
            let sizes = self::sizes(sizes, &format!("{key}.sizes"), folder)?;
            workload::Arrivals::Poisson(poisson(spec, sizes, key, topology)?)
        }
        (Arrivals::OnOff, _, Some(on_off), _) => {
            workload::Arrivals::OnOff(self::on_off(on_off, ends(spec, key, topology)?, key)?)
        }
        (Arrivals::ClosedLoop, Some(sizes), _, Some(sources)) => {
            let sizes = self::sizes(sizes, &format!("{key}.sizes"), folder)?;
            workload::Arrivals::ClosedLoop(closed_loop(sources, sizes, ends(spec, key, topology)?, key)?)
        }
        (Arrivals::Csv, ..) => {
            let (file, place) = (spec.file.as_deref().unwrap_or_default(), format!("{key}.file"));
            let text = read(folder, file, &place)?;
            let flows = workload::replay(&text, file, topology).map_err(|error| Fault::new(place, error))?;
            workload::Arrivals::List(flows)
        }
        (Arrivals::List, ..) => workload::Arrivals::List(list(spec, key, topology)?),
        (Arrivals::Poisson | Arrivals::OnOff | Arrivals::ClosedLoop, ..) => unreachable!("keys are checked"),
    };
    Ok(Workload { arrivals, writes: writes(spec, key)? })
}

fn poisson(spec: &WorkloadSpec, sizes: Sizes, key: &str, topology: &Topology) -> Result<Poisson, Fault> {
    let load = spec.load.map_or(0.0, Share::get);
    let poisson = Poisson { sizes, load, ends: ends(spec, key, topology)? };
    match poisson.mean_gap(topology) {
        Some(_) => Ok(poisson),
        None => {
            let message = "so small or large that no flow ever arrives, or all at once";
            Err(Fault::new(format!("{key}.load"), message))
        }
    }
}

fn on_off(spec: &OnOffSpec, ends: Ends, key: &str) -> Result<OnOff, Fault> {
    let shape = spec.shape.unwrap_or(1.5);
    if !(shape > 1.0 && shape.is_finite()) {
        return Err(Fault::new(format!("{key}.on-off.shape"), "not above 1, so there is no mean"));
    }
    if (spec.on + spec.off).is_zero() {
        return Err(Fault::new(format!("{key}.on-off"), "`on` and `off` are both zero"));
    }
    let OnOffSpec { sources, peak, on, off, .. } = *spec;
    Ok(OnOff { sources, peak, on, off, shape, ends })
}

fn closed_loop(spec: ClosedLoopSpec, sizes: Sizes, ends: Ends, key: &str) -> Result<ClosedLoop, Fault> {
    let ClosedLoopSpec { sources, think, distribution } = spec;
    if !(1..=SOURCES_MAX).contains(&sources) {
        return Err(Fault::new(
            format!("{key}.closed-loop.sources"),
            format!("not within 1 to {SOURCES_MAX}"),
        ));
    }
    Ok(ClosedLoop { sources, think, constant: distribution == ThinkSpec::Constant, sizes, ends })
}

/// The flows written in the file, in order of time.
fn list(spec: &WorkloadSpec, key: &str, topology: &Topology) -> Result<Vec<Listed>, Fault> {
    let flows = spec.flows.iter().flatten().enumerate();
    let flows = flows.map(|(n, flow)| listed(flow, &format!("{key}.flows.{n}"), topology));
    let mut flows = flows.collect::<Result<Vec<Vec<Listed>>, Fault>>()?.concat();
    flows.sort_by_key(|flow| flow.at);
    Ok(flows)
}

fn writes(spec: &WorkloadSpec, key: &str) -> Result<Writes, Fault> {
    match spec.writes {
        None => Ok(spec.give_up.map_or(Writes::AtOnce, Writes::Until)),
        Some(_) if spec.give_up.is_some() => {
            Err(Fault::new(format!("{key}.give-up"), "means nothing with `writes`"))
        }
        Some(writes) if writes.chunk == 0 || writes.every.is_zero() => {
            Err(Fault::new(format!("{key}.writes"), "`chunk` and `every` must be above zero"))
        }
        Some(writes) => Ok(Writes::Chunked { first: writes.first, chunk: writes.chunk, every: writes.every }),
    }
}

fn check_workload_keys(spec: &WorkloadSpec, key: &str) -> Result<(), Fault> {
    let is = |arrivals| spec.arrivals == arrivals;
    let (poisson, on_off, closed) = (is(Arrivals::Poisson), is(Arrivals::OnOff), is(Arrivals::ClosedLoop));
    let given = [
        ("sizes", spec.sizes.is_some(), poisson || closed),
        ("load", spec.load.is_some(), poisson),
        ("from", spec.from.is_some(), poisson || on_off || closed),
        ("to", spec.to.is_some(), poisson || on_off || closed),
        ("file", spec.file.is_some(), is(Arrivals::Csv)),
        ("flows", spec.flows.is_some(), is(Arrivals::List)),
        ("on-off", spec.on_off.is_some(), on_off),
        ("closed-loop", spec.closed_loop.is_some(), closed),
        ("writes", spec.writes.is_some(), !on_off),
        ("give-up", spec.give_up.is_some(), !on_off),
    ];
    refuse(key, &given, "these `arrivals`")?;
    let needed: &[(&str, bool)] = match spec.arrivals {
        Arrivals::Poisson => &[("sizes", spec.sizes.is_some()), ("load", spec.load.is_some())],
        Arrivals::OnOff => &[("on-off", spec.on_off.is_some())],
        Arrivals::ClosedLoop => {
            &[("closed-loop", spec.closed_loop.is_some()), ("sizes", spec.sizes.is_some())]
        }
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
        return Err(Fault::new(key, format!("host {} sends to itself", flow.from)));
    }
    let neighbours = (0..count).map(|n| (HostId(flow.from + n), HostId(flow.to + n)));
    for (from, to) in neighbours {
        if let Some(message) = workload::misses_all_cores(topology, from, to) {
            return Err(Fault::new(key, message));
        }
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
pub(super) fn schemes(specs: &[SchemeSpec], registry: &Registry) -> Result<Vec<Scheme>, Fault> {
    if specs.is_empty() {
        return Err(Fault::new("scheme", "no scheme carries the flows, write `[[scheme]]`"));
    }
    if specs.len() > usize::from(u16::MAX) {
        return Err(Fault::new("scheme", format!("more than {} schemes", u16::MAX)));
    }
    let mut schemes: Vec<Scheme> = Vec::with_capacity(specs.len());
    for (n, spec) in specs.iter().enumerate() {
        let key = format!("scheme.{n}");
        if schemes.iter().any(|scheme| scheme.name == spec.name) {
            return Err(Fault::new(format!("{key}.name"), format!("there is another `{}`", spec.name)));
        }
        schemes.push(scheme(spec, registry, &key)?);
    }
    Ok(schemes)
}

fn scheme(spec: &SchemeSpec, registry: &Registry, key: &str) -> Result<Scheme, Fault> {
    let (rc3, loops) = (spec.kind == SchemeKind::Rc3, spec.kind != SchemeKind::Rcp);
    let given = [
        ("mode", spec.mode.is_some(), rc3),
        ("congestion", spec.congestion.is_some(), loops),
        ("initial-window", spec.initial_window.is_some(), loops),
        ("initial-rtt", spec.initial_rtt.is_some(), loops),
        ("ack-every", spec.ack_every.is_some(), loops),
        ("ack-delay", spec.ack_delay.is_some(), loops),
        ("paced", spec.paced.is_some(), loops),
        ("ladder", spec.ladder.is_some(), rc3),
        ("ladder-reading", spec.ladder_reading.is_some(), rc3),
        ("real-crypto", spec.real_crypto, loops),
        ("parameters", !spec.parameters.is_empty(), loops),
    ];
    refuse(key, &given, "this `kind`")?;
    if spec.ack_delay.is_some() && spec.ack_every.is_none_or(|packets| packets == 1) {
        return Err(Fault::new(format!("{key}.ack-delay"), "means nothing without `ack-every` above 1"));
    }
    let initial_window = spec.initial_window.unwrap_or(4);
    if !(1..=1_000_000).contains(&initial_window) {
        return Err(Fault::new(format!("{key}.initial-window"), "not within 1 to 1,000,000 packets"));
    }
    if spec.initial_rtt.is_some_and(|rtt| rtt.is_zero()) {
        return Err(Fault::new(format!("{key}.initial-rtt"), "not above zero"));
    }
    if !(1..=ACK_EVERY_MAX).contains(&spec.ack_every.unwrap_or(1)) {
        return Err(Fault::new(
            format!("{key}.ack-every"),
            format!("not within 1 to {ACK_EVERY_MAX} packets"),
        ));
    }
    let name = spec.congestion.as_deref().unwrap_or(CONGESTION);
    let entry = registry.find_congestion(name, &format!("{key}.congestion"))?;
    let congestion = Registered::new(name, spec.parameters.clone(), entry);
    let checked = congestion.entry().configure(&spec.parameters, 0, &mut TransportConfig::default());
    checked.map_err(|fault| within(key, fault))?;
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
        congestion,
        initial_window,
        initial_rtt: spec.initial_rtt.unwrap_or(Duration::from_secs(1)),
        ack_every: spec.ack_every.unwrap_or(1),
        ack_delay: spec.ack_delay,
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
